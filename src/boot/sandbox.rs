//! What `prs dev` lets a developer do to its world.

use super::clock::MovableClock;
use crate::ports::{clock::Clock, sandbox::TimeMachine};
use anyhow::Context;
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use devnet::Devnet;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The clock of the service and the local chain, moved together.
pub(super) struct LocalTime {
    clock: Arc<MovableClock>,
    chain: Mutex<Arc<Devnet>>,
}

impl LocalTime {
    pub(super) fn new(clock: Arc<MovableClock>, chain: Arc<Devnet>) -> Self {
        Self {
            clock,
            chain: Mutex::new(chain),
        }
    }
}

#[async_trait]
impl TimeMachine for LocalTime {
    async fn forward(&self, by: TimeDelta) -> anyhow::Result<DateTime<Utc>> {
        let by = by.to_std().context("time only moves forward")?;
        // One move at a time: the two must not come apart.
        let chain = self.chain.lock().await;
        chain
            .increase_time(by.as_secs())
            .await
            .context("the local chain does not follow")?;
        self.clock.forward(by);
        Ok(self.clock.now())
    }
}
