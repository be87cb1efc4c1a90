//! Programs that a command needs. A missing program is installed if this run is root. Otherwise the error names the
//! command that installs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use crate::machine::{command, workspace};

/// Installs Debian packages if this run is root; otherwise returns an error with the command to run.
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

/// Ensures that a program is on the PATH.
pub fn ensure_program(program: &str, packages: &[&str]) -> Result<PathBuf> {
    if let Some(path) = command::find_program(program) {
        return Ok(path);
    }
    install(packages)?;
    match command::find_program(program) {
        Some(path) => Ok(path),
        None => bail!("{} is installed, but {program} is not on the PATH", packages.join(" ")),
    }
}

/// Ensures that a browser and its driver are installed.
pub fn ensure_browser() -> Result<()> {
    ensure_program("chromium", &["chromium", "chromium-driver"])?;
    ensure_program("chromedriver", &["chromium-driver"]).map(drop)
}

/// Ensures that everything is installed with which the tests verify webhooks: npm and Python's `venv` for the published
/// libraries, and the interpreters that run the published code samples.
pub fn ensure_webhook_verifiers() -> Result<()> {
    ensure_program("go", &["golang-go"])?;
    ensure_program("node", &["nodejs"])?;
    ensure_program("npm", &["nodejs", "npm"])?;
    ensure_python().map(drop)
}

/// Ensures that a Python is installed that can create virtual environments.
pub fn ensure_python() -> Result<PathBuf> {
    let python = ensure_program("python3", &["python3", "python3-venv"])?;
    let mut look = Command::new(&python);
    // Debian packages `venv` without the part that installs pip into an environment.
    if command::capture(look.args(["-c", "import ensurepip, venv"])).is_err() {
        install(&["python3-venv"])?;
    }
    Ok(python)
}

/// Ensures that the PyPI packages of a list with hashes are installed in a virtual environment in this folder. Returns
/// the folder of its programs.
pub fn ensure_python_packages(lock: &Path, folder: &Path) -> Result<PathBuf> {
    let (installed, programs) = (folder.join("installed.txt"), folder.join("bin"));
    let wanted = fs::read(lock).with_context(|| lock.display().to_string())?;
    if fs::read(&installed).is_ok_and(|text| text == wanted) {
        return Ok(programs);
    }
    let python = ensure_python()?;
    eprintln!("fetching the packages in {}", lock.display());
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

/// Ensures that the pinned npm packages of the local chains are installed: node, published contracts and tronweb.
pub fn ensure_local_chains() -> Result<()> {
    fetch("devnet", "the local chains")
}

/// Ensures that the other job queues, with which the delivery benchmark compares the service, are installed, and also
/// the store that they use.
pub fn ensure_job_queues() -> Result<()> {
    ensure_program("node", &["nodejs"])?;
    ensure_program("redis-server", &["redis-server"])?;
    fetch("benches/peers/events", "BullMQ and graphile-worker")
}

/// Ensures that the npm packages of the Node.js service, with which the search benchmark compares this service, are
/// installed.
pub fn ensure_search_peer() -> Result<()> {
    ensure_program("node", &["nodejs"])?;
    fetch("benches/peers/search", "fastify and pg")
}

/// Ensures that the linters of the exported documents are installed.
pub fn ensure_linters() -> Result<()> {
    ensure_program("node", &["nodejs"])?;
    fetch("xtask/lint", "the linters of the documents")
}

/// Fetches the pinned npm packages of a folder unless they are installed.
fn fetch(folder: &str, what: &str) -> Result<()> {
    fetch_into(&workspace::root().join(folder), what)
}

/// Fetches the pinned npm packages of any folder unless they are installed.
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

/// Whether the installed packages are missing or older than their lock file.
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
    fn an_installation_older_than_its_lock_file_is_replaced() {
        let early = SystemTime::UNIX_EPOCH;
        let late = early + Duration::from_secs(1);
        assert!(is_older(None, Some(early)));
        assert!(is_older(Some(early), Some(late)));
        assert!(!is_older(Some(late), Some(early)));
        assert!(!is_older(Some(early), Some(early)));
    }
}
