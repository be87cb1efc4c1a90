//! Repeats a step until it is stopped. The step returns the next pause, and pauses increase after failures.

use crate::{ctx::Ctx, domain::network::Network, flows::FlowResult};
use std::time::Duration;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// Pauses after failures.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryPauses {
    /// Half of the pause after the first failure.
    pub(super) base: Duration,
    /// Maximum pause after any number of consecutive failures.
    pub(super) longest: Duration,
}

/// Pause between two batches, so that a long backlog does not delay calls and deliveries.
const BREATH: Duration = Duration::from_millis(50);

/// Notification of new blocks of a chain. The default sends none, so the chain has to be polled.
#[derive(Debug, Clone, Default)]
pub struct BlockNotices(Option<watch::Receiver<u64>>);

/// Maximum pause between two polls of a chain with notifications, because not every change is a new block.
const UNTOLD_MAX: Duration = Duration::from_secs(1);

/// How long a chain is polled as usual after a notification, because the block may become visible later.
const LIVELY: Duration = Duration::from_millis(500);

impl BlockNotices {
    /// Notifications from a block counter.
    pub fn new(blocks: watch::Receiver<u64>) -> Self {
        Self(Some(blocks))
    }

    /// Maximum time until the next poll after a step that requests the pause `wanted`.
    pub(super) fn pause_max(&self, wanted: Duration) -> Duration {
        self.pause(wanted, LIVELY)
    }

    fn pause(&self, wanted: Duration, since_told: Duration) -> Duration {
        match self.0 {
            Some(_) if !wanted.is_zero() && since_told >= LIVELY => wanted.max(UNTOLD_MAX),
            _ => wanted,
        }
    }

    /// Waits for the end of a pause or for the next block. A block sets `told` to the current time.
    async fn rest(&mut self, wanted: Duration, told: &mut Instant) {
        let pause = self.pause(wanted, told.elapsed());
        let Some(blocks) = &mut self.0 else {
            return sleep(pause).await;
        };
        match timeout(pause, blocks.changed()).await {
            Ok(Ok(())) => *told = Instant::now(),
            // The chain has ended and sends no more notifications.
            Ok(Err(_)) => self.0 = None,
            Err(_) => {}
        }
    }
}

impl RetryPauses {
    /// Polls every second.
    pub(super) const EACH_SECOND: Self = Self {
        base: Duration::from_secs(1),
        longest: Duration::from_secs(30),
    };

    /// Processes batches until `stop`, and waits for `base` when nothing is left; `batch` returns whether there may be
    /// more.
    pub(super) async fn keep_batches(
        self,
        ctx: &Ctx,
        stop: &CancellationToken,
        what: &str,
        batch: impl AsyncFn(&Ctx) -> FlowResult<bool>,
    ) {
        let step = || async {
            let has_more = batch(ctx).await?;
            Ok(if has_more { BREATH } else { self.base })
        };
        self.keep(stop, what, None, step).await;
    }

    /// Repeats `step`, which returns the next pause, until `stop`. The log names the step by `what` and, if set, by
    /// `network`.
    ///
    /// A running step is aborted at the stop, so it must not hold state outside its transactions.
    pub(super) async fn keep<F: Future<Output = FlowResult<Duration>>>(
        self,
        stop: &CancellationToken,
        what: &str,
        network: Option<Network>,
        step: impl Fn() -> F,
    ) {
        self.keep_hearing(stop, what, network, BlockNotices::default(), step)
            .await;
    }

    /// Like [`Self::keep`], but also repeats immediately after `news`.
    pub(super) async fn keep_hearing<F: Future<Output = FlowResult<Duration>>>(
        self,
        stop: &CancellationToken,
        what: &str,
        network: Option<Network>,
        mut news: BlockNotices,
        step: impl Fn() -> F,
    ) {
        let mut failures = 0;
        let mut told = Instant::now();
        let repeat = async {
            loop {
                let step = step().await;
                let pause = self.pause_after(&step, &mut failures);
                if let Err(error) = step {
                    let network = network.map(Network::id);
                    tracing::warn!(failures, network, %error, "{what} failed");
                }
                news.rest(pause, &mut told).await;
            }
        };
        stop.run_until_cancelled(repeat).await;
    }

    /// Pause after a step; each consecutive failure doubles it.
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
        let pace = RetryPauses {
            base: Duration::from_secs(1),
            longest: Duration::from_secs(30),
        };
        let mut failures = 0;
        let step = |fails: &bool| {
            if *fails {
                Err(Refusal::conflict("not now").into())
            } else {
                Ok(Duration::from_secs(5))
            }
        };
        let pauses = fails.iter().map(|fails| pace.pause_after(&step(fails), &mut failures));
        pauses.map(|pause| pause.as_secs()).collect()
    }

    #[test]
    fn pauses_double_with_each_consecutive_failure_up_to_a_maximum() {
        assert_eq!(pauses_s(&[true; 8]), [2, 4, 8, 16, 30, 30, 30, 30]);
    }

    #[test]
    fn a_success_gets_its_requested_pause_and_resets_the_failures() {
        assert_eq!(pauses_s(&[true, true, false, true, false, false]), [2, 4, 5, 2, 5, 5]);
    }

    /// The lines that a log subscriber received.
    #[derive(Clone, Default)]
    struct CapturedLog(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for CapturedLog {
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
        let lines = CapturedLog::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().json().with_writer(move || writer.clone());
        let _log = tracing::subscriber::set_default(log.finish());
        let pace = RetryPauses {
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

    #[test]
    fn a_chain_that_announces_blocks_is_not_polled_between_them() {
        let (ms, poll) = (Duration::from_millis, Duration::from_millis(50));
        let (sender, blocks) = watch::channel(0);
        let told = BlockNotices::new(blocks);
        for (wanted, since_told, pause) in [
            (poll, Duration::ZERO, poll),
            (poll, ms(499), poll),
            (poll, ms(500), UNTOLD_MAX),
            // A pause of zero means that the chain is behind. Unread blocks need no notification, so the pause stays
            // zero.
            (Duration::ZERO, ms(500), Duration::ZERO),
            (Duration::from_mins(1), ms(500), Duration::from_mins(1)),
        ] {
            assert_eq!(told.pause(wanted, since_told), pause, "{wanted:?} {since_told:?}");
            assert_eq!(BlockNotices::default().pause(wanted, since_told), wanted);
        }
        drop(sender);
    }

    #[tokio::test]
    async fn a_new_block_ends_a_pause_even_if_it_came_during_the_step() {
        let hour = Duration::from_hours(1);
        let pace = RetryPauses {
            base: hour,
            longest: hour,
        };
        let (sender, blocks) = watch::channel(0);
        let (stop, steps) = (CancellationToken::new(), Mutex::new(0));
        let kept = pace.keep_hearing(&stop, "the test", None, BlockNotices::new(blocks), || async {
            let step = {
                let mut steps = steps.lock().unwrap();
                *steps += 1;
                *steps
            };
            match step {
                1 => sender.send_modify(|count| *count += 1),
                2 => {
                    let sender = sender.clone();
                    tokio::spawn(async move { sender.send_modify(|count| *count += 1) });
                }
                _ => stop.cancel(),
            }
            Ok(hour)
        });
        let end = tokio::time::timeout(Duration::from_mins(1), kept).await;
        assert!(end.is_ok(), "{} steps", steps.lock().unwrap());
    }

    #[tokio::test]
    async fn a_stop_interrupts_a_pause_and_a_step() {
        let hour = Duration::from_hours(1);
        let pace = RetryPauses {
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
