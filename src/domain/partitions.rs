//! Monthly partitions of growing tables: which are needed, and which are old. Source: ADR-0019.

use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveTime, TimeDelta, Utc};
use std::fmt;

/// How long the dropping of an old month may wait for rows that are still needed. After this time, the other rows of
/// the month are deleted one by one.
const PATIENCE: TimeDelta = TimeDelta::days(31);

/// Number of future months with a partition.
const MONTHS_AHEAD: usize = 2;

/// A calendar month in UTC, as its first day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month(NaiveDate);

impl Month {
    /// The month of a time.
    pub fn of(time: DateTime<Utc>) -> Self {
        let day = time.date_naive();
        Self(day.with_day(1).unwrap_or(day))
    }

    /// The next month; the last representable month returns itself.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.checked_add_months(Months::new(1)).unwrap_or(self.0))
    }

    /// Start of the month.
    pub fn begin(self) -> DateTime<Utc> {
        self.0.and_time(NaiveTime::MIN).and_utc()
    }
}

impl fmt::Display for Month {
    /// `2027_01`, the suffix of partition names.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0.format("%Y_%m"))
    }
}

/// A partition: the rows whose ids were generated in a time range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its table name.
    pub name: String,
    /// Start of the range; `None` for a partition of all times before its end.
    pub from: Option<DateTime<Utc>>,
    /// End, exclusive.
    pub until: DateTime<Utc>,
    /// Whether PostgreSQL has analysed the partition and found no row.
    pub is_found_empty: bool,
}

/// The current and future months that have no partition.
pub fn missing(now: DateTime<Utc>, partitions: &[Partition]) -> Vec<Month> {
    let holds = |partition: &Partition, time| partition.from.is_none_or(|from| from <= time) && time < partition.until;
    std::iter::successors(Some(Month::of(now)), |month| Some(month.next()))
        .take(1 + MONTHS_AHEAD)
        .filter(|month| !partitions.iter().any(|partition| holds(partition, month.begin())))
        .collect()
}

/// The partitions of future months that PostgreSQL has analysed and found empty. Query plans assume that such a
/// partition stays empty. Once its month begins, every lookup would scan the whole partition until the next analysis.
pub fn misjudged(now: DateTime<Utc>, partitions: &[Partition]) -> impl Iterator<Item = &Partition> {
    let is_ahead = move |partition: &&Partition| partition.from.is_some_and(|from| from > now);
    partitions
        .iter()
        .filter(is_ahead)
        .filter(|partition| partition.is_found_empty)
}

/// The partitions whose rows are all before `cutoff`, oldest first.
pub fn old(cutoff: DateTime<Utc>, mut partitions: Vec<Partition>) -> Vec<Partition> {
    partitions.retain(|partition| partition.until <= cutoff);
    partitions.sort_by_key(|partition| partition.until);
    partitions
}

/// Rows that are older than `cutoff` and older than the returned time are deleted one by one. Such rows are in no
/// monthly partition, or in a month that could not be dropped for a long time. `None` without partitions.
pub fn swept_until(cutoff: DateTime<Utc>, partitions: &[Partition]) -> Option<DateTime<Utc>> {
    let held_up = cutoff - PATIENCE;
    let is_swept = |partition: &&Partition| partition.from.is_none() || partition.until <= held_up;
    let swept = partitions.iter().filter(is_swept).map(|partition| partition.until);
    swept.chain(first(partitions)).max().map(|until| until.min(cutoff))
}

/// Start of the first month; `None` while there is a partition for all times before the first month.
pub fn first(partitions: &[Partition]) -> Option<DateTime<Utc>> {
    partitions.iter().map(|partition| partition.from).min().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> DateTime<Utc> {
        format!("{text}Z").parse().unwrap()
    }

    fn partition(from: Option<&str>, until: &str) -> Partition {
        Partition {
            name: until.to_owned(),
            from: from.map(time),
            until: time(until),
            is_found_empty: false,
        }
    }

    #[test]
    fn missing_partitions_of_this_month_and_the_next_two_are_created() {
        let now = time("2026-12-31T23:59:59.999");
        let wanted = |partitions: &[Partition]| -> Vec<String> {
            missing(now, partitions).iter().map(ToString::to_string).collect()
        };
        assert_eq!(wanted(&[]), ["2026_12", "2027_01", "2027_02"]);
        let before = partition(None, "2027-01-01T00:00:00");
        assert_eq!(wanted(std::slice::from_ref(&before)), ["2027_01", "2027_02"]);
        let january = partition(Some("2027-01-01T00:00:00"), "2027-02-01T00:00:00");
        assert_eq!(wanted(&[before.clone(), january.clone()]), ["2027_02"]);
        let far_ahead = partition(Some("2029-01-01T00:00:00"), "2029-02-01T00:00:00");
        assert_eq!(wanted(&[far_ahead, before, january]), ["2027_02"]);
    }

    #[test]
    fn a_partition_is_old_when_its_end_is_old() {
        let partitions = vec![
            partition(Some("2026-02-01T00:00:00"), "2026-03-01T00:00:00"),
            partition(None, "2026-02-01T00:00:00"),
            partition(Some("2026-03-01T00:00:00"), "2026-04-01T00:00:00"),
        ];
        let names = |cutoff| -> Vec<String> {
            let old = old(time(cutoff), partitions.clone());
            old.into_iter().map(|partition| partition.name).collect()
        };
        assert_eq!(names("2026-02-28T23:59:59.999"), ["2026-02-01T00:00:00"]);
        assert_eq!(
            names("2026-03-01T00:00:00"),
            ["2026-02-01T00:00:00", "2026-03-01T00:00:00"]
        );
    }

    #[test]
    fn only_a_future_partition_can_be_misjudged_as_empty() {
        let now = time("2026-02-10T00:00:00");
        let mut partitions = vec![
            partition(None, "2026-02-01T00:00:00"),
            partition(Some("2026-02-01T00:00:00"), "2026-03-01T00:00:00"),
            partition(Some("2026-03-01T00:00:00"), "2026-04-01T00:00:00"),
        ];
        assert_eq!(misjudged(now, &partitions).count(), 0);
        for partition in &mut partitions {
            partition.is_found_empty = true;
        }
        let names: Vec<&str> = misjudged(now, &partitions).map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["2026-04-01T00:00:00"]);
    }

    #[test]
    fn rows_are_deleted_singly_where_no_month_is_dropped() {
        let before = partition(None, "2026-02-01T00:00:00");
        let february = partition(Some("2026-02-01T00:00:00"), "2026-03-01T00:00:00");
        let both = [before, february.clone()];
        let only = std::slice::from_ref(&february);
        let until = |cutoff, partitions: &[Partition]| swept_until(time(cutoff), partitions);
        assert_eq!(until("2026-01-10T00:00:00", &both), Some(time("2026-01-10T00:00:00")));
        assert_eq!(until("2026-03-02T00:00:00", &both), Some(time("2026-02-01T00:00:00")));
        assert_eq!(
            until("2026-03-31T23:00:00", only),
            february.from,
            "rows older than the first partition"
        );
        assert_eq!(until("2026-01-10T00:00:00", only), Some(time("2026-01-10T00:00:00")));
        assert_eq!(until("2026-04-01T00:00:00", only), Some(february.until));
        assert_eq!(first(&both), None);
        assert_eq!(first(only), february.from);
        assert_eq!(first(&[]), None);
    }
}
