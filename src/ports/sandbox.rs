//! What a developer does to the world of a local service.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

/// Moves time.
#[async_trait]
pub trait TimeMachine: Send + Sync + 'static {
    /// Moves the clock of the service and that of its local chain forward together; returns what the service's shows then.
    ///
    /// Errors: the chain does not follow, and the clock of the service stays where it was.
    async fn forward(&self, by: TimeDelta) -> anyhow::Result<DateTime<Utc>>;
}
