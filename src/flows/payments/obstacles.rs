//! What keeps payments from being credited until somebody acts, as the database knows it.

use crate::{ctx::Ctx, domain::network::Network, flows::FlowResult, store};
use std::collections::BTreeMap;

/// What waits for the operator.
#[derive(Debug, Clone, Default)]
pub struct Obstacles {
    /// Networks that are halted, and why.
    pub halted: BTreeMap<Network, String>,
    /// How much was set aside and not decided, by network; a network without any is missing.
    pub quarantined: BTreeMap<Network, u64>,
}

/// Looks for what waits for the operator.
pub async fn run(ctx: &Ctx) -> FlowResult<Obstacles> {
    Ok(Obstacles {
        halted: store::cursors::halted(ctx.db.reader()).await?,
        quarantined: store::quarantine::count_open(ctx.db.reader()).await?,
    })
}
