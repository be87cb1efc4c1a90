//! What differs between the languages: how the client is generated, compiled and run, and how its untyped and unnamed
//! parts are found.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::machine::{command, packages, workspace};

use super::documents::{self, Adaptation};

/// A language: its generator, and how the generated client is compiled and run.
pub(super) struct Language {
    /// Name on the command line.
    pub(super) name: &'static str,
    /// Name and version of the generator.
    pub(super) generator: &'static str,
    /// The folder below `xtask/clients` with the harness, a hand-written program that calls the generated client.
    pub(super) folder: &'static str,
    /// Changes of the documents, because the generator cannot read some parts of them.
    pub(super) adaptations: &'static [Adaptation],
    /// Installs the dependencies.
    pub(super) prepare: fn(&Work) -> Result<()>,
    /// Generates the client from the documents in the folder.
    pub(super) generate: fn(&Work) -> Result<()>,
    /// Compiles the client and the harness with strict checks.
    pub(super) compile: fn(&Work) -> Result<()>,
    /// The command that makes the fixed sequence of calls (the golden flow) with the client.
    pub(super) golden: fn(&Work) -> Command,
    /// Places in the generated code without a type, or with a name that the generator made up.
    pub(super) untyped: fn(&Work) -> Result<Vec<String>>,
    /// Names that the generator invented for the value inside a nullable component, because it cannot make a named type
    /// nullable.
    pub(super) twins: fn(&Work) -> Result<Vec<String>>,
}

/// Suffix of the name of a nullable component.
const OR_NULL: &str = "OrNull";

impl Language {
    /// Creates a working folder with the harness and its dependencies.
    pub(super) fn prepared(&self, service: &Path) -> Result<Work> {
        let folder = workspace::target_directory()?.join("clients").join(self.folder);
        let harness = workspace::root().join("xtask/clients").join(self.folder);
        copy(&harness, &folder)?;
        fs::create_dir_all(folder.join("generated"))?;
        let service = service.canonicalize().with_context(|| service.display().to_string())?;
        let work = Work { folder, service };
        (self.prepare)(&work)?;
        Ok(work)
    }

    /// Makes the fixed sequence of calls (the golden flow); returns the steps that passed.
    pub(super) fn golden(&self, work: &Work) -> Result<Vec<String>> {
        let mut golden = (self.golden)(work);
        let output = golden.output().with_context(|| command::shown(&golden))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let steps: Vec<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix("step "))
            .map(str::to_owned)
            .collect();
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("after {:?}: {}", steps.last(), complaint.trim());
        }
        Ok(steps)
    }
}

/// Working folder in which a client is generated, compiled and run.
pub(super) struct Work {
    folder: PathBuf,
    service: PathBuf,
}

impl Work {
    /// The folder of the documents that clients are generated from.
    pub(super) fn documents(&self) -> PathBuf {
        self.path("documents")
    }

    /// A path below the folder.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// A command for a program that runs in the folder. Its environment contains the address of the service.
    pub(super) fn run(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .args(arguments)
            .env("PRS_DEV", &self.service);
        command
    }

    /// A command for a program of the installed npm packages.
    pub(super) fn node(&self, program: &str) -> Command {
        let mut command = self.run(self.path("node_modules/.bin").join(program), &[]);
        command.env("NO_COLOR", "1");
        command
    }

    /// Lines of generated files that match the predicate; comments are left out.
    pub(super) fn lines(&self, places: &[&str], is_meant: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for file in self.files(places)? {
            let text = fs::read_to_string(&file)?;
            let code = text.lines().enumerate().filter(|(_, line)| {
                let line = line.trim_start();
                !["*", "/*", "//", "#", "\"\"\""]
                    .iter()
                    .any(|comment| line.starts_with(comment))
            });
            let shown = file.strip_prefix(&self.folder).unwrap_or(&file).display().to_string();
            let meant = code.filter(|(_, line)| is_meant(line));
            found.extend(meant.map(|(index, line)| format!("{shown}:{} {}", index + 1, line.trim())));
        }
        Ok(found)
    }

    /// Generated files with one of these parts in their names.
    pub(super) fn names(&self, places: &[&str], parts: &[&str]) -> Result<Vec<String>> {
        let files = self.files(places)?;
        let names = files
            .iter()
            .filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()));
        Ok(names
            .filter(|name| parts.iter().any(|part| name.contains(part)))
            .collect())
    }

    fn files(&self, places: &[&str]) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        let mut waiting: Vec<PathBuf> = places.iter().map(|place| self.path(place)).collect();
        while let Some(place) = waiting.pop() {
            if place.is_dir() {
                for entry in fs::read_dir(&place)? {
                    waiting.push(entry?.path());
                }
            } else if place
                .extension()
                .is_some_and(|kind| ["ts", "py", "rs", "go"].iter().any(|known| kind == *known))
            {
                files.push(place);
            }
        }
        files.sort();
        Ok(files)
    }
}

/// Returns no names, for a generator that makes up none.
pub(super) fn none(_work: &Work) -> Result<Vec<String>> {
    Ok(Vec::new())
}

/// Splits names that a generator invented into two lists. The first has the names that the generator derived from
/// nullable components by adding `suffix`. The second has all other names.
pub(super) fn twins_of(work: &Work, names: Vec<String>, suffix: &str) -> Result<(Vec<String>, Vec<String>)> {
    let mut twins = Vec::new();
    for name in documents::NAMES {
        let document = documents::read(&work.documents(), name)?;
        let components = document["components"]["schemas"].as_object().into_iter().flatten();
        let nullable = components.filter(|(component, _)| component.ends_with(OR_NULL));
        twins.extend(nullable.map(|(component, _)| plain(component) + &plain(suffix)));
    }
    Ok(names.into_iter().partition(|name| is_one_of(&twins, name)))
}

/// Whether the text contains one of these names as the beginning of a word.
fn is_one_of(twins: &[String], line: &str) -> bool {
    let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.any(|word| twins.iter().any(|twin| plain(word).starts_with(twin)))
}

/// A name in the form common to all generators: lower case without separators.
fn plain(name: &str) -> String {
    name.to_lowercase().replace('_', "")
}

/// Path of a document below the folder.
pub(super) fn document(name: &str) -> String {
    format!("documents/{name}.json")
}

/// Whether the code of a line, outside string literals, contains one of these words as a whole word.
pub(super) fn has_word(line: &str, words: &[&str]) -> bool {
    let mut code = String::new();
    for (index, part) in line.split(['"', '\'', '`']).enumerate() {
        if index % 2 == 0 {
            code.push_str(part);
        }
        code.push(' ');
    }
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '.')
        .any(|word| words.contains(&word) || word.strip_prefix("z.").is_some_and(|word| words.contains(&word)))
}

/// Installs the npm packages of a harness that needs nothing else; returns the folder of the harness.
pub(super) fn installed(name: &str, what: &str) -> Result<PathBuf> {
    packages::ensure_program("node", &["nodejs"])?;
    let folder = workspace::target_directory()?.join("clients").join(name);
    copy(&workspace::root().join("xtask/clients").join(name), &folder)?;
    packages::fetch_into(&folder, what)?;
    Ok(folder)
}

/// Copies the files of a harness that are missing or differ.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        let Some(name) = path.file_name() else { continue };
        let target = to.join(name);
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            let bytes = fs::read(&path)?;
            if fs::read(&target).ok().as_ref() != Some(&bytes) {
                fs::write(&target, bytes)?;
            }
        }
    }
    Ok(())
}

/// Runs a command; its output on both streams becomes the error text.
pub(super) fn said(run: &mut Command) -> Result<()> {
    let output = run
        .output()
        .with_context(|| format!("cannot start `{}`", command::shown(run)))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    bail!("`{}`: {}", command::shown(run), said.join("\n").trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_component_it_is_of() {
        let twins = ["amountlimitornullinner".to_owned()];
        for derived in [
            "v2.rs:1 pub struct AmountLimitOrNullInnerAmount(",
            "amount_limit_or_null_inner.py",
        ] {
            assert!(is_one_of(&twins, derived), "{derived}");
        }
        for other in [
            "v2.rs:1 pub struct AmountLimitInner {",
            "v2.rs:1 pub struct OtherAmountLimitOrNullInner {",
        ] {
            assert!(!is_one_of(&twins, other), "{other}");
        }
    }

    #[test]
    fn words_in_texts_and_in_longer_words_do_not_count() {
        let is_open = |line| has_word(line, &["any", "unknown"]);
        assert!(is_open("    value: unknown;"));
        assert!(is_open("    value: z.unknown(),"));
        assert!(!is_open("    source: \"lifi\" | \"unknown\";"));
        assert!(!is_open("    company: string;"));
    }
}
