//! `cargo xtask crash` and `cargo xtask conformance`: programs that need what no other verb needs. They are built when they
//! are asked for.

use std::os::unix::process::CommandExt;
use std::process::Command;

use xtask::machine::failure::Outcome;
use xtask::machine::workspace;

/// What is handed on.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// `--help` lists them
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    arguments: Vec<String>,
}

/// Runs the program of a package in place of this process, so that signals and the exit code are its own.
pub(crate) fn run(package: &str, options: &Options) -> Outcome {
    // What belongs to the same selection as the service shares its dependencies; `cargo run --package` builds them once more.
    let mut program = Command::new(workspace::build(package)?);
    program.current_dir(workspace::root()).args(&options.arguments);
    Err(program.exec().into())
}
