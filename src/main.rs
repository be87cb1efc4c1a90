//! The `prs` program: parses the command line and runs the command.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Reads which points to end at from `FAILPOINTS`.
    #[cfg(feature = "failpoints")]
    let _scenario = fail::FailScenario::setup();
    prs::boot::cli::run(prs::boot::cli::Cli::parse())
}
