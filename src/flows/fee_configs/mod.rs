//! Fee configs of orchestrators.

pub mod create;
pub mod list;
pub mod update;

use crate::{
    ctx::Ctx,
    domain::{caller::OrchestratorCaller, client_id::ClientId, client_link::unlinked_client_id, refusal::Refusal},
    flows::FlowResult,
    store,
};

/// The client ID with an active link to the calling orchestrator. Errors: an unknown client ID, or one without such a
/// link (404 in both cases).
async fn linked_client(ctx: &Ctx, caller: &OrchestratorCaller, client_id: &str) -> FlowResult<ClientId> {
    let known = store::client_ids::find_by_client_id(ctx.db.reader(), client_id).await?;
    let linked = known.filter(|client| client.linked_orchestrator() == Some(&caller.id));
    Ok(linked.ok_or_else(unlinked_client_id)?)
}

/// The refusal for a fee config that the orchestrator does not have.
fn unknown() -> Refusal {
    Refusal::not_found("Fee config not found")
}
