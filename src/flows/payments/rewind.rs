//! Goes back below what was final, when enough nodes agree that it is no longer part of the chain.
//!
//! Where the settings lower the confirmations, that is a risk that was taken: up to [`BLOCKS_MAX`] blocks are undone. What
//! is beyond it waits for the operator. The blocks are settled again as the chain has them now, which puts payments where
//! they are; then they are compared with what is recorded ([`super::backlog`]), and what the chain no longer holds is
//! reversed. Nothing is reversed before that on the word of a node that does not know a transaction.

use super::lead::Mandate;
use crate::{
    ctx::Ctx,
    domain::payment::{BlockRef, Finality},
    flows::FlowResult,
    ports::chain::Chain,
    store::{
        self,
        backlogs::BacklogReason,
        cursors::{Cursor, Mark},
    },
};

/// Blocks that are undone without asking.
pub(super) const BLOCKS_MAX: u64 = 64;

/// Blocks with payments that are looked up at once on the way down.
const BLOCKS_PER_LOOK: u64 = 100;

/// Where a chain and what was final part.
struct Fork {
    /// The newest block that is known to be on both sides; `None` when nothing is recorded that the chain still holds.
    common: Option<BlockRef>,
    /// The lowest block that is known to have left the chain.
    lowest_gone: u64,
}

/// Walks back to the newest known block on which enough nodes agree. Returns why the chain has to stop when that may not
/// be done without the operator.
pub(super) async fn run(
    ctx: &Ctx,
    chain: &dyn Chain,
    mandate: &Mandate,
    cursor: &mut Cursor,
) -> FlowResult<Option<String>> {
    let network = cursor.network;
    let was_final = cursor.finalized.number;
    let fork = find_fork(ctx, chain, was_final).await?;
    let is_within = was_final - fork.lowest_gone < BLOCKS_MAX;
    let is_allowed = cursor.may_rewind || (cursor.finality == Some(Finality::Setting) && is_within);
    if !is_allowed {
        return Ok(Some(format!(
            "block {was_final}, which was final, is no longer part of the chain"
        )));
    }
    let common = match fork.common {
        Some(common) => common,
        // No payment is recorded below, so there is nothing to take back there.
        None => chain.agreed(fork.lowest_gone.saturating_sub(1)).await?,
    };
    let stored = cursor.clone();
    cursor.finalized = Mark {
        number: common.number,
        hash: common.hash,
    };
    cursor.seen = cursor.finalized;
    cursor.may_rewind = false;
    let tx = ctx.db.begin("rewind_chain").await?;
    let undone = (common.number + 1, was_final);
    store::backlogs::push(&tx, network, undone, BacklogReason::Rewound, ctx.clock.now()).await?;
    store::observations::delete_above(&tx, network, common.number).await?;
    store::cursors::delete_blocks_above(&tx, network, common.number).await?;
    store::cursors::push_blocks(&tx, network, &[common]).await?;
    if !store::cursors::replace(&tx, &stored, cursor).await? {
        return Err(super::moved_meanwhile(network));
    }
    mandate.commit(tx).await?;
    if fork.common.is_none() {
        tracing::warn!(%network, below = common.number, "no block is known that is still part of the chain; `prs reconcile` compares those below this one");
    }
    tracing::warn!(%network, from = was_final, to = common.number, "blocks that were final left the chain");
    metrics::counter!("prs_chain_reorganisations_total", "network" => network.id()).increment(1);
    Ok(None)
}

/// Compares hashes from the top: those that were kept on the way, and those of the blocks of recorded payments, which are
/// kept for good.
async fn find_fork(ctx: &Ctx, chain: &dyn Chain, was_final: u64) -> FlowResult<Fork> {
    let network = chain.network();
    let mut fork = Fork {
        common: None,
        lowest_gone: was_final,
    };
    let window = store::cursors::window(ctx.db.reader(), network).await?;
    for block in window.iter().filter(|block| block.number < was_final) {
        let agreed = chain.agreed(block.number).await?;
        if agreed.hash == block.hash {
            fork.common = Some(agreed);
            break;
        }
        fork.lowest_gone = block.number;
    }
    let lowest = fork.common.map_or(0, |common| common.number + 1);
    let mut next = Some(was_final);
    while let Some(to) = next.filter(|to| *to >= lowest) {
        let blocks = store::payments::blocks(ctx.db.reader(), network, (lowest, to), BLOCKS_PER_LOOK).await?;
        for (number, hash) in &blocks {
            let agreed = chain.agreed(*number).await?;
            if agreed.hash == *hash {
                fork.common = Some(agreed);
                return Ok(fork);
            }
            fork.lowest_gone = fork.lowest_gone.min(*number);
        }
        next = blocks.last().and_then(|(number, _)| number.checked_sub(1));
    }
    Ok(fork)
}
