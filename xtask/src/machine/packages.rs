//! Programs of the machine that a verb needs: found, installed when we may, or named with the command that does it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use crate::machine::{command, workspace};

/// Installs Debian packages as root; any other user gets the command to run.
pub fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !command::is_root() || command::find_program("apt-get").is_none() {
        bail!("{list} missing; run `sudo apt-get install -y --no-install-recommends {list}`");
    }
    println!("installing {list}");
    command::run(apt().arg("update"))?;
    command::run(apt().args(["install", "-y", "--no-install-recommends"]).args(packages))
}

fn apt() -> Command {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
    apt
}

/// Makes sure a program is on the PATH.
pub fn ensure_program(program: &str, packages: &[&str]) -> Result<PathBuf> {
    if let Some(path) = command::find_program(program) {
        return Ok(path);
    }
    install(packages)?;
    match command::find_program(program) {
        Some(path) => Ok(path),
        None => bail!(
            "{} installed, and yet there is no {program} on the PATH",
            packages.join(" ")
        ),
    }
}

/// Makes sure there is a browser, and what drives it.
pub fn ensure_browser() -> Result<()> {
    ensure_program("chromium", &["chromium", "chromium-driver"])?;
    ensure_program("chromedriver", &["chromium-driver"]).map(drop)
}

/// Makes sure that the tests can install the published verifiers of webhooks, of which one needs npm and the other one
/// `venv`, and run the samples of verification that are shown.
pub fn ensure_webhook_verifiers() -> Result<()> {
    ensure_program("go", &["golang-go"])?;
    ensure_program("node", &["nodejs"])?;
    ensure_program("npm", &["nodejs", "npm"])?;
    ensure_python().map(drop)
}

/// Makes sure that there is a Python that makes environments of its own.
pub fn ensure_python() -> Result<PathBuf> {
    let python = ensure_program("python3", &["python3", "python3-venv"])?;
    let mut look = Command::new(&python);
    // Debian packages `venv` without the part that brings pip into it.
    if command::capture(look.args(["-c", "import ensurepip, venv"])).is_err() {
        install(&["python3-venv"])?;
    }
    Ok(python)
}

/// Makes sure that the PyPI packages of a list, which names their hashes, are in an environment in this folder. Returns the
/// folder of its programs.
pub fn ensure_python_packages(lock: &Path, folder: &Path) -> Result<PathBuf> {
    let (installed, programs) = (folder.join("installed.txt"), folder.join("bin"));
    let wanted = fs::read(lock).with_context(|| lock.display().to_string())?;
    if fs::read(&installed).is_ok_and(|text| text == wanted) {
        return Ok(programs);
    }
    let python = ensure_python()?;
    eprintln!("fetching what {} names", lock.display());
    command::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(folder))?;
    let mut pip = Command::new(programs.join("pip"));
    pip.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "--requirement",
    ]);
    command::run(pip.arg(lock))?;
    fs::write(installed, wanted)?;
    Ok(programs)
}

/// Makes sure there is a local chain node: the one of the machine, or the pinned npm package of `devnet/`.
pub fn ensure_chain_node() -> Result<()> {
    if std::env::var_os("PRS_ANVIL").is_some() || command::find_program("anvil").is_some() {
        return Ok(());
    }
    fetch("devnet", "the local chain node")
}

/// Makes sure that there are the job queues that the delivery of events is measured beside, and what they wait in.
pub fn ensure_job_queues() -> Result<()> {
    ensure_program("node", &["nodejs"])?;
    ensure_program("redis-server", &["redis-server"])?;
    fetch("benches/peers/events", "BullMQ and graphile-worker")
}

/// Makes sure that there is what the search that ours is measured beside is made of.
pub fn ensure_search_peer() -> Result<()> {
    ensure_program("node", &["nodejs"])?;
    fetch("benches/peers/search", "fastify and pg")
}

/// Makes sure that there is what judges the exported documents.
pub fn ensure_linters() -> Result<()> {
    ensure_program("node", &["nodejs"])?;
    fetch("xtask/lint", "the linters of the documents")
}

/// Fetches the pinned npm packages of a folder, unless they are there.
fn fetch(folder: &str, what: &str) -> Result<()> {
    fetch_into(&workspace::root().join(folder), what)
}

/// Fetches the pinned npm packages of any folder, unless they are there.
pub fn fetch_into(folder: &Path, what: &str) -> Result<()> {
    let (lock, installed) = (
        folder.join("package-lock.json"),
        folder.join("node_modules/.package-lock.json"),
    );
    if !is_older(modified(&installed), modified(&lock)) {
        return Ok(());
    }
    let npm = ensure_program("npm", &["nodejs", "npm"])?;
    eprintln!("fetching {what}");
    let mut install = Command::new(npm);
    install
        .current_dir(folder)
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    command::run(&mut install)
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|entry| entry.modified()).ok()
}

/// Whether what is installed is missing or older than what it was installed from.
fn is_older(installed: Option<SystemTime>, lock: Option<SystemTime>) -> bool {
    match (installed, lock) {
        (Some(installed), Some(lock)) => installed < lock,
        (None, _) => true,
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_older_than_its_lock_file_is_installed_again() {
        let early = SystemTime::UNIX_EPOCH;
        let late = early + Duration::from_secs(1);
        assert!(is_older(None, Some(early)));
        assert!(is_older(Some(early), Some(late)));
        assert!(!is_older(Some(late), Some(early)));
        assert!(!is_older(Some(early), Some(early)));
    }
}
