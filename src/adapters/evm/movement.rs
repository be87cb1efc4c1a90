//! Whether the head of a node moves with the chain, by comparison with the other nodes.

use super::{
    evidence::ProvenHeader,
    locked::{locked, store},
};
use crate::domain::network::Network;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How far nodes may be apart, in time, before the slower one counts as behind; and how long the head of one that is
/// behind may not move before it stands still.
pub(super) const BEHIND: Duration = Duration::from_secs(30);

/// Least number of blocks that nodes may be apart.
const BEHIND_BLOCKS_MIN: u64 = 5;

/// What is known of the head of one node.
pub(super) struct Movement {
    network: Network,
    index: usize,
    is_behind: AtomicBool,
    stands_still: AtomicBool,
    /// Its head, and the time of the newest block of all nodes when it was there first, in seconds.
    since: Mutex<Option<(u64, u64)>>,
}

impl Movement {
    /// Of the node with this position in the settings.
    pub(super) fn new(network: Network, index: usize) -> Self {
        Self {
            network,
            index,
            is_behind: AtomicBool::new(false),
            stands_still: AtomicBool::new(false),
            since: Mutex::default(),
        }
    }

    /// Whether other nodes were far ahead when they were last compared: the node is asked last.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    /// Whether its head has not moved while the chain went on: its answers are those of another time.
    pub(super) fn stands_still(&self) -> bool {
        self.stands_still.load(Ordering::Relaxed)
    }

    /// Compares its head with the newest one of all nodes.
    pub(super) fn compare(&self, head: u64, newest: &ProvenHeader) {
        let since_s = match locked(&self.since) {
            Some((before, since_s)) if before == head => since_s,
            _ => newest.time_s,
        };
        store(&self.since, Some((head, since_s)));
        let is_behind = newest.number.saturating_sub(head) > blocks_apart_max(self.network);
        let stands_still = is_behind && newest.time_s.saturating_sub(since_s) > BEHIND.as_secs();
        let was_behind = self.is_behind.swap(is_behind, Ordering::Relaxed);
        let stood_still = self.stands_still.swap(stands_still, Ordering::Relaxed);
        let (network, node) = (self.network, self.index + 1);
        metrics::gauge!("prs_chain_node_behind", "network" => network.id(), "node" => node.to_string())
            .set(f64::from(u8::from(is_behind)));
        let what = match (was_behind, is_behind) {
            _ if stands_still && !stood_still => "stands still: it is left out until it moves",
            (false, true) => "is behind: it is asked last until it has caught up",
            (true, false) => "has caught up",
            _ => return,
        };
        tracing::warn!(%network, node, head, newest = newest.number, "a node {what}");
    }
}

fn blocks_apart_max(network: Network) -> u64 {
    let blocks = BEHIND.as_millis() / u128::from(network.block_time_ms());
    u64::try_from(blocks).unwrap_or(u64::MAX).max(BEHIND_BLOCKS_MIN)
}
