//! Builds and starts `prs dev` as a process and waits for it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::machine::command::{self, POLL, Running};
use crate::machine::{packages, workspace};
use crate::service::ready::Ready;

/// Time limit for `prs dev` to become ready: it first migrates, starts a chain and deploys contracts.
const READY_TIMEOUT: Duration = Duration::from_secs(180);

/// Number of log lines that are shown if the service does not start.
const LOG_LINES_SHOWN: usize = 30;

/// Options for the start of `prs dev`: its port and its data folder.
#[derive(Debug, Default, clap::Args)]
pub struct StartOptions {
    /// Listen on this port instead of a free one
    #[arg(long)]
    pub port: Option<u16>,
    /// Store the database in this folder
    #[arg(long)]
    pub data: Option<PathBuf>,
}

/// A running `prs dev`; stopped on drop.
pub struct Dev {
    running: Running,
    /// The line that `prs dev` printed when it was ready.
    pub ready: Ready,
    /// Path of its log.
    pub log: PathBuf,
}

impl Dev {
    /// Builds `prs dev`, starts it with these environment variables, and waits until it is ready. The log file is named
    /// after `name`.
    pub fn start(options: &StartOptions, name: &str, settings: &[(&str, &str)]) -> Result<Self> {
        packages::ensure_local_chains()?;
        let prs = workspace::build_prs()?;
        let log = scratch()?.join(format!("{name}.log"));
        let mut command = Command::new(prs);
        command.args(["dev", "--json"]);
        if let Some(port) = options.port {
            command.args(["--port", &port.to_string()]);
        }
        if let Some(data) = &options.data {
            command.arg("--data").arg(data);
        }
        command
            .envs(settings.iter().copied())
            .current_dir(workspace::root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?);
        let mut running = Running::start(&mut command)?;
        let ready = wait_until_ready(&mut running).map_err(|error| with_log(error, &log))?;
        Ok(Self { running, ready, log })
    }

    /// Returns an error with the end of the log if the service has exited although it should still run.
    pub fn still_running(&mut self) -> Result<()> {
        let ended = self.running.still_running();
        ended.map_err(|error| self.explain(error))
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
    // The pipe is drained, because a full one would block the service.
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

/// The folder for the files of xtask runs: logs, and the file with the address of the running service.
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
