//! `cargo xtask crash`: builds the crash test, which needs what no other verb needs, and becomes it.

use std::os::unix::process::CommandExt;

use xtask::machine::failure::Outcome;
use xtask::machine::workspace;

/// What `cargo xtask crash` hands on.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// `--help` lists them
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    arguments: Vec<String>,
}

/// Runs the crash test in place of this process, so that signals and the exit code are its own.
pub(crate) fn run(options: &Options) -> Outcome {
    eprintln!("building the crash test; the first time takes minutes, and cargo says what it is at");
    let mut crash = workspace::cargo();
    crash.args(["run", "--package", "crash", "--"]).args(&options.arguments);
    Err(crash.exec().into())
}
