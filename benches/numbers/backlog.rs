//! Memory of the service while it processes a long backlog of payment events that belong to no request.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::{
    consensus::Header,
    primitives::{Address, B256, U256, keccak256},
    sol,
    sol_types::{SolEvent, SolValue},
};
use anyhow::ensure;
use axum::{Json, Router, extract::State, routing::post};
use chrono::TimeDelta;
use prs::{
    adapters::clock::SystemClock,
    boot,
    domain::network::Network,
    ports::clock::Clock,
    settings::{ChainSettings, Settings},
    store,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::report::{Goal, REPEATS, Row, scaled};
use crate::service::{self, Running};

/// Number of blocks in the backlog.
const BLOCKS: usize = 200_000;

/// Number of payment events of each block.
const EVENTS_PER_BLOCK: u64 = 10;

/// Maximum growth of the memory beyond that of an idle service, in MB.
const GOAL_GROWTH_MB: f64 = 200.0;

/// Pause between two readings of the memory.
const LOOK: Duration = Duration::from_millis(50);

/// Time limit for processing the backlog.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Timestamp of the first block in seconds; each block is one second later than the previous one.
const GENESIS_S: u64 = 1_700_000_000;

const PROXY: Address = Address::repeat_byte(0xfe);

sol! {
    event TransferWithReferenceAndFee(
        address to,
        uint256 amount,
        bytes indexed paymentReference,
        uint256 feeAmount,
        address feeAddress
    );
}

/// Measures how much the memory of the worker grows while it processes the whole backlog, on SQLite, with two nodes
/// that agree.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let blocks = u64::try_from(scaled(BLOCKS, scale))?;
    runtime.block_on(async {
        let (mut growth, mut rates) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            let (grown_mb, time) = fill_in(blocks).await?;
            growth.push(grown_mb);
            // Both numbers are far below 2^52, so their conversion to floats is exact.
            rates.push(blocks as f64 / time.as_secs_f64());
        }
        let row = |name, unit, ours, goal| Row {
            name,
            unit,
            ours,
            baseline_name: "",
            baseline: Vec::new(),
            goal,
        };
        Ok(vec![
            row("backlog memory", "MB", growth, Goal::AtMost(GOAL_GROWTH_MB)),
            row("backlog", "blocks/s", rates, Goal::None),
        ])
    })
}

async fn fill_in(blocks: u64) -> anyhow::Result<(f64, Duration)> {
    let folder = tempfile::tempdir()?;
    let mut settings = service::settings(format!("sqlite:{}", folder.path().join("prs.db").display()))?;
    let idle = idle_bytes(&settings, folder.path()).await?;
    let nodes = [node(blocks).await?, node(blocks).await?];
    let section = ChainSettings {
        rpc_urls: nodes.to_vec(),
        confirmations: Some(1),
        start_block: Some(1),
        contracts: [("EthereumFeeProxy".to_owned(), PROXY.to_string())].into(),
        ..ChainSettings::default()
    };
    settings.chains.insert(Network::Sepolia.id().to_owned(), section);
    let started = Instant::now();
    let running = Running::serve(&settings, "worker", folder.path())?;
    let db = boot::open_database(&settings).await?;
    let far = SystemClock.now() + TimeDelta::days(1);
    let mut peak = idle;
    loop {
        tokio::time::sleep(LOOK).await;
        peak = peak.max(running.resident_bytes()?);
        let has_begun = store::cursors::load(db.reader(), Network::Sepolia).await?.is_some();
        let left = store::backlogs::due(db.reader(), Network::Sepolia, u32::MAX.into(), far, 1).await?;
        if has_begun && left.is_empty() {
            break;
        }
        ensure!(started.elapsed() < TIMEOUT, "{left:?} is left");
    }
    let time = started.elapsed();
    drop(running);
    db.close().await?;
    // The number of bytes is far below 2^52, so its conversion to a float is exact.
    Ok(((peak - idle) as f64 / 1e6, time))
}

/// Memory of an idle worker that follows no chain.
async fn idle_bytes(settings: &Settings, folder: &std::path::Path) -> anyhow::Result<u64> {
    let running = Running::serve(settings, "worker", folder)?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.resident_bytes()
}

/// A node that generates the blocks of its chain when they are requested.
struct Chain {
    head: u64,
}

async fn node(head: u64) -> anyhow::Result<String> {
    let router = Router::new()
        .route("/", post(answer))
        .with_state(Arc::new(Chain { head }));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}

async fn answer(State(chain): State<Arc<Chain>>, Json(asked): Json<Value>) -> String {
    match asked.as_array() {
        Some(calls) => {
            let answers: Vec<String> = calls.iter().map(|call| chain.answer(call)).collect();
            format!("[{}]", answers.join(","))
        }
        None => chain.answer(&asked),
    }
}

impl Chain {
    fn answer(&self, call: &Value) -> String {
        let asked = &call["params"][0];
        let result = match call["method"].as_str() {
            Some("eth_chainId") => json!(format!("{:#x}", Network::Sepolia.chain_id())).to_string(),
            Some("eth_getBlockByNumber") => block(height(asked).unwrap_or(self.head)).to_string(),
            Some("eth_getLogs") => {
                let (from, to) = (height(&asked["fromBlock"]), height(&asked["toBlock"]));
                logs(from.unwrap_or(self.head), to.unwrap_or(self.head))
            }
            _ => "null".to_owned(),
        };
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, call["id"])
    }
}

fn height(text: &Value) -> Option<u64> {
    u64::from_str_radix(text.as_str()?.strip_prefix("0x")?, 16).ok()
}

fn header(number: u64) -> Header {
    Header {
        number,
        timestamp: GENESIS_S + number,
        ..Header::default()
    }
}

fn block(number: u64) -> Value {
    let header = header(number);
    let mut block = serde_json::to_value(&header).unwrap_or_default();
    block["hash"] = json!(header.hash_slow());
    block["transactions"] = json!([]);
    block
}

fn logs(from: u64, to: u64) -> String {
    let mut list = String::from("[");
    let data = (PROXY, U256::from(1), U256::ZERO, Address::ZERO).abi_encode_params();
    let data = hex::encode(data);
    let topic = TransferWithReferenceAndFee::SIGNATURE_HASH;
    for number in from..=to {
        let hash = header(number).hash_slow();
        let tx_hash = keccak256(hash);
        for index in 0..EVENTS_PER_BLOCK {
            let reference: B256 = keccak256((number * EVENTS_PER_BLOCK + index).to_be_bytes());
            let comma = if list.len() == 1 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(
                list,
                r#"{comma}{{"address":"{PROXY:#x}","topics":["{topic}","{reference}"],"data":"0x{data}","blockHash":"{hash}","blockNumber":"{number:#x}","transactionHash":"{tx_hash}","transactionIndex":"0x0","logIndex":"{index:#x}","removed":false}}"#
            );
        }
    }
    list.push(']');
    list
}
