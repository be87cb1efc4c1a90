//! The clock of the database, which all instances share. Source: ADR-0016.

use super::StoreError;
use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The time of the database. SQLite uses the clock of the machine.
pub async fn now(conn: &impl ConnectionTrait) -> Result<DateTime<Utc>, StoreError> {
    let backend = conn.get_database_backend();
    let sql = match backend {
        // Unlike now(), it advances within a transaction.
        DbBackend::Postgres => "SELECT clock_timestamp() AS now",
        _ => "SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now') AS now",
    };
    let row = conn.query_one_raw(Statement::from_string(backend, sql)).await?;
    let row = row.ok_or_else(|| StoreError::Broken(anyhow::anyhow!("the time of the database could not be read")))?;
    Ok(row.try_get("", "now")?)
}

/// The clock of a server as known to this process: its last reading, and the time that has passed since.
#[derive(Debug, Default)]
pub(super) struct ServerClock(Mutex<Option<ClockReading>>);

/// A reading of the clock.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    time: DateTime<Utc>,
    at: Instant,
}

impl ClockReading {
    fn at(self, moment: Instant) -> DateTime<Utc> {
        self.time + delta(moment.saturating_duration_since(self.at))
    }
}

impl ServerClock {
    /// The time of the server at a moment; `None` before the first response.
    pub(super) fn at(&self, moment: Instant) -> Option<DateTime<Utc>> {
        let shown = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shown.map(|shown| shown.at(moment))
    }

    /// Corrects the known time with a reading `time`, which the server took between `asked` and `answered`. This gives
    /// an earliest and a latest possible time. The known time changes only if it is outside these bounds.
    pub(super) fn correct(&self, asked: Instant, time: DateTime<Utc>, answered: Instant) {
        let (earliest, latest) = (time, time + delta(answered.saturating_duration_since(asked)));
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let time = match *shown {
            Some(known) => known.at(answered).clamp(earliest, latest),
            None => earliest + (latest - earliest) / 2,
        };
        *shown = Some(ClockReading { time, at: answered });
    }
}

fn delta(span: Duration) -> TimeDelta {
    TimeDelta::from_std(span).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> DateTime<Utc> {
        DateTime::from_timestamp(1_769_860_800, 0).unwrap()
    }

    #[test]
    fn a_response_corrects_the_clock_only_as_far_as_it_proves_it_wrong() {
        let (clock, begin) = (ServerClock::default(), Instant::now());
        let at = |ms| begin + Duration::from_millis(ms);
        let shown = |ms| clock.at(at(ms)).map(|time| (time - noon()).num_milliseconds());
        assert_eq!(shown(0), None);
        clock.correct(at(0), noon(), at(20));
        assert_eq!((shown(20), shown(1_020)), (Some(10), Some(1_010)));
        // The known time is within the bounds of a slow response, so it stays unchanged.
        clock.correct(at(1_020), noon() + TimeDelta::milliseconds(1_500), at(2_020));
        assert_eq!(shown(2_020), Some(2_010));
        // If the known time is outside the bounds of a response, it moves to the nearer bound, forwards or backwards.
        clock.correct(at(3_020), noon() + TimeDelta::milliseconds(3_100), at(3_030));
        assert_eq!(shown(3_030), Some(3_100));
        clock.correct(at(4_030), noon() + TimeDelta::milliseconds(4_000), at(4_040));
        assert_eq!(shown(4_040), Some(4_010));
        clock.correct(at(5_040), noon() + TimeDelta::hours(2), at(5_040));
        assert_eq!(shown(5_040), Some(7_200_000));
    }
}
