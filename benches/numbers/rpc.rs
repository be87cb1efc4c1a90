//! Counts node calls per day, for each network that is enabled by default with two nodes: while no request is open, and
//! with one payment per minute. For Tron, also counts the bytes of the responses, while no request is open and while one
//! is: with nodes that list events, and with nodes that do not, so that every block is read whole.
//!
//! Two counting nodes serve a local chain. Time is simulated: blocks are mined and final at the rate of the network,
//! and each pause of the worker is skipped. The blocks of the stand-in for Tron are almost empty, so the bytes of whole
//! blocks are only those of their headers.

use std::path::Path;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, Uri},
    routing::post,
};
use chrono::{DateTime, TimeDelta, Utc};
use devnet::{
    Devnet, Options,
    tron::{TronDevnet, TronOptions},
};
use prs::{
    boot::{self, dev},
    ctx::Ctx,
    domain::network::Network,
    flows::payments::{
        lead::Leadership,
        watch::{self, WatchResult},
    },
    settings::ChainSettings,
    worker::{chain_pace::ChainPace, lead_chains::POLL_DEFAULT},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::ingest;
use crate::latency::Merchant;
use crate::report::{Goal, Row, scaled};
use crate::service::{self, Running};

/// Number of minutes of simulated time over which calls are counted. The count is then extrapolated to a day.
const MINUTES: usize = 30;

const MINUTES_A_DAY: f64 = 1_440.0;

/// Number of calls per day of an earlier version, for one network with two nodes. They are a sixth of the 3.2 million
/// calls that were estimated for six networks: 3 to 5 calls to each node at each poll, and a poll every two seconds.
/// This baseline is not measured here.
const CALLS_BEFORE: f64 = 3_200_000.0 / 6.0;

/// Maximum number of calls while no request is open, as a fraction of the calls of the earlier version.
const GOAL_RATIO: f64 = 0.2;

/// Timestamp of the first block of a count.
const EPOCH_S: i64 = 1_800_000_000;

/// The block rate and finality of a network.
struct Rhythm {
    /// Names of the two results.
    idle: &'static str,
    traffic: &'static str,
    block_ms: u64,
    /// Minimum number of blocks from the head to the newest final one.
    final_lag: u64,
    /// Number of blocks that become final together.
    final_step: u64,
}

/// The networks that are enabled by default. Where finality follows Ethereum, blocks become final by epochs of 384 s.
const RHYTHMS: [Rhythm; 6] = [
    rhythm("mainnet, idle", "mainnet, traffic", 12_000, 64, 32),
    rhythm("arbitrum-one, idle", "arbitrum-one, traffic", 250, 4_320, 1_536),
    rhythm("optimism, idle", "optimism, traffic", 2_000, 600, 192),
    rhythm("base, idle", "base, traffic", 2_000, 600, 192),
    rhythm("matic, idle", "matic, traffic", 2_000, 4, 2),
    rhythm("bsc, idle", "bsc, traffic", 450, 2, 1),
];

/// The results for Tron: whether nodes list events, whether a request is open, and the names of the counts. All counts
/// are for one of two nodes.
const ON_TRON: [(bool, bool, &str, &str); 4] = [
    (true, false, "tron, listed, idle", "tron, listed, idle, bytes"),
    (true, true, "tron, listed, one open", "tron, listed, one open, bytes"),
    (false, false, "tron, whole, idle", "tron, whole, idle, bytes"),
    (false, true, "tron, whole, one open", "tron, whole, one open, bytes"),
];

const TRON: Rhythm = rhythm("", "", 3_000, 19, 1);

const fn rhythm(idle: &'static str, traffic: &'static str, block_ms: u64, final_lag: u64, final_step: u64) -> Rhythm {
    Rhythm {
        idle,
        traffic,
        block_ms,
        final_lag,
        final_step,
    }
}

/// Counts the calls on every network: first idle, and then with a payment per minute.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let minutes = scaled(MINUTES, scale);
        let mut rows = Vec::new();
        for rhythm in &RHYTHMS {
            let folder = tempfile::tempdir()?;
            let [idle, traffic] = count(rhythm, folder.path(), minutes).await?;
            eprintln!(
                "  {}: {idle:.0} calls, {}: {traffic:.0} calls",
                rhythm.idle, rhythm.traffic
            );
            rows.push(row(rhythm.idle, idle, Goal::RatioAtMost(GOAL_RATIO)));
            rows.push(row(rhythm.traffic, traffic, Goal::None));
        }
        for (lists_events, is_open, calls_name, bytes_name) in ON_TRON {
            let folder = tempfile::tempdir()?;
            let [calls, bytes] = count_on_tron(folder.path(), lists_events, is_open, minutes).await?;
            eprintln!("  {calls_name}: {calls:.0} calls, {bytes:.0} bytes");
            rows.push(shown(calls_name, "calls/day", calls));
            rows.push(shown(bytes_name, "bytes/day", bytes));
        }
        Ok(rows)
    })
}

fn row(name: &'static str, calls_a_day: f64, goal: Goal) -> Row {
    Row {
        name,
        unit: "calls/day",
        ours: vec![calls_a_day],
        baseline_name: "earlier estimate",
        baseline: vec![CALLS_BEFORE],
        goal,
    }
}

/// A result without a goal.
fn shown(name: &'static str, unit: &'static str, count: f64) -> Row {
    Row {
        name,
        unit,
        ours: vec![count],
        baseline_name: "",
        baseline: Vec::new(),
        goal: Goal::None,
    }
}

/// The calls and bytes of one node of Tron per day.
async fn count_on_tron(folder: &Path, lists_events: bool, is_open: bool, minutes: usize) -> anyhow::Result<[f64; 2]> {
    let chain = TronDevnet::start(TronOptions {
        nodes: 2,
        solid_lag: TRON.final_lag,
        ..TronOptions::default()
    })
    .await?;
    let refused = (!lists_events).then_some("eth_getLogs");
    let nodes = [
        Counting::start(chain.api_url(0)?, refused).await?,
        Counting::start(chain.api_url(1)?, refused).await?,
    ];
    let mut settings = service::settings(format!("sqlite:{}", folder.join("prs.db").display()))?;
    let section = ChainSettings {
        api_urls: nodes.iter().map(|(url, _)| url.clone()).collect(),
        ..ChainSettings::default()
    };
    settings.chains.insert(Network::Tron.id().to_owned(), section);
    let nodes = nodes.map(|(_, node)| node);
    let tenant = service::seed(&settings).await?;
    let api = Running::serve(&settings, "api", folder)?;
    let merchant = Merchant::new(&api, tenant)?;
    let ctx = boot::context(&settings, boot::open_database(&settings).await?)?;
    let mut followed = Followed {
        rhythm: &TRON,
        network: Network::Tron,
        nodes: &nodes,
        begin: TRON.final_lag + TRON.final_step + chain.state(0).await?.head_number,
        chain: Local::Tron(&chain),
        now: Duration::ZERO,
        pace: ChainPace::new(POLL_DEFAULT),
        leadership: ingest::lead(&ctx, Network::Tron).await?,
    };
    if is_open {
        let payee = &chain.summary().accounts[1].address;
        merchant.create_in(payee, "1", "USDT-tron").await?;
    }
    let counted = followed.run(&ctx, None, minutes).await?;
    ctx.db.clone().close().await?;
    Ok([counted.calls / 2.0, counted.bytes / 2.0])
}

async fn count(rhythm: &Rhythm, folder: &Path, minutes: usize) -> anyhow::Result<[f64; 2]> {
    let chain = Devnet::start(Options::default()).await?;
    let nodes = [
        Counting::start(chain.rpc_url(), None).await?,
        Counting::start(chain.rpc_url(), None).await?,
    ];
    let urls = nodes.iter().map(|(url, _)| url.clone()).collect();
    let nodes = nodes.map(|(_, node)| node);
    let mut settings = service::settings(format!("sqlite:{}", folder.join("prs.db").display()))?;
    let mut section = dev::chain_settings(&chain, urls);
    section.confirmations = None;
    section.start_block = None;
    settings.chains.insert(Network::Sepolia.id().to_owned(), section);
    let tenant = service::seed(&settings).await?;
    let api = Running::serve(&settings, "api", folder)?;
    let merchant = Merchant::new(&api, tenant)?;
    let ctx = boot::context(&settings, boot::open_database(&settings).await?)?;
    let mut followed = Followed {
        rhythm,
        network: Network::Sepolia,
        chain: Local::Evm(&chain),
        nodes: &nodes,
        begin: rhythm.final_lag + rhythm.final_step + chain.block_number().await?,
        now: Duration::ZERO,
        pace: ChainPace::new(POLL_DEFAULT),
        leadership: ingest::lead(&ctx, Network::Sepolia).await?,
    };
    let idle = followed.run(&ctx, None, minutes).await?.calls;
    merchant.create().await?;
    let traffic = followed.run(&ctx, Some((&merchant, &chain)), minutes).await?.calls;
    ctx.db.clone().close().await?;
    Ok([idle, traffic])
}

/// A local chain.
enum Local<'a> {
    Evm(&'a Devnet),
    Tron(&'a TronDevnet),
}

impl Local<'_> {
    async fn height(&self) -> anyhow::Result<u64> {
        match self {
            Self::Evm(chain) => chain.block_number().await,
            Self::Tron(chain) => Ok(chain.state(0).await?.head_number),
        }
    }

    async fn mine(&self, count: u64) -> anyhow::Result<()> {
        match self {
            Self::Evm(chain) => chain.mine(count).await,
            Self::Tron(chain) => chain.mine(count).await.map(drop),
        }
    }
}

/// What nodes did in a day.
struct Counted {
    calls: f64,
    bytes: f64,
}

/// A chain that is followed in simulated time.
struct Followed<'a> {
    rhythm: &'a Rhythm,
    network: Network,
    chain: Local<'a>,
    nodes: &'a [Arc<Counting>; 2],
    /// Height at the first moment.
    begin: u64,
    now: Duration,
    pace: ChainPace,
    leadership: Leadership,
}

impl Followed<'_> {
    /// Follows the chain for some minutes, optionally with a payment in each minute.
    async fn run(
        &mut self,
        ctx: &Ctx,
        payments: Option<(&Merchant, &Devnet)>,
        minutes: usize,
    ) -> anyhow::Result<Counted> {
        let chain = ctx.partners.chains.followed.get(&self.network);
        let chain = chain.context("the chain is not enabled")?;
        // The calls of the first steps, which only happen at the start of a service, are not counted.
        self.come_to_now().await?;
        while self.look(ctx, chain.as_ref()).await?.is_zero() {}
        for node in self.nodes {
            node.calls.store(0, Ordering::Relaxed);
            node.bytes.store(0, Ordering::Relaxed);
        }
        let begun = self.now;
        for minute in 1..=u32::try_from(minutes)? {
            if let Some((merchant, chain)) = payments {
                merchant.pay(chain).await?;
            }
            while self.now < begun + Duration::from_mins(1) * minute {
                self.come_to_now().await?;
                let pause = self.look(ctx, chain.as_ref()).await?;
                self.now += pause;
            }
        }
        let spent_minutes = (self.now - begun).as_secs_f64() / 60.0;
        let a_day = |count: fn(&Counting) -> &AtomicU64| {
            let sum: u64 = self.nodes.iter().map(|node| count(node).load(Ordering::Relaxed)).sum();
            sum as f64 * MINUTES_A_DAY / spent_minutes
        };
        Ok(Counted {
            calls: a_day(|node| &node.calls),
            bytes: a_day(|node| &node.bytes),
        })
    }

    async fn come_to_now(&self) -> anyhow::Result<()> {
        let blocks = u64::try_from(self.now.as_millis())? / self.rhythm.block_ms;
        let height = self.chain.height().await?;
        // Each payment has mined a block, so only the rest of the blocks that are due has to be mined.
        let missing = (self.begin + blocks).saturating_sub(height);
        if missing > 0 {
            self.chain.mine(missing).await?;
        }
        let step = self.rhythm.final_step;
        let height = height + missing;
        let last_final = (height - self.rhythm.final_lag) / step * step;
        for node in self.nodes {
            node.last_final.store(last_final, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes one step of the worker; returns the pause after it.
    async fn look(&mut self, ctx: &Ctx, chain: &dyn prs::ports::chain::Chain) -> anyhow::Result<Duration> {
        let mut position = match watch::run(ctx, chain, &self.leadership).await? {
            WatchResult::At(position) => position,
            WatchResult::Halted(reason) => bail!("the chain is halted: {reason}"),
        };
        let age_ms = position.head.number.saturating_sub(self.begin) * self.rhythm.block_ms;
        position.head.time = moment(Duration::from_millis(age_ms))?;
        Ok(self.pace.pause(&position, moment(self.now)?))
    }
}

fn moment(after: Duration) -> anyhow::Result<DateTime<Utc>> {
    let epoch = DateTime::from_timestamp(EPOCH_S, 0).context("no such second")?;
    Ok(epoch + TimeDelta::from_std(after)?)
}

/// A node that counts its calls and the bytes of its responses, and reports which block is final.
struct Counting {
    upstream: String,
    client: reqwest::Client,
    /// A method that the node does not have.
    refused: Option<&'static str>,
    calls: AtomicU64,
    bytes: AtomicU64,
    last_final: AtomicU64,
}

impl Counting {
    async fn start(upstream: &str, refused: Option<&'static str>) -> anyhow::Result<(String, Arc<Self>)> {
        let node = Arc::new(Self {
            upstream: upstream.trim_end_matches('/').to_owned(),
            client: reqwest::Client::builder().no_proxy().build()?,
            refused,
            calls: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            last_final: AtomicU64::new(0),
        });
        let router = Router::new().fallback(post(relay)).with_state(Arc::clone(&node));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok((url, node))
    }

    async fn answer(&self, path: &str, mut asked: Value) -> anyhow::Result<Value> {
        let count = asked.as_array().map_or(1, Vec::len);
        self.calls.fetch_add(count as u64, Ordering::Relaxed);
        let last_final = json!(format!("{:#x}", self.last_final.load(Ordering::Relaxed)));
        let name_final = |call: &mut Value| {
            if call.pointer("/params/0") == Some(&json!("finalized")) {
                call["params"][0] = last_final.clone();
            }
            if self.refused.is_some() && call.get("method").and_then(Value::as_str) == self.refused {
                call["method"] = json!("eth_none");
            }
        };
        match asked.as_array_mut() {
            Some(calls) => calls.iter_mut().for_each(name_final),
            None => name_final(&mut asked),
        }
        let url = format!("{}{path}", self.upstream);
        let answer = self.client.post(url).json(&asked).send().await?;
        ensure!(
            answer.status().is_success(),
            "the local node returned {}",
            answer.status()
        );
        let body = answer.bytes().await?;
        self.bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        Ok(serde_json::from_slice(&body)?)
    }
}

async fn relay(
    State(node): State<Arc<Counting>>,
    uri: Uri,
    Json(asked): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    let answer = node.answer(uri.path(), asked).await;
    answer.map(Json).map_err(|_| StatusCode::BAD_GATEWAY)
}
