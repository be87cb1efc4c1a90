//! Identifiers and randomness from the operating system.

use crate::ports::{
    clock::Clock,
    ids::{Ids, random},
};
use std::sync::Arc;
use ulid::Ulid;

/// Uses the operating system's generator; the clock gives the time part of ULIDs.
#[derive(Clone)]
pub struct SystemIds {
    clock: Arc<dyn Clock>,
}

impl SystemIds {
    /// A generator that uses this clock for the ULIDs.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }
}

impl Ids for SystemIds {
    fn ulid(&self) -> String {
        // A time before 1970 means that the clock was never set. The time part of an id is only for sorting, so zero is
        // acceptable.
        let now_ms = u64::try_from(self.clock.now().timestamp_millis()).unwrap_or(0);
        Ulid::from_parts(now_ms, u128::from_be_bytes(random(self))).to_string()
    }

    #[expect(
        clippy::expect_used,
        reason = "without randomness, keys and tokens would be guessable: stopping is the only safe option"
    )]
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system must return random bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::clock::SystemClock;
    use chrono::{DateTime, Utc};
    use std::collections::HashSet;

    struct FixedClock(DateTime<Utc>);

    impl Clock for FixedClock {
        fn now(&self) -> DateTime<Utc> {
            self.0
        }

        fn steady(&self) -> std::time::Duration {
            std::time::Duration::ZERO
        }
    }

    #[test]
    fn ulids_of_one_millisecond_share_only_the_time() {
        let now = SystemClock.now();
        let ids = SystemIds::new(Arc::new(FixedClock(now)));
        let drawn: Vec<Ulid> = (0..200).map(|_| ids.ulid().parse().unwrap()).collect();
        let expected_ms = u64::try_from(now.timestamp_millis()).unwrap();
        assert!(drawn.iter().all(|ulid| ulid.timestamp_ms() == expected_ms));
        // Neighbouring ids of a monotonic generator differ by one; fresh randomness also differs in the high bits.
        let high: HashSet<u128> = drawn.iter().map(|ulid| ulid.random() >> 40).collect();
        assert_eq!(high.len(), drawn.len());
    }
}
