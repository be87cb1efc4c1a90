//! Memory of guesses at passwords.

use crate::domain::guesses::{GuessLimit, Guesses};
use async_trait::async_trait;
use chrono::{DateTime, Utc};

/// Counts guesses, each one before it is made, so that many at once are not all the first.
#[async_trait]
pub trait GuessCounter: Send + Sync + 'static {
    /// Counts a guess. Errors: seconds to wait before the next one.
    async fn admit(&self, key: String, limit: GuessLimit, now: DateTime<Utc>) -> Result<Guesses, u32>;
    /// Forgets the guesses at an account whose owner has signed in.
    async fn forget(&self, key: &str);
}
