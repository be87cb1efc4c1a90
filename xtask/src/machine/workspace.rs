//! Paths: the repository, its tracked files, the target directory, the `prs` binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::machine::command;

/// The folder of the root `Cargo.toml`.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// A `cargo` that runs in the repository.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    // `cargo run` sets these variables for xtask. If they were passed on, build scripts that watch them would run again
    // in every other cargo command.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// The directory that cargo builds into, as configured on the machine.
pub fn target_directory() -> Result<PathBuf> {
    let metadata = metadata()?;
    let path = metadata["target_directory"]
        .as_str()
        .context("`cargo metadata` names no target directory")?;
    Ok(PathBuf::from(path))
}

/// The names of the packages of the workspace.
pub fn packages() -> Result<Vec<String>> {
    let metadata = metadata()?;
    let packages = metadata["packages"]
        .as_array()
        .context("`cargo metadata` names no packages")?;
    Ok(packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .map(str::to_owned)
        .collect())
}

fn metadata() -> Result<Value> {
    let output = command::capture(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    Ok(serde_json::from_slice(&output)?)
}

/// Builds `prs` and returns its path.
pub fn build_prs() -> Result<PathBuf> {
    build("prs")
}

/// Builds a program of the workspace and returns its path.
pub fn build(program: &str) -> Result<PathBuf> {
    eprintln!("building {program}; the first build takes minutes, and cargo prints its progress");
    let mut build = cargo();
    build.args(["build", "--workspace", "--bin", program]);
    build
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit());
    let output = build.output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("{program} does not build");
    }
    for line in output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let message: Value = serde_json::from_slice(line).context("cargo printed a line that is not a JSON message")?;
        if message["reason"] == "compiler-artifact"
            && message["target"]["name"] == program
            && let Some(executable) = message["executable"].as_str()
        {
            return Ok(PathBuf::from(executable));
        }
    }
    bail!("cargo built no binary named `{program}`")
}

/// Files of the repository as git lists them, relative to the root: tracked, or new and not ignored.
pub fn files() -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(root())
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = String::from_utf8(command::capture(&mut git)?)?;
    let existing = |path: &PathBuf| root().join(path).is_file();
    Ok(output
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .filter(existing)
        .collect())
}

/// The content of a file on the main branch; `None` if the branch or the file does not exist.
pub fn on_main(path: &str) -> Option<Vec<u8>> {
    ["main", "origin/main"].iter().find_map(|branch| at(branch, path))
}

/// The content of a file at a revision; `None` if the revision or the file does not exist.
pub fn at(revision: &str, path: &str) -> Option<Vec<u8>> {
    let mut git = Command::new("git");
    git.current_dir(root()).args(["show", &format!("{revision}:{path}")]);
    command::capture(&mut git).ok()
}
