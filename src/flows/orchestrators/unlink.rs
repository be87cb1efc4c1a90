//! Ends a link of the calling orchestrator.

use crate::{
    ctx::Ctx,
    domain::{caller::OrchestratorCaller, client_link::unlinked_client_id},
    flows::{FlowResult, auth::identify},
    store,
};

/// Ends the link of a client ID for ever, immediately on this instance; ending it again changes nothing. Payments that
/// the orchestrator created stay payable.
///
/// Errors: an unknown client ID, or one that the orchestrator never linked (404 in both cases).
pub async fn run(ctx: &Ctx, caller: &OrchestratorCaller, client_id: &str) -> FlowResult<()> {
    let tx = ctx.db.begin("unlink_client_id").await?;
    let known = store::client_ids::find_by_client_id(&tx, client_id).await?;
    let linked = known.filter(|client| client.link.as_ref().is_some_and(|link| link.orchestrator == caller.id));
    let client = linked.ok_or_else(unlinked_client_id)?;
    let is_ended = store::orchestrator_links::end(&tx, &client.platform, &client.row, ctx.clock.now()).await?;
    crate::fail_at("unlink_client_id", "ended");
    tx.commit().await?;
    if is_ended {
        identify::forget(ctx);
    }
    Ok(())
}
