//! Time.

use chrono::{DateTime, Utc};
use std::time::Duration;

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> DateTime<Utc>;

    /// The earliest time that it may be: what is forgotten for good is judged by it, so that a clock that is wrong for a
    /// minute forgets nothing.
    fn earliest(&self) -> DateTime<Utc> {
        self.now()
    }

    /// Time since some fixed moment; unlike [`Self::now`] it never jumps.
    fn steady(&self) -> Duration;
}
