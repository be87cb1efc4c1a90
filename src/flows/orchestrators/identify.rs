//! Turns an orchestrator key into its orchestrator.

use crate::{
    ctx::Ctx,
    domain::{caller::OrchestratorCaller, refusal::Refusal},
    flows::{
        FlowResult,
        auth::identify::{hash, is_touch_due},
    },
    store,
};

/// Looks an orchestrator key up. Errors: 401 for an unknown or revoked one. Source: rules P.1.4.
pub async fn run(ctx: &Ctx, key: &str) -> FlowResult<OrchestratorCaller> {
    let found = store::orchestrators::find_active_key(ctx.db.reader(), &hash(key)).await?;
    let (key, id, last_used_at) = found.ok_or_else(|| Refusal::unauthenticated("Unauthorized"))?;
    if is_touch_due(last_used_at, ctx.clock.now()) {
        let tx = ctx.db.begin("touch_orchestrator_key").await?;
        store::orchestrators::touch_key(&tx, &key, ctx.clock.now()).await?;
        tx.commit().await?;
    }
    Ok(OrchestratorCaller { id, key })
}
