//! Time.

use chrono::{DateTime, Utc};
use std::time::Duration;

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> DateTime<Utc>;

    /// Time since some fixed moment; unlike [`Self::now`] it never jumps.
    fn steady(&self) -> Duration;
}
