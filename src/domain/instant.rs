//! Points in time that callers write.

use chrono::{DateTime, Datelike, SubsecRound, Utc};

/// Reads a point in time of RFC 3339 at any offset, as both databases hold it: in microseconds, and in a year from 1 to
/// 9999 in UTC. A leap second is refused, because a chain and a database would move it to another second.
///
/// Source: decisions D47.
pub fn parse_instant(text: &str) -> Option<DateTime<Utc>> {
    let time = DateTime::parse_from_rfc3339(text).ok()?.to_utc();
    let is_held = time.timestamp_subsec_nanos() < 1_000_000_000 && (1..=9_999).contains(&time.year());
    is_held.then(|| time.trunc_subsecs(6))
}
