//! What becomes of a delivery after its four tries failed, and of an endpoint that takes nothing.

use chrono::{DateTime, TimeDelta, Utc};

/// Rounds that a schedule has at most.
pub const ROUNDS_MAX: usize = 20;

/// When recovery rounds come: the time of each after the fourth failed try, ascending. A round is four more tries of the
/// same delivery.
///
/// Source: decisions D36.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoverySchedule {
    rounds: Vec<TimeDelta>,
}

/// When the next round of a delivery comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// From here on as soon as its endpoint answers again.
    pub from: DateTime<Utc>,
    /// Here in any case.
    pub at: DateTime<Utc>,
}

impl RecoverySchedule {
    /// Rounds at these times after the fourth failed try, in seconds; none when the list is empty.
    ///
    /// Errors: the sentence for the operator.
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

    /// The round after `begun` ones, of which the last was due at `last`; `failed_at` is the end of the last try. `None`
    /// when there are no more.
    ///
    /// A round that came early, because the endpoint answered, takes the place of the one that was due: the next one
    /// does not come before that time. So a delivery that alone is refused keeps its rounds for later. A round that was
    /// due while nothing ran does not shorten the pause after it.
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

/// How long no delivery may fail to an endpoint that takes nothing, when it is switched off `after` that time: beyond it
/// the time begins anew, because the service was off, or asked the endpoint nothing.
pub fn pause_max(after: TimeDelta) -> TimeDelta {
    after / 2
}

/// Whether an endpoint that takes nothing since `failing_since` is switched off; `after` is for how long it may.
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
    fn rounds_count_from_the_fourth_try() {
        let schedule = RecoverySchedule::new(&[60, 300, 1_800]).unwrap();
        assert_eq!(schedule.next(0, None, at(0)), window(0, 60));
        assert_eq!(schedule.next(1, Some(at(60)), at(81)), window(60, 300));
        assert_eq!(schedule.next(2, Some(at(300)), at(321)), window(300, 1_800));
        assert_eq!(schedule.next(3, Some(at(1_800)), at(1_821)), None);
        assert_eq!(RecoverySchedule::new(&[]).unwrap().next(0, None, at(0)), None);
    }

    #[test]
    fn a_round_that_came_early_takes_the_place_of_the_one_that_was_due() {
        let schedule = RecoverySchedule::new(&[60, 300, 1_800]).unwrap();
        assert_eq!(schedule.next(1, Some(at(60)), at(25)), window(60, 300));
        assert_eq!(schedule.next(2, Some(at(300)), at(85)), window(300, 1_800));
    }

    #[test]
    fn what_was_due_while_nothing_ran_shortens_no_pause() {
        let schedule = RecoverySchedule::new(&[60, 300, 1_800]).unwrap();
        assert_eq!(schedule.next(1, Some(at(60)), at(9_000)), window(60, 9_240));
    }

    #[test]
    fn an_endpoint_is_dead_after_its_time_and_never_without_one() {
        let five_days = Some(TimeDelta::days(5));
        assert!(!is_dead(at(0), at(5 * 86_400 - 1), five_days));
        assert!(is_dead(at(0), at(5 * 86_400), five_days));
        assert!(!is_dead(at(0), at(500 * 86_400), None));
    }

    #[test]
    fn a_schedule_ascends_and_ends() {
        for wrong in [&[0][..], &[60, 60], &[300, 60], &[2_592_001], &[1; 21]] {
            assert!(RecoverySchedule::new(wrong).is_err(), "{wrong:?}");
        }
    }
}
