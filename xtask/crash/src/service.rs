//! The service as a process that is killed and started again: its settings, its log, and when it is ready.

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

/// Ports below those that the system gives to outgoing connections: a client that connects while nobody listens could
/// otherwise be connected with itself and keep the port.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// The first start migrates an empty database.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// How closely the time until readiness is measured.
const READY_POLL: Duration = Duration::from_millis(2);

/// How much of the log is shown when the service does not come up.
const LOG_LINES_SHOWN: usize = 30;

/// The signal with which a process ends at a point.
const ABORT: i32 = 6;

/// How often a process that is to end by itself is looked at.
const END_POLL: Duration = Duration::from_millis(5);

/// What a process of the service is started with.
#[derive(Clone, Copy)]
pub(crate) struct Settings<'a> {
    /// The binary.
    pub(crate) prs: &'a Path,
    /// Where everything of the run is.
    pub(crate) folder: &'a Path,
    /// Tells it from another process of the same run.
    pub(crate) name: &'a str,
    /// `all`, `api` or `worker`.
    pub(crate) role: &'a str,
    /// Where its output goes.
    pub(crate) log: &'a Path,
    /// The database.
    pub(crate) database_url: &'a str,
    /// The chain.
    pub(crate) chain: &'a Devnet,
}

/// One database, one port, and one process after the other.
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
    /// Writes the settings into the folder; nothing runs yet.
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

    /// Where it answers.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Adds a variable to the environment of every process that is started from now on.
    pub(crate) fn set_variable(&mut self, name: &'static str, value: String) {
        self.environment.push((name, value));
    }

    /// Runs a provisioning command, on a schema that is complete, and returns what it prints.
    pub(crate) fn provision(&self, arguments: &[&str]) -> Result<Value> {
        command::run(self.command().args(["migrate", "up"]))?;
        let mut command = self.command();
        command.arg("admin").args(arguments).arg("--json");
        Ok(serde_json::from_slice(&command::capture(&mut command)?)?)
    }

    /// Starts a process that ends by itself at the named points, and waits for nothing.
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

    /// Starts a process and returns how long it took until it was ready.
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

    /// Ends the process with SIGKILL: it gets no chance to finish anything.
    pub(crate) fn kill(&mut self) -> Result<()> {
        // A process that ended by itself would make a crash look like a kill.
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

    /// Whether the process ended by itself within this time; otherwise it is killed.
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

    /// Whether the process has ended by itself, at a point or in another way.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.still_running().is_err()
    }

    /// The end of a process that was to end at a point. Errors: it ended in another way.
    pub(crate) fn bury(&mut self) -> Result<()> {
        let mut running = self.running.take().context("the service is not running")?;
        let status = running.child().wait()?;
        if status.signal() != Some(ABORT) {
            self.show_log();
            bail!("the service ended by itself with {status}");
        }
        Ok(())
    }

    /// The memory that the process holds for itself at this moment, in KiB; pages of its database do not count.
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
        // The environment wins over the file, and somebody's real database must not be what is tested.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PRS_") || name == "FAILPOINTS" {
                command.env_remove(name);
            }
        }
        // One caller makes all the load here.
        command.env("PRS_RATE_LIMITS__ENABLED", "false");
        // The rows count the four tries.
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

/// A port that nobody listens on.
pub(crate) fn free_port() -> Result<u16> {
    for _ in 0..PORTS.len() {
        let port = fastrand::u16(PORTS);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port of {PORTS:?} is free")
}
