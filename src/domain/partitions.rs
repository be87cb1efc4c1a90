//! Tables that grow are divided by month: which partitions are wanted, and which are old. Source: ADR-0019.

use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveTime, TimeDelta, Utc};
use std::fmt;

/// For how long a month that is old may be held up by what is needed of it, before the rest of it is deleted row by row.
const PATIENCE: TimeDelta = TimeDelta::days(31);

/// Months that have their partition before they begin.
const MONTHS_AHEAD: usize = 2;

/// A month of the calendar in UTC, as its first day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Month(NaiveDate);

impl Month {
    /// The month that a time is in.
    pub fn of(time: DateTime<Utc>) -> Self {
        let day = time.date_naive();
        Self(day.with_day(1).unwrap_or(day))
    }

    /// The month after this one; the last one that there is stays.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.checked_add_months(Months::new(1)).unwrap_or(self.0))
    }

    /// When it begins.
    pub fn begin(self) -> DateTime<Utc> {
        self.0.and_time(NaiveTime::MIN).and_utc()
    }
}

impl fmt::Display for Month {
    /// `2027_01`, as names of partitions end.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0.format("%Y_%m"))
    }
}

/// A partition: the rows whose ids were drawn in a span of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Its own name as a table.
    pub name: String,
    /// From this time on; `None` for everything before its end.
    pub from: Option<DateTime<Utc>>,
    /// Before this time.
    pub until: DateTime<Utc>,
    /// Whether the server has looked at it and found no row.
    pub is_found_empty: bool,
}

/// The months, the present one and those ahead, of which no partition holds the beginning.
pub fn missing(now: DateTime<Utc>, partitions: &[Partition]) -> Vec<Month> {
    let holds = |partition: &Partition, time| partition.from.is_none_or(|from| from <= time) && time < partition.until;
    std::iter::successors(Some(Month::of(now)), |month| Some(month.next()))
        .take(1 + MONTHS_AHEAD)
        .filter(|month| !partitions.iter().any(|partition| holds(partition, month.begin())))
        .collect()
}

/// The partitions of months ahead that the server has found empty. It plans as if they stayed so, and would read all of
/// such a month, for every row that is looked up, from its begin on until it looks again.
pub fn misjudged(now: DateTime<Utc>, partitions: &[Partition]) -> impl Iterator<Item = &Partition> {
    let is_ahead = move |partition: &&Partition| partition.from.is_some_and(|from| from > now);
    partitions
        .iter()
        .filter(is_ahead)
        .filter(|partition| partition.is_found_empty)
}

/// The partitions whose rows are all from before `cutoff`, the oldest first.
pub fn old(cutoff: DateTime<Utc>, mut partitions: Vec<Partition>) -> Vec<Partition> {
    partitions.retain(|partition| partition.until <= cutoff);
    partitions.sort_by_key(|partition| partition.until);
    partitions
}

/// Up to when rows that are older than `cutoff` are deleted one by one: what is from before all months, in their own
/// partition or in none, which may be of any age, and months that something holds up. `None` without partitions.
pub fn swept_until(cutoff: DateTime<Utc>, partitions: &[Partition]) -> Option<DateTime<Utc>> {
    let held_up = cutoff - PATIENCE;
    let is_swept = |partition: &&Partition| partition.from.is_none() || partition.until <= held_up;
    let swept = partitions.iter().filter(is_swept).map(|partition| partition.until);
    swept.chain(first(partitions)).max().map(|until| until.min(cutoff))
}

/// When the first month begins; `None` while there is a partition of everything before.
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
    fn the_present_month_and_two_ahead_get_the_partitions_that_they_lack() {
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
    fn a_partition_is_old_when_its_last_moment_is() {
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
    fn only_a_month_ahead_is_misjudged_as_empty() {
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
    fn rows_are_deleted_one_by_one_where_a_month_is_not_dropped() {
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
            "strays from before it"
        );
        assert_eq!(until("2026-01-10T00:00:00", only), Some(time("2026-01-10T00:00:00")));
        assert_eq!(until("2026-04-01T00:00:00", only), Some(february.until));
        assert_eq!(first(&both), None);
        assert_eq!(first(only), february.from);
        assert_eq!(first(&[]), None);
    }
}
