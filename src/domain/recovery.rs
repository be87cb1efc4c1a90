//! Recovery of deliveries after four failed attempts, and deactivation of endpoints that no longer respond.

use chrono::{DateTime, TimeDelta, Utc};

/// Maximum number of rounds of a schedule.
pub const ROUNDS_MAX: usize = 20;

/// Times of recovery rounds after the fourth failed attempt, ascending. A round is four more attempts of the same
/// delivery.
///
/// Source: decisions D36.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoverySchedule {
    rounds: Vec<TimeDelta>,
}

/// Time of the next recovery round of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// Earliest start of the round. From this time on, the round starts as soon as the endpoint responds.
    pub from: DateTime<Utc>,
    /// Latest start of the round, whether or not the endpoint responds.
    pub at: DateTime<Utc>,
}

impl RecoverySchedule {
    /// A schedule with rounds at these times after the fourth failed attempt, in seconds. An empty list means no
    /// recovery.
    ///
    /// Errors: the message for the operator.
    pub fn new(rounds_s: &[u32]) -> Result<Self, &'static str> {
        let is_ascending = rounds_s.is_sorted_by(|one, next| one < next);
        let is_possible = rounds_s.iter().all(|seconds| (1..=2_592_000).contains(seconds));
        if rounds_s.len() > ROUNDS_MAX || !is_ascending || !is_possible {
            return Err("must be at most 20 ascending numbers of seconds from 1 to 2592000, for example [60, 300]");
        }
        let rounds = rounds_s.iter().map(|seconds| TimeDelta::seconds(i64::from(*seconds)));
        Ok(Self {
            rounds: rounds.collect(),
        })
    }

    /// Time of the next round. `begun` is the number of rounds so far, `last` the due time of the last of them, and
    /// `failed_at` the end of the last attempt. `None` when there are no more rounds.
    ///
    /// A round may start early because the endpoint responded. It then replaces the round that was due, and the next
    /// round does not start before that due time. So a delivery that is refused while others succeed keeps its later
    /// rounds. A round that was due while the service was down does not shorten the pause after it.
    pub fn next(&self, begun: u32, last: Option<DateTime<Utc>>, failed_at: DateTime<Utc>) -> Option<Recovery> {
        let index = usize::try_from(begun).ok()?;
        let due = *self.rounds.get(index)?;
        let before = index.checked_sub(1).and_then(|index| self.rounds.get(index));
        let (pause, from) = match (before, last) {
            (Some(before), Some(last)) => (due - *before, last),
            _ => (due, failed_at),
        };
        let at = from + pause;
        Some(Recovery {
            from,
            at: if at > failed_at { at } else { failed_at + pause },
        })
    }
}

/// Longest gap between two failed deliveries in a period of failures. An endpoint is deactivated after such a period
/// lasts for `after`. After a longer gap, the period starts again: the service was down or sent nothing to the
/// endpoint.
pub fn pause_max(after: TimeDelta) -> TimeDelta {
    after / 2
}

/// Whether an endpoint that has failed since `failing_since` has to be deactivated; `after` is the allowed time.
pub fn is_dead(failing_since: DateTime<Utc>, now: DateTime<Utc>, after: Option<TimeDelta>) -> bool {
    after.is_some_and(|after| now - failing_since >= after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn window(from: i64, until: i64) -> Option<Recovery> {
        Some(Recovery {
            from: at(from),
            at: at(until),
        })
    }

    #[test]
    fn rounds_are_counted_from_the_fourth_attempt() {
        let schedule = RecoverySchedule::new(&[60, 300, 1_800]).unwrap();
        assert_eq!(schedule.next(0, None, at(0)), window(0, 60));
        assert_eq!(schedule.next(1, Some(at(60)), at(81)), window(60, 300));
        assert_eq!(schedule.next(2, Some(at(300)), at(321)), window(300, 1_800));
        assert_eq!(schedule.next(3, Some(at(1_800)), at(1_821)), None);
        assert_eq!(RecoverySchedule::new(&[]).unwrap().next(0, None, at(0)), None);
    }

    #[test]
    fn an_early_round_replaces_the_one_that_was_due() {
        let schedule = RecoverySchedule::new(&[60, 300, 1_800]).unwrap();
        assert_eq!(schedule.next(1, Some(at(60)), at(25)), window(60, 300));
        assert_eq!(schedule.next(2, Some(at(300)), at(85)), window(300, 1_800));
    }

    #[test]
    fn rounds_missed_while_stopped_do_not_shorten_the_pause() {
        let schedule = RecoverySchedule::new(&[60, 300, 1_800]).unwrap();
        assert_eq!(schedule.next(1, Some(at(60)), at(9_000)), window(60, 9_240));
    }

    #[test]
    fn an_endpoint_is_dead_after_the_configured_time_if_any() {
        let five_days = Some(TimeDelta::days(5));
        assert!(!is_dead(at(0), at(5 * 86_400 - 1), five_days));
        assert!(is_dead(at(0), at(5 * 86_400), five_days));
        assert!(!is_dead(at(0), at(500 * 86_400), None));
    }

    #[test]
    fn recovery_intervals_ascend_and_are_bounded() {
        for wrong in [&[0][..], &[60, 60], &[300, 60], &[2_592_001], &[1; 21]] {
            assert!(RecoverySchedule::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
