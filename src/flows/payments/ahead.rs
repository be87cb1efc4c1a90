//! Reads final blocks ahead of their commit: while one part is decided and written, the next one is listed and proven.
//!
//! What is held at a time is bounded: the events of one range as the nodes list them, of which only those of known
//! requests stay, and the proven blocks of two parts. Nothing read ahead outlives the step that read it.

use crate::{
    ctx::Ctx,
    domain::payment::{BlockRef, Hint, SettledBlock},
    flows::FlowResult,
    ports::chain::{Chain, ChainError},
    store,
};
use alloy::primitives::B256;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Final blocks whose events are asked for together while catching up.
const RANGE_BLOCKS: u64 = 2_000;

/// Payments that are confirmed with one commit, give or take those of its last block.
const PAYMENTS_PER_COMMIT: usize = 256;

/// Blocks that are settled with one commit: what the nodes told of them that may concern a request, and what was proven.
pub(super) struct Part {
    /// First block.
    pub(super) from: u64,
    /// Last block.
    pub(super) read_to: u64,
    /// Events with the reference of a known request or without a readable one, in the order of the chain.
    pub(super) hints: Vec<(Hint, Vec<usize>)>,
    /// The blocks of those events, those that no node lists and those that are known already, as far as they were proven.
    pub(super) blocks: BTreeMap<u64, SettledBlock>,
    /// Why the others could not be proven although nodes answered.
    pub(super) failed: Vec<(u64, String)>,
    /// The last block, when as many nodes as have to agree showed it on the way.
    pub(super) reached: Option<BlockRef>,
    /// Whether the nodes listed its events after those of parts before it.
    pub(super) is_later_range: bool,
}

/// Blocks that are read whether a list names them or not. Nothing is decided on the absence of what is known already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// None.
    Nothing,
    /// Those of what was set aside and nobody has decided.
    SetAside,
    /// Those, and those of notes.
    Noted,
    /// All: the range was queued for them.
    Every,
}

/// Events of a range that have not been given out yet.
struct Listed {
    hints: Vec<(Hint, Vec<usize>)>,
    /// Blocks to prove, as often as an event names them, in order.
    heights: Vec<u64>,
    read_to: u64,
    reached: Option<BlockRef>,
}

/// Reads a stretch of final blocks part by part.
pub(super) struct Ahead<'a> {
    ctx: &'a Ctx,
    chain: &'a dyn Chain,
    first: u64,
    next: u64,
    to: u64,
    proves_absence: bool,
    known: Known,
    listed: Option<Listed>,
}

impl<'a> Ahead<'a> {
    /// Nothing is asked before the first part.
    pub(super) fn new(
        ctx: &'a Ctx,
        chain: &'a dyn Chain,
        (from, to): (u64, u64),
        proves_absence: bool,
        known: Known,
    ) -> Self {
        Self {
            ctx,
            chain,
            first: from,
            next: from,
            to,
            proves_absence,
            known,
            listed: None,
        }
    }

    /// Whether the next part is of a range whose events are listed already.
    pub(super) fn is_within_range(&self) -> bool {
        self.listed.is_some()
    }

    /// The next part; `None` behind the last one.
    pub(super) async fn next(&mut self) -> FlowResult<Option<Part>> {
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
        Ok(Some(Part {
            from,
            read_to,
            hints,
            blocks,
            failed,
            reached,
            is_later_range,
        }))
    }

    /// Lists the events of the next range, and keeps what may concern a request.
    async fn list(&self) -> FlowResult<Listed> {
        let end = self.to.min(self.next + RANGE_BLOCKS - 1);
        let told = self.chain.told(self.next, end, self.proves_absence).await?;
        let topics: HashSet<B256> = told.hints.iter().filter_map(|(hint, _)| hint.reference_topic).collect();
        let known = store::requests::known_topics(self.ctx.db.reader(), self.chain.network(), &topics).await?;
        // An event without a readable reference may be anybody's.
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
        Ok(Listed {
            hints,
            heights,
            read_to: told.read_to,
            reached: told.reached,
        })
    }

    async fn known_heights(&self, read_to: u64) -> FlowResult<BTreeSet<u64>> {
        let (reader, network, range) = (self.ctx.db.reader(), self.chain.network(), (self.next, read_to));
        if self.known == Known::Nothing {
            return Ok(BTreeSet::new());
        }
        let mut heights = store::quarantine::open_heights(reader, network, range).await?;
        match self.known {
            Known::Nothing | Known::SetAside => {}
            Known::Noted => heights.extend(store::observations::heights(reader, network, range).await?),
            Known::Every => heights.extend(self.next..=read_to),
        }
        Ok(heights)
    }
}

/// The proven blocks, and why the others could not be proven although nodes answered.
type Blocks = (BTreeMap<u64, SettledBlock>, Vec<(u64, String)>);

/// Has blocks proven.
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
    // Where nodes deliver other blocks, they are not simply gone.
    if blocks.is_empty()
        && let Some((_, network, reason)) = withheld.pop()
    {
        return Err(ChainError::Withheld { network, reason }.into());
    }
    failed.extend(withheld.into_iter().map(|(number, _, reason)| (number, reason)));
    Ok((blocks, failed))
}
