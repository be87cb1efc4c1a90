//! `prs dev`: the whole service on one machine, with its own local chains.

use super::{
    clock::MovableClock,
    context_with, database_clock, dev_database,
    examples::{self, FixedIdSource},
    log, open_database,
    process::Process,
    rate_feed,
    role::Role,
    sandbox::{LocalChains, LocalTime, LocalWallet},
    screening_sandbox, serve,
};
use crate::{
    adapters::{clock::SystemClock, ids::SystemIds, rates::sandbox::RateSandbox, screening::sandbox::ScreeningSandbox},
    ctx::Ctx,
    domain::{
        address::Address,
        amount::Amount,
        caller::{Credential, PlatformCaller, SignedInPerson},
        destination::Destination,
        ids::{KeyId, OrchestratorId, PlatformId, SessionId},
        network::Network,
        secure_payment::{
            LinkDetails, MerchantNames,
            access::AskedPolicy,
            plan::{ItemDestination, NewItem, NewSecurePayment},
        },
        waits::Waits,
    },
    flows::{
        self, FlowError,
        client_ids::create::NewClientId,
        destinations::NewDestination,
        idempotency::{KeyedResult, RepeatableCall},
        keys::NewKey,
        orchestrators::create::NewOrchestrator,
        rates::accept::RateDecision,
    },
    http::dev::{DevRoom, LentKeys},
    ports::{
        clock::Clock,
        ids::{Ids, random},
        sandbox::SandboxWallet,
    },
    settings::{
        CHAIN_STALE_S_MAX, ChainSettings, HeaderPrefix, LogSettings, OffRampSource, RateSource, ScreeningSource,
        Settings, Synchronous,
    },
    store,
    worker::pace::BlockNotices,
};
use anyhow::{Context, bail};
use clap::Args;
use devnet::{
    BlockTime, Devnet, Options, RELAYER_INDEX,
    off_ramp::{self, Now, OffRampSandbox, SandboxKey, Teller},
    safe::SafeVersion,
    tron::{TronClock, TronDevnet, TronOptions},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
};

/// Prefixes of webhook headers. Receivers written for the published service read the headers with the second prefix.
const HEADER_PREFIXES: [&str; 2] = ["x-service", "x-request-network"];

/// Interval between two polls of the local EVM chain.
const POLL_MS: u64 = 50;

/// Error message when `prs dev` is started with a settings file.
pub(super) const NO_FILE: &str = "`prs dev` has its own settings and reads no settings file; from the environment it \
                                  uses PRS_DATABASE__URL, PRS_SECRETS__MASTER_KEY and the sections accounts, brand, \
                                  caps, fees, log, orchestrators, payers, payouts, rate_limits, secure_payments, \
                                  wallet_session and webhooks. `prs serve` takes every setting";

/// Environment variables that `prs dev` uses in addition to those of [`SECTIONS`].
const TAKEN: [&str; 2] = ["PRS_DATABASE__URL", "PRS_SECRETS__MASTER_KEY"];

/// The sections that the environment may set. `prs dev` sets the other sections itself, for its own chain, feeds and
/// listeners.
const SECTIONS: &[&str] = &[
    "accounts",
    "brand",
    "caps",
    "fees",
    "log",
    "orchestrators",
    "payers",
    "payouts",
    "rate_limits",
    "secure_payments",
    "wallet_session",
    "webhooks",
];

/// The environment variable that makes `prs dev` stop with an error, unless its value is `false`.
const PRODUCTION: &str = "PRS_HTTP__PRODUCTION";

/// Arguments of `prs dev`.
#[derive(Debug, Args)]
pub struct DevArguments {
    /// Prints one line of JSON when ready.
    #[arg(long)]
    json: bool,
    /// Port of the service. Default: 8080, or a free port if 8080 is in use.
    #[arg(long)]
    port: Option<u16>,
    /// Folder of the database. Default: a temporary folder.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Time between blocks in milliseconds. Default: every transaction produces its block immediately.
    #[arg(long)]
    block_ms: Option<u64>,
    /// JSON-RPC URL that the service uses instead of the local node's URL, for example a proxy in front of it.
    #[arg(long)]
    rpc_url: Vec<String>,
}

/// Logs which environment settings have no effect. Errors: one of them requests production.
fn check_environment() -> anyhow::Result<()> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    // A name without a section, such as `PRS_API_KEY`, is for another command.
    let mut ignored: Vec<String> = names
        .filter(|name| name.starts_with("PRS_") && name.contains("__"))
        .filter(|name| !is_taken(name) && name != PRODUCTION)
        .collect();
    ignored.sort();
    if !ignored.is_empty() {
        tracing::warn!(
            variables = ignored.join(", "),
            "`prs dev` ignores these environment variables"
        );
    }
    match std::env::var(PRODUCTION) {
        Ok(text) if text != "false" => bail!(
            "{PRODUCTION}: `prs dev` is only for development, and every user of this machine may use it; remove the \
             variable, or run `prs serve`"
        ),
        _ => Ok(()),
    }
}

fn is_taken(variable: &str) -> bool {
    let name = variable.trim_start_matches("PRS_").to_lowercase();
    let is_in_section = name
        .split_once("__")
        .is_some_and(|(section, _)| SECTIONS.contains(&section));
    is_in_section || TAKEN.contains(&variable)
}

/// Log settings from the environment. Errors: a setting that does not parse.
pub(super) fn log_settings() -> anyhow::Result<LogSettings> {
    let log = Settings::default().with_environment(&["log"])?.log;
    log::check(&log)?;
    Ok(log)
}

/// Runs until interrupted. The chains are deleted when the process ends, and also the database unless `--data` is set.
pub async fn run(arguments: &DevArguments) -> anyhow::Result<()> {
    check_environment()?;
    let block_time = arguments.block_ms.map_or(BlockTime::Instant, BlockTime::EveryMs);
    let options = Options {
        block_time,
        ..Options::default()
    };
    let kept = arguments.data.clone();
    let folder = kept
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("prs-dev-{}", std::process::id())));
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let _lock = lock(&folder)?;
    let (evm, tron) = tokio::join!(Devnet::start(options), start_tron());
    let chains = LocalChains {
        evm: Arc::new(evm.context("local chain")?),
        tron: tron.map(Arc::new),
    };
    let result = serve_on(arguments, &chains, &folder).await;
    if kept.is_none() {
        // The folder belongs to this process only; if it cannot be removed, it is left to the system.
        let _ = std::fs::remove_dir_all(&folder);
    }
    result
}

/// Starts the local chain of Tron. If something is not installed, the log says what to do, and `prs dev` runs without
/// Tron.
async fn start_tron() -> Option<TronDevnet> {
    let options = TronOptions {
        clock: TronClock::Wall,
        ..TronOptions::default()
    };
    let started = TronDevnet::start(options).await;
    let inspected = started.inspect_err(|error| {
        let error = format!("{error:#}");
        tracing::warn!(error, "`prs dev` runs without Tron");
    });
    inspected.ok()
}

/// Locks the folder of a database for this process. Two processes have two chains, and a shared database would contain
/// payments of both.
fn lock(folder: &std::path::Path) -> anyhow::Result<std::fs::File> {
    let path = folder.join("dev.lock");
    let lock = std::fs::File::create(&path).with_context(|| path.display().to_string())?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(std::fs::TryLockError::WouldBlock) => anyhow::bail!(
            "--data: {} is in use by another `prs dev`; choose another folder",
            folder.display()
        ),
        Err(std::fs::TryLockError::Error(error)) => Err(error).with_context(|| path.display().to_string()),
    }
}

async fn serve_on(arguments: &DevArguments, chains: &LocalChains, folder: &std::path::Path) -> anyhow::Result<()> {
    let LocalChains { evm: chain, tron } = chains;
    let mut settings = Settings::development(SocketAddr::from(([127, 0, 0, 1], port(arguments.port)?)));
    // Rate limits would hinder experiments.
    settings.rate_limits.enabled = false;
    settings.webhooks.retention_days = examples::RETENTION_DAYS;
    settings.webhooks.header_prefix = HeaderPrefix::Several(HEADER_PREFIXES.map(str::to_owned).to_vec());
    settings = settings.with_environment(SECTIONS)?;
    settings.http.insecure_cookies = true;
    settings.http.session_origins = SESSION_ORIGINS.map(str::to_owned).to_vec();
    settings.database.url = match std::env::var("PRS_DATABASE__URL") {
        Ok(url) => url,
        Err(_) => format!("sqlite:{}", folder.join("prs.db").display()),
    };
    if !settings.database.url.starts_with("sqlite:") {
        settings.secrets.master_key = Some(std::env::var("PRS_SECRETS__MASTER_KEY").unwrap_or_else(|_| "0".repeat(64)));
    }
    settings.database.synchronous = Synchronous::Normal;
    if arguments.block_ms.is_none() {
        // Without a block interval, a block is mined only for a transaction, so the newest block may be of any age.
        settings.health.chain_stale_s = CHAIN_STALE_S_MAX;
    }
    let rpc_urls = if arguments.rpc_url.is_empty() {
        vec![chain.rpc_url().to_owned()]
    } else {
        arguments.rpc_url.clone()
    };
    settings
        .chains
        .insert("sepolia".to_owned(), chain_settings(chain, rpc_urls));
    if let Some(tron) = tron {
        settings.chains.insert("tron".to_owned(), tron_settings(tron));
    }
    settings.relayer.private_key = Some(chain.accounts()[RELAYER_INDEX].private_key.to_string());
    let (feed, feed_url) = rate_feed::bind().await.context("sandbox of rates")?;
    settings.partners.rates = RateSource::Sandbox;
    settings.conversion.feed_urls = vec![feed_url];
    let faucet = ("fau".to_owned(), "faucet-token".to_owned());
    settings.conversion.coin_ids.extend([faucet]);
    let screens = screening_sandbox::bind().await.context("sandbox of screening")?;
    settings.partners.screening = ScreeningSource::Sandbox;
    settings.screening.hypernative_url = screens.url();
    settings.screening.merklescience_url = screens.url();
    for key in [
        &mut settings.screening.hypernative_client_id,
        &mut settings.screening.hypernative_client_secret,
        &mut settings.screening.merklescience_api_key,
    ] {
        *key = Some("sandbox".to_owned());
    }
    let bank = off_ramp::bind()
        .await
        .context("the sandbox of the off-ramp partner could not open a port")?;
    let drawn = SystemIds::new(Arc::new(SystemClock));
    settings.partners.offramp = OffRampSource::Sandbox;
    settings.offramp.url = Some(bank.url());
    settings.offramp.key_id = Some("sandbox".to_owned());
    settings.offramp.key_secret = Some(drawn_secret(&drawn));
    settings.offramp.callback_secret = Some(drawn_secret(&drawn));
    settings.validate()?;
    let db = open_database(&settings).await?;
    let clock = Arc::new(MovableClock::new(database_clock(&db)));
    let ids = Arc::new(SystemIds::new(clock.clone()));
    let ctx = context_with(&settings, db, clock.clone(), ids, Waits::default())?;
    let sandbox = Arc::new(RateSandbox::new(settings.conversion.coins(), clock.clone()));
    rate_feed::serve(feed, sandbox.clone());
    let screening = Arc::new(ScreeningSandbox::default());
    screens.serve(screening.clone());
    let partner = serve_off_ramp(&settings, bank, clock.clone())?;
    flows::rates::refresh::now_once(&ctx).await?;
    accept_rates(&ctx).await?;
    // An existing database contains read positions and transactions on the chains of an earlier run. Those chains no
    // longer exist, so they are deleted.
    for network in [Network::Sepolia, Network::Tron] {
        store::cursors::forget(ctx.db.writer(), network).await?;
    }
    store::relays::forget(ctx.db.writer(), Network::Sepolia).await?;
    let seeded = seed(&ctx, chain).await?;
    let payee = chain.accounts().get(PAYEE_INDEX).context("too few accounts")?;
    let wallet: Arc<dyn SandboxWallet> = Arc::new(LocalWallet::new(chain.clone(), PAYER_INDEX)?);
    let session = examples::sign_in(&ctx, Address::Evm(payee.address), &payee.private_key).await?;
    let callers = examples::Callers {
        platform: &seeded.platform,
        api_key: &seeded.api_key,
        orchestrator_key: seeded.orchestrator.key.reveal(),
        session: &format!("Bearer {}", session.reveal()),
        payer: wallet.address(),
    };
    examples::make(&settings, &ctx, &callers).await?;
    let mut process = Process::new(Role::All);
    // A proxy may return a block later than the node announces it. Announcements of blocks are therefore used only
    // without a proxy.
    if arguments.rpc_url.is_empty() {
        let blocks = chain.tell_blocks().await?;
        process.news.insert(Network::Sepolia, BlockNotices::new(blocks));
    }
    if let Some(tron) = tron {
        process.news.insert(Network::Tron, BlockNotices::new(tron.blocks()));
    }
    process.room = Some(DevRoom {
        time: Arc::new(LocalTime::new(clock, chains.clone())),
        rates: sandbox,
        screening,
        off_ramp: partner,
        wallet,
        lent: LentKeys {
            api_key: seeded.api_key.clone(),
            client_id: seeded.backend_client_id.clone(),
            orchestrator_key: seeded.orchestrator.key.reveal().to_owned(),
            session: session.reveal().to_owned(),
            payee: Address::Evm(payee.address),
            currency: CURRENCY.to_owned(),
        },
    });
    let base = settings.public_url();
    let line = json!({
        "baseUrl": base,
        "authUrl": settings.auth_url(),
        "payUrl": settings.pay_url(),
        "docsUrl": format!("{base}/docs"),
        "metricsUrl": format!("{base}/metrics"),
        "databaseUrl": settings.database.url,
        "platform": { "id": seeded.platform.as_str(), "name": PLATFORM_NAME },
        "apiKey": seeded.api_key,
        "clientId": seeded.client_id,
        "clientOrigin": CLIENT_ORIGIN,
        "backendClientId": seeded.backend_client_id,
        "destinationId": seeded.destination_id,
        "securePaymentUrl": seeded.secure_payment_url,
        "orchestratorId": seeded.orchestrator.id.as_str(),
        "orchestratorKey": seeded.orchestrator.key.reveal(),
        "sessionToken": session.reveal(),
        "offRampOutcomes": off_ramp::outcomes().into_iter().collect::<BTreeMap<_, _>>(),
        "chain": chain.summary("sepolia"),
        "tron": tron.as_deref().map(tron_summary),
    });
    let is_json = arguments.json;
    serve::run_with(&settings, ctx, process, move || {
        if is_json {
            println!("{line}");
        } else {
            println!("Documentation     {}", line["docsUrl"].as_str().unwrap_or_default());
            println!("API key           {}", line["apiKey"].as_str().unwrap_or_default());
            println!(
                "Client ID         {} (from {CLIENT_ORIGIN})",
                line["clientId"].as_str().unwrap_or_default()
            );
            println!(
                "Backend client ID {} (links created with it pay the destination that it is bound to)",
                line["backendClientId"].as_str().unwrap_or_default()
            );
            println!(
                "Payment page      {}",
                line["securePaymentUrl"].as_str().unwrap_or_default()
            );
            println!(
                "First link        curl -H 'x-api-key: {}' -H 'content-type: application/json' -d '{{\"requests\":[{{\"amount\":\"1\"}}]}}' {base}/v2/secure-payments",
                line["apiKey"].as_str().unwrap_or_default()
            );
            println!(
                "Local chain       {}",
                line["chain"]["rpcUrl"].as_str().unwrap_or_default()
            );
            println!(
                "Local Tron        {}",
                line["tron"]["apiUrl"].as_str().unwrap_or("not running; the log says what it needs")
            );
            for (what, outcome) in off_ramp::outcomes() {
                println!("Payer, {what:<21} {outcome}");
            }
            println!("Stop with Ctrl-C.");
        }
    })
    .await
}

fn drawn_secret(ids: &dyn Ids) -> String {
    hex::encode(random::<32>(ids))
}

/// Serves the off-ramp partner of this process. Version numbers of its records start at the current time, so they are
/// larger than all versions that an existing database has stored.
fn serve_off_ramp(
    settings: &Settings,
    bank: off_ramp::Bound,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Arc<OffRampSandbox>> {
    let access = settings.offramp.access()?;
    let key = SandboxKey {
        id: access.key_id,
        secret: access.key_secret.reveal().to_owned(),
    };
    let first_version = u64::try_from(SystemClock.now().timestamp())
        .context("the clock of this machine must show a time after 1970")?;
    let sandbox = Arc::new(OffRampSandbox::new(key, bank.pages(), first_version));
    let callbacks = format!("{}/v2/provider-callbacks/offramp", settings.public_url());
    let secret = settings.offramp.callback_secret.clone().unwrap_or_default();
    let now: Now = Arc::new(move || clock.now());
    let teller = Teller::new(callbacks, secret, now.clone())?;
    bank.serve(sandbox.clone(), now, teller);
    Ok(sandbox)
}

/// Accepts the first rates of the rates sandbox, because the service holds back a first rate without a confirmation.
/// The service can trust these rates, because the sandbox is part of this program.
async fn accept_rates(ctx: &Ctx) -> anyhow::Result<()> {
    for listed in flows::rates::list::run(ctx).await? {
        if listed.newest.is_some_and(|newest| newest.held().is_some()) {
            flows::rates::accept::run(ctx, &listed.pair, RateDecision::Held).await?;
        }
    }
    Ok(())
}

const PLATFORM_NAME: &str = "Development";
const CLIENT_ORIGIN: &str = "http://localhost:3000";
/// Origins of dashboards in development. The host must be the one under which the page calls the service.
const SESSION_ORIGINS: [&str; 2] = [CLIENT_ORIGIN, "http://127.0.0.1:3000"];

/// Returns the requested port. Without a request it returns 8080, or a free port if 8080 is in use.
fn port(wanted: Option<u16>) -> anyhow::Result<u16> {
    let bind = |port: u16| {
        TcpListener::bind(("127.0.0.1", port))
            .and_then(|listener| listener.local_addr())
            .map(|a| a.port())
    };
    match wanted {
        Some(port) if port != 0 => Ok(port),
        Some(_) => bind(0).context("free port"),
        None => bind(8080).or_else(|_| bind(0)).context("free port"),
    }
}

/// The settings of the local chain: its own contracts and tokens, and the public addresses of the contracts of Safes. A
/// payment is final as soon as its block is mined.
pub fn chain_settings(chain: &Devnet, rpc_urls: Vec<String>) -> ChainSettings {
    let contracts = chain.contracts();
    let named = [
        ("ERC20FeeProxy", contracts.erc20_fee_proxy),
        ("EthereumFeeProxy", contracts.ethereum_fee_proxy),
        ("ERC20Proxy", contracts.erc20_proxy),
        ("EthereumProxy", contracts.ethereum_proxy),
        ("Erc20ConversionProxy", contracts.erc20_conversion_proxy),
        ("EthConversionProxy", contracts.eth_conversion_proxy),
        ("ChainlinkConversionPath", contracts.chainlink_conversion_path),
        ("BatchConversionPayments", contracts.batch_conversion_payments),
        ("BatchPayments", contracts.batch_payments),
        ("ERC20SwapToPay", contracts.erc20_swap_to_pay),
        ("SingleRequestProxyFactory", contracts.single_request_proxy_factory),
        ("ERC20RecurringPaymentProxy", contracts.recurring_payment_proxy),
    ];
    let tokens = chain.tokens();
    let named_tokens = [("FAU", tokens.fau), ("USDC", tokens.usdc), ("USDT", tokens.usdt)];
    let texts = |pairs: &[(&str, alloy::primitives::Address)]| -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, address)| ((*name).to_owned(), address.to_string()))
            .collect()
    };
    let mut contracts = texts(&named);
    for version in SafeVersion::ALL {
        let number = version.text().replace('.', "_");
        let [singleton, singleton_l2] = version.singletons();
        contracts.insert(format!("Safe_{number}"), singleton.to_string());
        contracts.insert(format!("SafeL2_{number}"), singleton_l2.to_string());
    }
    ChainSettings {
        rpc_urls,
        wallet_rpc_url: Some(chain.rpc_url().to_owned()),
        confirmations: Some(1),
        start_block: Some(0),
        poll_ms: POLL_MS,
        contracts,
        tokens: texts(&named_tokens),
        ..ChainSettings::default()
    }
}

/// The settings of the local chain of Tron. Its contracts and tokens have their public addresses, and the last account
/// is the wallet for estimates without a wallet. Polls are as rare as on a real chain, because each poll may mine a
/// block. A block ends the pause, so a payment does not wait for a poll.
fn tron_settings(tron: &TronDevnet) -> ChainSettings {
    let summary = tron.summary();
    ChainSettings {
        api_urls: summary.api_urls.clone(),
        fallback_address: summary.accounts.last().map(|account| account.address.clone()),
        ..ChainSettings::default()
    }
}

/// The facts about the local chain of Tron that `prs dev --json` prints.
fn tron_summary(tron: &TronDevnet) -> Value {
    let summary = tron.summary();
    json!({
        "apiUrl": summary.api_urls.first(),
        "network": summary.network,
        "accounts": summary.accounts,
        "contracts": summary.contracts,
        "tokens": summary.tokens,
    })
}

struct Seeded {
    platform: PlatformId,
    api_key: String,
    client_id: String,
    backend_client_id: String,
    destination_id: String,
    secure_payment_url: Option<String>,
    orchestrator: NewOrchestrator,
}

/// Amount of the link that exists at startup.
const LINK_AMOUNT: &str = "2.5";

/// Index of the local chain account that is the payee of links.
const PAYEE_INDEX: usize = 1;

/// Index of the local chain account that pays in the examples of the documentation, and the token that it pays with.
const PAYER_INDEX: usize = 2;
const CURRENCY: &str = "FAU-sepolia";

/// The platform of the payee wallet. Creates it unless the database already has it.
async fn platform_of(ctx: &Ctx, wallet: &Address) -> anyhow::Result<PlatformId> {
    if let Some(known) = store::accounts::platform_of_wallet(ctx.db.reader(), wallet).await? {
        return Ok(known);
    }
    let named = FixedIdSource::ulids(ctx, &[dev_database::PLATFORM]);
    let platform = flows::platforms::create::run(&named, PLATFORM_NAME).await?;
    let tx = ctx.db.begin("bind_wallet").await?;
    store::accounts::bind_wallet(&tx, wallet, &platform, ctx.clock.now()).await?;
    tx.commit().await?;
    Ok(platform)
}

/// The orchestrator, with a new key for this run.
async fn orchestrator(ctx: &Ctx) -> anyhow::Result<NewOrchestrator> {
    let id = OrchestratorId(examples::ORCHESTRATOR.to_owned());
    if !store::orchestrators::exists(ctx.db.reader(), &id).await? {
        let named = FixedIdSource::ulids(ctx, &[examples::ORCHESTRATOR]);
        return Ok(flows::orchestrators::create::run(&named, PLATFORM_NAME).await?);
    }
    let NewKey { row, key } = flows::keys::create(ctx, &id, None).await?;
    Ok(NewOrchestrator {
        id,
        key_id: row.id,
        key,
    })
}

/// Creates the payee destination of a platform's wallet: it is paid in the test token of the local chain.
async fn destination(ctx: &Ctx, owner: &PlatformCaller, chain: &Devnet) -> anyhow::Result<Destination> {
    let input = NewDestination {
        token: chain.tokens().fau.to_string(),
        chain_id: Network::Sepolia.chain_id(),
        policy: None,
    };
    match flows::destinations::create::run(ctx, owner, &input, RepeatableCall::unkeyed()).await? {
        KeyedResult::Fresh(destination) => Ok(destination),
        KeyedResult::Replayed(_) => bail!("the platform of this run must not have a destination yet"),
    }
}

/// Creates a link, so that `prs dev` can print a payment page. `None` if the service refuses to create one, for example
/// because of a cap.
async fn link(ctx: &Ctx, caller: &PlatformCaller) -> anyhow::Result<Option<String>> {
    let input = NewSecurePayment {
        items: vec![NewItem {
            destination: ItemDestination::Any,
            amount: Amount::parse(LINK_AMOUNT)?,
            fee: None,
            reference: None,
        }],
        about: LinkDetails {
            reference: Some("demo".to_owned()),
            redirect: None,
        },
        names: MerchantNames {
            payer: None,
            recipient: None,
        },
        policy: AskedPolicy::default(),
        expires_in: None,
    };
    match flows::secure_payments::create::run(ctx, caller, input, RepeatableCall::unkeyed()).await {
        Ok(KeyedResult::Fresh(made)) => Ok(Some(made.url)),
        Err(FlowError::Refused(_)) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(KeyedResult::Replayed(_)) => bail!("a new link must not exist yet"),
    }
}

/// Creates a platform with a payee wallet, an API key and a client ID for a page. Creates also an orchestrator, a link,
/// and a backend client ID. The backend client ID is bound to the destination of the wallet, so that its first call can
/// create a link.
async fn seed(ctx: &Ctx, chain: &Devnet) -> anyhow::Result<Seeded> {
    let wallet = chain.accounts().get(PAYEE_INDEX).context("too few accounts")?;
    let wallet = Address::Evm(wallet.address);
    let platform = platform_of(ctx, &wallet).await?;
    let owner = PlatformCaller {
        platform: platform.clone(),
        credential: Credential::Session {
            id: SessionId(platform.to_string()),
            person: SignedInPerson::Wallet(wallet),
        },
    };
    let destination = destination(ctx, &owner, chain).await?;
    let key = flows::keys::create(ctx, &platform, Some("prs dev")).await?.key;
    let caller = PlatformCaller {
        platform: platform.clone(),
        credential: Credential::ApiKey {
            id: KeyId(platform.to_string()),
        },
    };
    let mut client_ids = Vec::new();
    for (label, domains) in [("Page", vec![CLIENT_ORIGIN.to_owned()]), ("Backend", Vec::new())] {
        let input = NewClientId {
            label: label.to_owned(),
            is_backend: domains.is_empty(),
            payee_destination: domains.is_empty().then(|| destination.id.clone()),
            allowed_domains: domains,
            ..NewClientId::default()
        };
        match flows::client_ids::create::run(ctx, &owner, &input, RepeatableCall::unkeyed()).await? {
            KeyedResult::Fresh(client) => client_ids.push(client.client_id),
            KeyedResult::Replayed(_) => bail!("a new client ID must not exist yet"),
        }
    }
    let backend_client_id = client_ids.pop().unwrap_or_default();
    let client_id = client_ids.pop().unwrap_or_default();
    Ok(Seeded {
        platform,
        api_key: key.reveal().to_owned(),
        client_id,
        backend_client_id,
        destination_id: destination.key.to_string(),
        secure_payment_url: link(ctx, &caller).await?,
        orchestrator: orchestrator(ctx).await?,
    })
}
