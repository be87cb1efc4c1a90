//! Decides whether a time is recent, although the clock may have been set back since the time was recorded.

use chrono::{DateTime, TimeDelta, Utc};

/// Largest difference between the clocks of two instances: a time that another instance has just recorded may be ahead
/// of this clock by this much.
const APART_MAX: TimeDelta = TimeDelta::seconds(1);

/// The first and last of the times that are less than `span` ago. A later time was recorded by a clock that was ahead.
/// Its age is unknown, so it counts as long ago. Otherwise it would count as recent until the clock reaches it again.
pub fn period(span: TimeDelta, now: DateTime<Utc>) -> (DateTime<Utc>, DateTime<Utc>) {
    (now - span, now + APART_MAX)
}

/// Whether a time is less than a span ago.
pub fn is_within(at: DateTime<Utc>, span: TimeDelta, now: DateTime<Utc>) -> bool {
    let (from, to) = period(span, now);
    from < at && at < to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn future_times_are_over_except_for_small_clock_differences() {
        let at = |ms: i64| DateTime::UNIX_EPOCH + TimeDelta::milliseconds(ms);
        for (ms, expected) in [
            (-60_000, false),
            (-59_999, true),
            (0, true),
            (999, true),
            (1_000, false),
            (3_600_000, false),
        ] {
            assert_eq!(is_within(at(ms), TimeDelta::minutes(1), at(0)), expected, "{ms}");
        }
    }
}
