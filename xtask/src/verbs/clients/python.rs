//! The client in Python, which is checked by mypy.

use std::fs;
use std::process::Command;

use anyhow::Result;
use xtask::machine::packages;

use super::documents;
use super::language::{Language, Work, document, has_word, said, twins_of};

/// Calls and models.
pub(super) const PYTHON: Language = Language {
    name: "python",
    generator: "openapi-python-client 0.29.1",
    folder: "python",
    adaptations: &[documents::WITHOUT_STREAM],
    prepare: |work| {
        environment(work)?;
        Ok(fs::write(work.path("generated/__init__.py"), "")?)
    },
    generate: |work| {
        for name in documents::NAMES {
            let mut generator = installed(work, "openapi-python-client");
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
    compile: |work| said(installed(work, "mypy").args(["golden.py", "surroundings.py", "generated"])),
    golden: |work| {
        let mut golden = installed(work, "python");
        golden.arg("golden.py");
        golden
    },
    untyped: |work| {
        // The generator adds a field for additional members to every model, whatever the document says about them.
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
        found.extend(python_names(work)?.1);
        Ok(found)
    },
    twins: |work| Ok(python_names(work)?.0),
};

/// Names of modules that the Python generator invented: first those for nullable components, then all others.
fn python_names(work: &Work) -> Result<(Vec<String>, Vec<String>)> {
    let names = work.names(&["generated/v2/models", "generated/auth/models"], &["_type_", "_item_"])?;
    twins_of(work, names, "Type")
}

/// A command for a program in the virtual environment of the working folder.
pub(super) fn installed(work: &Work, program: &str) -> Command {
    work.run(work.path("venv/bin").join(program), &[])
}

/// Installs the pinned packages into a virtual environment of the folder.
pub(super) fn environment(work: &Work) -> Result<()> {
    packages::ensure_python_packages(&work.path("requirements.txt"), &work.path("venv")).map(drop)
}
