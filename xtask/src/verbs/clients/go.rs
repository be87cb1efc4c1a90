//! The client in Go, which uses only the standard library of Go.

use std::fs;
use std::process::Command;

use xtask::machine::packages;

use super::documents;
use super::language::{Language, Work, document, has_word, none, said};
use super::python;

/// Calls and models.
pub(super) const GO: Language = Language {
    name: "go",
    generator: "openapi-generator 7.26.0 (go)",
    folder: "go",
    adaptations: &[],
    prepare: |work| {
        packages::ensure_program("java", &["default-jre-headless"])?;
        packages::ensure_program("go", &["golang-go"])?;
        python::environment(work)
    },
    generate: |work| {
        for name in documents::NAMES {
            let _ = fs::remove_dir_all(work.path(name));
            let mut generator = python::installed(work, "openapi-generator-cli");
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
        said(&mut go(work, &["vet", "./..."]))?;
        said(&mut go(work, &["build", "-o", "golden", "."]))
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
    twins: none,
};

/// A Go command that uses only the installed toolchain and modules, and downloads nothing.
fn go(work: &Work, arguments: &[&str]) -> Command {
    let mut go = work.run("go", arguments);
    go.env("GOCACHE", work.path("cache"))
        .env("GOPROXY", "off")
        .env("GOFLAGS", "-mod=mod");
    go
}
