//! The `prs` program: parses the command line and runs the command.

use clap::Parser;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// Search pages need thousands of small allocations. With the allocator of the C library, allocation takes a third of
/// the time of a call.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // In a debug build, `FAILPOINTS` names the points at which the process ends.
    #[cfg(debug_assertions)]
    let _scenario = fail::FailScenario::setup();
    prs::boot::cli::run(prs::boot::cli::Cli::parse())
}
