//! Reads final blocks ahead of their commit. While one part is processed and written, the events of the next part are
//! listed and its blocks are proven.
//!
//! Memory is bounded to the events of one range, reduced to those of known requests, and to the proven blocks of two
//! parts. Data that was read ahead is dropped at the end of the step.

use crate::{
    ctx::Ctx,
    domain::{
        block_range::BlockRange,
        payment::{BlockRef, Hint, SettledBlock},
    },
    flows::FlowResult,
    ports::chain::{Chain, ChainError},
    store,
};
use alloy::primitives::B256;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Number of final blocks per event query while catching up.
const RANGE_BLOCKS: u64 = 2_000;

/// Number of payments per commit. All payments of the last block belong to the commit, so it may have more.
const PAYMENTS_PER_COMMIT: usize = 256;

/// Blocks of one commit, with their proofs and the events that nodes reported and that may concern a request.
pub(super) struct SettledBlocks {
    /// First block.
    pub(super) from: u64,
    /// Last block.
    pub(super) read_to: u64,
    /// Reported events with the reference of a known request or with an unreadable reference, in the order of the
    /// chain.
    pub(super) hints: Vec<(Hint, Vec<usize>)>,
    /// The proven blocks: those of reported events, of events that no node lists, and of known events.
    pub(super) blocks: BTreeMap<u64, SettledBlock>,
    /// The blocks that could not be proven although nodes responded, with the reasons.
    pub(super) failed: Vec<(u64, String)>,
    /// The last block, when the required number of nodes returned it while reading.
    pub(super) reached: Option<BlockRef>,
    /// Whether the nodes were queried again for the events of these blocks, after an earlier part was already returned.
    pub(super) is_later_range: bool,
}

impl SettledBlocks {
    /// The heights of these blocks.
    pub(super) fn range(&self) -> BlockRange {
        BlockRange {
            from: self.from,
            to: self.read_to,
        }
    }
}

/// Blocks that are read even if no node lists an event in them: a missing event in a list proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequiredBlocks {
    /// No block.
    Nothing,
    /// Blocks of undecided quarantined payments.
    SetAside,
    /// Blocks of undecided quarantined payments, and blocks with observations near the head.
    Noted,
    /// All blocks of the range, because the range was queued to read each of its blocks.
    Every,
}

/// Events of a range that are not assigned to a part yet.
struct UnreadEvents {
    hints: Vec<(Hint, Vec<usize>)>,
    /// Numbers of the blocks to prove, in order. A block number is repeated for each event of the block.
    heights: Vec<u64>,
    read_to: u64,
    reached: Option<BlockRef>,
}

/// Reads a stretch of final blocks part by part.
pub(super) struct BlocksAhead<'a> {
    ctx: &'a Ctx,
    chain: &'a dyn Chain,
    first: u64,
    next: u64,
    to: u64,
    proves_absence: bool,
    known: RequiredBlocks,
    listed: Option<UnreadEvents>,
}

impl<'a> BlocksAhead<'a> {
    /// Creates the reader. The first query is made with the first part.
    pub(super) fn new(
        ctx: &'a Ctx,
        chain: &'a dyn Chain,
        range: BlockRange,
        proves_absence: bool,
        known: RequiredBlocks,
    ) -> Self {
        Self {
            ctx,
            chain,
            first: range.from,
            next: range.from,
            to: range.to,
            proves_absence,
            known,
            listed: None,
        }
    }

    /// Whether the next part is in a range whose events are already listed.
    pub(super) fn is_within_range(&self) -> bool {
        self.listed.is_some()
    }

    /// The next part; `None` after the last one.
    pub(super) async fn next(&mut self) -> FlowResult<Option<SettledBlocks>> {
        if self.next > self.to {
            return Ok(None);
        }
        let from = self.next;
        let (mut listed, is_later_range) = match self.listed.take() {
            Some(listed) => (listed, false),
            None => (self.list().await?, from > self.first),
        };
        let read_to = listed.heights.get(PAYMENTS_PER_COMMIT - 1).copied();
        let read_to = read_to.unwrap_or(listed.read_to);
        let split = listed.hints.partition_point(|(hint, _)| hint.block_number <= read_to);
        let later = listed.hints.split_off(split);
        let hints = std::mem::replace(&mut listed.hints, later);
        let split = listed.heights.partition_point(|height| *height <= read_to);
        let numbers = listed.heights.drain(..split).collect();
        let (blocks, failed) = settled_blocks(self.chain, numbers).await?;
        let proven = blocks.get(&read_to).map(|block| block.block);
        let reached = proven.or(listed.reached.filter(|reached| reached.number == read_to));
        if listed.read_to > read_to {
            self.listed = Some(listed);
        }
        self.next = read_to + 1;
        Ok(Some(SettledBlocks {
            from,
            read_to,
            hints,
            blocks,
            failed,
            reached,
            is_later_range,
        }))
    }

    /// Lists the events of the next range, and keeps those that may concern a request.
    async fn list(&self) -> FlowResult<UnreadEvents> {
        let end = self.to.min(self.next + RANGE_BLOCKS - 1);
        let told = self.chain.list_events(self.next, end, self.proves_absence).await?;
        let topics: HashSet<B256> = told.hints.iter().filter_map(|(hint, _)| hint.reference_topic).collect();
        let known = store::requests::known_topics(self.ctx.db.reader(), self.chain.network(), &topics).await?;
        // An event without a readable reference may concern any request.
        let concerns = |hint: &Hint| hint.reference_topic.is_none_or(|topic| known.contains(&topic));
        let mut hints: Vec<_> = told.hints.into_iter().filter(|(hint, _)| concerns(hint)).collect();
        hints.sort_by_key(|(hint, _)| (hint.block_number, hint.log_index));
        hints.shrink_to_fit();
        let mut heights: Vec<u64> = hints.iter().map(|(hint, _)| hint.block_number).collect();
        let named: BTreeSet<u64> = heights.iter().copied().collect();
        let mut unnamed = self.known_heights(told.read_to).await?;
        unnamed.extend(told.unlisted);
        heights.extend(unnamed.difference(&named));
        heights.sort_unstable();
        Ok(UnreadEvents {
            hints,
            heights,
            read_to: told.read_to,
            reached: told.reached,
        })
    }

    async fn known_heights(&self, read_to: u64) -> FlowResult<BTreeSet<u64>> {
        let (reader, network) = (self.ctx.db.reader(), self.chain.network());
        if self.known == RequiredBlocks::Nothing {
            return Ok(BTreeSet::new());
        }
        let range = BlockRange {
            from: self.next,
            to: read_to,
        };
        let mut heights = store::quarantine::open_heights(reader, network, range).await?;
        match self.known {
            RequiredBlocks::Nothing | RequiredBlocks::SetAside => {}
            RequiredBlocks::Noted => heights.extend(store::observations::heights(reader, network, range).await?),
            RequiredBlocks::Every => heights.extend(self.next..=read_to),
        }
        Ok(heights)
    }
}

/// The proven blocks, and the blocks that could not be proven although nodes responded, with the reasons.
type Blocks = (BTreeMap<u64, SettledBlock>, Vec<(u64, String)>);

/// Proves blocks.
pub(super) async fn settled_blocks(chain: &dyn Chain, numbers: BTreeSet<u64>) -> FlowResult<Blocks> {
    let numbers: Vec<u64> = numbers.into_iter().collect();
    let (mut blocks, mut failed, mut withheld) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (number, answer) in chain.settled_all(&numbers).await {
        match answer {
            Ok(block) => drop(blocks.insert(number, block)),
            Err(ChainError::Malformed { reason, .. }) => failed.push((number, reason)),
            Err(ChainError::Withheld { network, reason }) => withheld.push((number, network, reason)),
            Err(error) => return Err(error.into()),
        }
    }
    // If no block could be proven, the nodes may be unavailable, so this is an error of the step. If at least one was
    // proven, the others are returned as not provable.
    if blocks.is_empty()
        && let Some((_, network, reason)) = withheld.pop()
    {
        return Err(ChainError::Withheld { network, reason }.into());
    }
    failed.extend(withheld.into_iter().map(|(number, _, reason)| (number, reason)));
    Ok((blocks, failed))
}
