//! The lock of a link by a Safe.

use crate::domain::address::Address;
use alloy::primitives::B256;
use chrono::{DateTime, TimeDelta, Utc};

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

/// How long a lock warns after its end.
const WARNS: TimeDelta = TimeDelta::hours(24);

impl SafeLock {
    /// Until when a lock that has ended warns other payers: the Safe may still execute its transaction. `None` during the
    /// lock and after the warning.
    pub fn warn_until(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let until = self.until + WARNS;
        (self.until < now && now < until).then_some(until)
    }
}
