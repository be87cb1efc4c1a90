//! One run of schemathesis: one document, one credential, and the operations that the credential can call.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use super::callers::{Caller, Credential};
use xtask::machine::workspace;

/// Which checks run.
const CONFIG: &str = "tests/fuzz/schemathesis.toml";

/// Parameters of a trial.
pub(super) struct Trial<'a> {
    pub(super) program: &'a Path,
    /// Folder for logs and reports.
    pub(super) folder: &'a Path,
    /// Name and URL of the document.
    pub(super) document: (&'a str, &'a Path),
    pub(super) caller: &'a Caller,
    pub(super) credential: Option<&'a Credential>,
    pub(super) operations: &'a [&'a str],
    pub(super) base_url: &'a str,
    pub(super) bound: Bound,
    pub(super) seed: u64,
}

/// When a trial ends. With a number of calls, the findings do not depend on the speed of the machine.
#[derive(Clone, Copy)]
pub(super) enum Bound {
    /// After this number of random calls of each operation.
    Examples(u64),
    /// After this number of seconds.
    Seconds(u64),
}

/// Result of a trial.
#[derive(Debug)]
pub(super) struct Found {
    /// Number of operations that were called.
    pub(super) tested: u64,
    pub(super) cases: u64,
    /// Distinct failures.
    pub(super) failures: u64,
    /// Why the trial failed.
    pub(super) complaint: Option<String>,
    /// The file with each failure and the call that reproduces it.
    pub(super) log: PathBuf,
}

impl Trial<'_> {
    /// Runs the trial to its end.
    pub(super) fn run(&self) -> Result<Found> {
        let name = format!("{}-{}", self.document.0, self.caller.name.replace(' ', "-"));
        let at = |ending: &str| self.folder.join(format!("{name}.{ending}"));
        let (config, log, report) = (at("toml"), at("log"), at("json"));
        fs::write(&config, self.config()?)?;
        let _ = fs::remove_file(&report);
        let output = File::create(&log)?;
        let mut run = Command::new(self.program);
        run.current_dir(self.folder)
            .env("PYTHONPATH", workspace::root().join("tests/fuzz"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .arg("--config-file")
            .arg(&config)
            .arg("run")
            .arg(self.document.1)
            .args(["--url", self.base_url, "--no-color"])
            .args(["--seed", &self.seed.to_string()])
            .args(["--report", "json", "--report-json-path"])
            .arg(&report);
        match self.bound {
            Bound::Examples(number) => run.args(["--max-examples", &number.to_string()]),
            Bound::Seconds(seconds) => run.args(["--max-time", &seconds.to_string()]),
        };
        for operation in self.operations {
            run.args(["--include-operation-id", operation]);
        }
        if self.operations.len() == 1 {
            // With a single operation, no call can follow another. Schemathesis reports that as an error of the
            // document, so its stateful phase is left out.
            run.args(["--phases", "examples,coverage,fuzzing"]);
        }
        if let Some(origin) = &self.caller.origin {
            run.arg("--header").arg(format!("Origin: {origin}"));
        }
        let status = run
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .status();
        let is_good = status.context("cannot start schemathesis")?.success();
        let told = fs::read(&report).with_context(|| format!("schemathesis wrote no report; see {}", log.display()))?;
        Ok(found(&serde_json::from_slice(&told)?, is_good, log))
    }

    /// The committed configuration of schemathesis plus the credential of the caller.
    fn config(&self) -> Result<String> {
        let mut config = fs::read_to_string(workspace::root().join(CONFIG)).context(CONFIG)?;
        if let Some((scheme, value)) = self.credential {
            let member = if *scheme == "SessionBearer" {
                "bearer"
            } else {
                "api_key"
            };
            config.push_str(&format!("\n[auth.openapi.{scheme}]\n{member} = \"{value}\"\n"));
        }
        Ok(config)
    }
}

/// Reads the report of a run.
fn found(report: &Value, is_good: bool, log: PathBuf) -> Found {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    let titles = |member: &str| -> Vec<String> {
        let entries = report[member].as_array().into_iter().flatten();
        entries
            .map(|entry| format!("{} × {}", entry["count"], entry["title"].as_str().unwrap_or_default()))
            .collect()
    };
    let (tested, cases) = (number("/operations/tested"), number("/test_cases/generated"));
    let mut complaints = [titles("failures"), titles("errors")].concat();
    if complaints.is_empty() && !is_good {
        complaints.push("schemathesis exited with an error".to_owned());
    }
    if tested < number("/operations/selected") {
        complaints.push("not every operation was tested, more time is needed".to_owned());
    }
    if cases == 0 {
        complaints.push("nothing was called".to_owned());
    }
    Found {
        tested,
        cases,
        failures: number("/test_cases/unique_failures"),
        complaint: (!complaints.is_empty()).then(|| complaints.join(", ")),
        log,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn failures_errors_and_untested_operations_are_complaints() {
        let report = |selected: u64, failures: Value, errors: Value| {
            json!({
                "operations": {"selected": selected, "tested": 3}, "failures": failures, "errors": errors,
                "test_cases": {"generated": 40, "unique_failures": 2},
            })
        };
        let said = |report: &Value, is_good| found(report, is_good, PathBuf::new()).complaint.unwrap_or_default();
        assert_eq!(said(&report(3, json!([]), json!([])), true), "");
        let failure = json!([{"title": "Server error", "count": 2}]);
        assert_eq!(said(&report(3, failure, json!([])), false), "2 × Server error");
        let error = json!([{"title": "Network error", "count": 1}]);
        assert_eq!(said(&report(3, json!([]), error), false), "1 × Network error");
        assert_eq!(
            said(&report(3, json!([]), json!([])), false),
            "schemathesis exited with an error"
        );
        assert!(said(&report(4, json!([]), json!([])), true).starts_with("not every operation"));
        assert_eq!(said(&json!({}), true), "nothing was called");
    }
}
