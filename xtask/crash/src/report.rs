//! What the faults cost, as one table.

use crate::fault::{Database, Fault};
use crate::verdict::Verdict;

/// One fault on one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// What was done.
    pub(crate) fault: Fault,
    /// Where the state was.
    pub(crate) database: Database,
    /// How often.
    pub(crate) rounds: u64,
    /// Requests that were answered with 201.
    pub(crate) acknowledged: usize,
    /// Requests, credits and events that are missing.
    pub(crate) lost: usize,
    /// Requests, credits and events that are too many.
    pub(crate) doubled: usize,
    /// Deliveries whose bytes or signature are not those that they should be.
    pub(crate) changed: usize,
    /// The figure that belongs to this fault.
    pub(crate) note: String,
    /// Promises of this fault that did not hold, besides the counts.
    pub(crate) violations: Vec<String>,
}

impl Row {
    /// The counts of a verdict.
    pub(crate) fn of(fault: Fault, database: Database, rounds: u64, verdict: &Verdict) -> Self {
        Self {
            fault,
            database,
            rounds,
            acknowledged: verdict.acknowledged,
            lost: verdict.lost(),
            doubled: verdict.doubled(),
            changed: verdict.changed(),
            note: format!(
                "{} paid, {} deliveries, {} repeated",
                verdict.paid, verdict.deliveries, verdict.deliveries_repeated
            ),
            violations: Vec::new(),
        }
    }

    /// A fault that could not be played to its end.
    pub(crate) fn failed(fault: Fault, database: Database, error: &anyhow::Error) -> Self {
        let mut row = Self::of(fault, database, 0, &Verdict::default());
        row.note = "did not end".to_owned();
        row.violations.push(format!("{error:#}"));
        row
    }

    /// Adds the fault's own figure.
    pub(crate) fn note(&mut self, figure: &str) {
        self.note = format!("{figure}; {}", self.note);
    }

    /// Adds a promise unless it held.
    pub(crate) fn check(&mut self, holds: bool, promise: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(promise());
        }
    }

    /// Whether every promise held.
    pub(crate) fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.changed == 0 && self.violations.is_empty()
    }
}

/// All rows below each other, and what is wrong with them below that.
pub(crate) fn table(rows: &[Row]) -> String {
    let head = [
        "fault",
        "database",
        "rounds",
        "acknowledged",
        "lost",
        "doubled",
        "changed bytes",
        "note",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    for row in rows {
        lines.push([
            row.fault.title(),
            row.database.name().to_owned(),
            row.rounds.to_string(),
            row.acknowledged.to_string(),
            row.lost.to_string(),
            row.doubled.to_string(),
            row.changed.to_string(),
            row.note.clone(),
        ]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let shown = |line: &[String; 8]| {
        let cells = line
            .iter()
            .zip(&widths)
            .map(|(text, width)| format!(" {text:<width$} |"));
        format!("|{}", cells.collect::<String>())
    };
    let rule: String = widths
        .iter()
        .map(|width| format!("{}|", "-".repeat(width + 2)))
        .collect();
    let mut text: Vec<String> = lines.iter().map(shown).collect();
    text.insert(1, format!("|{rule}"));
    for row in rows {
        let (fault, database) = (row.fault.title(), row.database.name());
        text.extend(
            row.violations
                .iter()
                .map(|violation| format!("{fault} on {database}: {violation}")),
        );
    }
    text.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_adds_up_what_is_missing_too_much_and_changed() {
        let verdict = Verdict {
            acknowledged: 9,
            requests_lost: 1,
            not_credited: 2,
            events_lost: 3,
            credited_twice: 4,
            deliveries_changed: 5,
            ..Verdict::default()
        };
        let row = Row::of(Fault::Kills, Database::Sqlite, 7, &verdict);
        assert_eq!((row.lost, row.doubled, row.changed), (6, 4, 5));
        assert!(!row.is_clean());
        assert!(Row::of(Fault::Kills, Database::Sqlite, 7, &Verdict::default()).is_clean());
    }

    #[test]
    fn the_table_shows_each_row_and_what_is_wrong() {
        let mut row = Row::of(Fault::DatabaseOutages, Database::Postgres, 3, &Verdict::default());
        row.note("slowest answer 40 ms");
        row.check(true, || "never shown".to_owned());
        row.check(false, || "an answer took 3 s".to_owned());
        let table = table(&[row]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].starts_with("| fault "));
        assert!(lines[2].contains("| postgres | 3 "));
        assert!(lines[2].contains("slowest answer 40 ms; 0 paid"));
        assert_eq!(lines[3], "database-outages (F4) on postgres: an answer took 3 s");
    }
}
