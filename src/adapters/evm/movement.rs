//! Whether a node keeps step with the others: its head, and the block that it calls final.

use super::{
    evidence::ProvenHeader,
    locked::{locked, store},
};
use crate::domain::network::Network;
use std::{cmp::Reverse, sync::Mutex, time::Duration};
use tokio::time::Instant;

/// How far nodes may be apart, in time, before the slower one counts as behind; and how long the head of one that is
/// behind may not move before it stands still.
pub(super) const BEHIND: Duration = Duration::from_secs(30);

/// How long the final block of a node may not move while that of one other node does, of which it is not known whether it
/// calls blocks final too early.
const FINALITY_BEHIND: Duration = Duration::from_secs(15 * 60);

/// Least number of blocks that nodes may be apart.
const BEHIND_BLOCKS_MIN: u64 = 5;

/// The newest blocks of the nodes that answered.
pub(super) struct Front<'a> {
    /// The newest of all, which one node may have made up.
    pub(super) newest: &'a ProvenHeader,
    /// The newest that enough nodes have reached: as many as have to agree, at most the majority, and two where there
    /// are three.
    pub(super) agreed: &'a ProvenHeader,
    /// Whether there are others beside the two.
    has_others: bool,
}

impl<'a> Front<'a> {
    /// Of these blocks, one of each node; `None` without any.
    pub(super) fn of(blocks: impl Iterator<Item = &'a ProvenHeader>, agreement: usize) -> Option<Self> {
        let mut blocks: Vec<_> = blocks.collect();
        blocks.sort_by_key(|block| Reverse(block.number));
        let count = blocks.len();
        let enough = agreement.min(count / 2 + 1).max(if count >= 3 { 2 } else { 1 });
        let agreed = blocks.get(enough.min(count).checked_sub(1)?)?;
        Some(Self {
            newest: blocks.first()?,
            agreed,
            has_others: count > 2,
        })
    }
}

/// How the head of a node stands to those of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Where enough others are.
    InStep,
    /// Far ahead of enough others, with too few beside it.
    Ahead,
    /// Where enough others are, and it does not move while one that is far ahead does.
    Left,
    /// Far behind enough others.
    Behind,
    /// Far behind, and it does not move.
    Still,
}

/// A head, and when it was there first.
#[derive(Debug, Clone, Copy)]
struct Since {
    head: u64,
    at: Instant,
    /// Times of both blocks of the [`Front`] of heads, in seconds.
    newest_s: u64,
    agreed_s: u64,
}

/// A final block, and the times of the chain, in seconds, since which others call a newer one final.
#[derive(Debug, Clone, Copy)]
struct Lag {
    number: u64,
    /// Enough others.
    agreed_s: Option<u64>,
    /// One other.
    newest_s: Option<u64>,
}

/// What is known of one node in comparison with the others.
pub(super) struct Movement {
    network: Network,
    index: usize,
    standing: Mutex<Standing>,
    since: Mutex<Option<Since>>,
    /// Whether its final block stands still while that of enough others moves, or that of any other for long.
    finality: Mutex<(bool, bool)>,
    lag: Mutex<Option<Lag>>,
}

impl Movement {
    /// Of the node with this position in the settings.
    pub(super) fn new(network: Network, index: usize) -> Self {
        Self {
            network,
            index,
            standing: Mutex::new(Standing::InStep),
            since: Mutex::default(),
            finality: Mutex::default(),
            lag: Mutex::default(),
        }
    }

    /// How late the node is asked: of equal ones the settings decide. One that is ahead alone may have made that up, so
    /// it comes after those that move, and before one that has not moved for a while by the clock of this machine.
    pub(super) fn turn(&self) -> u8 {
        let has_stood = || locked(&self.since).is_some_and(|since| since.at.elapsed() > BEHIND);
        match locked(&self.standing) {
            Standing::Behind | Standing::Still => 2,
            Standing::Left if has_stood() => 2,
            Standing::Ahead => 1,
            Standing::InStep | Standing::Left => u8::from(locked(&self.finality).0),
        }
    }

    /// Whether its head has not moved while the chain went on: its answers are those of another time.
    pub(super) fn stands_still(&self) -> bool {
        matches!(locked(&self.standing), Standing::Still | Standing::Left)
    }

    /// Compares its head, and the block that it calls final, with those of all nodes.
    pub(super) fn compare(&self, head: u64, heads: &Front<'_>, tags: Option<(u64, &Front<'_>)>) {
        let standing = self.standing(head, heads);
        let finality = tags.map_or((false, false), |(tag, tags)| {
            self.finality(tag, tags, heads.agreed.time_s)
        });
        let (was, was_final) = (locked(&self.standing), locked(&self.finality));
        store(&self.standing, standing);
        store(&self.finality, finality);
        let (network, node) = (self.network, self.index + 1);
        let is_final_late = finality.0 || finality.1;
        let is_out_of_step = standing != Standing::InStep || is_final_late;
        metrics::gauge!("prs_chain_node_behind", "network" => network.id(), "node" => node.to_string())
            .set(f64::from(u8::from(is_out_of_step)));
        let (newest, agreed) = (heads.newest.number, heads.agreed.number);
        if was != standing {
            let what = match standing {
                Standing::InStep => "is in step again",
                Standing::Ahead => "is far ahead of the others: it is asked after them until they agree",
                Standing::Left => "stands still while one that is far ahead moves",
                Standing::Behind => "is behind: it is asked last until it has caught up",
                Standing::Still => "stands still: it is left out until it moves",
            };
            tracing::warn!(%network, node, head, newest, agreed, "a node {what}");
        }
        if is_final_late != (was_final.0 || was_final.1) {
            let what = if is_final_late { "stands still" } else { "moves again" };
            let finalized = tags.map(|(tag, _)| tag);
            tracing::warn!(%network, node, head, finalized, "what a node calls final {what}");
        }
    }

    fn standing(&self, head: u64, heads: &Front<'_>) -> Standing {
        let since = match locked(&self.since) {
            Some(since) if since.head == head => since,
            _ => Since {
                head,
                at: Instant::now(),
                newest_s: heads.newest.time_s,
                agreed_s: heads.agreed.time_s,
            },
        };
        store(&self.since, Some(since));
        let stands_still = |block: &ProvenHeader, since_s: u64| {
            is_far(self.network, head, block.number) && block.time_s.saturating_sub(since_s) > BEHIND.as_secs()
        };
        // Of two nodes nobody can say who is right; of more, the one that is ahead alone may jump as far as it likes.
        let may_be_left = !heads.has_others || since.at.elapsed() > BEHIND;
        if stands_still(heads.agreed, since.agreed_s) {
            Standing::Still
        } else if is_far(self.network, head, heads.agreed.number) {
            Standing::Behind
        } else if is_far(self.network, heads.agreed.number, head) {
            Standing::Ahead
        } else if may_be_left && stands_still(heads.newest, since.newest_s) {
            Standing::Left
        } else {
            Standing::InStep
        }
    }

    /// Whether the final block stands still while that of enough others moves, and while that of any other does.
    fn finality(&self, number: u64, tags: &Front<'_>, now_s: u64) -> (bool, bool) {
        let before = locked(&self.lag).filter(|lag| lag.number == number);
        let since = |block: &ProvenHeader, before: Option<u64>| {
            let is_newer = block.number > number;
            is_newer.then(|| before.unwrap_or(now_s))
        };
        let lag = Lag {
            number,
            agreed_s: since(tags.agreed, before.and_then(|lag| lag.agreed_s)),
            newest_s: since(tags.newest, before.and_then(|lag| lag.newest_s)),
        };
        store(&self.lag, Some(lag));
        let is_longer = |since_s: Option<u64>, limit: Duration| {
            since_s.is_some_and(|since_s| now_s.saturating_sub(since_s) > limit.as_secs())
        };
        (
            is_longer(lag.agreed_s, BEHIND),
            is_longer(lag.newest_s, FINALITY_BEHIND),
        )
    }
}

/// Whether the first height is farther below the second one than nodes may be apart.
pub(super) fn is_far(network: Network, below: u64, above: u64) -> bool {
    let blocks = BEHIND.as_millis() / u128::from(network.block_time_ms());
    let apart_max = u64::try_from(blocks).unwrap_or(u64::MAX).max(BEHIND_BLOCKS_MIN);
    above.saturating_sub(below) > apart_max
}
