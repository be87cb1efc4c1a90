//! cargo-deny: licences, bans and sources of the dependencies; advisories on request, because they need the network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use xtask::machine::failure::Outcome;
use xtask::machine::{command, workspace};

/// The version that is installed when the machine has none.
const VERSION: &str = "0.20.2";

/// What cargo-deny says when it could not load the advisory database at all.
const UNREACHABLE: [&str; 3] = [
    "failed to fetch advisory database",
    "failed to load advisory database",
    "failed to acquire",
];

/// Checks what needs no network.
pub(crate) fn check() -> Outcome {
    let mut deny = deny()?;
    deny.args(["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]);
    Ok(command::run(&mut deny)?)
}

/// Checks the advisory database; one that cannot be reached is said, and fails in continuous integration.
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

/// cargo-deny with our rules, which keeps databases of advisories in a folder.
pub(crate) fn with_database(folder: &Path) -> Result<Command> {
    let rules = fs::read_to_string(workspace::root().join("deny.toml")).context("deny.toml")?;
    let databases = format!("[advisories]\ndb-path = {:?}\n", folder.join("databases"));
    let config = folder.join("deny.toml");
    fs::write(&config, rules.replace("[advisories]\n", &databases))?;
    let mut deny = deny()?;
    deny.arg("--config").arg(config);
    Ok(deny)
}

/// The cargo-deny of the machine, else one of our own below the target directory.
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
        // A build without optimisation is a third of the wait and fast enough for one manifest.
        install
            .args(["install", "--locked", "--debug", "--root"])
            .arg(&tools)
            .arg(format!("cargo-deny@{VERSION}"));
        let build = tempfile::tempdir()?;
        command::run(install.env("CARGO_TARGET_DIR", build.path()))?;
    }
    Ok(path)
}
