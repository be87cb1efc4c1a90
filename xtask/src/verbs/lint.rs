//! `cargo xtask openapi lint`: third-party linters over the exported documents: spectral with every rule, the OWASP
//! rules, and redocly with its strict rules. It needs no build of the service.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use contract::exceptions::{Complaint, Exceptions};
use serde_json::{Deserializer, Value};
use xtask::machine::failure::Outcome;
use xtask::machine::{packages, workspace};

use crate::verbs::openapi::{DOCUMENTS, document_path};

const EXCEPTIONS: &str = "openapi/exceptions.toml";

/// The rule sets, in the order in which their counts are printed.
const LINTERS: [&str; 3] = ["spectral", "redocly", "owasp"];

/// Lints the committed documents.
pub(crate) fn run() -> Outcome {
    packages::ensure_linters()?;
    let mut complaints = spectral()?;
    complaints.extend(redocly()?);
    let list = fs::read_to_string(workspace::root().join(EXCEPTIONS)).context(EXCEPTIONS)?;
    let judgement = Exceptions::parse(&list)?.judge(&complaints);
    for complaint in &judgement.open {
        eprintln!("{complaint}");
    }
    for row in &judgement.rows {
        eprintln!("{EXCEPTIONS}: {row}");
    }
    let counts = LINTERS.map(|linter| {
        let count = judgement.open.iter().filter(|one| one.linter == linter).count();
        format!("{linter} {count}")
    });
    let excused = judgement
        .excused
        .iter()
        .map(|(name, count)| format!("{name} ({count})"));
    println!(
        "lint: {}; excused: {}",
        counts.join(", "),
        excused.collect::<Vec<_>>().join(", ")
    );
    if judgement.open.is_empty() && judgement.rows.is_empty() {
        return Ok(());
    }
    Err(anyhow!("the linters found problems; fix the code, or list the exception in {EXCEPTIONS}").into())
}

fn spectral() -> Result<Vec<Complaint>> {
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report.json");
    let mut spectral = program("spectral");
    spectral.args([
        "lint",
        "--quiet",
        "--ruleset",
        "spectral.yaml",
        "--format",
        "json",
        "--output",
    ]);
    spectral.arg(&report).args(documents());
    said(&mut spectral)?;
    let report = fs::read(&report).context("spectral wrote no report")?;
    let found: Vec<Value> = serde_json::from_slice(&report).context("the report of spectral is not JSON")?;
    let complaints = found.iter().map(|one| {
        let rule = text(&one["code"]);
        let names = one["path"].as_array().into_iter().flatten();
        let names: Vec<String> = names
            .map(|name| name.as_str().map_or_else(|| name.to_string(), str::to_owned))
            .collect();
        Complaint {
            linter: if rule.starts_with("owasp:") {
                "owasp"
            } else {
                "spectral"
            },
            rule,
            place: format!("{} {}", document_of(&one["source"]), names.join("/")),
            message: text(&one["message"]),
        }
    });
    Ok(complaints.collect())
}

fn redocly() -> Result<Vec<Complaint>> {
    let mut redocly = program("redocly");
    redocly.args([
        "lint",
        "--config",
        "redocly.yaml",
        "--format",
        "json",
        "--max-problems",
        "10000",
    ]);
    redocly.args(documents()).env("REDOCLY_TELEMETRY", "off");
    let mut complaints = Vec::new();
    // The output of redocly has one report for each document, one after another.
    for report in Deserializer::from_slice(&said(&mut redocly)?).into_iter::<Value>() {
        let report = report.context("the report of redocly is not JSON")?;
        for problem in report["problems"].as_array().context("redocly reported no list")? {
            let location = &problem["location"][0];
            let pointer = text(&location["pointer"]).replace("~1", "/");
            complaints.push(Complaint {
                linter: "redocly",
                rule: text(&problem["ruleId"]),
                place: format!(
                    "{} {}",
                    document_of(&location["source"]["ref"]),
                    pointer.trim_start_matches("#/")
                ),
                message: text(&problem["message"]),
            });
        }
    }
    Ok(complaints)
}

fn program(name: &str) -> Command {
    let folder = workspace::root().join("xtask/lint");
    let mut program = Command::new(folder.join("node_modules/.bin").join(name));
    program.current_dir(folder);
    program
}

fn documents() -> impl Iterator<Item = std::path::PathBuf> {
    DOCUMENTS
        .map(|name| workspace::root().join(document_path(name)))
        .into_iter()
}

/// The output of a linter. It exits with 1 if it found problems, and with a higher code if it failed.
fn said(linter: &mut Command) -> Result<Vec<u8>> {
    let output = linter.output().context("cannot start a linter")?;
    match output.status.code() {
        Some(0 | 1) => Ok(output.stdout),
        _ => Err(anyhow!(
            "a linter ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

/// Name of the document to which a path or URL in a report refers.
fn document_of(source: &Value) -> String {
    let stem = source.as_str().and_then(|path| Path::new(path).file_stem()?.to_str());
    stem.unwrap_or_default().to_owned()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
