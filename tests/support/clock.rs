//! A fixed clock and deterministic identifiers.

use chrono::{DateTime, TimeDelta, Utc};
use prs::ports::{clock::Clock, ids::Ids};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
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

/// Ids that contain the time of the clock and a number counted up from a seed, so that a test gets the same ids in
/// every run.
pub struct SeededIds {
    drawn: AtomicU64,
    clock: Arc<FixedClock>,
}

impl SeededIds {
    /// Ids that start at this seed. Two applications on one database need different seeds; otherwise both create the
    /// same ids.
    pub fn new(seed: u64, clock: Arc<FixedClock>) -> Self {
        Self {
            drawn: AtomicU64::new(seed << 32),
            clock,
        }
    }

    fn next(&self) -> u64 {
        self.drawn.fetch_add(1, Ordering::SeqCst)
    }
}

impl Ids for SeededIds {
    fn ulid(&self) -> String {
        const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let drawn_ms = u128::try_from(self.clock.now().timestamp_millis()).expect("after 1970");
        let bits = drawn_ms << 80 | u128::from(self.next());
        let digit = |position: u32| usize::try_from((bits >> (5 * position)) & 31).expect("5 bits");
        (0..26)
            .rev()
            .map(|position| char::from(ALPHABET[digit(position)]))
            .collect()
    }

    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(32) {
            let digest = alloy::primitives::keccak256(self.next().to_be_bytes());
            chunk.copy_from_slice(&digest[..chunk.len()]);
        }
    }
}
