//! Follows a chain: settles what has become final, notes what is on its way, and undoes what a reorganisation drops.
//!
//! **Parties.** A chain grows at its head, may replace its newest blocks, and calls blocks final that it never
//! replaces. The nodes that tell about it may be behind, fail, leave something out or lie; a final block counts when as
//! many distinct nodes agree on its header as the settings say, and its content counts as far as that header proves it.
//! One worker follows a chain at a time, the leader of its term: what another one or a former leader commits changes
//! nothing ([`super::lead`]). [`super::confirm`] makes payments of what is final, [`super::backlog`] fills in ranges beside and
//! is waited for by nothing here, [`super::rewind`] undoes what was final, [`super::resume`] is
//! the operator.
//!
//! **A step** looks at the head and at what is final, settles the final blocks that are new, and notes payments near the
//! head while one is awaited. The cursor is the memory between steps: the newest
//! block that was noted, the newest one that is settled, how blocks count as final, and why the chain was stopped, if it
//! was.
//!
//! **What always holds.**
//! - Nothing is told and nothing is credited before it is final and proven. Up to there an observation is a note that
//!   may be deleted.
//! - Nothing is decided on absence. A node that is missing delays; what cannot be proven is tried again by itself while
//!   everything else goes on; what a node told and the block denies is set aside.
//! - The cursor moves in the transaction that stores what it passed: the notes of the blocks that were read, or the
//!   credits, events and deliveries of those that were settled. A crash repeats a range and repeats nothing else.
//! - A payment is credited once: it is known by its network, its transaction and its position among all events of the
//!   transaction, and that is a unique index.
//! - A chain stops only when enough nodes agree on headers that contradict what was final. It goes on when the operator
//!   says so.
//!
//! **What is not needed for correctness.** The notes near the head: without them payments would only be seen later. The
//! window of block hashes: it makes walking back short. The sizes of steps and commits, the pace of the steps, and the
//! positions that the health page shows.

use super::{
    confirm::{self, CATCHING_UP, Progress},
    lead::{Leadership, Mandate},
    lines, rewind,
};
use crate::{
    ctx::Ctx,
    domain::{
        network::Network,
        payment::{BlockRef, Observation},
        request::Request,
    },
    flows::FlowResult,
    ports::chain::{Chain, NewBlock, Tip},
    store::{
        self, Tx,
        backlogs::BacklogReason,
        cursors::{Cursor, Mark},
    },
};
use alloy::primitives::B256;
use chrono::TimeDelta;
use std::{collections::HashSet, time::Instant};

/// Blocks near the head that are read and committed together.
const HEAD_BLOCKS_PER_STEP: u64 = 64;

/// Days after which a request that nobody paid is no longer waited for: its payment would still be found, and later.
const AWAITED_DAYS: i64 = 7;

/// Where a chain stands after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Newest block of the chain.
    pub head: BlockRef,
    /// Newest final block of the chain.
    pub finalized: u64,
    /// Newest block whose payments are noted.
    pub seen: u64,
    /// Newest block whose payments are settled.
    pub confirmed: u64,
    /// Whether a payment is awaited.
    pub is_awaited: bool,
    /// Whether enough nodes move with the chain and know the newest settled block.
    pub is_current: bool,
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

/// Does one step on a chain, as its leader.
pub async fn run(ctx: &Ctx, chain: &dyn Chain, leadership: &Leadership) -> FlowResult<Step> {
    let begun = Instant::now();
    let mandate = &Mandate::Following(leadership.clone());
    let network = chain.network();
    let cursor = store::cursors::load(ctx.db.reader(), network).await?;
    if let Some(reason) = cursor.as_ref().and_then(|cursor| cursor.halted_reason.clone()) {
        return Ok(Step::Halted(reason));
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
        tracing::info!(%network, finality = tip.finality.wire(), "blocks count as final by this");
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
        let range = (cursor.finalized.number + 1, tip.finalized.number);
        let progress = Progress::Cursor(cursor.clone(), tip.finalized);
        let until = Some(begun + CATCHING_UP);
        confirm::run(ctx, chain, mandate, range, is_awaited, progress, until).await?;
        cursor = store::cursors::load(ctx.db.reader(), network).await?.unwrap_or(cursor);
        if let Some(reason) = cursor.halted_reason {
            return Ok(Step::Halted(reason));
        }
    }
    if is_awaited {
        let mut noted = cursor.clone();
        match note_new(ctx, chain, mandate, &mut noted, &tip.head).await {
            Ok(()) => cursor = noted,
            // Everything but the notes goes on without the head.
            Err(error) => tracing::warn!(%network, %error, "payments near the head cannot be noted"),
        }
    }
    let after = (cursor.seen.number, cursor.seen.hash, cursor.finalized.number);
    Ok(Step::At(Position {
        head: tip.head,
        finalized: tip.finalized.number,
        seen: cursor.seen.number,
        confirmed: cursor.finalized.number,
        is_awaited,
        is_current: tip.is_current && tip.head.number >= cursor.finalized.number,
        moved: before != after,
    }))
}

/// Says that the setting of an older start has no effect on a chain that is followed already.
pub async fn tell_of_start(ctx: &Ctx, chain: &dyn Chain) -> FlowResult<()> {
    let network = chain.network();
    let Some(start) = chain.start_block() else {
        return Ok(());
    };
    if store::cursors::load(ctx.db.reader(), network).await?.is_some() {
        tracing::info!(
            %network, start,
            "chains.{network}.start_block counts for the first start alone; to read older blocks: prs admin chain rescan \
             {network} --from {start}"
        );
    }
    Ok(())
}

/// Whether a payment is awaited on a network, so that it is worth looking near its head.
pub async fn is_awaited(ctx: &Ctx, network: Network) -> FlowResult<bool> {
    let since = ctx.clock.now() - TimeDelta::days(AWAITED_DAYS);
    Ok(store::requests::is_awaited(ctx.db.reader(), network, since).await?)
}

/// The first start is at the final block; an older start is filled in beside. Source: decisions D40.
async fn begin(ctx: &Ctx, chain: &dyn Chain, mandate: &Mandate, tip: &Tip) -> FlowResult<Cursor> {
    let network = chain.network();
    let now = ctx.clock.now();
    let mark = Mark {
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
            "chains.{network}.start_block is ahead of the newest final block: the first start is at that one"
        ),
        Some(start) => {
            store::backlogs::push(&tx, network, (start, mark.number), BacklogReason::Start, now).await?;
        }
        None => {}
    }
    store::cursors::push_blocks(&tx, network, &[tip.finalized]).await?;
    if !store::cursors::begin(&tx, &cursor).await? {
        // Somebody else began it at this moment.
        let begun = store::cursors::load(&tx, network).await?;
        return begun.ok_or_else(|| super::moved_meanwhile(network));
    }
    mandate.commit(tx).await?;
    Ok(cursor)
}

/// Notes payments of known requests in blocks that are not final yet.
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
        return match has_left(ctx, chain, cursor, head).await? {
            true => undo_reorganised(ctx, chain, mandate, stored, cursor, head.number).await,
            // This node is behind.
            false => Ok(()),
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
        // The head was replaced without growing, or this node is behind.
        return if head.number == cursor.seen.number {
            undo_reorganised(ctx, chain, mandate, stored, cursor, head.number).await
        } else {
            Ok(())
        };
    };
    let observed = note_payments(ctx, chain, &blocks).await?;
    let blocks: Vec<BlockRef> = blocks.into_iter().map(|new| new.block).collect();
    let seen = Mark {
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

/// Whether blocks that were noted above the head are no longer part of the chain: the block of that height is another one,
/// or they are more than a node is behind by and none knows the newest.
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

/// Walks back to the newest noted block, at most as high as the head, that the chain still has, and forgets the notes of
/// what came after it.
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
            common = Mark {
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

/// Moves what is noted, unless the chain was moved or halted since it was looked at.
async fn move_seen(tx: &Tx, stored: &Cursor, cursor: &mut Cursor, seen: Mark) -> FlowResult<()> {
    cursor.seen = seen;
    match store::cursors::replace(tx, stored, cursor).await? {
        true => Ok(()),
        false => Err(super::moved_meanwhile(cursor.network)),
    }
}

/// Stops a chain: enough nodes agree on headers that contradict what was final, and guessing would cost money.
async fn halt(ctx: &Ctx, mandate: &Mandate, cursor: Cursor, reason: String) -> FlowResult<Step> {
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
    tracing::error!(%network, reason, "chain halted: its payments are not confirmed until the operator has looked at it");
    metrics::counter!("prs_chain_halts_total", "network" => network.id()).increment(1);
    Ok(Step::Halted(reason))
}
