//! `prs dev` as a process: built, started, waited for.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::machine::command::{self, POLL, Running};
use crate::machine::workspace;
use crate::service::ready::Ready;

/// The service migrates, starts a chain and deploys contracts before it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(180);

/// How much of the log is shown when the service does not come up.
const LOG_LINES_SHOWN: usize = 30;

/// A running `prs dev`, ended with this value.
pub struct Dev {
    /// The process.
    pub running: Running,
    /// What it said about itself.
    pub ready: Ready,
    /// Where its log is.
    pub log: PathBuf,
}

impl Dev {
    /// Builds and starts it on a port and with a folder for its database, or with what it chooses, and waits until it is ready.
    pub fn start(port: Option<u16>, data: Option<&Path>) -> Result<Self> {
        let prs = workspace::build_prs()?;
        let log = scratch()?.join("dev.log");
        let mut command = Command::new(prs);
        command.args(["dev", "--json"]);
        if let Some(port) = port {
            command.args(["--port", &port.to_string()]);
        }
        if let Some(data) = data {
            command.arg("--data").arg(data);
        }
        command
            .current_dir(workspace::root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?);
        let mut running = Running::start(&mut command)?;
        let ready = wait_until_ready(&mut running).map_err(|error| with_log(error, &log))?;
        Ok(Self { running, ready, log })
    }

    /// Adds the end of the log to an error.
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        with_log(error, &self.log)
    }
}

fn with_log(error: anyhow::Error, log: &Path) -> anyhow::Error {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
    eprintln!("--- the end of {}\n{}\n---", log.display(), shown.join("\n"));
    error
}

fn wait_until_ready(running: &mut Running) -> Result<Ready> {
    let output = running
        .child()
        .stdout
        .take()
        .context("the service has no standard output")?;
    let (sender, receiver) = mpsc::channel();
    // The pipe is read to its end, because a full one would stop the service.
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        match receiver.recv_timeout(POLL) {
            Ok(line) => return Ready::parse(&line),
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(POLL);
                running.still_running()?;
                bail!("`prs dev` closed its standard output before it was ready");
            }
            Err(RecvTimeoutError::Timeout) if command::interrupted() => bail!("interrupted"),
            Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                bail!("`prs dev` is not ready after {} s", READY_TIMEOUT.as_secs());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// The folder for what a run leaves behind: logs, and where the running service is.
pub fn scratch() -> Result<PathBuf> {
    let folder = workspace::target_directory()?.join("xtask");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_ends_before_it_is_ready_is_an_error() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 7"]).stdout(Stdio::piped());
        let mut running = Running::start(&mut command).unwrap();
        assert!(wait_until_ready(&mut running).is_err());
    }

    #[test]
    fn the_first_line_of_the_service_says_where_it_is() {
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"echo '{"apiKey": "k"}'; sleep 60"#])
            .stdout(Stdio::piped());
        let mut running = Running::start(&mut command).unwrap();
        assert_eq!(wait_until_ready(&mut running).unwrap().member("/apiKey").unwrap(), "k");
    }
}
