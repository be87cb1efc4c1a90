//! `cargo xtask fuzz`: schemathesis makes calls out of the documents, good ones and bad ones, with every credential, and
//! judges what a running `prs dev` answers.

mod callers;
mod trial;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use xtask::machine::failure::{Failure, Outcome};
use xtask::machine::{command, packages, workspace};
use xtask::service::dev::{Dev, StartOptions, scratch};

use self::callers::Caller;
use self::trial::{Bound, Found, Trial};

/// Documents that describe calls.
const DOCUMENTS: [&str; 2] = ["v2", "auth"];

/// Settings without which most calls would be refused because of those before them.
const SETTINGS: [(&str, &str); 12] = [
    ("PRS_RATE_LIMITS__ENABLED", "false"),
    ("PRS_CAPS__ENDPOINTS", "1000"),
    ("PRS_CAPS__UNAPPROVED_ENDPOINTS", "100"),
    ("PRS_CAPS__API_KEYS", "1000"),
    ("PRS_CAPS__CLIENT_IDS", "100000"),
    ("PRS_CAPS__EVENT_STREAMS", "256"),
    ("PRS_CAPS__SCHEDULES", "100000"),
    ("PRS_CAPS__SECURE_PAYMENTS", "1000000"),
    ("PRS_CAPS__PUBLIC_SECURE_PAYMENTS", "1000000"),
    ("PRS_CAPS__PUBLIC_REPORTS", "1000000"),
    ("PRS_CAPS__REPORTS_OF_ADDRESS", "1000000"),
    ("PRS_CAPS__BANK_ACCOUNTS", "1000"),
];

/// What is tried, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Random calls of each operation with each credential, beside those that the document itself gives
    #[arg(long, default_value_t = 4)]
    examples: u64,
    /// Seconds for all documents and credentials together, in place of a number of calls; one document with one credential
    /// has six at least
    #[arg(long, conflicts_with = "examples")]
    seconds: Option<u64>,
    /// Where the random choices begin; the same number makes the same calls
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One caller alone, such as "API key"
    #[arg(long)]
    caller: Option<String>,
    #[command(flatten)]
    service: StartOptions,
}

/// Tries every document with every credential, prints what was tried and found, and fails on any finding.
pub(crate) fn run(options: &Options) -> Outcome {
    let lock = workspace::root().join("tests/fuzz/requirements.txt");
    let programs = packages::ensure_python_packages(&lock, &scratch()?.join("fuzz-python"))?;
    let program = programs.join("schemathesis");
    let mut service = Dev::start(&options.service, "fuzz-service", &SETTINGS)?;
    let callers = callers::all(&service.ready)?;
    let callers: Vec<&Caller> = callers
        .iter()
        .filter(|caller| options.caller.as_ref().is_none_or(|name| caller.name == name))
        .collect();
    let documents = documents()?;
    let parts: Vec<(&Caller, &Document, Vec<&str>)> = callers
        .iter()
        .flat_map(|caller| documents.iter().map(move |document| (*caller, document)))
        .map(|(caller, document)| (caller, document, caller.operations(&document.text)))
        .filter(|(_, _, operations)| !operations.is_empty())
        .collect();
    let operations = parts.iter().map(|(_, _, operations)| operations.len());
    let bounds: Vec<Bound> = match options.seconds {
        Some(seconds) => shares(seconds, operations).into_iter().map(Bound::Seconds).collect(),
        None => operations.map(|_| Bound::Examples(options.examples)).collect(),
    };
    let folder = scratch()?.join("fuzz");
    fs::create_dir_all(&folder)?;
    let mut table = vec![row("document", "caller", "operations", "cases", "failures")];
    let (mut cases, mut findings) = (0, Vec::new());
    for ((caller, document, operations), bound) in parts.iter().zip(bounds) {
        let credential = caller.credential(&service.ready)?;
        let trial = Trial {
            program: &program,
            folder: &folder,
            document: (document.name, document.path.as_path()),
            caller,
            credential: credential.as_ref(),
            operations,
            base_url: service.ready.member("/baseUrl")?,
            bound,
            seed: options.seed,
        };
        let found = trial.run()?;
        caller.require_good(trial.credential, trial.base_url)?;
        service.still_running()?;
        table.push(row(
            document.name,
            caller.name,
            &format!("{}/{}", found.tested, operations.len()),
            &found.cases.to_string(),
            &found.failures.to_string(),
        ));
        cases += found.cases;
        findings.extend(explained(&found, document.name, caller.name));
        if command::interrupted() {
            return Err(anyhow!("interrupted").into());
        }
    }
    println!("{}", table.join("\n"));
    println!(
        "{cases} cases, {} trials with findings, seed {}",
        findings.len(),
        options.seed
    );
    match findings.is_empty() {
        true => Ok(()),
        false => Err(Failure::StepFailed(anyhow!(findings.join("\n")))),
    }
}

struct Document {
    name: &'static str,
    path: PathBuf,
    text: Value,
}

fn documents() -> Result<Vec<Document>> {
    let read = |name: &'static str| {
        let path = workspace::root().join(format!("openapi/{name}.json"));
        let text = fs::read(&path).with_context(|| path.display().to_string())?;
        let text = serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
        Ok(Document { name, path, text })
    };
    DOCUMENTS.into_iter().map(read).collect()
}

/// What a trial found, and where it is told whole.
fn explained(found: &Found, document: &str, caller: &str) -> Option<String> {
    let complaint = found.complaint.as_ref()?;
    Some(format!(
        "{document} with {caller}: {complaint}; see {}",
        found.log.display()
    ))
}

/// The least time of a part: schemathesis looks at the document first, longer on a busy machine.
const PART_SECONDS: u64 = 6;

/// The seconds of each part by its number of operations.
fn shares(seconds: u64, operations: impl Iterator<Item = usize> + Clone) -> Vec<u64> {
    let all: usize = operations.clone().sum();
    let share = |own: usize| (seconds * own as u64 / all.max(1) as u64).max(PART_SECONDS);
    operations.map(share).collect()
}

fn row(document: &str, caller: &str, operations: &str, cases: &str, failures: &str) -> String {
    format!("{document:<9} {caller:<18} {operations:>10} {cases:>7} {failures:>9}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_tries_more_operations_has_more_time() {
        assert_eq!(
            shares(90, [45, 40, 4, 1].into_iter()),
            [45, 40, PART_SECONDS, PART_SECONDS]
        );
        assert_eq!(shares(9, [45, 1].into_iter()), [8, PART_SECONDS]);
    }
}
