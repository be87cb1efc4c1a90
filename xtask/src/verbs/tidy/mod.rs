//! `cargo xtask tidy`: checks the rules of this repository that no compiler checks.

mod arrows;
mod circles;
mod language;
mod migrations;
mod paths;
mod sources;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};
use serde_json::Value;
use sha2::{Digest, Sha256};

use self::arrows::Table;
use self::circles::{Circles, circles};
use self::language::Language;
use self::sources::Citable;
use xtask::machine::failure::{self, Failure, Outcome};
use xtask::machine::{command, workspace};

/// File names that do not say what the file contains.
const EMPTY_NAMES: [&str; 11] = [
    "util", "utils", "helper", "helpers", "common", "manager", "managers", "misc", "data", "info", "shared",
];

/// Marks of unfinished work. Each is split in the source, so that this file does not contain it.
const UNFINISHED_MARKS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

/// Prefixes of paths that exist on only one machine.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// The one file of the service that defines response statuses.
const STATUSES: &str = "src/http/error.rs";

const SETTINGS: &str = "docs/settings.md";

/// Runs all checks and prints every violation.
pub(crate) fn run() -> Outcome {
    let files = workspace::files()?;
    let root = workspace::root();
    let table = Table::of_files(files.iter().map(PathBuf::as_path));
    let citable = Citable::of_repository(&root);
    let (mut found, mut arrows, mut sources) = (Vec::new(), Vec::new(), Vec::new());
    let mut language = Language::default();
    for path in &files {
        let Ok(text) = fs::read_to_string(root.join(path)) else {
            continue;
        };
        found.extend(file_violations(path, &text)?);
        language.add(path, &text)?;
        if path.extension().is_some_and(|extension| extension == "rs") {
            let place = |what: String| format!("{}:{what}", path.display());
            arrows.extend(table.violations(path, &text)?.into_iter().map(place));
            sources.extend(citable.unresolved(&text).into_iter().map(place));
        }
    }
    let circles = all_circles(&root, &files)?;
    let counts = format!(
        "{} import cycles of files, {} import cycles of folders, {} unresolved sources, {} forbidden imports",
        circles.files.len(),
        circles.folders.len(),
        sources.len(),
        arrows.len()
    );
    found.extend(circles.files);
    found.extend(circles.folders);
    found.append(&mut sources);
    found.append(&mut arrows);
    found.extend(record_violations(&root, &files)?);
    found.extend(migrations::violations(&root, &files)?);
    found.extend(language.violations(&root)?);
    found.extend(changelog_violation(&root));
    found.extend(artifact_violations(&root)?);
    for violation in &found {
        eprintln!("{violation}");
    }
    println!("{counts}");
    let broken = if found.is_empty() {
        Ok(())
    } else {
        Err(anyhow!("{} violations; fix them and run `cargo xtask tidy` again", found.len()).into())
    };
    failure::worst([broken, settings_are_documented()])
}

/// Violations inside one text file, as `path:line: what is wrong`.
fn file_violations(path: &Path, text: &str) -> Result<Vec<String>> {
    let shown = path.display();
    let mut found = Vec::new();
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let is_code = is_rust
        || path
            .extension()
            .is_some_and(|extension| ["mjs", "js", "py", "sh"].iter().any(|known| extension == *known));
    if is_code && EMPTY_NAMES.contains(&stem) {
        found.push(format!(
            "{shown}:1: `{stem}` is too vague, name the file after its content"
        ));
    }
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(mark) = MACHINE_PATHS.iter().find(|mark| mentions_path(line, mark)) {
            found.push(format!("{shown}:{number}: `{mark}` exists on only one machine"));
        }
        if is_rust && let Some(mark) = UNFINISHED_MARKS.iter().find(|mark| line.contains(*mark)) {
            found.push(format!("{shown}:{number}: {mark} marks unfinished work"));
        }
    }
    if is_rust {
        if !text.starts_with("//!") {
            found.push(format!(
                "{shown}:1: a module must start with a `//!` line that describes it"
            ));
        }
        let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{shown}: {error}"))?;
        let mut named = Vec::new();
        if path.starts_with("src") && !path.starts_with("src/adapters") && path != Path::new(STATUSES) {
            status_violations(tokens.clone(), &mut named);
        }
        token_violations(tokens, &mut named);
        found.extend(named.into_iter().map(|(line, what)| format!("{shown}:{line}: {what}")));
    }
    Ok(found)
}

/// Import cycles inside each crate, and inside the benches.
fn all_circles(root: &Path, files: &[PathBuf]) -> Result<Circles> {
    let tops = files
        .iter()
        .filter(|file| file.ends_with("lib.rs") || file.ends_with("main.rs"));
    let folders: BTreeSet<&Path> = tops.filter_map(|top| top.parent()).collect();
    let sources = folders
        .into_iter()
        .filter(|folder| folder.ends_with("src") || folder.starts_with("benches"));
    let read = |path: &Path| Ok(fs::read_to_string(root.join(path))?);
    let mut all = Circles::default();
    for source in sources {
        let found = circles(source, files, read)?;
        all.files.extend(found.files);
        all.folders.extend(found.folders);
    }
    Ok(all)
}

/// Whether a line contains a path of one machine. A longer path that merely contains the same letters does not count.
fn mentions_path(line: &str, mark: &str) -> bool {
    line.match_indices(mark).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|character| !character.is_alphanumeric() && !matches!(character, '.' | '_' | '-' | '}'))
    })
}

fn token_violations(stream: TokenStream, found: &mut Vec<(usize, String)>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let ident = |at: usize| match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => ident.to_string(),
        _ => String::new(),
    };
    let punct =
        |at: usize, mark: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == mark);
    for (at, token) in tokens.iter().enumerate() {
        let line = token.span().start().line;
        match token {
            TokenTree::Ident(word) if (word == "todo" || word == "unimplemented") && punct(at + 1, '!') => {
                found.push((line, format!("{word}! marks unfinished work")));
            }
            TokenTree::Ident(word) if word == "fn" => {
                let name = ident(at + 1);
                if name.starts_with("handle_") || name.starts_with("process_") || name.ends_with("_inner") {
                    found.push((line, format!("`{name}` does not say what it does")));
                }
                if name.starts_with("test_") {
                    found.push((
                        line,
                        format!("`{name}`: a test is named after the behaviour it asserts"),
                    ));
                }
            }
            TokenTree::Ident(word) if word == "mod" && EMPTY_NAMES.contains(&ident(at + 1).as_str()) => {
                found.push((
                    line,
                    format!("module `{}` does not describe its content", ident(at + 1)),
                ));
            }
            TokenTree::Group(group) => {
                let attribute = at > 0 && punct(at - 1, '#');
                let first = group.stream().into_iter().next().map(|token| token.to_string());
                if attribute && first.as_deref() == Some("ignore") {
                    found.push((line, "an ignored test hides that something does not work".to_owned()));
                }
                token_violations(group.stream(), found);
            }
            _ => {}
        }
    }
}

/// Hard-coded statuses: `StatusCode::OK` and `Reply<201, T>`.
fn status_violations(stream: TokenStream, found: &mut Vec<(usize, String)>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            status_violations(group.stream(), found);
        }
        let text: String = tokens[at..].iter().take(4).map(ToString::to_string).collect();
        let constant = text.strip_prefix("StatusCode::").and_then(|name| name.chars().nth(1));
        let parameter = text.strip_prefix("Reply<").and_then(|number| number.chars().next());
        if constant.is_some_and(|second| second.is_uppercase() || second == '_')
            || parameter.is_some_and(|first| first.is_ascii_digit())
        {
            let line = token.span().start().line;
            found.push((line, format!("only {STATUSES} may name statuses")));
        }
    }
}

/// Checks that no two decision records have the same number, and that the index lists every record.
fn record_violations(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let index = read("docs/adr/README.md") + &read("ARCHITECTURE.md");
    let mut found = Vec::new();
    let mut numbers = BTreeSet::new();
    for path in files.iter().filter(|path| path.starts_with("docs/adr")) {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .context("a record has no file name")?;
        if name == "README.md" {
            continue;
        }
        found.extend(record_violation(name, &index).map(|what| format!("{}:1: {what}", path.display())));
        if !numbers.insert(name.split('-').next().unwrap_or_default().to_owned()) {
            found.push(format!("{}:1: another record has the same number", path.display()));
        }
    }
    Ok(found)
}

fn record_violation(name: &str, index: &str) -> Option<String> {
    let numbered = name.split_once('-').is_some_and(|(number, title)| {
        number.len() == 4 && number.bytes().all(|digit| digit.is_ascii_digit()) && title.len() > ".md".len()
    });
    if !numbered || !name.ends_with(".md") {
        return Some("a record is named NNNN-title-as-decision.md".to_owned());
    }
    let listed = index.contains(name);
    (!listed).then(|| "neither docs/adr/README.md nor ARCHITECTURE.md lists this record".to_owned())
}

fn changelog_violation(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("CHANGELOG.md")).unwrap_or_default();
    let has_section = text.lines().any(|line| line.trim_end() == "## [Unreleased]");
    (!has_section).then(|| "CHANGELOG.md:1: there is no `## [Unreleased]` section".to_owned())
}

/// Each compiled contract of the local chain stores the hashes of its sources. Lists the contracts whose sources have
/// changed since, and those that lack a source or an artifact.
fn artifact_violations(root: &Path) -> Result<Vec<String>> {
    let (sources, artifacts) = (root.join("devnet/contracts"), root.join("devnet/artifacts"));
    let mut found = Vec::new();
    let names = |folder: &Path, ending: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(ending)?.to_owned()))
            .collect()
    };
    let compiled = names(&artifacts, ".json");
    for name in names(&sources, ".sol").symmetric_difference(&compiled) {
        found.push(format!(
            "devnet/artifacts/{name}.json:1: source and artifact do not both exist; run `npm run compile` in devnet"
        ));
    }
    for name in &compiled {
        let artifact: Value = serde_json::from_slice(&fs::read(artifacts.join(format!("{name}.json")))?)?;
        for (source, hash) in artifact["sourceSha256"].as_object().into_iter().flatten() {
            let current = fs::read(sources.join(source)).map(|bytes| hex::encode(Sha256::digest(bytes)));
            if !current.is_ok_and(|current| *hash == current) {
                found.push(format!(
                    "devnet/artifacts/{name}.json:1: {source} changed since it was compiled; run `npm run compile` in devnet"
                ));
            }
        }
    }
    Ok(found)
}

/// Checks that the page of settings matches the code that generates it.
fn settings_are_documented() -> Outcome {
    let prs = workspace::build_prs()?;
    let expected = command::capture(Command::new(prs).args(["export", "settings"]))?;
    if fs::read(workspace::root().join(SETTINGS)).is_ok_and(|committed| committed == expected) {
        return Ok(());
    }
    Err(Failure::NeedsUpdate(format!(
        "{SETTINGS} differs from the code; run `cargo run --quiet --bin prs -- export settings > {SETTINGS}` and commit"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        file_violations(Path::new(path), text).unwrap()
    }

    /// Each case has a file name, the text of the file after its first line, and whether the check must refuse the
    /// file.
    const CASES: [(&str, &str, bool); 14] = [
        ("src/domain/amount.rs", "fn settle() {}", false),
        ("src/domain/utils.rs", "", true),
        ("src/domain/amount.rs", "mod helpers {}", true),
        ("docs/data.json", "{}", false),
        ("src/domain/amount.rs", "fn handle_request() {}", true),
        ("src/domain/amount.rs", "fn process_block() {}", true),
        ("src/domain/amount.rs", "fn settle_inner() {}", true),
        ("src/domain/amount.rs", "fn test_settle() {}", true),
        ("src/domain/amount.rs", concat!("// TO", "DO: later"), true),
        ("src/domain/amount.rs", concat!("// FIX", "ME: later"), true),
        ("src/domain/amount.rs", "fn f() { todo!() }", true),
        ("src/domain/amount.rs", "fn f() { unimplemented!() }", true),
        ("tests/it/main.rs", "#[test]\n#[ignore]\nfn f() {}", true),
        ("tests/it/main.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}", true),
    ];

    #[test]
    fn empty_names_and_unfinished_work_are_refused() {
        for (path, text, is_refused) in CASES {
            let found = found(path, &format!("//! X.\n{text}"));
            assert_eq!(found.len(), usize::from(is_refused), "{path} {text}: {found:?}");
        }
    }

    #[test]
    fn modules_start_with_a_description() {
        assert_eq!(
            found("src/domain/amount.rs", "fn f() {}"),
            ["src/domain/amount.rs:1: a module must start with a `//!` line that describes it"]
        );
    }

    #[test]
    fn only_one_file_names_statuses() {
        let status = |path: &str, code: &str| found(path, &format!("//! X.\n{code}"));
        for code in [
            "fn f() { answer(StatusCode::NOT_FOUND) }",
            "fn f() { poem::http::StatusCode::OK.into() }",
            "type Made<T> = Reply<201, T>;",
        ] {
            assert_eq!(
                status("src/http/gate/page.rs", code),
                ["src/http/gate/page.rs:2: only src/http/error.rs may name statuses"]
            );
            assert!(status(STATUSES, code).is_empty());
            assert!(status("tests/it/access.rs", code).is_empty());
        }
        for code in [
            "fn f(status: StatusCode) { StatusCode::from_u16(STATUS) }",
            "type Made<T> = Reply<{ done::CREATED }, T>;",
        ] {
            assert!(status("src/http/body/reply.rs", code).is_empty(), "{code}");
        }
    }

    #[test]
    fn machine_paths_are_refused_in_every_text() {
        let path = format!("see {}main", MACHINE_PATHS[0]);
        assert_eq!(found("README.md", &path).len(), 1);
        assert!(found("README.md", &format!("https://example.org{}main", MACHINE_PATHS[0])).is_empty());
        assert!(found("README.md", "a network/route").is_empty());
    }

    #[test]
    fn records_are_numbered_and_listed() {
        assert_eq!(record_violation("0001-layers.md", "- [Layers](0001-layers.md)"), None);
        assert!(record_violation("0001-layers.md", "").is_some());
        assert!(record_violation("layers.md", "layers.md").is_some());
        assert!(record_violation("01-layers.md", "01-layers.md").is_some());
    }

    #[test]
    fn artifacts_name_the_sources_they_were_compiled_from() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("devnet/contracts")).unwrap();
        fs::create_dir_all(root.path().join("devnet/artifacts")).unwrap();
        fs::write(root.path().join("devnet/contracts/A.sol"), "contract A {}").unwrap();
        assert_eq!(artifact_violations(root.path()).unwrap().len(), 1);
        let hash = hex::encode(Sha256::digest("contract A {}"));
        let artifact = serde_json::json!({"sourceSha256": {"A.sol": hash}});
        fs::write(root.path().join("devnet/artifacts/A.json"), artifact.to_string()).unwrap();
        assert!(artifact_violations(root.path()).unwrap().is_empty());
        fs::write(root.path().join("devnet/contracts/A.sol"), "contract A { }").unwrap();
        assert_eq!(artifact_violations(root.path()).unwrap().len(), 1);
    }
}
