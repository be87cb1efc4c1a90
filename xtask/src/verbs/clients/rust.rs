//! The client in Rust, which is a cargo workspace of its own.

use std::process::Command;

use anyhow::Result;
use xtask::machine::workspace;

use super::documents;
use super::language::{Language, Work, document, said, twins_of};

/// Calls and models.
pub(super) const RUST: Language = Language {
    name: "rust",
    generator: "progenitor 0.15.1",
    folder: "rust",
    adaptations: &[documents::TOKEN_OF_LINKS],
    prepare: |work| said(cargo(work, &["build", "--package", "generator"]).env("CARGO_TERM_COLOR", "never")),
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
    compile: |work| said(&mut cargo(work, &["build", "--package", "golden"])),
    golden: |work| work.run(work.path("target/debug/golden"), &[]),
    untyped: |work| {
        let mut found = work.lines(&["client/src"], |line| {
            let line = line.trim_start();
            let is_value =
                line.contains("::serde_json::") && (line.starts_with("pub ") || line.starts_with("::serde_json::"));
            let is_numbered = (0..10).any(|digit| line.starts_with(&format!("Variant{digit}")));
            is_value || is_numbered
        })?;
        found.extend(rust_names(work)?.1);
        Ok(found)
    },
    twins: |work| Ok(rust_names(work)?.0),
};

/// Names of types that the Rust generator invented: first those for nullable components, then all others.
fn rust_names(work: &Work) -> Result<(Vec<String>, Vec<String>)> {
    let names = work.lines(&["client/src"], |line| {
        let mut words = line.split_whitespace();
        let is_type = words.next() == Some("pub") && matches!(words.next(), Some("struct" | "enum"));
        let name = words.next().unwrap_or_default();
        is_type && (name.contains("Inner") || name.contains("Subtype"))
    })?;
    twins_of(work, names, "Inner")
}

fn cargo(work: &Work, arguments: &[&str]) -> Command {
    let mut cargo = workspace::cargo();
    cargo
        .current_dir(work.path("."))
        .env("CARGO_TARGET_DIR", work.path("target"))
        .args(arguments)
        .args(["--quiet", "--locked"]);
    cargo
}
