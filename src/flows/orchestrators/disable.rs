//! Disables and enables orchestrators.

use crate::{
    ctx::Ctx,
    domain::{ids::OrchestratorId, orchestrator::Orchestrator, refusal::Refusal},
    flows::{FlowResult, auth::identify},
    store,
};

/// Every orchestrator, oldest first.
pub async fn list(ctx: &Ctx) -> FlowResult<Vec<Orchestrator>> {
    Ok(store::orchestrators::list(ctx.db.reader()).await?)
}

/// Disables or enables an orchestrator. The keys of a disabled one are refused, immediately on this instance; its links
/// and payments stay. Errors: an unknown orchestrator (404).
pub async fn set(ctx: &Ctx, id: &OrchestratorId, is_disabled: bool) -> FlowResult<()> {
    let disabled_at = is_disabled.then(|| ctx.clock.now());
    let tx = ctx.db.begin("disable_orchestrator").await?;
    if !store::orchestrators::set_disabled(&tx, id, disabled_at).await? {
        return Err(Refusal::not_found("Orchestrator not found").into());
    }
    tx.commit().await?;
    identify::forget(ctx);
    Ok(())
}
