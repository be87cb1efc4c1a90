//! Compares the clock of the machine with the time that really passes, and moves along what waits when it jumps.
//!
//! Leases and pauses between tries are times of day in the database. A jump is noticed before anything is claimed, so
//! that no try comes early or hours late. A jump forward that nobody sees, because no worker runs, makes them early
//! once; one back ends their waits at the start.

use crate::{
    ctx::Ctx,
    domain::webhook::TRY_TIMEOUT_MS,
    flows::{
        FlowResult,
        webhooks::follow_clock::{self, Jump},
    },
};
use chrono::{DateTime, TimeDelta, Utc};
use std::time::{Duration, Instant};

/// A step of the clock that is no correction of its drift; longer than any pause or lease.
const JUMP_MIN: TimeDelta = TimeDelta::seconds(60);

/// How long after a jump times of the old clock may still be written: a try that began before it, and its record.
const JUMP_ECHO: Duration = Duration::from_millis(TRY_TIMEOUT_MS + 5_000);

/// What was seen at the last look at the clock.
pub(super) struct ClockWatch {
    wall: DateTime<Utc>,
    at: Duration,
    /// The last jump, and until when it has an echo.
    echo: Option<(Jump, Instant)>,
}

impl ClockWatch {
    /// Begins with a look: the clock showed `wall` at the reading `at` of the steady clock.
    pub(super) fn new(wall: DateTime<Utc>, at: Duration) -> Self {
        Self { wall, at, echo: None }
    }

    /// What the clock showed at the last look that found it right.
    pub(super) fn wall(&self) -> DateTime<Utc> {
        self.wall
    }

    /// Whether times of the old clock may still be written.
    pub(super) fn is_echoing(&self) -> bool {
        self.echo.is_some()
    }

    /// A jump since the last look.
    fn jump(&self, wall: DateTime<Utc>, at: Duration) -> Option<Jump> {
        let passed = TimeDelta::from_std(at.saturating_sub(self.at)).unwrap_or(TimeDelta::MAX);
        let before = self.wall.checked_add_signed(passed)?;
        let by = wall - before;
        (by.abs() >= JUMP_MIN).then_some(Jump { before, by })
    }

    /// Moves along what waits. Nothing may be claimed while it returns an error: what waits does not know the clock
    /// yet.
    pub(super) async fn follow(&mut self, ctx: &Ctx) -> FlowResult<()> {
        if let Some((jump, until)) = self.echo {
            follow_clock::run(ctx, jump).await?;
            self.echo = self.echo.filter(|_| Instant::now() < until);
        }
        // The look comes last, so that a claim follows it at once; what was done meanwhile may have taken long.
        loop {
            let (wall, at) = (ctx.clock.now(), ctx.clock.steady());
            let jump = self.jump(wall, at);
            if let Some(jump) = jump {
                tracing::warn!(jump_s = jump.by.num_seconds(), "the clock of the machine jumped");
                follow_clock::run(ctx, jump).await?;
                self.echo = Some((jump, Instant::now() + JUMP_ECHO));
            }
            (self.wall, self.at) = (wall, at);
            if jump.is_none() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a look finds when the clock moved by `shown_s` while `passed_s` passed.
    fn look(shown_s: i64, passed_s: u64) -> Option<i64> {
        let (wall, at) = (DateTime::UNIX_EPOCH, Duration::from_secs(1));
        let watch = ClockWatch::new(wall, at);
        let jump = watch.jump(wall + TimeDelta::seconds(shown_s), at + Duration::from_secs(passed_s))?;
        assert_eq!(jump.before, wall + TimeDelta::seconds(i64::try_from(passed_s).unwrap()));
        Some(jump.by.num_seconds())
    }

    #[test]
    fn time_that_passes_is_no_jump_however_long_it_takes() {
        for passed in [0, 1, 59, 60, 3_600, 86_400] {
            assert_eq!(look(passed, passed.unsigned_abs()), None);
        }
    }

    #[test]
    fn a_correction_of_less_than_a_minute_is_no_jump() {
        assert_eq!(look(10 + 59, 10), None);
        assert_eq!(look(10 - 59, 10), None);
    }

    #[test]
    fn a_jump_is_what_the_clock_shows_beyond_the_time_that_passed() {
        assert_eq!(look(10 + 60, 10), Some(60));
        assert_eq!(look(10 - 60, 10), Some(-60));
        assert_eq!(look(7_200, 5), Some(7_195));
        assert_eq!(look(-7_200, 5), Some(-7_205));
        // A machine that slept: its clock went on, and the time of the process stood still.
        assert_eq!(look(3_600, 0), Some(3_600));
    }
}
