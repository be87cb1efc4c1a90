//! The `prs` program: parses the command line and runs the command.

use clap::Parser;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// A page of a search is thousands of small allocations, of which the C library spends a third of the time of the call.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // A debug build reads from `FAILPOINTS` at which points it ends.
    #[cfg(debug_assertions)]
    let _scenario = fail::FailScenario::setup();
    prs::boot::cli::run(prs::boot::cli::Cli::parse())
}
