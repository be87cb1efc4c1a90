//! One generator each: how its client is written, compiled and run, and what in it has no type or no name.

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
    folder: &'static str,
    /// What it cannot read, said otherwise.
    pub(super) adaptations: &'static [Adaptation],
    prepare: fn(&Work) -> Result<()>,
    generate: fn(&Work) -> Result<()>,
    compile: fn(&Work) -> Result<()>,
    golden: fn(&Work) -> Command,
    untyped: fn(&Work) -> Result<Vec<String>>,
}

/// All of them, in the order in which they are shown.
pub(super) const ALL: [Language; 5] = [
    Language {
        name: "typescript-fetch",
        generator: "openapi-typescript 7.13.0, openapi-fetch 0.17.0",
        folder: "typescript",
        adaptations: &[],
        prepare: typescript,
        generate: |work| {
            for name in documents::NAMES {
                let output = format!("generated/fetch/{name}.d.ts");
                said(
                    work.node("openapi-typescript")
                        .arg(document(name))
                        .arg("--output")
                        .arg(output),
                )?;
            }
            Ok(())
        },
        compile: |work| said(work.node("tsc").args(["--project", "tsconfig.fetch.json"])),
        golden: |work| work.run("node", &["built/fetch/fetch.js"]),
        untyped: |work| {
            // The generator leaves headers open, whatever the document says about them.
            let open = |line: &str| line.trim() == "[name: string]: unknown;";
            work.lines(&["generated/fetch"], |line| {
                has_word(line, &["any", "unknown", "object"]) && !open(line)
            })
        },
    },
    Language {
        name: "typescript-zod",
        generator: "@hey-api/openapi-ts 0.95.0 with zod 4",
        folder: "typescript",
        adaptations: &[documents::LINE_SEPARATORS],
        prepare: typescript,
        generate: |work| said(&mut work.node("openapi-ts")),
        compile: |work| said(work.node("tsc").args(["--project", "tsconfig.zod.json"])),
        golden: |work| work.run("node", &["built/zod/zod.js"]),
        untyped: |work| {
            let files =
                ["v2", "auth"].map(|name| ["types", "zod"].map(|part| format!("generated/zod/{name}/{part}.gen.ts")));
            let files: Vec<&str> = files.iter().flatten().map(String::as_str).collect();
            work.lines(&files, |line| {
                has_word(line, &["any", "unknown", "object"]) && !line.contains("z.object(")
            })
        },
    },
    Language {
        name: "python",
        generator: "openapi-python-client 0.29.1",
        folder: "python",
        adaptations: &[documents::WITHOUT_STREAM],
        prepare: |work| {
            work.environment()?;
            Ok(fs::write(work.path("generated/__init__.py"), "")?)
        },
        generate: |work| {
            for name in documents::NAMES {
                let mut generator = work.installed("openapi-python-client");
                generator.args([
                    "generate",
                    "--path",
                    &document(name),
                    "--output-path",
                    &format!("generated/{name}"),
                ]);
                said(generator.args([
                    "--meta",
                    "none",
                    "--overwrite",
                    "--fail-on-warning",
                    "--config",
                    "config.yaml",
                ]))?;
            }
            Ok(())
        },
        compile: |work| {
            said(
                work.installed("mypy")
                    .args(["golden.py", "surroundings.py", "generated"]),
            )
        },
        golden: |work| {
            let mut golden = work.installed("python");
            golden.arg("golden.py");
            golden
        },
        untyped: |work| {
            // Members that the document does not know are kept aside, whatever it says about the others.
            let mut found = work.lines(&["generated/v2/models", "generated/auth/models"], |line| {
                let is_member = line.starts_with("    ") && !line.starts_with("     ") && line.contains(": ");
                is_member
                    && has_word(line, &["Any", "object"])
                    && !line.contains("additional_properties")
                    && !line.contains("def ")
            })?;
            found.extend(work.lines(&["generated/v2/api", "generated/auth/api"], |line| {
                line.starts_with(") -> ") && has_word(line, &["Any"]) && !line.contains("dict[str, Any]:")
            })?);
            found.extend(work.names(&["generated/v2/models", "generated/auth/models"], &["_type_", "_item_"])?);
            Ok(found)
        },
    },
    Language {
        name: "rust",
        generator: "progenitor 0.15.1",
        folder: "rust",
        adaptations: &[documents::TOKEN_OF_LINKS],
        prepare: |work| {
            said(
                work.cargo(&["build", "--package", "generator"])
                    .env("CARGO_TERM_COLOR", "never"),
            )
        },
        generate: |work| {
            for name in documents::NAMES {
                let mut generator = work.run(work.path("target/debug/generator"), &[&document(name)]);
                said(
                    generator
                        .arg(format!("client/src/{name}.rs"))
                        .env("RUST_BACKTRACE", "0"),
                )?;
            }
            Ok(())
        },
        compile: |work| said(&mut work.cargo(&["build", "--package", "golden"])),
        golden: |work| work.run(work.path("target/debug/golden"), &[]),
        untyped: |work| {
            work.lines(&["client/src"], |line| {
                let line = line.trim_start();
                let is_value =
                    line.contains("::serde_json::") && (line.starts_with("pub ") || line.starts_with("::serde_json::"));
                let is_numbered = (0..10).any(|digit| line.starts_with(&format!("Variant{digit}")));
                is_value || is_numbered
            })
        },
    },
    Language {
        name: "go",
        generator: "openapi-generator 7.26.0 (go)",
        folder: "go",
        adaptations: &[],
        prepare: |work| {
            packages::ensure_program("java", &["default-jre-headless"])?;
            packages::ensure_program("go", &["golang-go"])?;
            work.environment()
        },
        generate: |work| {
            for name in documents::NAMES {
                let _ = fs::remove_dir_all(work.path(name));
                let mut generator = work.installed("openapi-generator-cli");
                generator.args([
                    "generate",
                    "--generator-name",
                    "go",
                    "--input-spec",
                    &document(name),
                    "--output",
                    name,
                ]);
                said(generator.args(["--config", "options.yaml", "--package-name", name]))?;
            }
            Ok(())
        },
        compile: |work| {
            said(&mut work.go(&["vet", "./..."]))?;
            said(&mut work.go(&["build", "-o", "golden", "."]))
        },
        golden: |work| work.run(work.path("golden"), &[]),
        untyped: |work| {
            let mut found = work.lines(&["v2", "auth"], |line| {
                let is_member = line.starts_with('\t') && line.contains("`json:");
                is_member && (line.contains("interface{}") || has_word(line, &["any"]))
            })?;
            found.extend(work.names(&["v2", "auth"], &["_inner", "_any_of", "_one_of", "_all_of", "inline_"])?);
            Ok(found)
        },
    },
];

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

    /// Writes the client of the documents of the folder.
    pub(super) fn generate(&self, work: &Work) -> Result<()> {
        (self.generate)(work)
    }

    /// Compiles the client and what uses it, strictly.
    pub(super) fn compile(&self, work: &Work) -> Result<()> {
        (self.compile)(work)
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

    /// Places in the generated code without a type or with a name that nobody gave.
    pub(super) fn untyped(&self, work: &Work) -> Result<Vec<String>> {
        (self.untyped)(work)
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

    fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    fn run(&self, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .args(arguments)
            .env("PRS_DEV", &self.service);
        command
    }

    fn node(&self, program: &str) -> Command {
        let mut command = self.run(self.path("node_modules/.bin").join(program), &[]);
        command.env("NO_COLOR", "1");
        command
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = workspace::cargo();
        cargo
            .current_dir(&self.folder)
            .args(arguments)
            .args(["--quiet", "--locked"]);
        cargo.env("CARGO_TARGET_DIR", self.path("target"));
        cargo
    }

    fn go(&self, arguments: &[&str]) -> Command {
        let mut go = self.run("go", arguments);
        go.env("GOCACHE", self.path("cache"))
            .env("GOPROXY", "off")
            .env("GOFLAGS", "-mod=mod");
        go
    }

    fn installed(&self, program: &str) -> Command {
        self.run(self.path("venv/bin").join(program), &[])
    }

    /// Makes sure that the pinned packages are installed into an environment of this folder.
    fn environment(&self) -> Result<()> {
        let wanted = fs::read(self.path("requirements.txt"))?;
        let installed = self.path("venv/installed.txt");
        if fs::read(&installed).is_ok_and(|text| text == wanted) {
            return Ok(());
        }
        packages::ensure_python_environments()?;
        eprintln!("fetching the packages of {}", self.folder.display());
        said(&mut self.run("python3", &["-m", "venv", "--clear", "venv"]))?;
        said(
            self.installed("pip")
                .args(["install", "--quiet", "--requirement", "requirements.txt"]),
        )?;
        Ok(fs::write(installed, wanted)?)
    }

    /// Lines of generated files without comments, of which this is true.
    fn lines(&self, places: &[&str], is_meant: impl Fn(&str) -> bool) -> Result<Vec<String>> {
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
    fn names(&self, places: &[&str], parts: &[&str]) -> Result<Vec<String>> {
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

fn document(name: &str) -> String {
    format!("documents/{name}.json")
}

fn typescript(work: &Work) -> Result<()> {
    packages::ensure_program("node", &["nodejs"])?;
    packages::fetch_into(&work.folder, "the generators of TypeScript")
}

/// Whether one of the words stands alone in the code of a line, outside of its texts.
fn has_word(line: &str, words: &[&str]) -> bool {
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
    fn words_in_texts_and_in_longer_words_do_not_count() {
        let is_open = |line| has_word(line, &["any", "unknown"]);
        assert!(is_open("    value: unknown;"));
        assert!(is_open("    value: z.unknown(),"));
        assert!(!is_open("    source: \"lifi\" | \"unknown\";"));
        assert!(!is_open("    company: string;"));
    }
}
