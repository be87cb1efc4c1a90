//! When a chain is looked at again: at once while it is behind, when its next block is due while a payment is awaited,
//! and seldom while none is.

use crate::{domain::payment::BlockRef, flows::payments::watch::Position};
use chrono::{DateTime, Utc};
use std::time::Duration;
use tokio::time::Instant;

/// Pauses that one pause lasts while no payment is awaited.
const IDLE_POLLS: u32 = 30;

/// Longest pause, unless the one of the settings is longer: what tells that a chain has no good answer must not have to
/// know its pause.
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// Most pauses that the next block is waited for. A chain whose blocks come when they like has none that is due.
const DUE_POLLS_MAX: u32 = 6;

/// Time over which the time between two blocks is measured, at least: the times of blocks are whole seconds.
const MEASURED_S_MIN: i64 = 10;

/// The pace of one chain, from what was seen of it.
#[derive(Debug)]
pub struct ChainPace {
    poll: Duration,
    /// The head from which on the time between two blocks is measured.
    since: Option<BlockRef>,
    block_time: Option<Duration>,
    idle_until: Option<Instant>,
}

impl ChainPace {
    /// A pace whose shortest pause is `poll`.
    pub fn new(poll: Duration) -> Self {
        Self {
            poll,
            since: None,
            block_time: None,
            idle_until: None,
        }
    }

    /// Pause after a step, which ended at `now`. While no payment is awaited, [`Self::is_idle`] for as long.
    pub fn pause(&mut self, position: &Position, now: DateTime<Utc>) -> Duration {
        self.measure(position.head);
        let pause = self.pause_after(position, now);
        self.idle_until = (!position.is_awaited).then(|| Instant::now() + pause);
        pause
    }

    /// Whether the chain may be left alone as long as no payment is awaited.
    pub fn is_idle(&self) -> bool {
        self.idle_until.is_some_and(|until| Instant::now() < until)
    }

    fn pause_after(&self, position: &Position, now: DateTime<Utc>) -> Duration {
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
            // The clock of the machine is behind.
            Err(_) => block_time,
        });
        until_due
            .unwrap_or_default()
            .clamp(self.poll, self.polls(DUE_POLLS_MAX))
    }

    /// So many pauses, as far as they are not too long together.
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

    /// A chain that was followed to a head of this height and age in seconds.
    fn followed(number: u64, time: DateTime<Utc>) -> Position {
        Position {
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

    /// A pace that saw a block every so many seconds until block 1,000 at second 0.
    fn seen_every(seconds: i64) -> ChainPace {
        let mut pace = ChainPace::new(POLL);
        pace.pause(&followed(900, at(-100 * seconds)), at(-100 * seconds));
        pace.pause(&followed(1_000, at(0)), at(0));
        pace
    }

    #[test]
    fn a_slow_chain_is_looked_at_when_its_next_block_is_due() {
        let mut pace = seen_every(12);
        let head = followed(1_000, at(0));
        let pauses_s = [0, 3, 9, 10, 11, 12, 60].map(|now| pace.pause(&head, at(now)).as_secs());
        assert_eq!(pauses_s, [12, 9, 3, 2, 2, 2, 2]);
    }

    #[test]
    fn a_chain_that_is_faster_than_the_pause_is_looked_at_after_it() {
        let mut pace = seen_every(1);
        for now in [0, 1, 5] {
            assert_eq!(pace.pause(&followed(1_000, at(0)), at(now)), POLL);
        }
    }

    #[test]
    fn a_chain_without_a_rhythm_is_not_waited_for() {
        let mut unknown = ChainPace::new(POLL);
        assert_eq!(unknown.pause(&followed(1_000, at(0)), at(0)), POLL);
        assert_eq!(seen_every(3_600).pause(&followed(1_000, at(0)), at(0)), POLL * 6);
    }

    #[test]
    fn a_clock_that_is_wrong_costs_a_few_pauses_at_most() {
        let mut pace = seen_every(12);
        let head = followed(1_000, at(0));
        assert_eq!(pace.pause(&head, at(-86_400)), POLL * 6);
        assert_eq!(pace.pause(&head, at(86_400)), POLL);
    }

    #[test]
    fn the_rhythm_is_learned_anew() {
        let mut pace = seen_every(12);
        for block in 1..=60 {
            pace.pause(&followed(1_000 + block, at(block.cast_signed() * 4)), at(0));
        }
        assert_eq!(pace.pause(&followed(1_060, at(240)), at(240)), Duration::from_secs(4));
    }

    #[test]
    fn a_chain_that_is_behind_is_not_waited_for_while_it_moves() {
        let mut pace = seen_every(12);
        let behind = Position {
            confirmed: 900,
            moved: true,
            ..followed(1_000, at(0))
        };
        assert_eq!(pace.pause(&behind, at(0)), Duration::ZERO);
        let stuck = Position { moved: false, ..behind };
        assert!(pace.pause(&stuck, at(0)) >= POLL);
    }

    #[test]
    fn a_chain_on_which_nothing_is_awaited_is_looked_at_seldom() {
        let mut pace = seen_every(12);
        let idle = Position {
            is_awaited: false,
            seen: 500,
            moved: true,
            ..followed(1_000, at(0))
        };
        assert_eq!(pace.pause(&idle, at(0)), POLL * 30);
        let behind = Position { confirmed: 900, ..idle };
        assert_eq!(pace.pause(&behind, at(0)), Duration::ZERO);
    }

    #[test]
    fn a_chain_on_which_nothing_is_awaited_is_looked_at_every_minute_or_as_often_as_its_pause_says() {
        for (poll_s, expected_s) in [(1, 30), (2, 60), (10, 60), (60, 60), (90, 90)] {
            let mut pace = ChainPace::new(Duration::from_secs(poll_s));
            let idle = Position {
                is_awaited: false,
                ..followed(1_000, at(0))
            };
            assert_eq!(pace.pause(&idle, at(0)).as_secs(), expected_s, "{poll_s}");
        }
    }

    #[test]
    fn the_next_block_of_a_slow_chain_is_waited_for_a_minute_at_most() {
        for (poll_s, longest_s) in [(2, 12), (10, 60), (45, 60), (90, 90)] {
            let mut pace = seen_every(3_600);
            pace.poll = Duration::from_secs(poll_s);
            let pause = pace.pause(&followed(1_000, at(0)), at(0));
            assert_eq!(pause.as_secs(), longest_s, "{poll_s}");
        }
    }

    #[test]
    fn a_chain_rests_for_its_pause_and_only_while_nothing_is_awaited() {
        let poll = Duration::from_millis(20);
        let mut pace = ChainPace::new(poll);
        assert!(!pace.is_idle());
        let awaited = followed(1_000, at(0));
        let idle = Position {
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
