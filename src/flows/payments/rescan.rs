//! Queues settled blocks to be read again. Credited payments stay unchanged, and missed payments are found.

use super::never_followed;
use crate::{
    ctx::Ctx,
    domain::{block_range::BlockRange, network::Network, refusal::Refusal},
    flows::FlowResult,
    store::{self, backlogs::BacklogReason},
};

/// Queues the blocks from `from` up to the newest settled block, and returns its number. The worker reads them in
/// parallel with new blocks.
///
/// Errors: a network that was never followed, a block that is not settled yet.
pub async fn run(ctx: &Ctx, network: Network, from: u64) -> FlowResult<u64> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("rescan_chain").await?;
    let cursor = store::cursors::load(&tx, network).await?;
    let cursor = cursor.ok_or_else(|| never_followed(network))?;
    let settled = cursor.finalized.number;
    if from > settled {
        let sentence = format!(
            "--from must be a settled block, at most {settled}; the service reads newer blocks without this command"
        );
        return Err(Refusal::conflict(sentence).into());
    }
    let range = BlockRange { from, to: settled };
    store::backlogs::push(&tx, network, range, BacklogReason::Rescan, now).await?;
    tx.commit().await?;
    Ok(settled)
}
