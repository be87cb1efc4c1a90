//! A clock that advances by days, and the monthly periods of schedules and of recurring requests.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use alloy::eips::BlockNumberOrTag;
use anyhow::{Context, Result};
use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveTime, Utc};
use devnet::Devnet;
use serde_json::json;
use tokio::runtime::Handle;

use crate::clock::ShownClock;
use crate::stage::Stage;

/// Seconds of a day.
pub(crate) const DAY_S: u64 = 86_400;

/// A clock that advances by days, for the service, its database server and the chain.
pub(crate) struct Calendar {
    clock: ShownClock,
    chain: Arc<Devnet>,
    runtime: Handle,
    ahead_s: u64,
    /// The start of the run.
    pub(crate) begun: DateTime<Utc>,
}

impl Calendar {
    /// A calendar whose clock is seen by the processes of the stage and has not been moved yet.
    pub(crate) fn new(clock: ShownClock, stage: &Stage) -> Self {
        Self {
            clock,
            chain: Arc::clone(&stage.chain),
            runtime: stage.runtime().clone(),
            ahead_s: 0,
            begun: shown_time(0),
        }
    }

    /// The time that all processes of the stage see.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        shown_time(self.ahead_s)
    }

    /// Number of days that have passed.
    pub(crate) fn days(&self) -> u64 {
        self.ahead_s / DAY_S
    }

    /// Advances the clocks by this number of seconds. The chain advances first, because it rejects a payment that is
    /// due by the clock of the service but not by its own.
    pub(crate) fn forward(&mut self, seconds: u64) -> Result<()> {
        let moved = self.chain.rpc("evm_increaseTime", json!([seconds]));
        self.runtime.block_on(moved)?;
        self.ahead_s += seconds;
        self.agree()?;
        self.clock.set(&format!("+{}", self.ahead_s))
    }

    /// Mines a block. If its time is before the time that the processes see, advances the time of the chain.
    pub(crate) fn agree(&self) -> Result<()> {
        self.runtime.block_on(async {
            self.chain.mine(1).await?;
            let newest = self.chain.block(BlockNumberOrTag::Latest).await?;
            let newest = newest.context("a chain without blocks")?.timestamp;
            let behind = u64::try_from(self.now().timestamp())?.saturating_sub(newest);
            match behind {
                0 => Ok(()),
                behind => self.chain.increase_time(behind).await,
            }
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the shown time is the time of this machine plus the passed days"
)]
fn shown_time(ahead_s: u64) -> DateTime<Utc> {
    DateTime::from(SystemTime::now() + Duration::from_secs(ahead_s))
}

/// The next 31st of a month, a day that most months do not have.
pub(crate) fn next_thirty_first(today: NaiveDate) -> Result<NaiveDate> {
    let mut days = std::iter::successors(Some(today), NaiveDate::succ_opt);
    days.find(|day| day.day() == 31).context("no such day")
}

/// Number of monthly periods that have begun since a recurring request was created, by the calendar. A request of 31
/// January has periods that begin on 28 February and on 31 March.
pub(crate) fn periods_begun(first: NaiveDate, made: DateTime<Utc>, now: DateTime<Utc>) -> usize {
    let begins = (1..).map_while(|period| first.checked_add_months(Months::new(period)));
    let begins = begins.map(|day| day.and_time(NaiveTime::MIN).and_utc());
    begins
        .skip_while(|begin| *begin <= made)
        .take_while(|begin| *begin <= now)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn noon(text: &str) -> DateTime<Utc> {
        format!("{text}T12:00:00Z").parse().unwrap()
    }

    #[test]
    fn months_are_counted_by_the_calendar_from_the_first_day() {
        let begun = |now| periods_begun(day("2026-01-31"), noon("2026-01-31"), noon(now));
        for (now, periods) in [
            ("2026-02-27", 0),
            ("2026-02-28", 1),
            ("2026-03-30", 1),
            ("2026-03-31", 2),
            ("2026-04-30", 3),
            ("2027-01-31", 12),
        ] {
            assert_eq!(begun(now), periods, "{now}");
        }
        let late = periods_begun(day("2026-01-31"), noon("2026-03-31"), noon("2026-05-31"));
        assert_eq!(late, 2, "a period that began before the request was created is not due");
    }

    #[test]
    fn the_next_day_31_is_found() {
        assert_eq!(next_thirty_first(day("2026-11-23")).unwrap(), day("2026-12-31"));
        assert_eq!(next_thirty_first(day("2026-10-31")).unwrap(), day("2026-10-31"));
    }
}
