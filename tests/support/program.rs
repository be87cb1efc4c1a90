//! The program as its operator runs it.

use std::{path::Path, process::Command};

/// `prs` in a folder, where its database is unless the settings say otherwise; without the stack that cargo gives tests.
pub fn prs(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prs"));
    command.current_dir(folder).env_remove("RUST_MIN_STACK");
    command
}
