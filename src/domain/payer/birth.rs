//! Birth dates.

use chrono::{DateTime, Datelike as _, NaiveDate, Utc};

/// Message for a text that is not a birth date.
pub const HINT: &str = "must be a past date from 1900 on, written as YYYY-MM-DD, for example 1985-12-12";

/// Earliest accepted year of birth: no living person was born earlier.
const FIRST_YEAR: i32 = 1900;

/// Whether a text is a birth date: a calendar day before the current day in UTC, in an accepted year.
pub fn is_real(text: &str, now: DateTime<Utc>) -> bool {
    let is_written_so = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
    is_written_so && date.is_some_and(|date| date.year() >= FIRST_YEAR && date < now.date_naive())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_birth_date_is_in_the_past() {
        let now = DateTime::parse_from_rfc3339("2026-03-01T12:00:00Z").unwrap().to_utc();
        for good in ["1985-12-12", "2024-02-29", "2026-02-28", "1900-01-01"] {
            assert!(is_real(good, now), "{good}");
        }
        for wrong in [
            "12/12/1985",
            "1985-02-30",
            "2025-02-29",
            "2026-03-01",
            "2026-03-02",
            "1899-12-31",
            "85-12-12",
            "1985-1-1",
            "+985-12-12",
            "",
        ] {
            assert!(!is_real(wrong, now), "{wrong}");
        }
    }
}
