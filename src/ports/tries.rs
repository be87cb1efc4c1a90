//! Memory of tries to sign in.

use crate::domain::session::{Pace, Tries};
use async_trait::async_trait;
use chrono::{DateTime, Utc};

/// Counts tries, each one before it is made, so that many at once are not all the first.
#[async_trait]
pub trait TryCounter: Send + Sync + 'static {
    /// Counts a try. Errors: seconds to wait before the next one.
    async fn admit(&self, key: String, pace: Pace, now: DateTime<Utc>) -> Result<Tries, u32>;
    /// Forgets the tries of somebody who has proven who they are.
    async fn forget(&self, key: &str);
}
