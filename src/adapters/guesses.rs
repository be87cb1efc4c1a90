//! Password guess counters in memory: bounded, lost at a restart, and separate for each instance.

use crate::{
    domain::guesses::{GuessLimit, Guesses},
    ports::guesses::GuessCounter,
};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use moka::{future::Cache, ops::compute::Op};

/// Maximum number of accounts; those with the fewest guesses are dropped first.
const REMEMBERED_MAX: u64 = 100_000;

/// The counters.
pub struct MemoryGuesses(Cache<String, Guesses>);

impl MemoryGuesses {
    /// Starts with empty counters.
    pub fn new() -> Self {
        Self(
            Cache::builder()
                .max_capacity(REMEMBERED_MAX)
                .time_to_idle(GuessLimit::FORGOTTEN.to_std().unwrap_or_default())
                .build(),
        )
    }
}

impl Default for MemoryGuesses {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl GuessCounter for MemoryGuesses {
    async fn admit(&self, key: String, limit: GuessLimit, now: DateTime<Utc>) -> Result<Guesses, u32> {
        let mut verdict = Err(limit.wait_max_s);
        self.0
            .entry(key)
            .and_compute_with(|known| {
                verdict = limit.admit(known.map(moka::Entry::into_value), now);
                let operation = verdict.map_or(Op::Nop, Op::Put);
                std::future::ready(operation)
            })
            .await;
        verdict
    }

    async fn forget(&self, key: &str) {
        self.0.invalidate(key).await;
    }
}
