//! What every language has: how its client is written, compiled and run, and what in it has no type or no name.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask::machine::{command, packages, workspace};

use super::documents::{self, Adaptation};

/// A generator, and what runs its client.
pub(super) struct Language {
    /// What it is called on the command line.
    pub(super) name: &'static str,
    /// The generator.
    pub(super) generator: &'static str,
    /// The folder of the harness below `xtask/clients`.
    pub(super) folder: &'static str,
    /// What it cannot read, said otherwise.
    pub(super) adaptations: &'static [Adaptation],
    /// Installs what it needs.
    pub(super) prepare: fn(&Work) -> Result<()>,
    /// Writes the client of the documents of the folder.
    pub(super) generate: fn(&Work) -> Result<()>,
    /// Compiles the client and what uses it, strictly.
    pub(super) compile: fn(&Work) -> Result<()>,
    /// What runs the golden flow.
    pub(super) golden: fn(&Work) -> Command,
    /// Places in the generated code without a type or with a name that nobody gave.
    pub(super) untyped: fn(&Work) -> Result<Vec<String>>,
    /// Types that the generator named after a component that may be null, because it has no null beside a name.
    pub(super) twins: fn(&Work) -> Result<Vec<String>>,
}

/// How the name of a component ends that may be null.
const OR_NULL: &str = "OrNull";

impl Language {
    /// A folder to work in, with the harness and what it needs.
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

    /// Runs the golden flow; returns the parts that held.
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

/// Where a client is generated, compiled and run.
pub(super) struct Work {
    folder: PathBuf,
    service: PathBuf,
}

impl Work {
    /// The folder of the documents that are generated from.
    pub(super) fn documents(&self) -> PathBuf {
        self.path("documents")
    }

    /// A path below the folder.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// A program that runs in the folder and knows where the service is.
    pub(super) fn run(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .args(arguments)
            .env("PRS_DEV", &self.service);
        command
    }

    /// A program of the npm packages.
    pub(super) fn node(&self, program: &str) -> Command {
        let mut command = self.run(self.path("node_modules/.bin").join(program), &[]);
        command.env("NO_COLOR", "1");
        command
    }

    /// Lines of generated files without comments, of which this is true.
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

/// What a generator has that names nothing by itself.
pub(super) fn none(_work: &Work) -> Result<Vec<String>> {
    Ok(Vec::new())
}

/// Names of a generator, with those apart that say which component they are of: the name of one that may be null, and
/// what the generator puts behind it for its values.
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

/// Whether a word of a line, or of the name of a file, begins with one of these.
fn is_one_of(twins: &[String], line: &str) -> bool {
    let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.any(|word| twins.iter().any(|twin| plain(word).starts_with(twin)))
}

/// A name as generators of all languages write it, without their capitals and lines.
fn plain(name: &str) -> String {
    name.to_lowercase().replace('_', "")
}

/// Where a document is below the folder.
pub(super) fn document(name: &str) -> String {
    format!("documents/{name}.json")
}

/// Whether one of the words stands alone in the code of a line, outside of its texts.
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

/// The folder of a harness of npm packages alone, with the packages in it.
pub(super) fn installed(name: &str, what: &str) -> Result<PathBuf> {
    packages::ensure_program("node", &["nodejs"])?;
    let folder = workspace::target_directory()?.join("clients").join(name);
    copy(&workspace::root().join("xtask/clients").join(name), &folder)?;
    packages::fetch_into(&folder, what)?;
    Ok(folder)
}

/// Copies the files of a harness that are not there as they are.
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

/// Runs a command; what it said on either stream becomes the error text.
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
