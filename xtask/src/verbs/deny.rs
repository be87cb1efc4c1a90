//! Runs cargo-deny, which checks the licences, the sources and the bans of the dependencies. It checks advisories only
//! on request, because that needs the network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use xtask::machine::failure::Outcome;
use xtask::machine::{command, workspace};

/// The version that is installed if the machine has none.
const VERSION: &str = "0.20.2";

/// Parts of the messages with which cargo-deny says that it could not load the advisory database.
const UNREACHABLE: [&str; 3] = [
    "failed to fetch advisory database",
    "failed to load advisory database",
    "failed to acquire",
];

/// Runs the checks that need no network.
pub(crate) fn check() -> Outcome {
    let mut deny = deny()?;
    deny.args(["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]);
    Ok(command::run(&mut deny)?)
}

/// Checks the advisory database. An unreachable database is reported, and fails in continuous integration.
pub(crate) fn check_advisories() -> Outcome {
    let mut unreachable = false;
    let mut deny = deny()?;
    let succeeded = command::run_watched(deny.args(["check", "advisories"]), |line| {
        unreachable |= UNREACHABLE.iter().any(|complaint| line.contains(complaint));
    })?;
    if succeeded {
        return Ok(());
    }
    if unreachable && !command::is_ci() {
        println!("the advisory database cannot be reached, advisories are not checked");
        return Ok(());
    }
    Err(
        anyhow::anyhow!("advisories concern the dependencies; `cargo update` or an entry with a reason in deny.toml")
            .into(),
    )
}

/// A cargo-deny command with the rules of this repository and with this folder for the advisory database.
pub(crate) fn with_database(folder: &Path) -> Result<Command> {
    let rules = fs::read_to_string(workspace::root().join("deny.toml")).context("deny.toml")?;
    let databases = format!("[advisories]\ndb-path = {:?}\n", folder.join("databases"));
    let config = folder.join("deny.toml");
    fs::write(&config, rules.replace("[advisories]\n", &databases))?;
    let mut deny = deny()?;
    deny.arg("--config").arg(config);
    Ok(deny)
}

/// The path of cargo-deny. If cargo-deny is not installed, builds it below the target directory.
fn deny() -> Result<Command> {
    let mut command = Command::new(find()?);
    command.current_dir(workspace::root());
    Ok(command)
}

fn find() -> Result<PathBuf> {
    if let Some(path) = command::find_program("cargo-deny") {
        return Ok(path);
    }
    let tools = workspace::target_directory()?.join("tools");
    let path = tools.join("bin/cargo-deny");
    if !path.is_file() {
        println!("installing cargo-deny {VERSION}");
        let mut install = workspace::cargo();
        // A debug build takes a third of the time and is fast enough for one manifest.
        install
            .args(["install", "--locked", "--debug", "--root"])
            .arg(&tools)
            .arg(format!("cargo-deny@{VERSION}"));
        let build = tempfile::tempdir()?;
        command::run(install.env("CARGO_TARGET_DIR", build.path()))?;
    }
    Ok(path)
}
