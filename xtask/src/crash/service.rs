//! The service as a process that is killed and started again: its settings, its log, and when it is ready.

use std::fs::{self, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use devnet::Devnet;
use serde_json::{Value, json};

use super::client::{Call, Client};
use crate::command::{self, Running};

/// Ports below those that the system gives to outgoing connections: a client that knocks while nobody listens could
/// otherwise be connected with itself and keep the port.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// The first start migrates an empty database.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// How closely the time until readiness is measured.
const READY_POLL: Duration = Duration::from_millis(2);

/// How much of the log is shown when the service does not come up.
const LOG_LINES_SHOWN: usize = 30;

/// One database, one port, and one process after the other.
pub(crate) struct Service {
    prs: PathBuf,
    config: PathBuf,
    folder: PathBuf,
    log: PathBuf,
    base_url: String,
    running: Option<Running>,
}

impl Service {
    /// Writes the settings into a folder; nothing runs yet.
    pub(crate) fn new(prs: &Path, folder: &Path, log: &Path, database_url: &str, chain: &Devnet) -> Result<Self> {
        // A build meanwhile would replace the binary, and the restarts would test something else.
        let own = folder.join("prs");
        fs::copy(prs, &own).context("cannot copy the binary")?;
        let port = free_port()?;
        let listen = format!("127.0.0.1:{port}");
        let settings = json!({
            "database": {"url": database_url},
            "http": {"listen": listen},
            "secrets": {"master_key": "5a".repeat(32)},
            "chains": {"sepolia": {
                "rpc_urls": [chain.rpc_url()],
                "confirmations": 1,
                "start_block": 0,
                "poll_ms": 50,
                "contracts": {
                    "ERC20FeeProxy": chain.contracts().erc20_fee_proxy.to_string(),
                    "EthereumFeeProxy": chain.contracts().ethereum_fee_proxy.to_string(),
                },
                "tokens": {"FAU": chain.tokens().fau.to_string()},
            }},
        });
        let config = folder.join("prs.toml");
        fs::write(&config, toml::to_string(&settings)?)?;
        Ok(Self {
            prs: own,
            config,
            folder: folder.to_path_buf(),
            log: log.to_path_buf(),
            base_url: format!("http://{listen}"),
            running: None,
        })
    }

    /// Where it answers.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Runs a provisioning command and gives back what it prints.
    pub(crate) fn provision(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = self.command();
        command.arg("admin").args(arguments).arg("--json");
        Ok(serde_json::from_slice(&command::capture(&mut command)?)?)
    }

    /// Starts a process and gives back how long it took until it was ready.
    pub(crate) fn start(&mut self) -> Result<Duration> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = self.command();
        command
            .arg("serve")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let begun = Instant::now();
        let mut running = Running::start(&mut command)?;
        let client = Client::new(&self.base_url, Vec::new());
        let outcome = loop {
            match client.call("/health/ready", &Call::Get) {
                Ok(answer) if answer.status == 200 => break Ok(begun.elapsed()),
                _ if command::interrupted() => break Err(anyhow::anyhow!("interrupted")),
                answer if begun.elapsed() > READY_TIMEOUT => {
                    break Err(anyhow::anyhow!(
                        "not ready after {} s: {answer:?}",
                        READY_TIMEOUT.as_secs()
                    ));
                }
                _ => {}
            }
            if let Err(error) = running.still_running() {
                break Err(error);
            }
            std::thread::sleep(READY_POLL);
        };
        if outcome.is_err() {
            self.show_log();
        }
        self.running = Some(running);
        outcome
    }

    /// Ends the process with SIGKILL: it gets no chance to finish anything.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let mut running = self.running.take().context("the service is not running")?;
        // A process that ended by itself would make a crash look like a kill.
        if let Err(error) = running.still_running() {
            self.show_log();
            return Err(error);
        }
        running.child().kill()?;
        running.child().wait()?;
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.prs);
        command.current_dir(&self.folder).arg("--config").arg(&self.config);
        // The environment wins over the file, and somebody's real database must not be what is tested.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PRS_") {
                command.env_remove(name);
            }
        }
        // One caller makes all the load here.
        command.env("PRS_RATE_LIMITS__ENABLED", "false");
        command
    }

    fn show_log(&self) {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        eprintln!("--- the end of {}\n{}\n---", self.log.display(), shown.join("\n"));
    }
}

fn free_port() -> Result<u16> {
    for _ in 0..PORTS.len() {
        let port = fastrand::u16(PORTS);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port of {PORTS:?} is free")
}
