//! `cargo xtask crash` and `cargo xtask conformance`: programs with dependencies that no other command needs. They are
//! built on demand.

use std::os::unix::process::CommandExt;
use std::process::Command;

use xtask::machine::failure::Outcome;
use xtask::machine::workspace;

/// Arguments that are passed to the program unchanged.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// `--help` lists them
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    arguments: Vec<String>,
}

/// Replaces this process with the program of a package. Signals then reach the program directly, and its exit code
/// becomes that of the command.
pub(crate) fn run(package: &str, options: &Options) -> Outcome {
    // Builds the service too, so that both share one set of dependencies. `cargo run --package` alone would build the
    // dependencies again with other features.
    let mut program = Command::new(workspace::build(package)?);
    program.current_dir(workspace::root()).args(&options.arguments);
    Err(program.exec().into())
}
