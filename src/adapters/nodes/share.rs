//! Adaptive number of blocks per query, based on their content and the node's responses.

use tokio::time::Instant;

/// Maximum number of blocks per query.
const BLOCKS_MAX: usize = 16;

/// Target number of transactions per query, estimated from recent blocks.
const TRANSACTIONS_MAX: usize = 200;

/// Number of blocks per query.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BlocksPerQuery {
    /// Average number of transactions of recent blocks; `None` before the first one.
    pub(super) transactions_per_block: Option<usize>,
    /// Time until which blocks are requested one by one.
    pub(super) apart_until: Option<Instant>,
}

impl BlocksPerQuery {
    /// Maximum number of blocks of the next query.
    pub(super) fn blocks(self) -> usize {
        let is_apart = self.apart_until.is_some_and(|until| Instant::now() < until);
        match self.transactions_per_block {
            Some(transactions) if !is_apart => (TRANSACTIONS_MAX / transactions.max(1)).clamp(1, BLOCKS_MAX),
            _ => 1,
        }
    }
}
