//! Compares the clock of the machine with monotonic time. When the clock jumps, adjusts the retry times of pending
//! deliveries.
//!
//! Leases and retry times are absolute times in the database. A jump is detected before deliveries are claimed, so that
//! no attempt is early or hours late. Jumps while no worker runs have limited effects. After a jump forward, the
//! pending attempts are early once. After a jump backward, the next worker that starts makes the deliveries due that
//! would otherwise wait too long.

use crate::{
    ctx::Ctx,
    domain::webhook::TRY_TIMEOUT_MS,
    flows::{
        FlowResult,
        webhooks::follow_clock::{self, Jump},
    },
};
use chrono::{DateTime, Utc};
use std::time::{Duration, Instant};

/// How long times of the old clock may still be written after a jump, by attempts that began before the jump.
const JUMP_ECHO: Duration = Duration::from_millis(TRY_TIMEOUT_MS + 5_000);

/// State of the last clock check.
pub(super) struct ClockWatch {
    wall: DateTime<Utc>,
    at: Duration,
    /// The last jump, and the time until which attempts may write times of the old clock.
    echo: Option<(Jump, Instant)>,
}

impl ClockWatch {
    /// Starts with a check: the clock showed `wall` at the reading `at` of the monotonic clock.
    pub(super) fn new(wall: DateTime<Utc>, at: Duration) -> Self {
        Self { wall, at, echo: None }
    }

    /// Time of the clock at the last check without a jump.
    pub(super) fn wall(&self) -> DateTime<Utc> {
        self.wall
    }

    /// Whether attempts may still write times of the old clock.
    pub(super) fn is_echoing(&self) -> bool {
        self.echo.is_some()
    }

    /// A jump since the last check.
    fn jump(&self, wall: DateTime<Utc>, at: Duration) -> Option<Jump> {
        Jump::between((self.wall, self.at), (wall, at))
    }

    /// Adjusts pending retry times. If it returns an error, the times are not adjusted yet, and the caller must not
    /// claim deliveries.
    pub(super) async fn follow(&mut self, ctx: &Ctx) -> FlowResult<()> {
        if let Some((jump, until)) = self.echo {
            follow_clock::run(ctx, jump).await?;
            self.echo = self.echo.filter(|_| Instant::now() < until);
        }
        // The comparison comes last, because the steps before it may take long, and a claim must follow the comparison
        // at once.
        loop {
            let (wall, at) = (ctx.clock.now(), ctx.clock.steady());
            let jump = self.jump(wall, at);
            if let Some(jump) = jump {
                tracing::warn!(jump_s = jump.by.num_seconds(), "the clock of this machine jumped");
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
    use chrono::TimeDelta;

    /// Result of a check when the clock moved by `shown_s` while `passed_s` passed.
    fn look(shown_s: i64, passed_s: u64) -> Option<i64> {
        let (wall, at) = (DateTime::UNIX_EPOCH, Duration::from_secs(1));
        let watch = ClockWatch::new(wall, at);
        let jump = watch.jump(wall + TimeDelta::seconds(shown_s), at + Duration::from_secs(passed_s))?;
        assert_eq!(jump.before, wall + TimeDelta::seconds(i64::try_from(passed_s).unwrap()));
        Some(jump.by.num_seconds())
    }

    #[test]
    fn elapsed_time_is_not_a_jump_however_long_it_is() {
        for passed in [0, 1, 59, 60, 3_600, 86_400] {
            assert_eq!(look(passed, passed.unsigned_abs()), None);
        }
    }

    #[test]
    fn a_correction_of_less_than_a_minute_is_not_a_jump() {
        assert_eq!(look(10 + 59, 10), None);
        assert_eq!(look(10 - 59, 10), None);
    }

    #[test]
    fn a_jump_is_the_clock_change_beyond_the_elapsed_time() {
        assert_eq!(look(10 + 60, 10), Some(60));
        assert_eq!(look(10 - 60, 10), Some(-60));
        assert_eq!(look(7_200, 5), Some(7_195));
        assert_eq!(look(-7_200, 5), Some(-7_205));
        // The machine slept: its clock advanced, but the monotonic time of the process did not.
        assert_eq!(look(3_600, 0), Some(3_600));
    }
}
