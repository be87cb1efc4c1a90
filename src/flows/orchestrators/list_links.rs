//! Lists the links of the calling orchestrator.

use super::link::LinkedClientId;
use crate::{ctx::Ctx, domain::caller::OrchestratorCaller, flows::FlowResult, store};

/// A page of links.
#[derive(Debug, Clone)]
pub struct LinkPage {
    /// The linked client IDs, oldest link first.
    pub links: Vec<LinkedClientId>,
    /// Number of active links.
    pub total: u64,
}

/// One page of the active links of an orchestrator.
pub async fn run(ctx: &Ctx, caller: &OrchestratorCaller, limit: u64, offset: u64) -> FlowResult<LinkPage> {
    let reader = ctx.db.reader();
    let found = store::orchestrator_links::list_active(reader, &caller.id, limit, offset).await?;
    Ok(LinkPage {
        links: found
            .into_iter()
            .map(|client_id| LinkedClientId { client_id })
            .collect(),
        total: store::orchestrator_links::count_active(reader, &caller.id).await?,
    })
}
