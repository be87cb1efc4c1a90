//! The `prs` program: parses the command line and hands over.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    prs::boot::cli::run(prs::boot::cli::Cli::parse())
}
