//! Time.

use chrono::{DateTime, Utc};
use std::time::Duration;

/// A clock.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> DateTime<Utc>;

    /// The earliest time that it can be now. Permanent deletion uses it, so that a temporarily wrong clock deletes
    /// nothing.
    fn earliest(&self) -> DateTime<Utc> {
        self.now()
    }

    /// Monotonic time since a fixed moment; unlike [`Self::now`] it never jumps.
    fn steady(&self) -> Duration;
}
