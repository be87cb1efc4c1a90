//! The list of accepted linter complaints, and the check that it is exact.
//!
//! The check fails on a complaint without an exception. It also fails on an exception of which a part covers no
//! complaint.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result};
use serde::Deserialize;

/// Maximum number of exceptions. If more were needed, the documents would be wrong rather than the linters.
const EXCEPTIONS_MAX: usize = 7;

/// A complaint of a linter about a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complaint {
    /// The linter, or one of its rule sets.
    pub linter: &'static str,
    /// Name of the rule.
    pub rule: String,
    /// The document and the location in it, as names of members joined by slashes.
    pub place: String,
    /// The complaint in words.
    pub message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            linter,
            rule,
            place,
            message,
        } = self;
        write!(formatter, "{linter} {rule} at {place}: {message}")
    }
}

/// `openapi/exceptions.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    exception: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    name: String,
    reason: String,
    rules: Vec<String>,
    /// Texts of which one must occur in the location or in the message of a covered complaint.
    places: Vec<String>,
}

impl Exception {
    fn excuses(&self, complaint: &Complaint) -> bool {
        let is_there = |place: &String| stands_at(place, complaint);
        self.rules.contains(&complaint.rule) && self.places.iter().any(is_there)
    }
}

fn stands_at(place: &str, complaint: &Complaint) -> bool {
    complaint.place.contains(place) || complaint.message.contains(place)
}

/// The result of the check: uncovered complaints, unused exceptions, and how often each exception was used.
#[derive(Debug, Default)]
pub struct Judgement {
    /// Complaints without an exception.
    pub open: Vec<Complaint>,
    /// Exceptions that must be removed or completed, with the reason.
    pub rows: Vec<String>,
    /// Number of complaints that each exception covers.
    pub excused: BTreeMap<String, usize>,
}

impl Exceptions {
    /// Reads the list.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context("openapi/exceptions.toml")
    }

    /// Compares the list with the complaints of the linters.
    pub fn judge(&self, complaints: &[Complaint]) -> Judgement {
        let mut judgement = Judgement::default();
        if self.exception.len() > EXCEPTIONS_MAX {
            let count = self.exception.len();
            judgement
                .rows
                .push(format!("{count} exceptions are more than {EXCEPTIONS_MAX}"));
        }
        for exception in &self.exception {
            let excused: Vec<&Complaint> = complaints.iter().filter(|one| exception.excuses(one)).collect();
            let unused_rules = exception
                .rules
                .iter()
                .filter(|rule| !excused.iter().any(|one| one.rule == **rule));
            let unused_places = exception
                .places
                .iter()
                .filter(|place| !excused.iter().any(|one| stands_at(place, one)));
            let unused = unused_rules.chain(unused_places);
            let row = |what: String| format!("exception {}: {what}", exception.name);
            judgement
                .rows
                .extend(unused.map(|part| row(format!("{part} covers no complaint; remove it"))));
            if exception.reason.trim().is_empty() {
                judgement.rows.push(row("the reason is missing".to_owned()));
            }
            judgement.excused.insert(exception.name.clone(), excused.len());
        }
        let is_open = |one: &&Complaint| !self.exception.iter().any(|exception| exception.excuses(one));
        judgement.open = complaints.iter().filter(is_open).cloned().collect();
        judgement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(rule: &str, place: &str) -> Complaint {
        Complaint {
            linter: "spectral",
            rule: rule.to_owned(),
            place: place.to_owned(),
            message: "wrong".to_owned(),
        }
    }

    fn list(rules: &str, places: &str, reason: &str) -> Exceptions {
        let text =
            format!("[[exception]]\nname = \"one\"\nreason = \"{reason}\"\nrules = {rules}\nplaces = {places}\n");
        Exceptions::parse(&text).unwrap()
    }

    #[test]
    fn a_complaint_needs_an_exception_for_its_rule_and_its_place() {
        let list = list(r#"["contact"]"#, r#"["v2 info"]"#, "unused");
        let judgement = list.judge(&[
            complaint("contact", "v2 info/contact"),
            complaint("contact", "auth info/contact"),
            complaint("licence", "v2 info"),
        ]);
        let open: Vec<String> = judgement.open.iter().map(ToString::to_string).collect();
        assert_eq!(
            open,
            [
                "spectral contact at auth info/contact: wrong",
                "spectral licence at v2 info: wrong"
            ]
        );
        assert_eq!(judgement.excused["one"], 1);
        assert!(judgement.rows.is_empty());
    }

    #[test]
    fn an_exception_that_excuses_nothing_or_has_no_reason_is_refused() {
        let list = list(r#"["contact", "licence"]"#, r#"["v2 info", "v2 paths"]"#, " ");
        let judgement = list.judge(&[complaint("contact", "v2 info/contact")]);
        assert_eq!(
            judgement.rows,
            [
                "exception one: licence covers no complaint; remove it",
                "exception one: v2 paths covers no complaint; remove it",
                "exception one: the reason is missing"
            ]
        );
    }

    #[test]
    fn there_are_at_most_seven_exceptions() {
        let row = "[[exception]]\nname = \"one\"\nreason = \"so\"\nrules = [\"a\"]\nplaces = [\"b\"]\n";
        let complaints = [complaint("a", "b")];
        let rows = |count: usize| Exceptions::parse(&row.repeat(count)).unwrap().judge(&complaints).rows;
        assert!(rows(7).is_empty());
        assert_eq!(rows(8), ["8 exceptions are more than 7"]);
    }
}
