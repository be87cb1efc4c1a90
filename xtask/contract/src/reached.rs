//! Which of the documented answers were sent: every operation with each of its statuses.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::document::Document;

/// An operation, by its operationId, and a status.
pub type Pair = (String, u16);

/// The list of answers that need not be sent by a test.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excuses {
    #[serde(default)]
    excuse: Vec<Excuse>,
}

/// Answers that no test sends, and why.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Excuse {
    operation: String,
    status: u16,
    reason: String,
}

/// In what the list and the answers differ.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Documented answers that nobody sent and no row excuses.
    pub unreached: Vec<Pair>,
    /// Rows that excuse what was sent or is not documented, or that give no reason.
    pub idle: Vec<Pair>,
}

impl Excuses {
    /// Reads the list.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context("openapi/unreached.toml")
    }

    /// How many answers are excused.
    pub fn count(&self) -> usize {
        self.excuse.len()
    }

    /// Holds the answers that were sent against those of the documents.
    pub fn judge(&self, documents: &[Value], reached: &BTreeSet<Pair>) -> Verdict {
        let documented = documented(documents);
        let open: BTreeSet<&Pair> = documented.difference(reached).collect();
        let excused: BTreeSet<Pair> = self.excuse.iter().map(pair).collect();
        let is_idle = |row: &&Excuse| row.reason.trim().is_empty() || !open.contains(&pair(row));
        Verdict {
            idle: self.excuse.iter().filter(is_idle).map(pair).collect(),
            unreached: open
                .into_iter()
                .filter(|pair| !excused.contains(*pair))
                .cloned()
                .collect(),
        }
    }
}

fn pair(row: &Excuse) -> Pair {
    (row.operation.clone(), row.status)
}

/// Every documented answer.
pub fn documented(documents: &[Value]) -> BTreeSet<Pair> {
    let mut found = BTreeSet::new();
    for document in documents {
        for operation in Document::new(document).operations() {
            let id = operation.body["operationId"].as_str().unwrap_or_default();
            let answers = operation.body["responses"].as_object().into_iter().flatten();
            let statuses = answers.filter_map(|(status, _)| status.parse().ok());
            found.extend(statuses.map(|status| (id.to_owned(), status)));
        }
    }
    found
}

/// The answer that a line of a test run tells of: `getRequest 200`.
pub fn line(text: &str) -> Option<Pair> {
    let (id, status) = text.split_once(' ')?;
    Some((id.to_owned(), status.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_nobody_sent_is_found_and_an_excuse_that_excuses_nothing_too() {
        let document =
            json!({"paths": {"/a": {"get": {"operationId": "getA", "responses": {"200": {}, "404": {}, "500": {}}}}}});
        let list = |rows: &[(u16, &str)]| {
            let row = |(status, reason): &(u16, &str)| {
                format!("[[excuse]]\noperation = \"getA\"\nstatus = {status}\nreason = \"{reason}\"\n")
            };
            Excuses::parse(&rows.iter().map(row).collect::<String>()).unwrap()
        };
        let reached = BTreeSet::from([line("getA 200").unwrap()]);
        let of = |status: u16| vec![("getA".to_owned(), status)];
        let judged = |rows: &[(u16, &str)]| list(rows).judge(std::slice::from_ref(&document), &reached);
        let verdict = judged(&[(404, "it is rare")]);
        assert_eq!((verdict.unreached, verdict.idle), (of(500), vec![]));
        assert_eq!(judged(&[(404, "a"), (500, "b")]), Verdict::default());
        assert_eq!(judged(&[(404, "a"), (500, " ")]).idle, of(500));
        assert_eq!(judged(&[(404, "a"), (500, "b"), (200, "c")]).idle, of(200));
        assert_eq!(line("nothing"), None);
    }
}
