//! The clock of the service: that of the database server, which all instances share, or that of the machine with SQLite.

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

/// Pause between two questions for the time.
const ASKED_EVERY: Duration = Duration::from_secs(5);

/// A difference between the clocks of machine and server that the operator is told of.
const NOTABLE: TimeDelta = TimeDelta::seconds(1);

/// Shows the time of the database. Source: ADR-0016.
pub struct DatabaseClock {
    db: Db,
    machine: Arc<dyn Clock>,
}

impl DatabaseClock {
    /// The clock of this database; `machine` shows the time of its machine.
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

/// A clock that can be moved forward, as if the time between had passed.
pub struct MovableClock {
    clock: Arc<dyn Clock>,
    ahead_ms: AtomicU64,
}

impl MovableClock {
    /// Shows what the other clock shows, until it is moved.
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

/// Asks for the time again and again until `stop`, and tells the operator when the machine shows another one.
pub(super) async fn keep(db: Db, machine: impl Clock, stop: CancellationToken) {
    let mut is_told = false;
    loop {
        if let Err(error) = db.ask_time().await {
            tracing::debug!(%error, "the database does not tell the time");
        } else if let Some(time) = db.time() {
            let ahead = machine.now() - time;
            #[expect(
                clippy::cast_precision_loss,
                reason = "gauges are floats; milliseconds stay far below 2^52"
            )]
            let ahead_s = ahead.num_milliseconds() as f64 / 1_000.0;
            metrics::gauge!("prs_clock_offset_seconds").set(ahead_s);
            let is_notable = ahead.abs() >= NOTABLE;
            if is_notable && !is_told {
                tracing::warn!(
                    ahead_s,
                    "the clock of this machine differs from that of the database, which counts"
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
