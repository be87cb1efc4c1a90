//! `cargo xtask openapi score`: computes for each document which share of its parts has a type, security, an example, a
//! name and a description, and compares the shares with those of the published documents. Exits with 4 if a share of
//! our documents is less than 100 percent.
//!
//! This is a separate program, because it validates examples and no other part of xtask needs a validator.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use contract::score::{NAMES, Score, score};
use contract::turned::turned;
use contract::validation::json_schema;
use serde_json::Value;

/// Exit code if a document of ours is out of date or incomplete.
const EXIT_NEEDS_UPDATE: u8 = 4;

/// Shares that cannot be computed for the published documents, because the stored facts about these documents lack
/// them.
const NOT_KEPT: [&str; 2] = ["examples that fit", "described members"];

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(end_of_ours) = arguments.iter().position(|argument| argument == "--beside") else {
        bail!("score OURS… --beside PUBLISHED…");
    };
    let names: Vec<&String> = arguments.iter().filter(|argument| *argument != "--beside").collect();
    let scores: Vec<Score> = names.iter().map(|path| of_file(path)).collect::<Result<_>>()?;
    print(&names, &scores, end_of_ours);
    let mut is_whole = true;
    for (path, score) in names.iter().zip(&scores).take(end_of_ours) {
        for (name, share) in NAMES.iter().zip(score.shares()) {
            for missing in &share.missing {
                eprintln!("{path}#{missing} is missing among the {name}");
                is_whole = false;
            }
        }
    }
    Ok(if is_whole {
        ExitCode::SUCCESS
    } else {
        EXIT_NEEDS_UPDATE.into()
    })
}

/// Prints a line for each document; the first `of_ours` documents are ours.
fn print(names: &[&String], scores: &[Score], of_ours: usize) {
    println!("{:<32}{}", "", NAMES.map(|name| format!("{name:>21}")).concat());
    for (index, (name, score)) in names.iter().zip(scores).enumerate() {
        let mut cells = String::new();
        for (column, share) in NAMES.iter().zip(score.shares()) {
            let cell = match share.percent() {
                Some(_) if index >= of_ours && NOT_KEPT.contains(column) => "not kept".to_owned(),
                Some(percent) => format!("{percent} % {share}"),
                None => "-".to_owned(),
            };
            cells.push_str(&format!("{cell:>21}"));
        }
        println!("{name:<32}{cells}");
    }
}

fn of_file(path: &str) -> Result<Score> {
    let bytes = fs::read(path).with_context(|| path.to_owned())?;
    let document = turned(&serde_json::from_slice(&bytes).with_context(|| path.to_owned())?);
    Ok(score(&document, &|schema, example| fits(&document, schema, example)))
}

/// Whether an example matches. A schema that cannot be compiled matches nothing.
fn fits(document: &Value, schema: &Value, example: &Value) -> bool {
    let schema = json_schema(document, schema);
    let options = jsonschema::options();
    let validator = options.should_validate_formats(true).build(&schema);
    validator.is_ok_and(|validator| validator.is_valid(example))
}
