//! Repeats a step at its pace: again after the pause that it asks for, later and later after failures, until stopped.

use crate::flows::FlowResult;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the pauses after failures are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Half of the pause after the first failure.
    pub(super) base: Duration,
    /// Longest pause, however many failures there are in a row.
    pub(super) longest: Duration,
}

impl Pace {
    /// Repeats `step`, which returns the pause that follows it, until `stop`; `what` names it in the log.
    ///
    /// A step that runs when the stop comes is dropped in the middle, so it holds no state outside its transactions.
    pub(super) async fn keep<F: Future<Output = FlowResult<Duration>>>(
        self,
        stop: &CancellationToken,
        what: &str,
        step: impl Fn() -> F,
    ) {
        let mut failures = 0;
        let repeat = async {
            loop {
                let step = step().await;
                let pause = self.pause_after(&step, &mut failures);
                if let Err(error) = step {
                    tracing::warn!(failures, %error, "{what} failed");
                }
                tokio::time::sleep(pause).await;
            }
        };
        stop.run_until_cancelled(repeat).await;
    }

    /// Pause after a step; counts the failures in a row, each of which doubles it.
    fn pause_after(self, step: &FlowResult<Duration>, failures: &mut u32) -> Duration {
        if let Ok(pause) = step {
            *failures = 0;
            return *pause;
        }
        *failures = failures.saturating_add(1);
        self.base.saturating_mul(1 << (*failures).min(6)).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::refusal::Refusal;

    /// Pauses in seconds after steps that fail or succeed.
    fn pauses_s(fails: &[bool]) -> Vec<u64> {
        let pace = Pace {
            base: Duration::from_secs(1),
            longest: Duration::from_secs(30),
        };
        let mut failures = 0;
        let step = |fails: &bool| match fails {
            true => Err(Refusal::conflict("not now").into()),
            false => Ok(Duration::from_secs(5)),
        };
        let pauses = fails.iter().map(|fails| pace.pause_after(&step(fails), &mut failures));
        pauses.map(|pause| pause.as_secs()).collect()
    }

    #[test]
    fn pauses_double_with_each_failure_in_a_row_up_to_the_longest() {
        assert_eq!(pauses_s(&[true; 8]), [2, 4, 8, 16, 30, 30, 30, 30]);
    }

    #[test]
    fn a_success_gets_the_pause_that_it_asks_for_and_ends_the_row() {
        assert_eq!(pauses_s(&[true, true, false, true, false, false]), [2, 4, 5, 2, 5, 5]);
    }

    #[tokio::test]
    async fn a_stop_ends_a_pause_and_a_step_in_the_middle() {
        let hour = Duration::from_hours(1);
        let pace = Pace {
            base: hour,
            longest: hour,
        };
        for step_takes in [Duration::ZERO, hour] {
            let stop = CancellationToken::new();
            let kept = pace.keep(&stop, "the test", || async {
                stop.cancel();
                tokio::time::sleep(step_takes).await;
                Ok(hour)
            });
            let end = tokio::time::timeout(Duration::from_mins(1), kept).await;
            assert!(end.is_ok(), "a step of {step_takes:?} and its pause outlive the stop");
        }
    }
}
