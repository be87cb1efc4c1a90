//! Repeats a step at its pace: again after the pause that it asks for, later and later after failures, until stopped.

use crate::{ctx::Ctx, domain::network::Network, flows::FlowResult};
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

/// Pause between two batches, so that a long backlog does not hold up calls and deliveries.
const BREATH: Duration = Duration::from_millis(50);

impl Pace {
    /// What is looked for every second.
    pub(super) const EACH_SECOND: Self = Self {
        base: Duration::from_secs(1),
        longest: Duration::from_secs(30),
    };

    /// Works off one batch after the other until `stop`, and looks again after `base` when nothing is left; `batch`
    /// returns whether there may be more.
    pub(super) async fn keep_batches(
        self,
        (ctx, stop): (&Ctx, &CancellationToken),
        what: &str,
        batch: impl AsyncFn(&Ctx) -> FlowResult<bool>,
    ) {
        let step = || async {
            let has_more = batch(ctx).await?;
            Ok(if has_more { BREATH } else { self.base })
        };
        self.keep(stop, what, None, step).await;
    }

    /// Repeats `step`, which returns the pause that follows it, until `stop`; `what`, of `network` if it is about one,
    /// names it in the log.
    ///
    /// A step that runs when the stop comes is dropped in the middle, so it holds no state outside its transactions.
    pub(super) async fn keep<F: Future<Output = FlowResult<Duration>>>(
        self,
        stop: &CancellationToken,
        what: &str,
        network: Option<Network>,
        step: impl Fn() -> F,
    ) {
        let mut failures = 0;
        let repeat = async {
            loop {
                let step = step().await;
                let pause = self.pause_after(&step, &mut failures);
                if let Err(error) = step {
                    let network = network.map(Network::id);
                    tracing::warn!(failures, network, %error, "{what} failed");
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
    use std::sync::{Arc, Mutex};

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

    /// What a subscriber of the log was given.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_failure_is_logged_with_its_network() {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().json().with_writer(move || writer.clone());
        let _log = tracing::subscriber::set_default(log.finish());
        let pace = Pace {
            base: Duration::from_hours(1),
            longest: Duration::from_hours(1),
        };
        for network in [Some(Network::Sepolia), None] {
            let stop = CancellationToken::new();
            let kept = pace.keep(&stop, "the test", network, || async {
                Err(Refusal::conflict("not now").into())
            });
            let stopped = async {
                tokio::task::yield_now().await;
                stop.cancel();
            };
            tokio::join!(kept, stopped);
        }
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let networks = text.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["fields"]["message"], "the test failed", "{text}");
            line["fields"]["network"].clone()
        });
        assert_eq!(
            networks.collect::<Vec<_>>(),
            ["sepolia".into(), serde_json::Value::Null]
        );
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
            let kept = pace.keep(&stop, "the test", None, || async {
                stop.cancel();
                tokio::time::sleep(step_takes).await;
                Ok(hour)
            });
            let end = tokio::time::timeout(Duration::from_mins(1), kept).await;
            assert!(end.is_ok(), "a step of {step_takes:?} and its pause outlive the stop");
        }
    }
}
