//! Has settled blocks read again: what is credited already stays as it is, what was missed is found.

use crate::{
    ctx::Ctx,
    domain::{network::Network, refusal::Refusal},
    flows::FlowResult,
    store::{self, backlogs::BacklogReason},
};

/// Queues the blocks from `from` up to the newest settled one, which is returned; the worker reads them beside new ones.
///
/// Errors: a network that was never followed, a block that is not settled yet.
pub async fn run(ctx: &Ctx, network: Network, from: u64) -> FlowResult<u64> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("rescan_chain").await?;
    let cursor = store::cursors::load(&tx, network).await?;
    let cursor = cursor.ok_or_else(|| Refusal::not_found(format!("{network} has never been followed")))?;
    let settled = cursor.finalized.number;
    if from > settled {
        let sentence = format!("--from must name a settled block, up to {settled}; what is newer is read anyway");
        return Err(Refusal::conflict(sentence).into());
    }
    store::backlogs::push(&tx, network, (from, settled), BacklogReason::Rescan, now).await?;
    tx.commit().await?;
    Ok(settled)
}
