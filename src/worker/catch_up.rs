//! Tells how catching up with a chain goes: how far behind it is, how fast it comes nearer, how long that still takes.

use std::time::Duration;

/// Blocks of which nobody needs to know that they are missing.
const BEHIND_MIN: u64 = 64;

/// Pause between two lines.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// What is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Blocks are missing; the rate is that since the first line.
    Behind {
        blocks_left: u64,
        blocks_per_s: u64,
        /// None while nothing was read.
        left_s: Option<u64>,
    },
    /// None are.
    CaughtUp { blocks: u64, took_s: u64 },
}

/// When a chain fell behind, and when that was told last.
#[derive(Debug, Default)]
pub(super) struct CatchUp(Option<Begun>);

#[derive(Debug, Clone, Copy)]
struct Begun {
    at: Duration,
    confirmed: u64,
    told: Duration,
}

impl CatchUp {
    /// What there is to tell after a look at `now`, a time that never jumps.
    pub(super) fn look(&mut self, confirmed: u64, finalized: u64, now: Duration) -> Option<Progress> {
        let blocks_left = finalized.saturating_sub(confirmed);
        let Some(begun) = &mut self.0 else {
            if blocks_left <= BEHIND_MIN {
                return None;
            }
            self.0 = Some(Begun {
                at: now,
                confirmed,
                told: now,
            });
            return Some(Progress::Behind {
                blocks_left,
                blocks_per_s: 0,
                left_s: None,
            });
        };
        let blocks = confirmed.saturating_sub(begun.confirmed);
        let took = now.saturating_sub(begun.at);
        if blocks_left <= BEHIND_MIN {
            self.0 = None;
            let took_s = took.as_secs();
            return Some(Progress::CaughtUp { blocks, took_s });
        }
        if now.saturating_sub(begun.told) < TELL_EVERY {
            return None;
        }
        begun.told = now;
        let took_s = took.as_secs().max(1);
        Some(Progress::Behind {
            blocks_left,
            blocks_per_s: blocks / took_s,
            left_s: blocks_left.saturating_mul(took_s).checked_div(blocks),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falling_behind_is_told_at_once_then_with_rate_and_time_left_and_its_end() {
        let mut chain = CatchUp::default();
        let s = Duration::from_secs;
        assert_eq!(chain.look(1_000, 1_064, s(0)), None);
        let behind = |blocks_left, blocks_per_s, left_s| {
            Some(Progress::Behind {
                blocks_left,
                blocks_per_s,
                left_s,
            })
        };
        assert_eq!(chain.look(1_000, 101_000, s(10)), behind(100_000, 0, None));
        assert_eq!(chain.look(2_000, 101_000, s(39)), None);
        assert_eq!(chain.look(16_000, 101_000, s(40)), behind(85_000, 500, Some(170)));
        assert_eq!(chain.look(16_000, 101_000, s(41)), None);
        let done = Progress::CaughtUp {
            blocks: 99_950,
            took_s: 200,
        };
        assert_eq!(chain.look(100_950, 101_000, s(210)), Some(done));
        assert_eq!(chain.look(101_000, 101_000, s(212)), None);
    }

    #[test]
    fn a_chain_that_does_not_come_nearer_has_no_time_left_to_tell() {
        let mut chain = CatchUp::default();
        chain.look(0, 1_000, Duration::ZERO);
        let told = chain.look(0, 1_100, TELL_EVERY);
        let stuck = Progress::Behind {
            blocks_left: 1_100,
            blocks_per_s: 0,
            left_s: None,
        };
        assert_eq!(told, Some(stuck));
    }
}
