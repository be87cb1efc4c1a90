//! How many blocks one question to a node may be about, learned from what they held and how it answered.

use tokio::time::Instant;

/// Most blocks of one question.
const BLOCKS_MAX: usize = 16;

/// Transactions that the blocks of one question hold together, by the blocks that were seen last.
const TRANSACTIONS_MAX: usize = 200;

/// How many blocks one question may be about.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Together {
    /// Of the blocks that were seen last, on average; `None` before the first one.
    pub(super) transactions_per_block: Option<usize>,
    /// Until when blocks are asked for one by one.
    pub(super) apart_until: Option<Instant>,
}

impl Together {
    /// Most blocks of the next question.
    pub(super) fn blocks(self) -> usize {
        let is_apart = self.apart_until.is_some_and(|until| Instant::now() < until);
        match self.transactions_per_block {
            Some(transactions) if !is_apart => (TRANSACTIONS_MAX / transactions.max(1)).clamp(1, BLOCKS_MAX),
            _ => 1,
        }
    }
}
