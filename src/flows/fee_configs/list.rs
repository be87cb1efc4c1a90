//! Lists fee configs.

use super::linked_client;
use crate::{
    ctx::Ctx,
    domain::{caller::OrchestratorCaller, fee_config::FeeConfig},
    flows::FlowResult,
    store,
};

/// The default configs of an orchestrator, or its configs for a client ID; disabled ones included, oldest first.
///
/// Errors: a client ID that is not linked to the orchestrator (404).
pub async fn run(ctx: &Ctx, caller: &OrchestratorCaller, client_id: Option<&str>) -> FlowResult<Vec<FeeConfig>> {
    let client = match client_id {
        Some(client_id) => Some(linked_client(ctx, caller, client_id).await?),
        None => None,
    };
    let row = client.as_ref().map(|client| &client.row);
    Ok(store::fee_configs::list(ctx.db.reader(), &caller.id, row).await?)
}
