//! The lock of a link by a Safe.

use crate::domain::address::Address;
use alloy::primitives::B256;
use chrono::{DateTime, Utc};

/// A lock of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafeLock {
    /// Hash of the transaction of the Safe.
    pub safe_tx_hash: B256,
    /// The Safe; `None` if a secret credential locked the link without naming it.
    pub safe: Option<Address>,
    /// When the lock ends.
    pub until: DateTime<Utc>,
}
