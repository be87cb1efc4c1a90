//! `cargo xtask check`: all checks of the code that need no tests.

use std::time::Instant;

use anyhow::anyhow;

use crate::verbs::openapi::CheckOptions;
use crate::verbs::{advisories, artifacts, deny, lint, openapi, page, schema, tidy};
use xtask::machine::failure::{Failure, Outcome};
use xtask::machine::{command, workspace};

/// Options of `cargo xtask check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Also use the advisory database, which needs network access beyond the registries
    #[arg(long)]
    advisories: bool,
    /// Accept changes that break clients written against the main branch
    #[arg(long)]
    allow_breaking: bool,
}

type Step<'a> = (&'a str, Box<dyn Fn() -> Outcome + 'a>);

/// Runs every step, also after a failure, and prints how long each took.
pub(crate) fn run(options: &Options) -> Outcome {
    let openapi_options = CheckOptions {
        allow_breaking: options.allow_breaking,
        ..CheckOptions::default()
    };
    let mut steps: Vec<Step<'_>> = vec![
        (
            "fmt",
            Box::new(|| cargo(&["fmt", "--all", "--check"], "cargo fmt --all")),
        ),
        (
            "clippy",
            Box::new(|| {
                let arguments = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
                cargo(&arguments, "cargo clippy --workspace --all-targets --fix")
            }),
        ),
        ("tidy", Box::new(tidy::run)),
        ("artifacts", Box::new(artifacts::check)),
        ("openapi check", Box::new(move || openapi::check(openapi_options))),
        ("openapi lint", Box::new(lint::run)),
        ("openapi score", Box::new(openapi::score)),
        ("schema check", Box::new(schema::check)),
        ("payment page", Box::new(page::check)),
        ("cargo-deny", Box::new(deny::check)),
        ("advisories", Box::new(advisories::check)),
    ];
    if options.advisories {
        steps.push(("upstream", Box::new(deny::check_advisories)));
    }
    let mut outcomes = Vec::new();
    let mut summary = Vec::new();
    for (name, step) in steps {
        let begun = Instant::now();
        let outcome = step();
        let verdict = match &outcome {
            Ok(()) => "ok".to_owned(),
            Err(failure) => failure.to_string(),
        };
        summary.push(format!(
            "{name:<14} {:>7.1} s  {verdict}",
            begun.elapsed().as_secs_f32()
        ));
        outcomes.push(outcome);
        if command::interrupted() {
            break;
        }
    }
    println!("{}", summary.join("\n"));
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    let stale_alone = outcomes
        .iter()
        .flat_map(|outcome| outcome.as_ref().err())
        .all(Failure::is_stale);
    match (failed, stale_alone) {
        (0, _) => Ok(()),
        (_, true) => Err(Failure::NeedsUpdate(format!("{failed} steps; see the list above"))),
        (_, false) => Err(Failure::Broken(anyhow!("{failed} steps failed; see the list above"))),
    }
}

fn cargo(arguments: &[&str], repair: &str) -> Outcome {
    command::run(workspace::cargo().args(arguments))
        .map_err(|error| Failure::Broken(error.context(format!("`{repair}` fixes what it can"))))
}
