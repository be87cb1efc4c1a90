//! The `prs` program.

use std::{path::Path, process::Command};

/// A command that runs `prs` in this folder. The database is in the folder too, unless the settings say otherwise. The
/// command runs without the stack size that cargo sets for tests.
pub fn prs(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prs"));
    command.current_dir(folder).env_remove("RUST_MIN_STACK");
    command
}
