//! The service as a process that is killed and restarted, with its settings, its log and its readiness.

use std::fs::{self, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use devnet::Devnet;
use serde_json::{Value, json};

use xtask::machine::command::{self, Running};
use xtask::service::client::{Call, Client};

/// Ports below the range that the system assigns to outgoing connections. If the service used a port of that range, a
/// client that connects while the service is down could get this port for itself and block it.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Time limit for the service to become ready. The first start migrates an empty database.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Poll interval for readiness.
const READY_POLL: Duration = Duration::from_millis(2);

/// Number of log lines that are shown if the service does not start.
const LOG_LINES_SHOWN: usize = 30;

/// The signal with which a process dies at a crash point (SIGABRT).
const ABORT: i32 = 6;

/// Poll interval while waiting for a process to end on its own.
const END_POLL: Duration = Duration::from_millis(5);

/// Parameters of a process of the service.
#[derive(Clone, Copy)]
pub(crate) struct Settings<'a> {
    /// The binary.
    pub(crate) prs: &'a Path,
    /// The folder with all files of the run.
    pub(crate) folder: &'a Path,
    /// A name that distinguishes the process from other processes of the same run.
    pub(crate) name: &'a str,
    /// `all`, `api` or `worker`.
    pub(crate) role: &'a str,
    /// Path of its log.
    pub(crate) log: &'a Path,
    /// The database.
    pub(crate) database_url: &'a str,
    /// The chain.
    pub(crate) chain: &'a Devnet,
}

/// A service with one database and one port. Its processes run one after another.
pub(crate) struct Service {
    prs: PathBuf,
    config: PathBuf,
    folder: PathBuf,
    role: String,
    log: PathBuf,
    base_url: String,
    environment: Vec<(&'static str, String)>,
    running: Option<Running>,
}

impl Service {
    /// Writes the settings into the folder; starts nothing.
    pub(crate) fn new(with: Settings<'_>) -> Result<Self> {
        let port = free_port()?;
        let listen = format!("127.0.0.1:{port}");
        let settings = json!({
            "database": {"url": with.database_url},
            "http": {"listen": listen, "metrics_listen": listen, "production": false, "drain_ms": 0},
            "secrets": {"master_key": "5a".repeat(32)},
            "chains": {"sepolia": {
                "rpc_urls": [with.chain.rpc_url()],
                "confirmations": 1,
                "start_block": 0,
                "poll_ms": 50,
                "contracts": {
                    "ERC20FeeProxy": with.chain.contracts().erc20_fee_proxy.to_string(),
                    "EthereumFeeProxy": with.chain.contracts().ethereum_fee_proxy.to_string(),
                    "BatchConversionPayments": with.chain.contracts().batch_conversion_payments.to_string(),
                    "ERC20RecurringPaymentProxy": with.chain.contracts().recurring_payment_proxy.to_string(),
                },
                "tokens": {
                    "FAU": with.chain.tokens().fau.to_string(),
                    "USDC": with.chain.tokens().usdc.to_string(),
                },
            }},
        });
        let config = with.folder.join(format!("{}.toml", with.name));
        fs::write(&config, toml::to_string(&settings)?)?;
        Ok(Self {
            prs: with.prs.to_path_buf(),
            config,
            folder: with.folder.to_path_buf(),
            role: with.role.to_owned(),
            log: with.log.to_path_buf(),
            base_url: format!("http://{listen}"),
            environment: Vec::new(),
            running: None,
        })
    }

    /// Its base URL.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Adds an environment variable for every process that is started from now on.
    pub(crate) fn set_variable(&mut self, name: &'static str, value: String) {
        self.environment.push((name, value));
    }

    /// Migrates the database schema, runs a command of `prs` that creates a tenant or credentials, and returns the
    /// command's output.
    pub(crate) fn provision(&self, arguments: &[&str]) -> Result<Value> {
        command::run(self.command().args(["migrate", "up"]))?;
        let mut command = self.command();
        command.arg("admin").args(arguments).arg("--json");
        Ok(serde_json::from_slice(&command::capture(&mut command)?)?)
    }

    /// Starts a process that dies at these crash points, and does not wait until it is ready.
    pub(crate) fn launch(&mut self, points: Option<&str>) -> Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        let mut command = self.command();
        command
            .args(["serve", "--role", &self.role])
            .envs(self.environment.iter().map(|(name, value)| (*name, value.as_str())))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        if let Some(points) = points {
            command.env("FAILPOINTS", points);
        }
        self.running = Some(Running::start(&mut command)?);
        Ok(())
    }

    /// Starts a process and returns the time until it was ready.
    pub(crate) fn start(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        self.launch(None)?;
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
            if let Err(error) = self.still_running() {
                break Err(error);
            }
            std::thread::sleep(READY_POLL);
        };
        if outcome.is_err() {
            self.show_log();
        }
        outcome
    }

    /// Kills the process with SIGKILL, so that it cannot finish its work.
    pub(crate) fn kill(&mut self) -> Result<()> {
        // If the process had already ended on its own, it crashed. That must not count as a kill.
        if let Err(error) = self.still_running() {
            self.show_log();
            return Err(error);
        }
        let mut running = self.running.take().context("the service is not running")?;
        running.child().kill()?;
        running.child().wait()?;
        Ok(())
    }

    /// Sends the process a signal, by its name without `SIG`.
    pub(crate) fn signal(&mut self, name: &str) -> Result<()> {
        let running = self.running.as_mut().context("the service is not running")?;
        let process = running.child().id().to_string();
        command::run(Command::new("kill").args(["-s", name, &process]))
    }

    /// Waits until the process ends on its own; returns whether it did. Kills the process after this time.
    pub(crate) fn ended_within(&mut self, timeout: Duration) -> Result<bool> {
        let deadline = Instant::now() + timeout;
        while self.still_running().is_ok() {
            if Instant::now() > deadline || command::interrupted() {
                self.kill()?;
                return Ok(false);
            }
            std::thread::sleep(END_POLL);
        }
        self.running = None;
        Ok(true)
    }

    /// Whether the process has ended without being killed by the test, at a crash point or in another way.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.still_running().is_err()
    }

    /// Checks how a process ended that had to die at a crash point. Returns an error if it ended in another way.
    pub(crate) fn bury(&mut self) -> Result<()> {
        let mut running = self.running.take().context("the service is not running")?;
        let status = running.child().wait()?;
        if status.signal() != Some(ABORT) {
            self.show_log();
            bail!("the service ended on its own with {status}");
        }
        Ok(())
    }

    /// The private memory of the process in KiB. Memory that it shares with files is not counted.
    pub(crate) fn memory_kib(&mut self) -> Result<u64> {
        let running = self.running.as_mut().context("the service is not running")?;
        let status = fs::read_to_string(format!("/proc/{}/status", running.child().id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.context("no RssAnon")?.parse()?)
    }

    fn still_running(&mut self) -> Result<()> {
        self.running
            .as_mut()
            .context("the service is not running")?
            .still_running()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.prs);
        command.current_dir(&self.folder).arg("--config").arg(&self.config);
        // Environment variables override the settings file. Those of the user are removed, so that the test never uses
        // a real database.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PRS_") || name == "FAILPOINTS" {
                command.env_remove(name);
            }
        }
        // One caller makes all the load here.
        command.env("PRS_RATE_LIMITS__ENABLED", "false");
        // The verdict assumes four attempts for each delivery, so recovery rounds are turned off.
        command.env("PRS_WEBHOOKS__RECOVERY_ROUNDS_S", "[]");
        command
    }

    fn show_log(&self) {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        eprintln!("--- the end of {}\n{}\n---", self.log.display(), shown.join("\n"));
    }
}

/// A port that no process listens on.
pub(crate) fn free_port() -> Result<u16> {
    for _ in 0..PORTS.len() {
        let port = fastrand::u16(PORTS);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port of {PORTS:?} is free")
}
