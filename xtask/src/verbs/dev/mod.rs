//! `cargo xtask dev`: the service with everything around it on this machine, and what to do with it.

pub(crate) mod chain;
mod demo;
pub(crate) mod ready;
mod sign;

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xtask::machine::command::{self, POLL, Running};
use xtask::machine::failure::{Failure, Outcome};
use xtask::machine::{packages, workspace};

use self::ready::{Ready, sample_request};

/// The service migrates, starts a chain and deploys contracts before it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(180);

/// How much of the log is shown when the service does not come up.
const LOG_LINES_SHOWN: usize = 30;

/// How `cargo xtask dev` runs the service.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Create a request, pay it on the local chain, wait for the signed event, print the timeline and end
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    service: ServiceOptions,
    #[command(subcommand)]
    verb: Option<Verb>,
}

/// How the service itself is started.
#[derive(Debug, clap::Args)]
pub(crate) struct ServiceOptions {
    /// Listen on this port instead of one the service chooses
    #[arg(long)]
    port: Option<u16>,
    /// Keep the database in this folder
    #[arg(long)]
    data: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Pay a request, a payout or a batch of the service that `cargo xtask dev` has running
    Pay(PayOptions),
    /// Sign the permit of a recurring payout with the local account that pays it, and print the signature
    Sign {
        /// A file with the answer of POST /v2/payouts; standard input when absent
        answer: Option<PathBuf>,
    },
}

/// What is paid, and by whom.
#[derive(Debug, clap::Args)]
struct PayOptions {
    /// The `requestId` that POST /v2/request answered with
    #[arg(required_unless_present = "answer")]
    request_id: Option<String>,
    /// A file with an answer whose transactions are sent, for example that of POST /v2/payouts/batch; `-` reads it from
    /// standard input
    #[arg(long, conflicts_with = "request_id")]
    answer: Option<PathBuf>,
    /// Which account of the local chain pays, from 0 to 9
    #[arg(long, default_value_t = 0)]
    account: usize,
}

/// Starts the service and waits, shows the demonstration, or pays a request of the running service.
pub(crate) fn run(options: &Options) -> Outcome {
    match &options.verb {
        Some(Verb::Pay(options)) => return Ok(pay(options)?),
        Some(Verb::Sign { answer }) => {
            println!("{}", sign::sign(&running()?, answer.as_deref())?);
            return Ok(());
        }
        None => {}
    }
    let mut service = Service::start(&options.service, "dev", &[])?;
    if options.demo {
        return demo::run(&service.ready).map_err(|error| Failure::StepFailed(service.explain(error)));
    }
    fs::write(state_file()?, service.ready.text())?;
    print_instructions(&service.ready, &service.log)?;
    let ended = loop {
        if command::interrupted() {
            break Ok(());
        }
        if let Err(error) = service.still_running() {
            break Err(error);
        }
        std::thread::sleep(POLL);
    };
    drop(service);
    let _ = fs::remove_file(state_file()?);
    Ok(ended?)
}

/// A `prs dev` for other verbs: the one that `PRS_DEV` says is running, or one that ends with this value.
pub(crate) struct Target {
    /// The file with the line that `prs dev --json` printed.
    pub(crate) file: PathBuf,
    _service: Option<Service>,
}

impl Target {
    /// Starts a service unless one is named.
    pub(crate) fn find() -> Result<Self> {
        if let Some(file) = env::var_os("PRS_DEV") {
            return Ok(Self {
                file: file.into(),
                _service: None,
            });
        }
        let options = Options {
            demo: false,
            port: None,
            data: None,
            verb: None,
        };
        let service = Service::start(&options)?;
        let file = scratch()?.join("target.json");
        fs::write(&file, service.ready.text())?;
        Ok(Self {
            file,
            _service: Some(service),
        })
    }
}

/// A running `prs dev`, ended with this value.
pub(crate) struct Service {
    running: Running,
    pub(crate) ready: Ready,
    log: PathBuf,
}

impl Service {
    /// Builds the service and starts it with settings in its environment; its log has the name of who needs it.
    pub(crate) fn start(options: &ServiceOptions, name: &str, settings: &[(&str, &str)]) -> Result<Self> {
        packages::ensure_chain_node()?;
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

    /// An error, with the end of the log, when the service has ended although it should still run.
    pub(crate) fn still_running(&mut self) -> Result<()> {
        let ended = self.running.still_running();
        ended.map_err(|error| self.explain(error))
    }

    /// Adds the end of the log to an error.
    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
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
pub(crate) fn scratch() -> Result<PathBuf> {
    let folder = workspace::target_directory()?.join("xtask");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn state_file() -> Result<PathBuf> {
    Ok(scratch()?.join("dev.json"))
}

/// What the running service said about itself: that of `cargo xtask dev`, or another `prs dev --json` whose line is in the
/// file that `PRS_DEV` names.
fn running() -> Result<Ready> {
    let state = env::var_os("PRS_DEV").map_or_else(state_file, |path| Ok(path.into()))?;
    let text = fs::read_to_string(state).context("nothing is running; start it with `cargo xtask dev`")?;
    Ready::parse(&text)
}

fn pay(options: &PayOptions) -> Result<()> {
    let ready = running()?;
    let hashes = match (&options.answer, &options.request_id) {
        (Some(path), _) => chain::send_all(&ready, &read_answer(path)?, options.account)?,
        (None, Some(request_id)) => {
            let service = ready.client("x-api-key", "/apiKey")?;
            chain::pay(&service, &ready, request_id, options.account)?
        }
        (None, None) => bail!("name a request or an answer"),
    };
    for hash in hashes {
        println!("sent {hash}");
    }
    if let Some(request_id) = &options.request_id {
        println!(
            "read it: curl -s {}/v2/request/{request_id} -H 'x-api-key: {}'",
            ready.member("/baseUrl")?,
            ready.member("/apiKey")?
        );
    }
    Ok(())
}

fn read_answer(path: &Path) -> Result<Value> {
    let text = match path.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => fs::read_to_string(path),
    };
    let text = text.with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| format!("the answer is not JSON: {text}"))
}

fn print_instructions(ready: &Ready, log: &Path) -> Result<()> {
    let (base_url, key) = (ready.member("/baseUrl")?, ready.member("/apiKey")?);
    println!("ready; Ctrl-C ends it and everything it started");
    println!();
    println!("  start here   {}", ready.member("/docsUrl")?);
    println!("  API key      {key}");
    println!(
        "  client ID    {} (for servers: no Origin needed)",
        ready.member("/backendClientId")?
    );
    if let Ok(link) = ready.member("/securePaymentUrl") {
        println!("  a link       {link}");
    }
    println!("  local chain  {}", ready.member("/chain/rpcUrl")?);
    println!("  log          {}", log.display());
    println!();
    println!("create a request:");
    println!(
        "  curl -s {base_url}/v2/request -H 'x-api-key: {key}' -H 'content-type: application/json' -d '{}'",
        sample_request(ready.account(1)?)
    );
    println!("pay it, in another terminal:");
    println!("  cargo xtask dev pay REQUEST_ID");
    println!("pay what another operation answered, such as a payout or a batch:");
    println!("  cargo xtask dev pay --answer FILE");
    println!("see it paid:");
    println!("  curl -s {base_url}/v2/request/REQUEST_ID -H 'x-api-key: {key}'");
    Ok(())
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
