//! The service that a run checks: a given deployment, a `prs dev`, or a `prs serve` on PostgreSQL.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use xtask::machine::command::{self, POLL, Running};
use xtask::machine::postgres::Postgres;
use xtask::machine::workspace;
use xtask::service::chain::Chain;
use xtask::service::client::{Call, Client};
use xtask::service::dev::{Dev, StartOptions, scratch};
use xtask::service::ready::Ready;

use crate::document::Documents;
use crate::options::Options;
use crate::plan::Values;

/// Time limit for the start of the service, which first migrates an empty database.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// JSON pointer, in the line of `prs dev`, to the private key of the relayer: the account that may execute recurring
/// payments.
const RELAYER_KEY: &str = "/chain/accounts/9/privateKey";

/// A deployment, with the facts about it that are known before the first call.
pub(crate) struct Deployment<'a> {
    pub(crate) documents: &'a Documents,
    pub(crate) url: String,
    pub(crate) auth_url: String,
    pub(crate) rpc_url: Option<String>,
    pub(crate) values: Values,
}

/// Chains whose coins and tokens have no value: local ones, Sepolia, Holesky, Hoodi, and the test networks of Base,
/// Arbitrum, Optimism, Polygon and BNB Chain.
const TEST_CHAINS: [u64; 10] = [
    1_337, 31_337, 11_155_111, 17_000, 560_048, 84_532, 421_614, 11_155_420, 80_002, 97,
];

/// Refuses a node whose chain is not a known test chain, because payments would cost something there.
pub(crate) fn require_test_chain(chain: &Chain) -> Result<()> {
    let id = chain.id().context("--rpc-url")?;
    if !TEST_CHAINS.contains(&id) {
        bail!("--rpc-url is on chain {id}, which is not a known test chain: the run signs and pays nothing there");
    }
    Ok(())
}

/// The checked service, while it runs.
pub(crate) enum Target {
    /// An external one.
    Given,
    /// Our `prs dev`.
    Dev(Dev),
    /// Our `prs serve`, on the chains of a `prs dev`.
    Served(Box<Served>),
}

impl Target {
    /// Starts the service that the options ask for.
    pub(crate) fn start(options: &Options) -> Result<Self> {
        if options.url.is_some() {
            return Ok(Self::Given);
        }
        let start = StartOptions {
            port: options.port,
            data: None,
        };
        let dev = Dev::start(&start, "conformance-service", &[])?;
        Ok(if options.postgres {
            Self::Served(Box::new(Served::start(dev)?))
        } else {
            Self::Dev(dev)
        })
    }

    /// What is known about the checked service before the first call.
    pub(crate) fn deployment<'a>(&self, options: &Options, documents: &'a Documents) -> Result<Deployment<'a>> {
        let mut values = Values::new();
        let given = [
            ("apiKey", options.api_key.as_ref()),
            ("orchestratorKey", options.orchestrator_key.as_ref()),
            ("session", options.session.as_ref()),
            ("destinationId", options.destination_id.as_ref()),
            ("payee", Some(&options.payee)),
            ("payer", Some(&options.payer)),
            ("currency", Some(&options.currency)),
            ("network", Some(&options.network)),
        ];
        for (name, value) in given {
            values.extend(value.map(|value| (name.to_owned(), value.clone())));
        }
        let (url, auth_url, rpc_url) = match self {
            Self::Given => {
                let url = options.url.clone().context("--url is missing")?;
                (
                    url.clone(),
                    options.auth_url.clone().unwrap_or(url),
                    options.rpc_url.clone(),
                )
            }
            Self::Dev(dev) => {
                for name in ["apiKey", "orchestratorKey", "destinationId"] {
                    values.insert(name.to_owned(), dev.ready.member(&format!("/{name}"))?.to_owned());
                }
                values.extend(tron_values(&dev.ready)?);
                let address = |pointer: &str| dev.ready.member(pointer).map(str::to_owned);
                (
                    address("/baseUrl")?,
                    address("/authUrl")?,
                    Some(address("/chain/rpcUrl")?),
                )
            }
            Self::Served(served) => {
                values.insert("apiKey".to_owned(), served.api_key.clone());
                values.insert("orchestratorKey".to_owned(), served.orchestrator_key.clone());
                values.extend(tron_values(&served.dev.ready)?);
                let rpc_url = served.dev.ready.member("/chain/rpcUrl")?.to_owned();
                (served.url.clone(), served.url.clone(), Some(rpc_url))
            }
        };
        Ok(Deployment {
            documents,
            url: url.trim_end_matches('/').to_owned(),
            auth_url: auth_url.trim_end_matches('/').to_owned(),
            rpc_url,
            values,
        })
    }
}

/// A payer on the local chain of Tron, its key, and a payee.
fn tron_values(ready: &Ready) -> Result<Values> {
    let named = [
        ("tronPayer", "/tron/accounts/0/address"),
        ("tronKey", "/tron/accounts/0/privateKey"),
        ("tronPayee", "/tron/accounts/1/address"),
    ];
    let values = named.map(|(name, pointer)| Ok((name.to_owned(), ready.member(pointer)?.to_owned())));
    values.into_iter().collect()
}

/// `prs serve` on its own PostgreSQL, with a tenant and an orchestrator, and the chains of a `prs dev`.
pub(crate) struct Served {
    // Dropped in this order.
    _running: Running,
    dev: Dev,
    _postgres: Postgres,
    _folder: TempDir,
    url: String,
    api_key: String,
    orchestrator_key: String,
}

impl Served {
    fn start(dev: Dev) -> Result<Self> {
        let postgres = Postgres::start()?;
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let listen = format!("127.0.0.1:{port}");
        let config = folder.path().join("prs.toml");
        fs::write(
            &config,
            toml::to_string(&settings(&listen, &postgres.url(), &dev.ready)?)?,
        )?;
        let prs = workspace::build_prs()?;
        let program = |arguments: &[&str]| {
            let mut command = Command::new(&prs);
            command
                .arg("--config")
                .arg(&config)
                .args(arguments)
                .current_dir(folder.path());
            command
        };
        command::run(&mut program(&["migrate", "up"]))?;
        let admin = |arguments: &[&str], pointer: &str| -> Result<String> {
            let mut command = program(&["admin"]);
            let printed = command::capture(command.args(arguments).arg("--json"))?;
            let printed: Value = serde_json::from_slice(&printed)?;
            let member = printed.pointer(pointer).and_then(Value::as_str);
            member
                .map(str::to_owned)
                .with_context(|| format!("no {pointer} in {printed}"))
        };
        let platform = admin(&["platform", "create", "--name", "Conformance"], "/id")?;
        let api_key = admin(&["api-key", "create", "--platform", &platform], "/apiKey")?;
        let orchestrator_key = admin(&["orchestrator", "create", "--name", "Conformance"], "/orchestratorKey")?;
        let log = scratch()?.join("conformance.log");
        let mut serve = program(&["serve"]);
        serve
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        let mut running = Running::start(&mut serve)?;
        let url = format!("http://{listen}");
        wait_until_ready(&mut running, &url).with_context(|| format!("its log is {}", log.display()))?;
        Ok(Self {
            _running: running,
            dev,
            _postgres: postgres,
            _folder: folder,
            url,
            api_key,
            orchestrator_key,
        })
    }
}

/// Settings of a service with open registration, on existing chains.
fn settings(listen: &str, database_url: &str, ready: &Ready) -> Result<Value> {
    let contracts = ready.object("/chain/contracts")?;
    let named: serde_json::Map<String, Value> = CONTRACTS
        .iter()
        .filter_map(|(name, member)| Some(((*name).to_owned(), contracts.get(*member)?.clone())))
        .collect();
    let tokens = ready.object("/chain/tokens")?;
    let listed = ["FAU", "USDC", "USDT"].into_iter();
    let tokens: serde_json::Map<String, Value> = listed
        .filter_map(|symbol| Some((symbol.to_owned(), tokens.get(symbol)?.clone())))
        .collect();
    Ok(json!({
        "database": { "url": database_url },
        "http": { "listen": listen, "metrics_listen": listen, "production": false, "drain_ms": 0 },
        "secrets": { "master_key": "5a".repeat(32) },
        "accounts": { "registration": "open" },
        "relayer": { "private_key": ready.member(RELAYER_KEY)? },
        "chains": {
            "sepolia": {
                "rpc_urls": [ready.member("/chain/rpcUrl")?],
                "confirmations": 1,
                "start_block": 0,
                "poll_ms": 50,
                "contracts": named,
                "tokens": tokens,
            },
            "tron": { "api_urls": [ready.member("/tron/apiUrl")?] },
        },
    }))
}

/// The contracts for requests and payouts: the name of each in the settings, and its name in the line of `prs dev`.
const CONTRACTS: [(&str, &str); 4] = [
    ("ERC20FeeProxy", "erc20FeeProxy"),
    ("EthereumFeeProxy", "ethereumFeeProxy"),
    ("BatchConversionPayments", "batchConversionPayments"),
    ("ERC20RecurringPaymentProxy", "recurringPaymentProxy"),
];

fn wait_until_ready(running: &mut Running, url: &str) -> Result<()> {
    let client = Client::new(url, Vec::new());
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        match client.call("/health/ready", &Call::Get) {
            Ok(answer) if answer.status == 200 => return Ok(()),
            _ if command::interrupted() => bail!("interrupted"),
            _ if Instant::now() > deadline => bail!("`prs serve` is not ready after {} s", READY_TIMEOUT.as_secs()),
            _ => std::thread::sleep(POLL),
        }
        running.still_running()?;
    }
}
