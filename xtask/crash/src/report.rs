//! The results of the faults as one table.

use crate::fault::{Database, Fault};
use crate::verdict::Verdict;

/// The result of one fault on one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The fault.
    pub(crate) fault: Fault,
    /// The database of the service.
    pub(crate) database: Database,
    /// Number of rounds.
    pub(crate) rounds: u64,
    /// Number of requests that were acknowledged with 201.
    pub(crate) acknowledged: usize,
    /// Number of requests, credits and events that are missing.
    pub(crate) lost: usize,
    /// Number of requests, credits and events that are surplus.
    pub(crate) doubled: usize,
    /// Number of deliveries whose bytes or signature are wrong.
    pub(crate) changed: usize,
    /// A measured value that is specific to this fault, as text.
    pub(crate) note: String,
    /// Promises that this fault checks in addition to the counts, and that did not hold.
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

    /// The row of a fault that ended with an error.
    pub(crate) fn failed(fault: Fault, database: Database, error: &anyhow::Error) -> Self {
        let mut row = Self::of(fault, database, 0, &Verdict::default());
        row.note = "did not finish".to_owned();
        row.violations.push(format!("{error:#}"));
        row
    }

    /// Puts the measured value of this fault before the existing note.
    pub(crate) fn note(&mut self, figure: &str) {
        self.note = format!("{figure}; {}", self.note);
    }

    /// Records a violation if the promise does not hold.
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

/// All rows, followed by the violations.
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
    fn a_row_adds_up_lost_doubled_and_changed_items() {
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
    fn the_table_shows_each_row_and_its_violations() {
        let mut row = Row::of(Fault::DatabaseOutages, Database::Postgres, 3, &Verdict::default());
        row.note("slowest response 40 ms");
        row.check(true, || "never shown".to_owned());
        row.check(false, || "a response took 3 s".to_owned());
        let table = table(&[row]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].starts_with("| fault "));
        assert!(lines[2].contains("| postgres | 3 "));
        assert!(lines[2].contains("slowest response 40 ms; 0 paid"));
        assert_eq!(lines[3], "database-outages (F4) on postgres: a response took 3 s");
    }
}
