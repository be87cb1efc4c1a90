//! The local stand-in for Tron: a Node.js server in `tron/` that serves Tron's HTTP API over the same EVM node.
//!
//! All nodes of a [`TronDevnet`] show one chain. Each node has a lag and lies of its own, so that a test can compare an
//! honest node with a node that lies.

mod lies;
mod settings;
mod tronweb;

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};

pub use lies::{TronForgedPayment, TronLie};
pub use settings::{TronAccountChange, TronMint, TronTokenChange};
pub use tronweb::Tronweb;

use crate::{
    node::{self, dir, repair_command},
    rpc,
};

/// The chain id of Tron's main network, which is the end of the id of its block 0.
pub const TRON_CHAIN_ID: u64 = 728_126_428;

const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Mining takes a few milliseconds for each block.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(60);

/// Which clock the times of blocks follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum TronClock {
    /// A block comes one step after its parent. Blocks come only from transactions and from [`TronDevnet::mine`].
    #[default]
    Manual,
    /// A block has the time of the machine. A request mines one if three seconds have passed or if a transaction is not
    /// solid yet.
    Wall,
}

/// Options of a [`TronDevnet`].
#[derive(Clone, Debug)]
pub struct TronOptions {
    /// Number of nodes, each with a port of its own.
    pub nodes: usize,
    /// The solid block lags the newest block by this many blocks.
    pub solid_lag: u64,
    /// Time of block 1 in milliseconds; `None` is now.
    pub start_time_ms: Option<u64>,
    /// The clock of the blocks.
    pub clock: TronClock,
}

impl Default for TronOptions {
    fn default() -> Self {
        Self {
            nodes: 1,
            solid_lag: 2,
            start_time_ms: None,
            clock: TronClock::Manual,
        }
    }
}

/// An account with TRX and tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TronAccount {
    /// The address in Base58.
    pub address: String,
    /// The private key as `0x` and 64 hexadecimal digits, which is public and worthless on any other chain.
    pub private_key: String,
}

/// Addresses of the contracts, in Base58.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TronContracts {
    /// Pays a token with reference and fee, at its address on Tron.
    pub erc20_fee_proxy: String,
}

/// Addresses of the tokens on Tron, in Base58. Both have 6 decimals.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TronTokens {
    /// A token whose `transfer` returns false although it succeeds.
    #[serde(rename = "USDT")]
    pub usdt: String,
    /// A token whose `transfer` returns true.
    #[serde(rename = "USDC")]
    pub usdc: String,
}

/// The line that the server prints once it listens.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TronSummary {
    /// The URL of every node.
    pub api_urls: Vec<String>,
    /// The name of the network.
    pub network: String,
    /// The accounts.
    pub accounts: Vec<TronAccount>,
    /// The contracts.
    pub contracts: TronContracts,
    /// The tokens.
    pub tokens: TronTokens,
}

/// State of a node after a control call.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TronNodeState {
    /// Number of the newest block that the node shows.
    pub head_number: u64,
    /// Its id, in hexadecimal.
    pub head_id: String,
    /// Time of the chain's newest block.
    pub head_time_ms: u64,
    /// Time that the next block gets.
    pub next_time_ms: u64,
    /// Number of the newest solid block that the node shows.
    pub solid_number: u64,
    /// Number of transactions that wait for a block.
    pub pending: u64,
    /// Names of the lies that are switched on.
    pub lies: Vec<String>,
}

/// A running chain of Tron nodes. Dropping it stops the server and its EVM node.
pub struct TronDevnet {
    // The server is dropped before the EVM node that it calls.
    server: TronServer,
    client: reqwest::Client,
    _evm: node::Node,
}

impl TronDevnet {
    /// Starts the EVM node and the server.
    pub async fn start(options: TronOptions) -> anyhow::Result<Self> {
        TronServer::check_installed()?;
        let evm = node::Node::start(&node::Options {
            chain_id: TRON_CHAIN_ID,
            ..node::Options::default()
        })
        .await?;
        let rpc = rpc::Rpc::new(evm.url())?;
        rpc.wait_for_chain(TRON_CHAIN_ID, START_TIMEOUT).await?;
        // Otherwise the node prints every call.
        rpc.call("anvil_setLoggingEnabled", json!([false])).await?;
        Ok(Self {
            server: TronServer::start(evm.url(), &options).await?,
            client: rpc::client(CONTROL_TIMEOUT)?,
            _evm: evm,
        })
    }

    /// Addresses, accounts and URLs.
    pub fn summary(&self) -> &TronSummary {
        &self.server.summary
    }

    /// Counts the blocks, so that a caller can wait for the next one without polling.
    pub fn blocks(&self) -> watch::Receiver<u64> {
        self.server.blocks.clone()
    }

    /// The URL of a node's HTTP API. Its JSON-RPC is at `/jsonrpc`.
    pub fn api_url(&self, node: usize) -> anyhow::Result<&str> {
        let url = self.summary().api_urls.get(node);
        url.map(String::as_str)
            .with_context(|| format!("the stand-in has no node {node}"))
    }

    /// Sends settings to a node's control endpoint. Settings of the chain hold for all nodes.
    pub async fn control(&self, node: usize, settings: &Value) -> anyhow::Result<TronNodeState> {
        let url = format!("{}/_control", self.api_url(node)?);
        let response = self.client.post(url).json(settings).send().await?;
        let is_success = response.status().is_success();
        let text = response.text().await?;
        if !is_success {
            bail!("the stand-in rejected the settings {settings}: {text}");
        }
        serde_json::from_str(&text).with_context(|| format!("the stand-in returned {text:.200}"))
    }

    /// State of a node.
    pub async fn state(&self, node: usize) -> anyhow::Result<TronNodeState> {
        self.control(node, &json!({})).await
    }

    /// Mines blocks. The first one contains the waiting transactions, and the others are empty.
    pub async fn mine(&self, count: u64) -> anyhow::Result<TronNodeState> {
        self.control(0, &json!({ "mine": count })).await
    }

    /// Whether transactions wait for [`mine`](Self::mine). Otherwise each gets a block at once.
    pub async fn set_hold(&self, on: bool) -> anyhow::Result<TronNodeState> {
        self.control(0, &json!({ "hold": on })).await
    }

    /// Drops the newest blocks. Their transactions leave the chain, and a later block can contain them again.
    pub async fn reorganise(&self, depth: u64) -> anyhow::Result<TronNodeState> {
        self.control(0, &json!({ "reorganise": depth })).await
    }

    /// Sets the time of the next block, and mines that block.
    pub async fn mine_at(&self, timestamp_ms: u64) -> anyhow::Result<TronNodeState> {
        self.control(0, &json!({ "nextTimeMs": timestamp_ms, "mine": 1 })).await
    }

    /// Sets the time between a block and its parent.
    pub async fn set_step(&self, step_ms: u64) -> anyhow::Result<TronNodeState> {
        self.control(0, &json!({ "stepMs": step_ms })).await
    }

    /// Moves the clock of the blocks forward if it is [`TronClock::Wall`].
    pub async fn forward(&self, by: Duration) -> anyhow::Result<TronNodeState> {
        self.control(0, &json!({ "forwardMs": u64::try_from(by.as_millis())? }))
            .await
    }

    /// Sets the price of energy in sun.
    pub async fn set_energy_price(&self, price_sun: u64) -> anyhow::Result<TronNodeState> {
        self.control(0, &json!({ "energyPrice": price_sun })).await
    }

    /// Changes or removes an account.
    pub async fn change_account(&self, change: &TronAccountChange) -> anyhow::Result<TronNodeState> {
        self.control(0, &json!({ "account": change })).await
    }

    /// Changes a token.
    pub async fn change_token(&self, change: &TronTokenChange) -> anyhow::Result<TronNodeState> {
        self.control(0, &json!({ "token": change })).await
    }

    /// Sets by how many blocks the solid block of a node lags its newest block.
    pub async fn set_solid_lag(&self, node: usize, blocks: u64) -> anyhow::Result<TronNodeState> {
        self.control(node, &json!({ "solidLag": blocks })).await
    }

    /// Sets by how many blocks the newest block of a node lags the chain.
    pub async fn set_behind(&self, node: usize, blocks: u64) -> anyhow::Result<TronNodeState> {
        self.control(node, &json!({ "behind": blocks })).await
    }

    /// Makes a node tell exactly these lies; an empty list makes it honest.
    pub async fn set_lies(&self, node: usize, lies: &[TronLie]) -> anyhow::Result<TronNodeState> {
        let mut switches = Map::new();
        for lie in lies {
            let (name, setting) = lie.setting()?;
            switches.insert(name.to_owned(), setting);
        }
        self.control(node, &json!({ "lies": null })).await?;
        self.control(node, &json!({ "lies": switches })).await
    }
}

/// The process of the server. Its standard input stays open; the server ends when the input ends, also if this process
/// is killed.
struct TronServer {
    child: Child,
    summary: TronSummary,
    blocks: watch::Receiver<u64>,
}

impl TronServer {
    /// Errors: something is not installed. The error says what to do.
    fn check_installed() -> anyhow::Result<()> {
        if node::on_path("node").is_none() {
            bail!("the stand-in for Tron needs Node.js: install it and put `node` on the PATH");
        }
        if !dir().join("node_modules/tronweb").is_dir() {
            bail!(
                "tronweb, the library of the stand-in for Tron, is not installed: {}",
                repair_command()
            );
        }
        Ok(())
    }

    async fn start(evm_url: &str, options: &TronOptions) -> anyhow::Result<Self> {
        let settings = json!({
            "ports": vec![0; options.nodes],
            "solidLag": options.solid_lag,
            "startTimeMs": options.start_time_ms,
            "clock": options.clock,
            "endWithStdin": true,
            "printBlocks": true,
        });
        let mut child = Command::new("node")
            .arg(dir().join("tron/main.mjs"))
            .args([evm_url, &settings.to_string()])
            // An interrupt from the terminal reaches this process first, which can then stop in order.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("the stand-in for Tron cannot be started")?;
        let (sender, line) = oneshot::channel();
        let (block_sender, blocks) = watch::channel(0);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        // Both threads end with the process.
        thread::spawn(move || {
            let mut lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
            // If the caller abandoned the start, the receiver is gone, and the line is not needed.
            let _ = sender.send(lines.next());
            // After the first line, each line reports a block.
            for _ in lines.map_while(Result::ok) {
                block_sender.send_modify(|count| *count += 1);
            }
        });
        let complaints = thread::spawn(move || {
            let mut text = String::new();
            for line in stderr
                .into_iter()
                .flat_map(|stderr| BufReader::new(stderr).lines())
                .map_while(Result::ok)
            {
                tracing::warn!(line, "the stand-in for Tron printed an error");
                text = format!("{text}{line}\n");
            }
            text
        });
        let summary = match timeout(START_TIMEOUT, line).await {
            Ok(Ok(Some(Ok(line)))) => serde_json::from_str(&line).context("the stand-in for Tron printed a wrong line"),
            Ok(_) => {
                let text = complaints.join().unwrap_or_default();
                let repair = repair_command();
                Err(anyhow!(
                    "the stand-in for Tron ended during its start (if packages are missing, {repair}): {text}"
                ))
            }
            Err(_) => Err(anyhow!("the stand-in for Tron did not start in time")),
        };
        match summary {
            Ok(summary) => Ok(Self { child, summary, blocks }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }
}

impl Drop for TronServer {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    // Both fail only if the process is already gone, which is the intended result.
    let _ = child.kill();
    let _ = child.wait();
}
