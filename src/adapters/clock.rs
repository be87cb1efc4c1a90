//! The clock of the machine.

use crate::ports::clock::Clock;
use chrono::{DateTime, Utc};
use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

/// Reads the clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the clock of the machine"
    )]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn steady(&self) -> Duration {
        static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGUN.elapsed()
    }
}
