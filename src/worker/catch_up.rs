//! Progress of catching up with a chain: blocks left, speed, and remaining time.

use std::time::Duration;

/// Number of missing blocks up to which progress is not logged.
const BEHIND_MIN: u64 = 64;

/// Interval between two log lines.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// Progress to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CatchUpStatus {
    /// Blocks are missing. The speed is measured since the first log line.
    Behind {
        blocks_left: u64,
        blocks_per_s: u64,
        /// None while no block was read.
        left_s: Option<u64>,
    },
    /// No blocks are missing.
    CaughtUp { blocks: u64, took_s: u64 },
}

/// Time at which a chain fell behind, and time of the last log line about it.
#[derive(Debug, Default)]
pub(super) struct CatchUp(Option<CatchUpStart>);

#[derive(Debug, Clone, Copy)]
struct CatchUpStart {
    at: Duration,
    confirmed: u64,
    told: Duration,
}

impl CatchUp {
    /// Progress to log after a poll at `now`, a monotonic time.
    pub(super) fn look(&mut self, confirmed: u64, finalized: u64, now: Duration) -> Option<CatchUpStatus> {
        let blocks_left = finalized.saturating_sub(confirmed);
        let Some(begun) = &mut self.0 else {
            if blocks_left <= BEHIND_MIN {
                return None;
            }
            self.0 = Some(CatchUpStart {
                at: now,
                confirmed,
                told: now,
            });
            return Some(CatchUpStatus::Behind {
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
            return Some(CatchUpStatus::CaughtUp { blocks, took_s });
        }
        if now.saturating_sub(begun.told) < TELL_EVERY {
            return None;
        }
        begun.told = now;
        let took_s = took.as_secs().max(1);
        Some(CatchUpStatus::Behind {
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
    fn falling_behind_is_logged_at_once_with_progress_and_at_its_end() {
        let mut chain = CatchUp::default();
        let s = Duration::from_secs;
        assert_eq!(chain.look(1_000, 1_064, s(0)), None);
        let behind = |blocks_left, blocks_per_s, left_s| {
            Some(CatchUpStatus::Behind {
                blocks_left,
                blocks_per_s,
                left_s,
            })
        };
        assert_eq!(chain.look(1_000, 101_000, s(10)), behind(100_000, 0, None));
        assert_eq!(chain.look(2_000, 101_000, s(39)), None);
        assert_eq!(chain.look(16_000, 101_000, s(40)), behind(85_000, 500, Some(170)));
        assert_eq!(chain.look(16_000, 101_000, s(41)), None);
        let done = CatchUpStatus::CaughtUp {
            blocks: 99_950,
            took_s: 200,
        };
        assert_eq!(chain.look(100_950, 101_000, s(210)), Some(done));
        assert_eq!(chain.look(101_000, 101_000, s(212)), None);
    }

    #[test]
    fn a_chain_without_progress_reports_no_remaining_time() {
        let mut chain = CatchUp::default();
        chain.look(0, 1_000, Duration::ZERO);
        let told = chain.look(0, 1_100, TELL_EVERY);
        let stuck = CatchUpStatus::Behind {
            blocks_left: 1_100,
            blocks_per_s: 0,
            left_s: None,
        };
        assert_eq!(told, Some(stuck));
    }
}
