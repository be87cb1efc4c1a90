//! Whether a node is in sync with the others, by its head and its final block.

use super::{
    locked::{locked, store},
    proven::ProvenHeader,
};
use crate::domain::network::Network;
use std::{cmp::Reverse, sync::Mutex, time::Duration};
use tokio::time::Instant;

/// Two limits: the maximum time difference between nodes, above which the slower node counts as behind; and the time
/// without a new head after which a node that is behind counts as stopped.
pub(super) const BEHIND: Duration = Duration::from_secs(30);

/// How long the final block of a node may stay unchanged while only one other node reports newer final blocks. This
/// limit is long, because the other node may report blocks as final too early.
const FINALITY_BEHIND: Duration = Duration::from_secs(15 * 60);

/// Minimum allowed difference between nodes, in blocks.
const BEHIND_BLOCKS_MIN: u64 = 5;

/// The newest blocks of the nodes that responded.
pub(super) struct NodeFront<'a> {
    /// The newest block of all nodes. One node may have invented it.
    pub(super) newest: &'a ProvenHeader,
    /// The newest block that enough nodes have reached. Enough is the smaller of two numbers: the nodes that must
    /// agree, and a bare majority of the nodes that responded. It is at least two if three or more nodes responded.
    pub(super) agreed: &'a ProvenHeader,
    /// Whether there are more than two nodes.
    has_others: bool,
}

impl<'a> NodeFront<'a> {
    /// Computes both blocks from one block of each node; `None` without blocks.
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

/// Head of a node compared with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadState {
    /// In sync with enough others.
    InStep,
    /// Far ahead of enough others, with too few nodes at the same height.
    Ahead,
    /// In sync with enough others, but the head does not advance, and another node is far ahead and does advance.
    Left,
    /// Far behind enough others.
    Behind,
    /// Far behind, and the head does not advance.
    Still,
}

/// A head, and when it was first seen.
#[derive(Debug, Clone, Copy)]
struct FirstSeenHead {
    head: u64,
    at: Instant,
    /// Block times, in seconds, of the newest and of the agreed block among the heads of all nodes ([`NodeFront`]).
    newest_s: u64,
    agreed_s: u64,
}

/// The final block of a node, and since which chain time, in seconds, other nodes have reported a newer one.
#[derive(Debug, Clone, Copy)]
struct Lag {
    number: u64,
    /// Since when enough nodes have reported a newer final block; `None` if too few do.
    agreed_s: Option<u64>,
    /// Since when at least one node has reported a newer final block; `None` if no node does.
    newest_s: Option<u64>,
}

/// State of one node in comparison with the others.
pub(super) struct Movement {
    network: Network,
    index: usize,
    standing: Mutex<HeadState>,
    since: Mutex<Option<FirstSeenHead>>,
    /// Two findings about the final block of this node. First: it does not advance while the final block of enough
    /// nodes does. Second: it has not advanced for a long time while the final block of at least one other node does.
    finality: Mutex<(bool, bool)>,
    lag: Mutex<Option<Lag>>,
}

impl Movement {
    /// State of the node with this index in the settings.
    pub(super) fn new(network: Network, index: usize) -> Self {
        Self {
            network,
            index,
            standing: Mutex::new(HeadState::InStep),
            since: Mutex::default(),
            finality: Mutex::default(),
            lag: Mutex::default(),
        }
    }

    /// Sort key for choosing nodes; ties keep configuration order. A node that is ahead alone may have invented its
    /// head, so it comes after advancing nodes, and before a node that has not advanced for a while by the clock of
    /// this machine.
    pub(super) fn turn(&self) -> u8 {
        let has_stood = || locked(&self.since).is_some_and(|since| since.at.elapsed() > BEHIND);
        match locked(&self.standing) {
            HeadState::Behind | HeadState::Still => 2,
            HeadState::Left if has_stood() => 2,
            HeadState::Ahead => 1,
            HeadState::InStep | HeadState::Left => u8::from(locked(&self.finality).0),
        }
    }

    /// Whether the head of the node has not advanced while the chain did, so that the responses of the node are
    /// outdated.
    pub(super) fn stands_still(&self) -> bool {
        matches!(locked(&self.standing), HeadState::Still | HeadState::Left)
    }

    /// Compares the head and the final block of the node with those of all nodes.
    pub(super) fn compare(&self, head: u64, heads: &NodeFront<'_>, tags: Option<(u64, &NodeFront<'_>)>) {
        let standing = self.standing(head, heads);
        let finality = tags.map_or((false, false), |(tag, tags)| {
            self.finality(tag, tags, heads.agreed.time_s)
        });
        let (was, was_final) = (locked(&self.standing), locked(&self.finality));
        store(&self.standing, standing);
        store(&self.finality, finality);
        let (network, node) = (self.network, self.index + 1);
        let is_final_late = finality.0 || finality.1;
        let is_out_of_step = standing != HeadState::InStep || is_final_late;
        metrics::gauge!("prs_chain_node_behind", "network" => network.id(), "node" => node.to_string())
            .set(f64::from(u8::from(is_out_of_step)));
        let (newest, agreed) = (heads.newest.number, heads.agreed.number);
        if was != standing {
            let what = match standing {
                HeadState::InStep => "is in sync again",
                HeadState::Ahead => {
                    "is far ahead of the other nodes, so it is queried after them until enough nodes are at the same \
                     height"
                }
                HeadState::Left => "does not advance, while another node is far ahead and advances",
                HeadState::Behind => "is behind, so it is queried last until it has caught up",
                HeadState::Still => "does not advance, so it is not used until it advances again",
            };
            tracing::warn!(%network, node, head, newest, agreed, "a node {what}");
        }
        if is_final_late != (was_final.0 || was_final.1) {
            let what = if is_final_late {
                "does not advance"
            } else {
                "advances again"
            };
            let finalized = tags.map(|(tag, _)| tag);
            tracing::warn!(%network, node, head, finalized, "the final block of a node {what}");
        }
    }

    fn standing(&self, head: u64, heads: &NodeFront<'_>) -> HeadState {
        let since = match locked(&self.since) {
            Some(since) if since.head == head => since,
            _ => FirstSeenHead {
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
        // With more than two nodes, a head far ahead of all others may be invented, so this node must also stand still
        // by the clock of this machine. With two nodes, neither head is more credible than the other.
        let may_be_left = !heads.has_others || since.at.elapsed() > BEHIND;
        if stands_still(heads.agreed, since.agreed_s) {
            HeadState::Still
        } else if is_far(self.network, head, heads.agreed.number) {
            HeadState::Behind
        } else if is_far(self.network, heads.agreed.number, head) {
            HeadState::Ahead
        } else if may_be_left && stands_still(heads.newest, since.newest_s) {
            HeadState::Left
        } else {
            HeadState::InStep
        }
    }

    /// Two findings about the final block of the node. First: for more than [`BEHIND`], enough nodes have reported a
    /// newer one. Second: for more than [`FINALITY_BEHIND`], at least one other node has reported a newer one.
    fn finality(&self, number: u64, tags: &NodeFront<'_>, now_s: u64) -> (bool, bool) {
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

/// Whether the first height is below the second one by more than the allowed difference.
pub(in crate::adapters) fn is_far(network: Network, below: u64, above: u64) -> bool {
    let blocks = BEHIND.as_millis() / u128::from(network.block_time_ms());
    let apart_max = u64::try_from(blocks).unwrap_or(u64::MAX).max(BEHIND_BLOCKS_MIN);
    above.saturating_sub(below) > apart_max
}
