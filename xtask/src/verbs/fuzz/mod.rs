//! `cargo xtask fuzz`: schemathesis generates calls from the documents, valid and invalid ones, with every credential,
//! and checks the responses of a running `prs dev`.

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

/// Documents that describe operations.
const DOCUMENTS: [&str; 2] = ["v2", "auth"];

/// Settings that prevent rate limits from refusing most calls.
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

/// Options of `cargo xtask fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of random calls of each operation with each credential, in addition to the examples of the document
    #[arg(long, default_value_t = 4)]
    examples: u64,
    /// Seconds for all documents and credentials together, instead of a number of calls; each document gets at least
    /// six seconds per credential
    #[arg(long, conflicts_with = "examples")]
    seconds: Option<u64>,
    /// Seed of the random choices; the same seed makes the same calls
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Call with the credential of only one caller, such as "API key"
    #[arg(long)]
    caller: Option<String>,
    #[command(flatten)]
    service: StartOptions,
}

/// Tries every document with every credential, prints the results, and fails on any finding.
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
    if findings.is_empty() {
        Ok(())
    } else {
        Err(Failure::StepFailed(anyhow!(findings.join("\n"))))
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

/// The finding of a trial in words, with the file that has the details; `None` if nothing was found.
fn explained(found: &Found, document: &str, caller: &str) -> Option<String> {
    let complaint = found.complaint.as_ref()?;
    Some(format!(
        "{document} with {caller}: {complaint}; see {}",
        found.log.display()
    ))
}

/// Minimum time of a trial: schemathesis analyses the document first, and that takes longer on a busy machine.
const PART_SECONDS: u64 = 6;

/// How many seconds each trial gets: a share of the total in proportion to the number of operations in the trial.
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
    fn a_trial_of_more_operations_gets_more_time() {
        assert_eq!(
            shares(90, [45, 40, 4, 1].into_iter()),
            [45, 40, PART_SECONDS, PART_SECONDS]
        );
        assert_eq!(shares(9, [45, 1].into_iter()), [8, PART_SECONDS]);
    }
}
