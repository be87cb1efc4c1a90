//! The commands of this repository. Each command prints how to fix what it found.
//!
//! Exit codes: 0 means success, 4 means that a committed file needs an update, and 100 means failure. Commands that
//! test the running service (demonstration, crash, abuse, fuzz, clients, conformance) exit with 1 if a check fails. No
//! command is linked with the code of the service: a command that needs the service's data builds the `prs` binary and
//! runs it.

mod verbs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use xtask::machine::failure::Outcome;
use xtask::machine::{command, failure};

use crate::verbs::{bench, check, clients, dev, fuzz, lint, member, openapi, schema, test, tidy};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The commands of this repository")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The exported documents: generate, check, lint and score them, list their changes
    #[command(subcommand)]
    Openapi(OpenapiVerb),
    /// The schema of the migrated database: generate and check it
    #[command(subcommand)]
    Schema(SchemaVerb),
    /// Check the rules of this repository that the compiler does not check
    Tidy,
    /// Run all tests on SQLite and PostgreSQL, or the tests with one of the names in their path
    Test(test::Options),
    /// Show how PostgreSQL executes every statement of all tests, or of the named tests, in a database with a million
    /// payments
    Plans {
        /// Parts of test paths, such as `payments`
        names: Vec<String>,
    },
    /// All checks except tests: fmt, clippy, tidy, shared artifacts, openapi with its linters and score, schema,
    /// payment page, cargo-deny
    Check(check::Options),
    /// Measure all or the named benchmarks and compare them with their baselines
    Bench(bench::Options),
    /// Run the service with a local chain and seed data, and print URLs and commands to use
    Dev(dev::Options),
    /// Call every operation of the documents with every credential, with valid and invalid input, and check the
    /// responses
    Fuzz(fuzz::Options),
    /// Generate clients in four languages with five generators, compile them and run them against the service
    Clients(clients::Options),
    /// Break the service and its dependencies while requests are created and paid, and count the losses
    Crash(member::Options),
    /// Check whether a deployment conforms to the documents, operation by operation
    Conformance(member::Options),
}

#[derive(Debug, Subcommand)]
enum OpenapiVerb {
    /// Generate openapi/*.json and openapi/events/*.json from the code
    Generate,
    /// Check bytes, meaning, deviations, rules and compatibility
    Check(openapi::CheckOptions),
    /// Lint the documents: spectral, redocly and the OWASP rules
    Lint,
    /// Score the completeness of the documents, compared with the published ones
    Score,
    /// Print a section for CHANGELOG.md with the changes of the documents since the main branch
    Diff {
        /// A revision to compare with, such as the tag of the last release; or an older and a newer file
        operands: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
enum SchemaVerb {
    /// Generate snapshots/schema.*.sql from the migrations
    Generate,
    /// Check that the migrations run up, down and up, and that the snapshots match them
    Check,
}

fn main() -> ExitCode {
    failure::ended(run(&Arguments::parse().verb))
}

fn run(verb: &Verb) -> Outcome {
    command::watch_interrupts()?;
    match verb {
        Verb::Openapi(OpenapiVerb::Generate) => openapi::generate(),
        Verb::Openapi(OpenapiVerb::Check(options)) => openapi::check(*options),
        Verb::Openapi(OpenapiVerb::Lint) => lint::run(),
        Verb::Openapi(OpenapiVerb::Score) => openapi::score(),
        Verb::Openapi(OpenapiVerb::Diff { operands }) => openapi::diff(openapi::operands(operands)?),
        Verb::Schema(SchemaVerb::Generate) => schema::generate(),
        Verb::Schema(SchemaVerb::Check) => schema::check(),
        Verb::Tidy => tidy::run(),
        Verb::Test(options) => test::run(options),
        Verb::Plans { names } => test::plans(names),
        Verb::Check(options) => check::run(options),
        Verb::Bench(options) => bench::run(options),
        Verb::Dev(options) => dev::run(options),
        Verb::Fuzz(options) => fuzz::run(options),
        Verb::Clients(options) => clients::run(options),
        Verb::Crash(options) => member::run("crash", options),
        Verb::Conformance(options) => member::run("conformance", options),
    }
}
