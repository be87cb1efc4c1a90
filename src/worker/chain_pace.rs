//! When a chain is polled again. While the chain is behind, the next poll is immediate. While a payment is expected,
//! the next poll is when the next block is due. Otherwise polls are rare.

use crate::{domain::payment::BlockRef, flows::payments::watch::WatchPosition};
use chrono::{DateTime, Utc};
use std::time::Duration;
use tokio::time::Instant;

/// Number by which the pause is multiplied while no payment is expected.
const IDLE_POLLS: u32 = 30;

/// Maximum pause between two polls. A longer poll interval in the settings takes precedence. Without this maximum, the
/// service would notice late that nodes no longer respond.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// Maximum wait for the next block, as a multiple of the poll interval. The wait is limited because some chains have
/// irregular blocks.
const DUE_POLLS_MAX: u32 = 6;

/// Minimum time over which the block time is measured, because block timestamps are whole seconds.
const MEASURED_S_MIN: i64 = 10;

/// The polling pace of one chain.
#[derive(Debug)]
pub struct ChainPace {
    poll: Duration,
    /// The head from which the block time is measured.
    since: Option<BlockRef>,
    block_time: Option<Duration>,
    idle_until: Option<Instant>,
}

impl ChainPace {
    /// A pace with the minimum pause `poll`.
    pub fn new(poll: Duration) -> Self {
        Self {
            poll,
            since: None,
            block_time: None,
            idle_until: None,
        }
    }

    /// Pause after a step that ended at `now`. While no payment is expected, [`Self::is_idle`] is true for that time.
    pub fn pause(&mut self, position: &WatchPosition, now: DateTime<Utc>) -> Duration {
        self.measure(position.head);
        let pause = self.pause_after(position, now);
        self.idle_until = (!position.is_awaited).then(|| Instant::now() + pause);
        pause
    }

    /// Whether the chain need not be polled yet, provided that still no payment is expected.
    pub fn is_idle(&self) -> bool {
        self.idle_until.is_some_and(|until| Instant::now() < until)
    }

    fn pause_after(&self, position: &WatchPosition, now: DateTime<Utc>) -> Duration {
        let is_behind =
            position.confirmed < position.finalized || (position.is_awaited && position.seen < position.head.number);
        if position.moved && is_behind {
            return Duration::ZERO;
        }
        if !position.is_awaited {
            return self.polls(IDLE_POLLS);
        }
        let age = now.signed_duration_since(position.head.time).to_std();
        let until_due = self.block_time.map(|block_time| match age {
            Ok(age) => block_time.saturating_sub(age),
            // The block is newer than the clock of this machine, so the clock is behind.
            Err(_) => block_time,
        });
        until_due
            .unwrap_or_default()
            .clamp(self.poll, self.polls(DUE_POLLS_MAX))
    }

    /// A multiple of the poll interval, limited to [`PAUSE_MAX`].
    fn polls(&self, count: u32) -> Duration {
        self.poll.saturating_mul(count).min(PAUSE_MAX).max(self.poll)
    }

    fn measure(&mut self, head: BlockRef) {
        let Some(since) = self.since.filter(|since| since.number <= head.number) else {
            self.since = Some(head);
            return;
        };
        let span = head.time - since.time;
        let blocks = u32::try_from(head.number - since.number).unwrap_or(u32::MAX);
        if blocks > 0 && span.num_seconds() >= MEASURED_S_MIN {
            self.block_time = span.to_std().ok().map(|span| span / blocks);
            self.since = Some(head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy::primitives::B256;

    const POLL: Duration = Duration::from_secs(2);
    const BEGIN_S: i64 = 1_800_000_000;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(BEGIN_S + seconds, 0).unwrap()
    }

    /// A chain followed to a head of this height and age in seconds.
    fn followed(number: u64, time: DateTime<Utc>) -> WatchPosition {
        WatchPosition {
            head: BlockRef {
                number,
                hash: B256::ZERO,
                parent_hash: B256::ZERO,
                time,
            },
            finalized: number - 64,
            seen: number,
            confirmed: number - 64,
            is_awaited: true,
            is_current: true,
            moved: false,
        }
    }

    /// A pace that saw a block at this interval in seconds until block 1,000 at second 0.
    fn seen_every(seconds: i64) -> ChainPace {
        let mut pace = ChainPace::new(POLL);
        pace.pause(&followed(900, at(-100 * seconds)), at(-100 * seconds));
        pace.pause(&followed(1_000, at(0)), at(0));
        pace
    }

    #[test]
    fn a_slow_chain_is_polled_when_its_next_block_is_due() {
        let mut pace = seen_every(12);
        let head = followed(1_000, at(0));
        let pauses_s = [0, 3, 9, 10, 11, 12, 60].map(|now| pace.pause(&head, at(now)).as_secs());
        assert_eq!(pauses_s, [12, 9, 3, 2, 2, 2, 2]);
    }

    #[test]
    fn a_chain_faster_than_the_pause_is_polled_after_the_pause() {
        let mut pace = seen_every(1);
        for now in [0, 1, 5] {
            assert_eq!(pace.pause(&followed(1_000, at(0)), at(now)), POLL);
        }
    }

    #[test]
    fn a_chain_without_a_regular_block_time_is_not_waited_for() {
        let mut unknown = ChainPace::new(POLL);
        assert_eq!(unknown.pause(&followed(1_000, at(0)), at(0)), POLL);
        assert_eq!(seen_every(3_600).pause(&followed(1_000, at(0)), at(0)), POLL * 6);
    }

    #[test]
    fn a_wrong_clock_costs_at_most_a_few_pauses() {
        let mut pace = seen_every(12);
        let head = followed(1_000, at(0));
        assert_eq!(pace.pause(&head, at(-86_400)), POLL * 6);
        assert_eq!(pace.pause(&head, at(86_400)), POLL);
    }

    #[test]
    fn a_changed_block_time_is_learned() {
        let mut pace = seen_every(12);
        for block in 1..=60 {
            pace.pause(&followed(1_000 + block, at(block.cast_signed() * 4)), at(0));
        }
        assert_eq!(pace.pause(&followed(1_060, at(240)), at(240)), Duration::from_secs(4));
    }

    #[test]
    fn a_chain_that_is_catching_up_is_polled_without_a_pause() {
        let mut pace = seen_every(12);
        let behind = WatchPosition {
            confirmed: 900,
            moved: true,
            ..followed(1_000, at(0))
        };
        assert_eq!(pace.pause(&behind, at(0)), Duration::ZERO);
        let stuck = WatchPosition { moved: false, ..behind };
        assert!(pace.pause(&stuck, at(0)) >= POLL);
    }

    #[test]
    fn a_chain_without_awaited_payments_is_polled_rarely() {
        let mut pace = seen_every(12);
        let idle = WatchPosition {
            is_awaited: false,
            seen: 500,
            moved: true,
            ..followed(1_000, at(0))
        };
        assert_eq!(pace.pause(&idle, at(0)), POLL * 30);
        let behind = WatchPosition { confirmed: 900, ..idle };
        assert_eq!(pace.pause(&behind, at(0)), Duration::ZERO);
    }

    #[test]
    fn an_idle_chain_waits_thirty_pauses_up_to_a_minute_or_its_pause() {
        for (poll_s, expected_s) in [(1, 30), (2, 60), (10, 60), (60, 60), (90, 90)] {
            let mut pace = ChainPace::new(Duration::from_secs(poll_s));
            let idle = WatchPosition {
                is_awaited: false,
                ..followed(1_000, at(0))
            };
            assert_eq!(pace.pause(&idle, at(0)).as_secs(), expected_s, "{poll_s}");
        }
    }

    #[test]
    fn the_wait_for_the_next_block_is_at_most_a_minute() {
        for (poll_s, longest_s) in [(2, 12), (10, 60), (45, 60), (90, 90)] {
            let mut pace = seen_every(3_600);
            pace.poll = Duration::from_secs(poll_s);
            let pause = pace.pause(&followed(1_000, at(0)), at(0));
            assert_eq!(pause.as_secs(), longest_s, "{poll_s}");
        }
    }

    #[test]
    fn a_chain_idles_for_its_pause_only_while_nothing_is_awaited() {
        let poll = Duration::from_millis(20);
        let mut pace = ChainPace::new(poll);
        assert!(!pace.is_idle());
        let awaited = followed(1_000, at(0));
        let idle = WatchPosition {
            is_awaited: false,
            ..awaited
        };
        let pause = pace.pause(&idle, at(0));
        assert!(pace.is_idle());
        std::thread::sleep(pause);
        assert!(!pace.is_idle());
        pace.pause(&idle, at(60));
        pace.pause(&awaited, at(60));
        assert!(!pace.is_idle());
    }
}
