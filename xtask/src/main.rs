//! The commands of this repository. Each prints the command that repairs what it found.
//!
//! Exit codes: 0 fine, 4 a committed file needs an update, 100 broken; the demonstration, the crash test, the abuse
//! test, the fuzzer, the clients and the examination of a deployment end with 1 when what they show does not hold.
//! Nothing here links the service: where its knowledge is needed, its binary is built and asked.

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
    /// The exported documents: write them, check them, lint and score them, list their changes
    #[command(subcommand)]
    Openapi(OpenapiVerb),
    /// The schema of the migrated database: write it, check it
    #[command(subcommand)]
    Schema(SchemaVerb),
    /// Rules of this repository that no compiler checks
    Tidy,
    /// All tests, on SQLite and on PostgreSQL; or those with one of the names in their path
    Test(test::Options),
    /// How PostgreSQL executes every statement of the tests, or of those that are named, in a database of a million payments
    Plans {
        /// Parts of test paths, such as `payments`
        names: Vec<String>,
    },
    /// Everything that can be said without running tests: fmt, clippy, tidy, shared artifacts, openapi with its linters and score, schema, payment page, cargo-deny
    Check(check::Options),
    /// The numbers of the service beside their baselines, or those that are named
    Bench(bench::Options),
    /// The service with a local chain, seeded, and what to open and copy
    Dev(dev::Options),
    /// Calls every operation of the documents with every credential, well and badly, and judges the answers
    Fuzz(fuzz::Options),
    /// Clients in four languages, made in five ways, generated from the documents, compiled and run against the service
    Clients(clients::Options),
    /// Breaks the service and everything around it while requests are created and paid, and counts what that cost
    Crash(member::Options),
    /// Whether a deployment does what the documents say, operation by operation
    Conformance(member::Options),
}

#[derive(Debug, Subcommand)]
enum OpenapiVerb {
    /// Write openapi/*.json and openapi/events/*.json from the code
    Generate,
    /// Check bytes, meaning, deviations, rules and compatibility
    Check(openapi::CheckOptions),
    /// What linters say about the documents: spectral, redocly and the rules of OWASP
    Lint,
    /// How complete the documents are, beside the published ones
    Score,
    /// A section for CHANGELOG.md: what changed in the documents since the main branch
    Diff {
        /// Another revision, such as the tag of the last release; or the older and the newer file
        operands: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
enum SchemaVerb {
    /// Write snapshots/schema.*.sql from the migrations
    Generate,
    /// Check that the migrations go up, down and up, and that the snapshots are theirs
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
