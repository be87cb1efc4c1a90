//! Obstacles to crediting payments that need the operator, from the database.

use crate::{ctx::Ctx, domain::network::Network, flows::FlowResult, store};
use std::collections::BTreeMap;

/// Obstacles that wait for the operator.
#[derive(Debug, Clone, Default)]
pub struct OpenObstacles {
    /// Networks that are halted, and why.
    pub halted: BTreeMap<Network, String>,
    /// Number of undecided quarantined payments by network; networks without any are missing.
    pub quarantined: BTreeMap<Network, u64>,
}

/// Finds the obstacles.
pub async fn run(ctx: &Ctx) -> FlowResult<OpenObstacles> {
    Ok(OpenObstacles {
        halted: store::cursors::halted(ctx.db.reader()).await?,
        quarantined: store::quarantine::count_open(ctx.db.reader()).await?,
    })
}
