//! The last step of `cargo xtask test`: the documented answers that no test was sent.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use contract::reached::{Excuses, Pair, documented, line};
use serde_json::Value;

use xtask::machine::failure::Outcome;
use xtask::machine::workspace;

/// Where every process of the tests writes a file of what it was answered.
pub(crate) const VARIABLE: &str = "PRS_TEST_REACHED";

const DOCUMENTS: [&str; 2] = ["openapi/v2.json", "openapi/auth.json"];

const EXCUSES: &str = "openapi/unreached.toml";

/// Makes an empty folder for the answers of a run.
pub(crate) fn folder() -> Result<PathBuf> {
    let folder = workspace::target_directory()?.join("xtask/reached");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Prints which documented answers were never sent, and which rows of the list excuse nothing.
pub(crate) fn judge(folder: &Path) -> Outcome {
    let root = workspace::root();
    let read = |path: &str| fs::read_to_string(root.join(path)).context(path.to_owned());
    let documents = DOCUMENTS.map(|path| Ok::<Value, anyhow::Error>(serde_json::from_str(&read(path)?)?));
    let documents = documents.into_iter().collect::<Result<Vec<_>>>()?;
    let excuses = Excuses::parse(&read(EXCUSES)?)?;
    let reached = noted(folder)?;
    let all = documented(&documents);
    let verdict = excuses.judge(&documents, &reached);
    println!(
        "documented answers: {} of {} were sent, {} are excused",
        all.intersection(&reached).count(),
        all.len(),
        excuses.count()
    );
    for (operation, status) in &verdict.unreached {
        println!("  no test is answered {operation} {status}");
    }
    for (operation, status) in &verdict.idle {
        println!("  {EXCUSES} excuses {operation} {status} in vain or without a reason");
    }
    // A list, and no gate: on a machine that is busy a test may miss the moment of an answer that others are sent.
    if verdict != contract::reached::Verdict::default() {
        println!("  write a test for each of these answers, or take them out of the document or of {EXCUSES}");
    }
    Ok(())
}

/// Everything that the processes of a run noted.
fn noted(folder: &Path) -> Result<BTreeSet<Pair>> {
    let mut found = BTreeSet::new();
    for file in fs::read_dir(folder)? {
        let text = fs::read_to_string(file?.path())?;
        found.extend(text.lines().filter_map(line));
    }
    Ok(found)
}
