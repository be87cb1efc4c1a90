//! Time and identifiers that repeat.

use chrono::{DateTime, TimeDelta, Utc};
use prs::ports::{clock::Clock, ids::Ids};
use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::Duration,
};

/// A clock that moves only when a test moves it.
pub struct FixedClock(AtomicI64);

impl FixedClock {
    /// Noon of a day in the past.
    pub fn new() -> Self {
        Self(AtomicI64::new(1_769_860_800_000))
    }

    /// Moves the clock.
    pub fn advance(&self, by: TimeDelta) {
        self.0.fetch_add(by.num_milliseconds(), Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0.load(Ordering::SeqCst)).expect("in range")
    }

    fn steady(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.load(Ordering::SeqCst)).expect("after 1970"))
    }
}

/// Identifiers counted up from a seed: the same test draws the same ones every time.
pub struct SeededIds(AtomicU64);

impl SeededIds {
    /// Starts at a seed, so that two applications on one database do not meet.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed << 32))
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

impl Ids for SeededIds {
    fn ulid(&self) -> String {
        const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let number = self.next();
        let mut tail: Vec<char> = (0..16)
            .map(|position| {
                char::from(ALPHABET[usize::try_from((u128::from(number) >> (5 * position)) & 31).expect("5 bits")])
            })
            .collect();
        tail.reverse();
        format!("01KG9ZT000{}", tail.into_iter().collect::<String>())
    }

    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(32) {
            let digest = alloy::primitives::keccak256(self.next().to_be_bytes());
            chunk.copy_from_slice(&digest[..chunk.len()]);
        }
    }
}
