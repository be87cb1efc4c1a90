//! Follows a chain: reads new blocks, remembers what their payment events say, and undoes what a reorganisation drops.
//!
//! **Parties.** A chain grows at its head, may replace its newest blocks, and calls blocks final that it never
//! replaces. The nodes that tell about it may be behind, fail, leave something out or lie; there is a first witness and,
//! where the settings name a second node, a second one that does not ask the first. One worker follows a chain; when
//! two do, they disturb but do not harm each other. [`super::confirm`] makes payments of what is final.
//! [`super::resume`] is the operator.
//!
//! **A step** looks at the head and at what is final, walks back if the newest block that was read is no longer there,
//! reads forward, and confirms what has become final. The cursor is the memory between steps: the newest block that was
//! read, the newest one whose payments are confirmed, and why the chain was stopped, if it was.
//!
//! **What always holds.**
//! - Nothing is told and nothing is credited before it is final. Up to there an observation is a note that may be
//!   deleted.
//! - The cursor moves in the transaction that stores what it passed: the observations of the blocks that were read, or
//!   the credits, events and deliveries of those that were confirmed. A crash repeats a range and repeats nothing else.
//! - Near the head blocks are read one by one, each by its hash, and each one is the child of the one before. Final
//!   blocks may be read as a range, because they do not change.
//! - Whatever is confirmed was read twice, the second time at finality by the second witness. What the first witness
//!   missed is taken in. What contradicts the second witness stops the chain, and so does a final block that is gone:
//!   guessing would cost money. A stopped chain goes on when the operator says so.
//! - A payment is credited once: it is known by its network, its transaction and its place in it, and that is a unique
//!   index.
//!
//! **What is not needed for correctness.** The reading near the head: without it payments would still be found at
//! finality, by the second reading, and only be seen later. The window of block hashes below what is final: it makes
//! walking back short. The sizes of steps and commits, the pace of the steps, and the positions that the health page
//! shows.

use super::confirm::{self, ConfirmError};
use crate::{
    ctx::Ctx,
    domain::payment::{BlockRef, Observation},
    flows::FlowResult,
    ports::chain::{Chain, ChainError, Witness},
    store::{
        self,
        cursors::{Cursor, Mark},
    },
};
use alloy::primitives::B256;

/// Blocks near the head that are read and committed together.
const HEAD_BLOCKS_PER_STEP: u64 = 64;

/// Final blocks that are read and committed together while catching up.
const RANGE_BLOCKS_PER_STEP: u64 = 2_000;

/// Block hashes that are kept below the final height. Source: rules B.2 (1).
const WINDOW_BELOW_FINAL: u64 = 32;

/// Where a chain stands after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Newest block of the chain.
    pub head: BlockRef,
    /// Newest final block of the chain.
    pub finalized: u64,
    /// Newest block that was read.
    pub seen: u64,
    /// Newest block whose payments are confirmed.
    pub confirmed: u64,
    /// Whether the step changed anything, so that another one may be worth it at once.
    pub moved: bool,
}

/// How a step ends.
#[derive(Debug, Clone)]
pub enum Step {
    /// The chain was followed.
    At(Position),
    /// The chain is stopped until the operator has looked at it.
    Halted(String),
}

/// Does one step on a chain: undo, read, confirm.
pub async fn run(ctx: &Ctx, chain: &dyn Chain) -> FlowResult<Step> {
    let network = chain.network();
    let Some(mut cursor) = store::cursors::load(ctx.db.reader(), network).await? else {
        let cursor = begin(ctx, chain).await?;
        return Ok(Step::At(position(&cursor, chain.head().await?, 0, true)));
    };
    if let Some(reason) = &cursor.halted_reason {
        return Ok(Step::Halted(reason.clone()));
    }
    let head = chain.head().await?;
    let finalized = match chain.finalized(&head).await {
        Ok(block) => block.number,
        Err(ChainError::Disagreement { reason, .. }) => return halt(ctx, cursor, reason).await,
        Err(error) => return Err(error.into()),
    };
    let before = (cursor.seen.number, cursor.seen.hash, cursor.finalized.number);
    let follows = head.number == cursor.seen.number && head.hash == cursor.seen.hash
        || head.number == cursor.seen.number + 1 && head.parent_hash == cursor.seen.hash;
    if !follows && let Some(reason) = undo_reorganised(ctx, chain, &mut cursor).await? {
        return halt(ctx, cursor, reason).await;
    }
    match read_forward(ctx, chain, &mut cursor, &head, finalized).await {
        Ok(()) => {}
        // The chain moved while it was read; the next step sees the new one.
        Err(Interrupted::Reorganised) => return Ok(Step::At(position(&cursor, head, finalized, true))),
        Err(Interrupted::Failed(error)) => return Err(error),
    }
    let final_end = finalized.min(cursor.seen.number);
    if final_end > cursor.finalized.number
        && let Err(error) = confirm::run(ctx, chain, &mut cursor, final_end).await
    {
        return match error {
            ConfirmError::Disagreement(reason) => halt(ctx, cursor, reason).await,
            ConfirmError::Failed(error) => Err(error),
        };
    }
    let moved = before != (cursor.seen.number, cursor.seen.hash, cursor.finalized.number);
    Ok(Step::At(position(&cursor, head, finalized, moved)))
}

fn position(cursor: &Cursor, head: BlockRef, finalized: u64, moved: bool) -> Position {
    Position {
        head,
        finalized,
        seen: cursor.seen.number,
        confirmed: cursor.finalized.number,
        moved,
    }
}

/// Starts before the first block that matters; the genesis block holds no payments.
async fn begin(ctx: &Ctx, chain: &dyn Chain) -> FlowResult<Cursor> {
    let before = chain.start_block().max(1) - 1;
    let block = chain
        .block(before, Witness::First)
        .await?
        .ok_or_else(|| ChainError::Malformed {
            network: chain.network(),
            reason: format!("the chain ends before the start block {before}"),
        })?;
    let cursor = Cursor {
        network: chain.network(),
        seen: Mark {
            number: before,
            hash: block.hash,
        },
        finalized: Mark {
            number: before,
            hash: block.hash,
        },
        halted_reason: None,
        updated_at: ctx.clock.now(),
    };
    let tx = ctx.db.begin("begin_chain").await?;
    store::cursors::save(&tx, &cursor).await?;
    tx.commit().await?;
    Ok(cursor)
}

/// Walks back to the newest stored block that the chain still has, and forgets what came after it.
///
/// Returns why the chain has to stop when that block lies below what was confirmed.
async fn undo_reorganised(ctx: &Ctx, chain: &dyn Chain, cursor: &mut Cursor) -> FlowResult<Option<String>> {
    let network = chain.network();
    let window = store::cursors::window(ctx.db.reader(), network).await?;
    let mut known: Vec<(u64, B256)> = vec![(cursor.seen.number, cursor.seen.hash)];
    known.extend(window.iter().map(|block| (block.number, block.hash)));
    known.push((cursor.finalized.number, cursor.finalized.hash));
    known.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    known.dedup();
    for (number, hash) in known.into_iter().filter(|(number, _)| *number <= cursor.seen.number) {
        let on_chain = chain.block(number, Witness::First).await?;
        if on_chain.is_some_and(|block| block.hash == hash) {
            if number < cursor.seen.number {
                forget_above(ctx, cursor, number, hash).await?;
            }
            return Ok(None);
        }
        if number <= cursor.finalized.number {
            return Ok(Some(format!(
                "block {number}, which was final, is no longer part of the chain"
            )));
        }
    }
    Ok(Some("no stored block is part of the chain any more".to_owned()))
}

async fn forget_above(ctx: &Ctx, cursor: &mut Cursor, number: u64, hash: B256) -> FlowResult<()> {
    tracing::info!(network = %cursor.network, from = cursor.seen.number, to = number, "chain reorganised");
    metrics::counter!("prs_chain_reorganisations_total", "network" => cursor.network.id()).increment(1);
    cursor.seen.number = number;
    cursor.seen.hash = hash;
    let tx = ctx.db.begin("undo_blocks").await?;
    store::observations::delete_above(&tx, cursor.network, number).await?;
    store::cursors::delete_blocks_above(&tx, cursor.network, number).await?;
    store::cursors::save(&tx, cursor).await?;
    tx.commit().await?;
    Ok(())
}

enum Interrupted {
    Reorganised,
    Failed(crate::flows::FlowError),
}

impl<E: Into<crate::flows::FlowError>> From<E> for Interrupted {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Reads final blocks by range and newer ones one by one, by their hash.
async fn read_forward(
    ctx: &Ctx,
    chain: &dyn Chain,
    cursor: &mut Cursor,
    head: &BlockRef,
    finalized: u64,
) -> Result<(), Interrupted> {
    let final_head = finalized.min(head.number);
    if cursor.seen.number + HEAD_BLOCKS_PER_STEP < final_head {
        let to = final_head.min(cursor.seen.number + RANGE_BLOCKS_PER_STEP);
        let (observed, read_to) = chain
            .observations_in(cursor.seen.number + 1, to, Witness::First)
            .await?;
        let last = chain
            .block(read_to, Witness::First)
            .await?
            .ok_or(Interrupted::Reorganised)?;
        return Ok(commit_read(ctx, cursor, &observed, &[last]).await?);
    }
    let mut blocks: Vec<BlockRef> = Vec::new();
    let mut observed = Vec::new();
    let mut parent = cursor.seen.hash;
    let end = head.number.min(cursor.seen.number + HEAD_BLOCKS_PER_STEP);
    for number in cursor.seen.number + 1..=end {
        let block = if number == head.number {
            Some(*head)
        } else {
            chain.block(number, Witness::First).await?
        };
        let block = block
            .filter(|block| block.parent_hash == parent)
            .ok_or(Interrupted::Reorganised)?;
        observed.extend(chain.observations_at(&block, Witness::First).await?);
        parent = block.hash;
        blocks.push(block);
    }
    if blocks.is_empty() {
        Ok(())
    } else {
        Ok(commit_read(ctx, cursor, &observed, &blocks).await?)
    }
}

async fn commit_read(ctx: &Ctx, cursor: &mut Cursor, observed: &[Observation], blocks: &[BlockRef]) -> FlowResult<()> {
    let Some(last) = blocks.last() else { return Ok(()) };
    cursor.seen.number = last.number;
    cursor.seen.hash = last.hash;
    let now = ctx.clock.now();
    let tx = ctx.db.begin("read_blocks").await?;
    store::observations::insert_many(&tx, observed, false, now).await?;
    crate::fail_at("read_blocks", "inserted");
    store::cursors::push_blocks(&tx, cursor.network, blocks).await?;
    store::cursors::prune_below(
        &tx,
        cursor.network,
        cursor.finalized.number.saturating_sub(WINDOW_BELOW_FINAL),
    )
    .await?;
    store::cursors::save(&tx, cursor).await?;
    tx.commit().await?;
    Ok(())
}

/// Stops a chain: two sources contradict each other about settled facts, and guessing would cost money.
async fn halt(ctx: &Ctx, cursor: Cursor, reason: String) -> FlowResult<Step> {
    let network = cursor.network;
    tracing::error!(%network, reason, "chain halted: its payments are not confirmed until the operator has looked at it");
    metrics::counter!("prs_chain_halts_total", "network" => network.id()).increment(1);
    let tx = ctx.db.begin("halt_chain").await?;
    let halted = Cursor {
        halted_reason: Some(reason.clone()),
        updated_at: ctx.clock.now(),
        ..cursor
    };
    store::cursors::save(&tx, &halted).await?;
    tx.commit().await?;
    Ok(Step::Halted(reason))
}
