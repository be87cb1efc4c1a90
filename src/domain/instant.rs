//! Points in time in API calls.

use chrono::{DateTime, Datelike, SubsecRound, Utc};

/// Reads an RFC 3339 point in time at any offset, with the precision of both databases: microseconds, and a year from 1
/// to 9999 in UTC. A leap second is rejected, because a chain and a database would move it to another second.
///
/// Source: decisions D47.
pub fn parse_instant(text: &str) -> Option<DateTime<Utc>> {
    let time = DateTime::parse_from_rfc3339(text).ok()?.to_utc();
    let is_held = time.timestamp_subsec_nanos() < 1_000_000_000 && (1..=9_999).contains(&time.year());
    is_held.then(|| time.trunc_subsecs(6))
}
