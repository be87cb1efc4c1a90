//! The list of allowed differences between contract and export, and the check that it is exact.
//!
//! The check fails on a difference without a row, and also on a row without a difference. So the list cannot hide a
//! change and cannot become outdated.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::published::{Comparison, Finding};

/// `openapi/deviations.toml`.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Deviations {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deviation: Vec<Deviation>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    extra: Vec<Extra>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    not_yet: Vec<NotYet>,
}

/// An intended difference.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Deviation {
    operation: String,
    /// The text of the allowed finding, or the first words of that text.
    pointer: String,
    reason: String,
    source: String,
}

/// An operation that the contract does not have.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Extra {
    operation: String,
    reason: String,
}

/// An operation of the contract that a later capability adds.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct NotYet {
    operation: String,
    capability: String,
}

/// The result of the check: differences that the list does not cover, and rows that cover no difference.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Differences without a row.
    pub uncovered: Vec<Finding>,
    /// Operations of the contract that are neither built nor listed as not yet built.
    pub missing: Vec<String>,
    /// Operations that only the export has, and that no row allows.
    pub extra: Vec<String>,
    /// Rows that must be removed or completed, with the reason.
    pub rows: Vec<String>,
}

impl Verdict {
    /// Whether the list matches the differences.
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

impl Deviations {
    /// Reads the list.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context("openapi/deviations.toml")
    }

    /// Compares the list with the results of the comparison.
    pub fn judge(&self, comparison: &Comparison) -> Verdict {
        let mut rows = Vec::new();
        let mut refuse = |is_wrong: bool, row: &str, why: &str| rows.extend(is_wrong.then(|| format!("{row}: {why}")));
        for row in &self.deviation {
            let name = format!("deviation {}, {}", row.operation, row.pointer);
            let is_used = comparison.findings.iter().any(|finding| row.covers(finding));
            refuse(!is_used, &name, "no such difference, remove the row");
            let is_explained = !is_blank(&row.reason) && !is_blank(&row.source);
            refuse(!is_explained, &name, "reason and source are needed");
        }
        for row in &self.not_yet {
            let name = format!("not_yet {}", row.operation);
            let is_built = comparison.present.contains(&row.operation);
            let is_known = is_built || comparison.missing.contains(&row.operation);
            refuse(is_built, &name, "the operation exists, remove the row");
            refuse(!is_known, &name, "the contract has no such operation");
            refuse(is_blank(&row.capability), &name, "the capability is not named");
        }
        for row in &self.extra {
            let name = format!("extra {}", row.operation);
            let is_ours = comparison.extra.contains(&row.operation);
            refuse(!is_ours, &name, "no such operation beyond the contract");
            refuse(is_blank(&row.reason), &name, "the reason is missing");
        }
        let is_uncovered = |finding: &&Finding| !self.deviation.iter().any(|row| row.covers(finding));
        let is_forgotten = |name: &&String| !self.not_yet.iter().any(|row| row.operation == **name);
        let is_unlisted = |name: &&String| !self.extra.iter().any(|row| row.operation == **name);
        Verdict {
            uncovered: comparison.findings.iter().filter(is_uncovered).cloned().collect(),
            missing: comparison.missing.iter().filter(is_forgotten).cloned().collect(),
            extra: comparison.extra.iter().filter(is_unlisted).cloned().collect(),
            rows,
        }
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

impl Deviation {
    fn covers(&self, finding: &Finding) -> bool {
        self.operation == finding.operation
            && finding.text.strip_prefix(&self.pointer).is_some_and(|rest| {
                rest.chars()
                    .next()
                    .is_none_or(|next| !next.is_alphanumeric() && next != '_' && next != '-')
            })
    }
}

/// New rows that would cover the findings of a verdict. They can be pasted into the list after their reasons are added.
///
/// The reason and the source of each row are empty. The check refuses empty ones, so a pasted row must be completed.
pub fn missing_rows(verdict: &Verdict) -> Result<String> {
    let deviation = |finding: &Finding| Deviation {
        operation: finding.operation.clone(),
        pointer: finding.text.clone(),
        reason: String::new(),
        source: String::new(),
    };
    let extra = |name: &String| Extra {
        operation: name.clone(),
        reason: String::new(),
    };
    let not_yet = |name: &String| NotYet {
        operation: name.clone(),
        capability: String::new(),
    };
    let rows = Deviations {
        deviation: verdict.uncovered.iter().map(deviation).collect(),
        extra: verdict.extra.iter().map(extra).collect(),
        not_yet: verdict.missing.iter().map(not_yet).collect(),
    };
    Ok(toml::to_string(&rows)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn finding(operation: &str, text: &str) -> Finding {
        Finding {
            operation: operation.to_owned(),
            text: text.to_owned(),
        }
    }

    fn list(text: &str) -> Deviations {
        Deviations::parse(text).unwrap()
    }

    const ROW: &str =
        "[[deviation]]\noperation = 'GET /a'\npointer = 'query parameter token'\nreason = 'r'\nsource = 's'\n";

    #[test]
    fn a_row_covers_by_prefix_up_to_a_boundary() {
        let comparison = Comparison {
            findings: vec![
                finding("GET /a", "query parameter token: enum missing [] extra [\"DAI\"]"),
                finding("GET /a", "query parameter tokens: missing"),
                finding("GET /b", "query parameter token: missing"),
            ],
            ..Comparison::default()
        };
        let verdict = list(ROW).judge(&comparison);
        assert_eq!(verdict.uncovered, comparison.findings[1..]);
        assert!(verdict.rows.is_empty());
    }

    #[test]
    fn an_unused_row_fails() {
        let verdict = list(ROW).judge(&Comparison::default());
        assert_eq!(
            verdict.rows,
            ["deviation GET /a, query parameter token: no such difference, remove the row"]
        );
    }

    #[test]
    fn the_list_of_later_operations_only_shrinks() {
        let rows = list(
            "[[not_yet]]\noperation = 'GET /a'\ncapability = 'payouts'\n[[not_yet]]\noperation = 'GET /z'\ncapability = 'payouts'\n",
        );
        let comparison = Comparison {
            present: BTreeSet::from(["GET /a".to_owned()]),
            missing: BTreeSet::from(["GET /b".to_owned()]),
            ..Comparison::default()
        };
        let verdict = rows.judge(&comparison);
        assert_eq!(verdict.missing, ["GET /b"]);
        assert_eq!(
            verdict.rows,
            [
                "not_yet GET /a: the operation exists, remove the row",
                "not_yet GET /z: the contract has no such operation",
            ]
        );
    }

    #[test]
    fn operations_beyond_the_contract_need_a_row() {
        let comparison = Comparison {
            extra: BTreeSet::from(["GET /health".to_owned(), "GET /new".to_owned()]),
            ..Comparison::default()
        };
        let rows = list("[[extra]]\noperation = 'GET /health'\nreason = 'operators need it'\n");
        assert_eq!(rows.judge(&comparison).extra, ["GET /new"]);
    }

    #[test]
    fn printed_rows_cover_missing_ones_after_a_reason_is_added() {
        let comparison = Comparison {
            findings: vec![finding(
                "GET /a",
                "query parameter token: enum missing [] extra [\"DAI\"]",
            )],
            missing: BTreeSet::from(["GET /b".to_owned()]),
            extra: BTreeSet::from(["GET /c".to_owned()]),
            ..Comparison::default()
        };
        let printed = missing_rows(&Deviations::default().judge(&comparison)).unwrap();
        let unfinished = list(&printed).judge(&comparison);
        assert!(unfinished.uncovered.is_empty() && unfinished.missing.is_empty() && unfinished.extra.is_empty());
        assert_eq!(unfinished.rows.len(), 3);
        assert!(
            list(&printed.replace("\"\"", "\"known\""))
                .judge(&comparison)
                .is_clean()
        );
    }

    #[test]
    fn the_committed_list_parses_and_its_later_operations_are_in_the_contract() {
        let committed = list(include_str!("../../../openapi/deviations.toml"));
        let contract: Vec<serde_json::Value> = [
            include_str!("../../../openapi/contract/v2-0.13.0.json"),
            include_str!("../../../openapi/contract/auth-v1.json"),
        ]
        .iter()
        .map(|text| serde_json::from_str(text).unwrap())
        .collect();
        let comparison = crate::published::compare(&contract, &[]);
        let strangers: Vec<&String> = committed
            .not_yet
            .iter()
            .map(|row| &row.operation)
            .filter(|operation| !comparison.missing.contains(*operation))
            .collect();
        assert_eq!(strangers, Vec::<&String>::new());
    }
}
