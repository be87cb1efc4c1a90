//! The clock of the service. With PostgreSQL it is the clock of the database server, which all instances share. With
//! SQLite it is the clock of this machine.

use crate::{ports::clock::Clock, store::Db};
use chrono::{DateTime, TimeDelta, Utc};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Interval between two reads of the time.
const ASKED_EVERY: Duration = Duration::from_secs(5);

/// Difference between the clocks of machine and server above which the service logs a warning.
const NOTABLE: TimeDelta = TimeDelta::seconds(1);

/// Returns the time of the database. Source: ADR-0016.
pub struct DatabaseClock {
    db: Db,
    machine: Arc<dyn Clock>,
}

impl DatabaseClock {
    /// The clock of this database; `machine` is the clock of this machine.
    pub fn new(db: &Db, machine: Arc<dyn Clock>) -> Self {
        Self {
            db: db.clone(),
            machine,
        }
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> DateTime<Utc> {
        self.db.time().unwrap_or_else(|| self.machine.now())
    }

    fn earliest(&self) -> DateTime<Utc> {
        Ord::min(self.now(), self.machine.now())
    }

    fn steady(&self) -> Duration {
        self.machine.steady()
    }
}

/// A clock that `prs dev` can move forward.
pub struct MovableClock {
    clock: Arc<dyn Clock>,
    ahead_ms: AtomicU64,
}

impl MovableClock {
    /// Starts with the time of another clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            ahead_ms: AtomicU64::new(0),
        }
    }

    /// Moves it forward.
    pub fn forward(&self, by: Duration) {
        let by_ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.ahead_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    fn ahead(&self) -> Duration {
        Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }

    fn later(&self, time: DateTime<Utc>) -> DateTime<Utc> {
        let ahead = TimeDelta::from_std(self.ahead()).unwrap_or_default();
        time.checked_add_signed(ahead).unwrap_or(time)
    }
}

impl Clock for MovableClock {
    fn now(&self) -> DateTime<Utc> {
        self.later(self.clock.now())
    }

    fn earliest(&self) -> DateTime<Utc> {
        self.later(self.clock.earliest())
    }

    fn steady(&self) -> Duration {
        self.clock.steady().saturating_add(self.ahead())
    }
}

/// Reads the time repeatedly until `stop`, and logs a warning when the machine's clock differs.
pub(super) async fn keep(db: Db, machine: impl Clock, stop: CancellationToken) {
    let mut is_told = false;
    loop {
        if let Err(error) = db.ask_time().await {
            tracing::debug!(%error, "the time of the database could not be read");
        } else if let Some(time) = db.time() {
            let ahead = machine.now() - time;
            #[expect(
                clippy::cast_precision_loss,
                reason = "a gauge is an f64, which is exact for whole numbers below 2^52; these milliseconds are fewer"
            )]
            let ahead_s = ahead.num_milliseconds() as f64 / 1_000.0;
            metrics::gauge!("prs_clock_offset_seconds").set(ahead_s);
            let is_notable = ahead.abs() >= NOTABLE;
            if is_notable && !is_told {
                tracing::warn!(
                    ahead_s,
                    "the clock of this machine differs from the database clock; the service uses the database clock"
                );
            }
            is_told = is_notable;
        }
        if stop
            .run_until_cancelled(tokio::time::sleep(ASKED_EVERY))
            .await
            .is_none()
        {
            return;
        }
    }
}
