//! `cargo xtask openapi`: writes the exported documents, checks them in five ways, scores them, and lists their changes.
//!
//! The five checks: the committed files have the same bytes as the export; the meaning equals the contract; every
//! difference is listed; the rules of this repository hold; and no change breaks clients written against the main
//! branch.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use contract::compat::{self, Class};
use contract::deviations::{self, Deviations, Verdict};
use contract::turned::turned;
use contract::{published, rules};
use xtask::machine::failure::{self, Failure, Outcome};
use xtask::machine::{command, workspace};

/// The exported documents, by their names in `prs export openapi`.
pub(crate) const DOCUMENTS: [&str; 3] = ["v2", "auth", "webhooks"];

/// The documents of our HTTP interface. The third document, which describes the webhooks that we send, is not among
/// them.
const HTTP_DOCUMENTS: [&str; 2] = ["v2", "auth"];

const CONTRACTS: [&str; 2] = ["openapi/contract/v2-0.13.0.json", "openapi/contract/auth-v1.json"];

const DEVIATIONS: &str = "openapi/deviations.toml";

const GENERATE: &str = "cargo xtask openapi generate";

/// Options of `openapi check`.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct CheckOptions {
    /// Accept changes that break clients written against the main branch
    #[arg(long)]
    pub(crate) allow_breaking: bool,
    /// Print the missing rows of openapi/deviations.toml, to be completed
    #[arg(long)]
    pub(crate) print_missing_rows: bool,
}

/// Writes every export that is committed to the repository.
pub(crate) fn generate() -> Outcome {
    let exported = export(&workspace::build_prs()?)?;
    let root = workspace::root();
    for stale in committed_events()?
        .into_iter()
        .filter(|path| !exported.contains_key(path))
    {
        fs::remove_file(root.join(&stale))?;
        println!("removed {stale}");
    }
    for (path, bytes) in &exported {
        let file = root.join(path);
        if fs::read(&file).is_ok_and(|committed| committed == *bytes) {
            continue;
        }
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&file, bytes)?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Checks bytes, meaning, deviations, rules and compatibility. Runs all of them, so that one run shows everything.
pub(crate) fn check(options: CheckOptions) -> Outcome {
    let exported = export(&workspace::build_prs()?)?;
    let documents = http_documents(&exported)?;
    let verdict = compare_with_contract(&documents)?;
    if options.print_missing_rows {
        print!("{}", deviations::missing_rows(&verdict)?);
    }
    failure::worst([
        bytes_are_committed(&exported),
        report_verdict(&verdict),
        rules_are_kept(&documents),
        nothing_breaks(&exported, options.allow_breaking),
    ])
}

/// The operands of `openapi diff`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operands<'a> {
    /// The committed documents and those of the main branch or another revision.
    Revision(Option<&'a str>),
    /// Two files.
    Files(&'a Path, &'a Path),
}

/// Prints the changes of the documents as a section for CHANGELOG.md.
pub(crate) fn diff(operands: Operands<'_>) -> Outcome {
    let mut changes = Vec::new();
    match operands {
        Operands::Files(old, new) => {
            changes.extend(compat::compare(&turned(&read_json(old)?), &turned(&read_json(new)?)))
        }
        Operands::Revision(revision) => {
            for name in DOCUMENTS {
                let path = document_path(name);
                let old = match revision {
                    Some(revision) => workspace::at(revision, &path),
                    None => workspace::on_main(&path),
                };
                let old = old.with_context(|| format!("{} has no {path}", revision.unwrap_or("the main branch")))?;
                let new = read_json(&workspace::root().join(&path))?;
                changes.extend(compat::compare(&turned(&serde_json::from_slice(&old)?), &turned(&new)));
            }
        }
    }
    print!("{}", compat::changelog(&changes));
    Ok(())
}

/// Scores how complete the committed documents are, compared with the published ones.
pub(crate) fn score() -> Outcome {
    let mut score = workspace::cargo();
    score.args(["run", "--quiet", "--bin", "score", "--"]);
    score.args(DOCUMENTS.map(document_path)).arg("--beside").args(CONTRACTS);
    let status = score.status().context("cannot start cargo")?;
    match status.code() {
        Some(0) => Ok(()),
        Some(4) => Err(Failure::NeedsUpdate(
            "a document is incomplete; see the list above".to_owned(),
        )),
        _ => Err(anyhow!("`score` exited with {status}").into()),
    }
}

/// Path of a document in the repository.
pub(crate) fn document_path(name: &str) -> String {
    format!("openapi/{name}.json")
}

/// All files that `prs` exports, by their path in the repository.
fn export(prs: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let folder = tempfile::tempdir()?;
    let mut files = BTreeMap::new();
    for name in DOCUMENTS {
        let file = folder.path().join(format!("{name}.json"));
        command::capture(Command::new(prs).args(["export", "openapi", name, "--out"]).arg(&file))?;
        files.insert(document_path(name), fs::read(&file)?);
    }
    let events = folder.path().join("events");
    fs::create_dir(&events)?;
    command::capture(Command::new(prs).args(["export", "events", "--out"]).arg(&events))?;
    for entry in fs::read_dir(&events)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .context("an event schema has no file name")?;
        files.insert(format!("openapi/events/{name}"), fs::read(&path)?);
    }
    Ok(files)
}

fn committed_events() -> Result<Vec<String>> {
    let folder = workspace::root().join("openapi/events");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(format!("openapi/events/{}", entry?.file_name().to_string_lossy()));
    }
    Ok(names)
}

fn parse(files: &BTreeMap<String, Vec<u8>>, path: &str) -> Result<Value> {
    let bytes = files.get(path).with_context(|| format!("{path} was not exported"))?;
    serde_json::from_slice(bytes).with_context(|| format!("{path} is not JSON"))
}

fn read_json(path: &Path) -> Result<Value> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    serde_json::from_slice(&bytes).with_context(|| path.display().to_string())
}

fn http_documents(exported: &BTreeMap<String, Vec<u8>>) -> Result<Vec<Value>> {
    HTTP_DOCUMENTS
        .iter()
        .map(|name| parse(exported, &document_path(name)))
        .collect()
}

fn bytes_are_committed(exported: &BTreeMap<String, Vec<u8>>) -> Outcome {
    let root = workspace::root();
    let mut stale: Vec<String> = exported
        .iter()
        .filter(|(path, bytes)| fs::read(root.join(path)).map_or(true, |committed| committed != **bytes))
        .map(|(path, _)| path.clone())
        .collect();
    stale.extend(
        committed_events()?
            .into_iter()
            .filter(|path| !exported.contains_key(path)),
    );
    if stale.is_empty() {
        return Ok(());
    }
    Err(Failure::NeedsUpdate(format!(
        "{} differ from the export; run `{GENERATE}` and commit",
        stale.join(", ")
    )))
}

fn compare_with_contract(documents: &[Value]) -> Result<Verdict> {
    let root = workspace::root();
    let contracts: Vec<Value> = CONTRACTS
        .iter()
        .map(|path| read_json(&root.join(path)))
        .collect::<Result<_>>()?;
    let list = Deviations::parse(&fs::read_to_string(root.join(DEVIATIONS)).context(DEVIATIONS)?)?;
    let comparison = published::compare(&contracts, documents);
    println!(
        "contract: {} operations built, {} not yet, {} differences, {} beyond the contract",
        comparison.present.len(),
        comparison.missing.len(),
        comparison.findings.len(),
        comparison.extra.len()
    );
    Ok(list.judge(&comparison))
}

fn report_verdict(verdict: &Verdict) -> Outcome {
    for finding in &verdict.uncovered {
        eprintln!("difference {}: {}", finding.operation, finding.text);
    }
    for operation in &verdict.missing {
        eprintln!("missing {operation}: in the contract, neither built nor listed in not_yet");
    }
    for operation in &verdict.extra {
        eprintln!("extra {operation}: not in the contract and not listed");
    }
    for row in &verdict.rows {
        eprintln!("row {row}");
    }
    if verdict.is_clean() {
        return Ok(());
    }
    Err(anyhow!(
        "export and contract differ from what {DEVIATIONS} allows; fix the code, or run \
         `cargo xtask openapi check --print-missing-rows` and complete the rows"
    )
    .into())
}

fn rules_are_kept(documents: &[Value]) -> Outcome {
    let mut count = 0;
    for (name, document) in HTTP_DOCUMENTS.iter().zip(documents) {
        for violation in rules::violations(document) {
            eprintln!("rule {name}.json#{violation}");
            count += 1;
        }
    }
    if count > 0 {
        return Err(anyhow!("{count} rules of the document are broken; fix the code, then run `{GENERATE}`").into());
    }
    Ok(())
}

fn nothing_breaks(exported: &BTreeMap<String, Vec<u8>>, allowed: bool) -> Outcome {
    let mut count = 0;
    for name in DOCUMENTS {
        let path = document_path(name);
        let Some(old) = workspace::on_main(&path) else {
            println!("{name}: the main branch has no {path}, compatibility is not compared");
            continue;
        };
        let changes = compat::compare(
            &turned(&serde_json::from_slice(&old)?),
            &turned(&parse(exported, &path)?),
        );
        for change in changes.iter().filter(|change| change.class == Class::Breaking) {
            eprintln!("{name}: {change}");
            count += 1;
        }
    }
    if count > 0 && !allowed {
        return Err(anyhow!(
            "{count} changes break clients written against the main branch; undo them, or accept them with \
             `cargo xtask openapi check --allow-breaking` and mark them in CHANGELOG.md"
        )
        .into());
    }
    Ok(())
}

/// Reads the operands of `openapi diff`: none, a revision, or two files.
pub(crate) fn operands(given: &[String]) -> Result<Operands<'_>> {
    match given {
        [] => Ok(Operands::Revision(None)),
        [revision] => Ok(Operands::Revision(Some(revision))),
        [old, new] => Ok(Operands::Files(Path::new(old), Path::new(new))),
        _ => bail!("`cargo xtask openapi diff` takes a revision, two files or nothing"),
    }
}
