//! How long ago something was, where the clock may have been set back since.

use chrono::{DateTime, TimeDelta, Utc};

/// How far the clocks of two instances may be apart: what another one has just noted may lie that far ahead.
const APART_MAX: TimeDelta = TimeDelta::seconds(1);

/// Between which times something has to lie to be less than a span ago. What lies ahead was noted by a clock that was ahead
/// of this one: nobody knows how long ago that was, and it counts as over, lest it lasts until the clock comes by again.
pub fn period(span: TimeDelta, now: DateTime<Utc>) -> (DateTime<Utc>, DateTime<Utc>) {
    (now - span, now + APART_MAX)
}

/// Whether a time lies less than a span back.
pub fn is_within(at: DateTime<Utc>, span: TimeDelta, now: DateTime<Utc>) -> bool {
    let (from, to) = period(span, now);
    from < at && at < to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_ahead_is_over_but_for_clocks_that_differ_a_little() {
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
