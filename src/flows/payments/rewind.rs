//! Rewinds the position of a chain when enough nodes agree that final blocks are no longer part of the chain.
//!
//! If the operator has set a number of confirmations, final blocks may be reorganised. Up to [`BLOCKS_MAX`] blocks are
//! then undone automatically; deeper reorganisations wait for the operator.
//!
//! The service first settles the current blocks of the chain again, which moves payments to their new positions. Then
//! it compares these blocks with the records ([`super::backlog`]), and reverses payments that are no longer on the
//! chain. Before this comparison no payment is reversed, even if a node does not know its transaction.

use super::lead::Mandate;
use crate::{
    ctx::Ctx,
    domain::{
        block_range::BlockRange,
        payment::{BlockRef, Finality},
    },
    flows::FlowResult,
    ports::chain::Chain,
    store::{
        self,
        backlogs::BacklogReason,
        cursors::{Cursor, ReachedBlock},
    },
};

/// Maximum number of blocks that are undone automatically.
pub(super) const BLOCKS_MAX: u64 = 64;

/// While walking back, the number of blocks with recorded payments that one query reads.
const BLOCKS_PER_LOOK: u64 = 100;

/// The fork between a chain and the settled blocks.
struct ChainFork {
    /// The newest stored block that is still on the chain; `None` when no stored block is.
    common: Option<BlockRef>,
    /// The lowest block that is known to be no longer on the chain.
    lowest_gone: u64,
}

/// Walks back to the newest stored block on which enough nodes agree. Returns the halt reason when only the operator
/// may rewind the chain.
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
        // Below the lowest removed block no payment is recorded, so its parent is a safe block to continue from.
        None => chain.agreed(fork.lowest_gone.saturating_sub(1)).await?,
    };
    let stored = cursor.clone();
    cursor.finalized = ReachedBlock {
        number: common.number,
        hash: common.hash,
    };
    cursor.seen = cursor.finalized;
    cursor.may_rewind = false;
    let tx = ctx.db.begin("rewind_chain").await?;
    let undone = BlockRange {
        from: common.number + 1,
        to: was_final,
    };
    store::backlogs::push(&tx, network, undone, BacklogReason::Rewound, ctx.clock.now()).await?;
    store::observations::delete_above(&tx, network, common.number).await?;
    store::cursors::delete_blocks_above(&tx, network, common.number).await?;
    store::cursors::push_blocks(&tx, network, &[common]).await?;
    if !store::cursors::replace(&tx, &stored, cursor).await? {
        return Err(super::moved_meanwhile(network));
    }
    mandate.commit(tx).await?;
    if fork.common.is_none() {
        tracing::warn!(
            %network, below = common.number,
            "all stored blocks have left the chain; compare the blocks with numbers lower than `below` with `prs \
             reconcile`"
        );
    }
    tracing::warn!(%network, from = was_final, to = common.number, "final blocks left the chain");
    metrics::counter!("prs_chain_reorganisations_total", "network" => network.id()).increment(1);
    Ok(None)
}

/// Finds the fork by comparing hashes, from the newest block down: the stored hashes of settled blocks, and those of
/// the blocks of recorded payments, which are stored permanently.
async fn find_fork(ctx: &Ctx, chain: &dyn Chain, was_final: u64) -> FlowResult<ChainFork> {
    let network = chain.network();
    let mut fork = ChainFork {
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
        let range = BlockRange { from: lowest, to };
        let blocks = store::payments::blocks(ctx.db.reader(), network, range, BLOCKS_PER_LOOK).await?;
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
