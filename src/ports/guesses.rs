//! Counters of password guesses.

use crate::domain::guesses::{GuessLimit, Guesses};
use async_trait::async_trait;
use chrono::{DateTime, Utc};

/// Counts each guess before it is checked, so that concurrent guesses do not all count as the first.
#[async_trait]
pub trait GuessCounter: Send + Sync + 'static {
    /// Counts a guess. Errors: seconds to wait before the next one.
    async fn admit(&self, key: String, limit: GuessLimit, now: DateTime<Utc>) -> Result<Guesses, u32>;
    /// Deletes the count of guesses under this key, because the owner of the account has signed in.
    async fn forget(&self, key: &str);
}
