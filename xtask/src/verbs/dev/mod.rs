//! `cargo xtask dev`: runs the service with its dependencies on this machine, and prints how to use it.

mod demo;
mod sign;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use xtask::machine::command::{self, POLL};
use xtask::machine::failure::{Failure, Outcome};
use xtask::service::chain;
use xtask::service::dev::{Dev, StartOptions, scratch};
use xtask::service::ready::{Ready, sample_request};
use xtask::service::tron;

/// Options of `cargo xtask dev`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Create a request, pay it on the local chain, wait for the signed event, print the timeline and exit
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    service: StartOptions,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Pay a request, a payout or a batch of the service that `cargo xtask dev` is running
    Pay(PayOptions),
    /// Sign the permit of a recurring payout with the local account of the payer, and print the signature
    Sign {
        /// A file with the response of POST /v2/payouts. Default: standard input
        answer: Option<PathBuf>,
    },
    /// Sign the transactions of a response on Tron with a local account, and print a body for POST
    /// /v2/secure-payments/{token}/tron/broadcast for each
    SignTron {
        /// A file with the response of GET …/pay; `-` reads standard input
        answer: PathBuf,
        /// Index of the signing account of the local chain of Tron, from 0 to 9
        #[arg(long, default_value_t = 0)]
        account: usize,
    },
}

/// Options of `cargo xtask dev pay`.
#[derive(Debug, clap::Args)]
struct PayOptions {
    /// The `requestId` from the response of POST /v2/request
    #[arg(required_unless_present = "answer")]
    request_id: Option<String>,
    /// A file with a response whose transactions are sent, for example of POST /v2/payouts/batch; `-` reads standard
    /// input
    #[arg(long, conflicts_with = "request_id")]
    answer: Option<PathBuf>,
    /// Index of the paying account of the local chain, from 0 to 9
    #[arg(long, default_value_t = 0)]
    account: usize,
}

/// Starts the service and waits, runs the demonstration, or pays a request on the running service.
pub(crate) fn run(options: &Options) -> Outcome {
    match &options.verb {
        Some(Verb::Pay(options)) => return Ok(pay(options)?),
        Some(Verb::Sign { answer }) => {
            println!("{}", sign::sign(&running()?, answer.as_deref())?);
            return Ok(());
        }
        Some(Verb::SignTron { answer, account }) => return Ok(sign_tron(answer, *account)?),
        None => {}
    }
    let mut service = Dev::start(&options.service, "dev", &[])?;
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

fn state_file() -> Result<PathBuf> {
    Ok(scratch()?.join("dev.json"))
}

/// The line that the running service printed when it was ready. The service is the one of `cargo xtask dev`, or the one
/// whose `prs dev --json` line is in the file that `PRS_DEV` names.
fn running() -> Result<Ready> {
    let state = env::var_os("PRS_DEV").map_or_else(state_file, |path| Ok(path.into()))?;
    let text = fs::read_to_string(state).context("the service is not running; start it with `cargo xtask dev`")?;
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
        (None, None) => bail!("name a request, or a response with --answer"),
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

fn sign_tron(answer: &Path, account: usize) -> Result<()> {
    let ready = running()?;
    let key = ready.member(&format!("/tron/accounts/{account}/privateKey"))?;
    for transaction in tron::sign(&read_answer(answer)?, key)? {
        println!("{}", json!({ "signedTransaction": transaction }));
    }
    Ok(())
}

fn read_answer(path: &Path) -> Result<Value> {
    let text = match path.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => fs::read_to_string(path),
    };
    let text = text.with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| format!("the response is not JSON: {text}"))
}

fn print_instructions(ready: &Ready, log: &Path) -> Result<()> {
    let (base_url, key) = (ready.member("/baseUrl")?, ready.member("/apiKey")?);
    println!("ready; Ctrl-C stops it and everything it started");
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
    let api_url = ready.member("/tron/apiUrl");
    println!(
        "  local Tron   {}",
        api_url.unwrap_or("not running; the log says what it needs")
    );
    println!("  log          {}", log.display());
    println!();
    println!("create a request:");
    println!(
        "  curl -s {base_url}/v2/request -H 'x-api-key: {key}' -H 'content-type: application/json' -d '{}'",
        sample_request(ready.account(1)?)
    );
    println!("pay it, in another terminal:");
    println!("  cargo xtask dev pay REQUEST_ID");
    println!("pay the transactions of another response, such as a payout or a batch:");
    println!("  cargo xtask dev pay --answer FILE");
    println!("see it paid:");
    println!("  curl -s {base_url}/v2/request/REQUEST_ID -H 'x-api-key: {key}'");
    Ok(())
}
