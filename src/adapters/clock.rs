//! The clock of the machine.

use crate::ports::clock::Clock;
use chrono::{DateTime, Utc};

/// Reads the system clock.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the system clock is read")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}
