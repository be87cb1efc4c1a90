//! Follows a chain: settles final blocks, records pending payments, and undoes reorganised blocks.
//!
//! **Parties.** A chain grows at its head, may replace its newest blocks, and never replaces final blocks. Its nodes
//! may be behind, fail, omit data or return false data. A final block counts when the configured number of distinct
//! nodes agree on its header. Its content counts as far as the header proves it.
//!
//! One worker follows a chain at a time, the leader of its term. Commits of another worker or a former leader have no
//! effect ([`super::lead`]). [`super::confirm`] confirms payments in final blocks. [`super::backlog`] reads ranges of
//! older blocks in parallel, without delaying this module. [`super::rewind`] undoes final blocks, and [`super::resume`]
//! is for the operator.
//!
//! **A step** queries the head and the newest final block, settles the new final blocks, and records payments near the
//! head while a payment is expected. The cursor is the state between two steps. It contains the newest recorded block,
//! the newest settled block, the finality rule, and the halt reason of a halted chain.
//!
//! **Invariants.**
//! - Payments are reported and credited only when they are final and proven. Until then the service stores an
//!   observation, which it may delete.
//! - A missing response proves nothing. A node that does not respond causes a delay. A block that cannot be proven is
//!   retried separately, and the others proceed. An event that a node reported and the block does not contain is
//!   quarantined.
//! - The cursor moves in the transaction that stores the data of the passed blocks: observations of read blocks, or
//!   credits, events and deliveries of settled blocks. After a crash the service only repeats a range.
//! - A payment is credited once: a unique index covers its network, its transaction and its position among all events
//!   of the transaction.
//! - A chain halts only when enough nodes agree on headers that contradict final blocks. Only the operator resumes it.
//!
//! **Not needed for correctness.** The observations near the head only show a payment earlier. The stored block hashes
//! only shorten walking back. The sizes of steps and commits, the pace of the steps, and the positions on the health
//! page do not matter either.

use super::{
    confirm::{self, CATCHING_UP, ChainProgress},
    lead::{Leadership, Mandate},
    lines, rewind,
};
use crate::{
    ctx::Ctx,
    domain::{
        block_range::BlockRange,
        network::Network,
        payment::{BlockRef, Observation},
        request::Request,
    },
    flows::FlowResult,
    ports::chain::{Chain, ChainTip, NewBlock},
    store::{
        self, Tx,
        backlogs::BacklogReason,
        cursors::{Cursor, ReachedBlock},
    },
};
use alloy::primitives::B256;
use chrono::TimeDelta;
use std::{collections::HashSet, time::Instant};

/// Maximum number of blocks near the head that are read and committed together.
const HEAD_BLOCKS_PER_STEP: u64 = 64;

/// Days after which an unpaid request no longer counts as expecting a payment. A later payment is still found, but not
/// as early.
const AWAITED_DAYS: i64 = 7;

/// Position on a chain after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchPosition {
    /// Newest block of the chain.
    pub head: BlockRef,
    /// Newest final block of the chain.
    pub finalized: u64,
    /// Newest block whose payments are recorded as seen.
    pub seen: u64,
    /// Newest block whose payments are settled.
    pub confirmed: u64,
    /// Whether a payment is expected.
    pub is_awaited: bool,
    /// Whether enough nodes keep up with the chain and know the newest settled block.
    pub is_current: bool,
    /// Whether the step changed anything, so that another one may be useful immediately.
    pub moved: bool,
}

/// Result of a step.
#[derive(Debug, Clone)]
pub enum WatchResult {
    /// The chain was followed.
    At(WatchPosition),
    /// The chain is halted until the operator resumes it.
    Halted(String),
}

/// Runs one step on a chain, as its leader.
pub async fn run(ctx: &Ctx, chain: &dyn Chain, leadership: &Leadership) -> FlowResult<WatchResult> {
    let begun = Instant::now();
    let mandate = &Mandate::Following(leadership.clone());
    let network = chain.network();
    let cursor = store::cursors::load(ctx.db.reader(), network).await?;
    if let Some(reason) = cursor.as_ref().and_then(|cursor| cursor.halted_reason.clone()) {
        return Ok(WatchResult::Halted(reason));
    }
    if cursor.as_ref().is_some_and(|cursor| cursor.may_rewind) {
        chain.forget_final();
    }
    let tip = chain.tip(cursor.as_ref().and_then(|cursor| cursor.finality)).await?;
    let mut cursor = match cursor {
        Some(cursor) => cursor,
        None => begin(ctx, chain, mandate, &tip).await?,
    };
    if cursor.finality != Some(tip.finality) {
        tracing::info!(
            %network, finality = tip.finality.wire(),
            "the network uses this finality rule from now on"
        );
        cursor.finality = Some(tip.finality);
    }
    let before = (cursor.seen.number, cursor.seen.hash, cursor.finalized.number);
    let is_awaited = is_awaited(ctx, network).await?;
    if tip.finalized.number > cursor.finalized.number {
        if chain.agreed(cursor.finalized.number).await?.hash != cursor.finalized.hash
            && let Some(reason) = rewind::run(ctx, chain, mandate, &mut cursor).await?
        {
            return halt(ctx, mandate, cursor, reason).await;
        }
        let range = BlockRange {
            from: cursor.finalized.number + 1,
            to: tip.finalized.number,
        };
        let progress = ChainProgress::Cursor(cursor.clone(), tip.finalized);
        let until = Some(begun + CATCHING_UP);
        confirm::run(ctx, chain, mandate, range, is_awaited, progress, until).await?;
        cursor = store::cursors::load(ctx.db.reader(), network).await?.unwrap_or(cursor);
        if let Some(reason) = cursor.halted_reason {
            return Ok(WatchResult::Halted(reason));
        }
    }
    if is_awaited {
        let mut noted = cursor.clone();
        match note_new(ctx, chain, mandate, &mut noted, &tip.head).await {
            Ok(()) => cursor = noted,
            // Only the observations near the head need these blocks, so the step still succeeds.
            Err(error) => tracing::warn!(%network, %error, "payments near the head could not be recorded"),
        }
    }
    let after = (cursor.seen.number, cursor.seen.hash, cursor.finalized.number);
    Ok(WatchResult::At(WatchPosition {
        head: tip.head,
        finalized: tip.finalized.number,
        seen: cursor.seen.number,
        confirmed: cursor.finalized.number,
        is_awaited,
        is_current: tip.is_current && tip.head.number >= cursor.finalized.number,
        moved: before != after,
    }))
}

/// Logs that the setting `start_block` has no effect on a chain that is already followed.
pub async fn tell_of_start(ctx: &Ctx, chain: &dyn Chain) -> FlowResult<()> {
    let network = chain.network();
    let Some(start) = chain.start_block() else {
        return Ok(());
    };
    if store::cursors::load(ctx.db.reader(), network).await?.is_some() {
        tracing::info!(
            %network, start,
            "chains.{network}.start_block applies to the first start only; to read older blocks: prs admin chain rescan \
             {network} --from {start}"
        );
    }
    Ok(())
}

/// Whether a payment is expected on a network. The blocks near the head are read only in this case.
pub async fn is_awaited(ctx: &Ctx, network: Network) -> FlowResult<bool> {
    let since = ctx.clock.now() - TimeDelta::days(AWAITED_DAYS);
    Ok(store::requests::is_awaited(ctx.db.reader(), network, since).await?)
}

/// Stores the first cursor of a network, at the newest final block. The blocks of an older start are read separately.
/// Source: decisions D40.
async fn begin(ctx: &Ctx, chain: &dyn Chain, mandate: &Mandate, tip: &ChainTip) -> FlowResult<Cursor> {
    let network = chain.network();
    let now = ctx.clock.now();
    let mark = ReachedBlock {
        number: tip.finalized.number,
        hash: tip.finalized.hash,
    };
    let cursor = Cursor {
        network,
        seen: mark,
        finalized: mark,
        halted_reason: None,
        finality: Some(tip.finality),
        may_rewind: false,
        updated_at: now,
    };
    let tx = ctx.db.begin("begin_chain").await?;
    match chain.start_block() {
        Some(start) if start > mark.number => tracing::warn!(
            %network, start, begun_at = mark.number,
            "chains.{network}.start_block is ahead of the newest final block, so the service starts at the newest \
             final block"
        ),
        Some(start) => {
            let range = BlockRange {
                from: start,
                to: mark.number,
            };
            store::backlogs::push(&tx, network, range, BacklogReason::Start, now).await?;
        }
        None => {}
    }
    store::cursors::push_blocks(&tx, network, &[tip.finalized]).await?;
    if !store::cursors::begin(&tx, &cursor).await? {
        // Another instance has just started it.
        let begun = store::cursors::load(&tx, network).await?;
        return begun.ok_or_else(|| super::moved_meanwhile(network));
    }
    mandate.commit(tx).await?;
    Ok(cursor)
}

/// Records payments of known requests in blocks that are not final yet.
async fn note_new(
    ctx: &Ctx,
    chain: &dyn Chain,
    mandate: &Mandate,
    cursor: &mut Cursor,
    head: &BlockRef,
) -> FlowResult<()> {
    let stored = &cursor.clone();
    if cursor.seen.number < cursor.finalized.number {
        cursor.seen = cursor.finalized;
    }
    let from = cursor.seen.number + 1;
    let to = head.number.min(cursor.seen.number + HEAD_BLOCKS_PER_STEP);
    if head.number == cursor.seen.number && head.hash == cursor.seen.hash {
        return Ok(());
    }
    if head.number < cursor.seen.number {
        return if has_left(ctx, chain, cursor, head).await? {
            undo_reorganised(ctx, chain, mandate, stored, cursor, head.number).await
        } else {
            // The recorded blocks are still on the chain, and the node that reported this head is behind.
            Ok(())
        };
    }
    let blocks = if from > to {
        Vec::new()
    } else {
        chain.new_blocks(from, to).await?
    };
    if !follow_each_other(cursor.seen.hash, &blocks) {
        return undo_reorganised(ctx, chain, mandate, stored, cursor, head.number).await;
    }
    let Some(last) = blocks.last().map(|new| new.block) else {
        // The chain did not grow: its head was replaced by a block of the same height, or the node that reported the
        // head is behind.
        return if head.number == cursor.seen.number {
            undo_reorganised(ctx, chain, mandate, stored, cursor, head.number).await
        } else {
            Ok(())
        };
    };
    let observed = note_payments(ctx, chain, &blocks).await?;
    let blocks: Vec<BlockRef> = blocks.into_iter().map(|new| new.block).collect();
    let seen = ReachedBlock {
        number: last.number,
        hash: last.hash,
    };
    let now = ctx.clock.now();
    let tx = ctx.db.begin("read_blocks").await?;
    store::observations::note(&tx, &observed, now).await?;
    store::cursors::push_blocks(&tx, cursor.network, &blocks).await?;
    move_seen(&tx, stored, cursor, seen).await?;
    mandate.commit(tx).await?;
    lines::seen(cursor.network, &observed);
    Ok(())
}

fn follow_each_other(mut parent: B256, blocks: &[NewBlock]) -> bool {
    blocks.iter().all(|new| {
        let follows = new.block.parent_hash == parent;
        parent = new.block.hash;
        follows
    })
}

async fn note_payments(ctx: &Ctx, chain: &dyn Chain, blocks: &[NewBlock]) -> FlowResult<Vec<Observation>> {
    let hints = blocks.iter().flat_map(|new| &new.hints);
    let topics: HashSet<B256> = hints.filter_map(|hint| hint.reference_topic).collect();
    let (requests, _) = store::requests::by_topics(ctx.db.reader(), chain.network(), &topics).await?;
    let deposits = store::off_ramp_quotes::deposits_of(ctx.db.reader(), &requests).await?;
    let deposits_of = |request: &Request| deposits.get(&request.row).map_or(&[][..], Vec::as_slice);
    let fits = |observed: &Observation| {
        let is_paid = |request: &Request| request.matches(observed, deposits_of(request), &ctx.catalogue);
        requests.iter().any(is_paid)
    };
    let known: HashSet<B256> = requests.iter().map(|request| request.reference.topic()).collect();
    let mut noted = Vec::new();
    for new in blocks {
        let topics = new.hints.iter().filter_map(|hint| hint.reference_topic);
        if topics.into_iter().any(|topic| known.contains(&topic)) {
            let block = chain.noted(&new.block).await?;
            let observed = block.transactions.into_iter().flat_map(|proof| proof.observations);
            noted.extend(observed.filter(fits));
        }
    }
    Ok(noted)
}

/// Whether recorded blocks above the head are no longer part of the chain. This is so if the block at the height of the
/// head differs. It is also so if the recorded blocks are further ahead than a node can be behind, and no node knows
/// the newest of them.
async fn has_left(ctx: &Ctx, chain: &dyn Chain, cursor: &Cursor, head: &BlockRef) -> FlowResult<bool> {
    let window = store::cursors::window(ctx.db.reader(), cursor.network).await?;
    let noted = window.iter().find(|block| block.number == head.number);
    if noted.is_some_and(|noted| noted.hash != head.hash) {
        return Ok(true);
    }
    if cursor.seen.number - head.number <= HEAD_BLOCKS_PER_STEP {
        return Ok(false);
    }
    let newest = chain.block(cursor.seen.number).await?;
    Ok(newest.is_none_or(|newest| newest.hash != cursor.seen.hash))
}

/// Walks back to the newest recorded block up to the head that is still on the chain, and deletes the observations
/// after this block.
async fn undo_reorganised(
    ctx: &Ctx,
    chain: &dyn Chain,
    mandate: &Mandate,
    stored: &Cursor,
    cursor: &mut Cursor,
    head: u64,
) -> FlowResult<()> {
    let network = cursor.network;
    let window = store::cursors::window(ctx.db.reader(), network).await?;
    let noted = window
        .iter()
        .filter(|block| (cursor.finalized.number + 1..=cursor.seen.number.min(head)).contains(&block.number));
    let mut common = cursor.finalized;
    for block in noted {
        if chain
            .block(block.number)
            .await?
            .is_some_and(|found| found.hash == block.hash)
        {
            common = ReachedBlock {
                number: block.number,
                hash: block.hash,
            };
            break;
        }
    }
    if common.number == cursor.seen.number {
        return Ok(());
    }
    let undone_from = cursor.seen.number;
    let tx = ctx.db.begin("undo_blocks").await?;
    store::observations::delete_above(&tx, network, common.number).await?;
    store::cursors::delete_blocks_above(&tx, network, common.number).await?;
    move_seen(&tx, stored, cursor, common).await?;
    mandate.commit(tx).await?;
    tracing::info!(%network, from = undone_from, to = common.number, "chain reorganised");
    metrics::counter!("prs_chain_reorganisations_total", "network" => network.id()).increment(1);
    Ok(())
}

/// Moves the position of recorded blocks, unless the chain was moved or halted in the meantime.
async fn move_seen(tx: &Tx, stored: &Cursor, cursor: &mut Cursor, seen: ReachedBlock) -> FlowResult<()> {
    cursor.seen = seen;
    if store::cursors::replace(tx, stored, cursor).await? {
        Ok(())
    } else {
        Err(super::moved_meanwhile(cursor.network))
    }
}

/// Halts a chain when enough nodes agree on headers that contradict final blocks. A wrong guess of the service could
/// lose money.
async fn halt(ctx: &Ctx, mandate: &Mandate, cursor: Cursor, reason: String) -> FlowResult<WatchResult> {
    let network = cursor.network;
    let tx = ctx.db.begin("halt_chain").await?;
    let halted = Cursor {
        halted_reason: Some(reason.clone()),
        updated_at: ctx.clock.now(),
        ..cursor.clone()
    };
    if !store::cursors::replace(&tx, &cursor, &halted).await? {
        return Err(super::moved_meanwhile(network));
    }
    mandate.commit(tx).await?;
    tracing::error!(
        %network, reason,
        "the chain is halted: its payments are not confirmed until the operator resumes it"
    );
    metrics::counter!("prs_chain_halts_total", "network" => network.id()).increment(1);
    Ok(WatchResult::Halted(reason))
}
