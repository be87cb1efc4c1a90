//! Measures the time from the mined receipt of a payment to the arrival of its webhook, compared with a bare loop that
//! posts every payment event at once.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, U256};
use anyhow::{Context, anyhow, ensure};
use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use devnet::{BlockTime, Devnet, Options, TxReceiptLite};
use prs::{boot::dev, domain::network::Network};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{sleep, timeout},
};

use crate::report::{Goal, REPEATS, Row, in_ms, percentile, scaled};
use crate::service::{self, Running, Tenant};

/// Payments of one run.
const PAYMENTS: usize = 20;

/// Time between blocks.
const BLOCK_MS: u64 = 1_000;

/// Pause between two polls of the chain, for the service and for the bare loop.
const POLL_MS: u64 = 50;

/// Maximum time beyond the block time, in milliseconds.
const GOAL_BESIDE_BLOCK_MS: f64 = 150.0;

/// Time limit for the arrival of a webhook.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Account that pays.
const PAYER_INDEX: usize = 3;

const PAYEE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// The program that reported a payment to the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Teller {
    Service,
    Bare,
}

/// A reported payment.
struct Arrival {
    teller: Teller,
    tx_hash: String,
    at: Instant,
}

/// Measures on a chain with a steady block time and the release service on SQLite.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    runtime.block_on(measure_in(folder.path(), scaled(PAYMENTS, scale)))
}

async fn measure_in(folder: &std::path::Path, payments: usize) -> anyhow::Result<Vec<Row>> {
    let block_time = BlockTime::EveryMs(BLOCK_MS);
    let chain = Devnet::start(Options {
        block_time,
        ..Options::default()
    })
    .await?;
    let mut settings = service::settings(format!("sqlite:{}", folder.join("prs.db").display()))?;
    let mut section = dev::chain_settings(&chain, vec![chain.rpc_url().to_owned()]);
    section.poll_ms = POLL_MS;
    settings.chains.insert(Network::Sepolia.id().to_owned(), section);
    let tenant = service::seed(&settings).await?;
    let (receiver, mut arrivals) = receive().await?;
    let service = Running::serve(&settings, "all", folder)?;
    let merchant = Merchant::new(&service, tenant)?;
    merchant.register(&format!("http://{receiver}/service")).await?;
    let bare = tokio::spawn(tell_bare(
        chain.rpc_url().to_owned(),
        chain.contracts().ethereum_fee_proxy,
        format!("http://{receiver}/bare"),
        chain.block_number().await?,
    ));

    let (mut p50, mut p99, mut bare_p50, mut bare_p99) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..payments {
            let (receipt, mined) = merchant.pay(&chain).await?;
            let told = wait_for_both(&mut arrivals, &receipt).await?;
            ensure!(!bare.is_finished(), "the bare loop ended early");
            // A sender may report a block before this program sees the receipt of the payment; the delay then counts as
            // zero.
            let after = |teller| {
                told.get(&teller)
                    .map(|at: &Instant| at.saturating_duration_since(mined))
            };
            ours.extend(after(Teller::Service));
            theirs.extend(after(Teller::Bare));
        }
        p50.push(in_ms(percentile(&ours, 50)));
        p99.push(in_ms(percentile(&ours, 99)));
        bare_p50.push(in_ms(percentile(&theirs, 50)));
        bare_p99.push(in_ms(percentile(&theirs, 99)));
    }
    bare.abort();
    let block_ms = in_ms(Duration::from_millis(BLOCK_MS));
    Ok(vec![
        Row {
            name: "latency p50",
            unit: "ms",
            ours: p50,
            baseline_name: "bare poll and post",
            baseline: bare_p50,
            goal: Goal::AtMost(block_ms + GOAL_BESIDE_BLOCK_MS),
        },
        Row {
            name: "latency p99",
            unit: "ms",
            ours: p99,
            baseline_name: "bare poll and post",
            baseline: bare_p99,
            goal: Goal::None,
        },
    ])
}

/// A client that creates requests. For simplicity it also pays them.
pub(crate) struct Merchant {
    client: reqwest::Client,
    base: String,
    client_id: String,
}

impl Merchant {
    pub(crate) fn new(service: &Running, tenant: Tenant) -> anyhow::Result<Self> {
        Ok(Self {
            client: reqwest::Client::builder().no_proxy().build()?,
            base: format!("http://{}", service.address),
            client_id: tenant.client_id,
        })
    }

    async fn call(&self, request: reqwest::RequestBuilder) -> anyhow::Result<Value> {
        let answer = request.header("x-client-id", &self.client_id).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "the service returned {status}: {text}");
        Ok(serde_json::from_str(&text)?)
    }

    async fn register(&self, url: &str) -> anyhow::Result<()> {
        let body = json!({ "url": url });
        let request = self.client.post(format!("{}/v1/webhook", self.base)).json(&body);
        self.call(request).await.map(drop)
    }

    /// Creates a request and returns its id.
    pub(crate) async fn create(&self) -> anyhow::Result<String> {
        self.create_in(PAYEE, "0.001", "ETH-sepolia").await
    }

    /// Creates a request in a currency and returns its id.
    pub(crate) async fn create_in(&self, payee: &str, amount: &str, currency: &str) -> anyhow::Result<String> {
        let body = json!({
            "payee": payee,
            "amount": amount,
            "invoiceCurrency": currency,
            "paymentCurrency": currency,
        });
        let created = self
            .call(self.client.post(format!("{}/v2/request", self.base)).json(&body))
            .await?;
        Ok(created["requestId"].as_str().context("no requestId")?.to_owned())
    }

    /// Creates a request, pays it with the calldata of the service, and returns when its receipt was seen.
    pub(crate) async fn pay(&self, chain: &Devnet) -> anyhow::Result<(TxReceiptLite, Instant)> {
        let id = self.create().await?;
        let calldata = self
            .call(self.client.get(format!("{}/v2/request/{id}/pay", self.base)))
            .await?;
        let (to, call, value) = transaction(&calldata["transactions"][0])?;
        let hash = chain.send_without_waiting(PAYER_INDEX, to, call, value).await?;
        let receipt = chain.wait_for_receipt(hash).await?;
        let mined = Instant::now();
        ensure!(receipt.status, "the payment failed");
        Ok((receipt, mined))
    }
}

fn transaction(value: &Value) -> anyhow::Result<(Address, Vec<u8>, U256)> {
    let text = |member: &Value| member.as_str().map(str::to_owned).context("calldata without text");
    Ok((
        text(&value["to"])?.parse()?,
        hex::decode(text(&value["data"])?)?,
        text(&value["value"]["hex"])?.parse()?,
    ))
}

/// Receives from both senders and records when each of them reported a payment.
async fn receive() -> anyhow::Result<(SocketAddr, UnboundedReceiver<Arrival>)> {
    let (sender, arrivals) = unbounded_channel();
    let note = |teller: Teller, member: &'static str| {
        post(
            move |State(sender): State<UnboundedSender<Arrival>>, Json(body): Json<Value>| async move {
                let at = Instant::now();
                let tx_hash = body[member].as_str().unwrap_or_default().to_lowercase();
                // The receiver of the channel is dropped at the end of the benchmark; later reports are not needed.
                let _ = sender.send(Arrival { teller, tx_hash, at });
                StatusCode::OK
            },
        )
    };
    let router = Router::new()
        .route("/service", note(Teller::Service, "txHash"))
        .route("/bare", note(Teller::Bare, "transactionHash"))
        .with_state(sender);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((address, arrivals))
}

async fn wait_for_both(
    arrivals: &mut UnboundedReceiver<Arrival>,
    receipt: &TxReceiptLite,
) -> anyhow::Result<HashMap<Teller, Instant>> {
    let wanted = receipt.tx_hash.to_string();
    let mut told = HashMap::new();
    while told.len() < 2 {
        let arrival = timeout(ARRIVAL_TIMEOUT, arrivals.recv())
            .await
            .map_err(|_| {
                anyhow!(
                    "a payment was not reported within {} s, only {told:?}",
                    ARRIVAL_TIMEOUT.as_secs()
                )
            })?
            .context("the receiver ended")?;
        if arrival.tx_hash == wanted {
            told.entry(arrival.teller).or_insert(arrival.at);
        }
    }
    Ok(told)
}

/// The bare loop: polls the chain as often as the service does and posts each payment event at once. It stores nothing
/// and verifies nothing.
async fn tell_bare(rpc_url: String, proxy: Address, hook: String, mut seen: u64) -> anyhow::Result<()> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let ask = async |method: &str, params: Value| -> anyhow::Result<Value> {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer: Value = client.post(&rpc_url).json(&call).send().await?.json().await?;
        Ok(answer["result"].clone())
    };
    loop {
        let head = ask("eth_blockNumber", json!([])).await?;
        let head = head
            .as_str()
            .and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
        let head = head.context("no block number")?;
        if head > seen {
            let filter = json!({
                "fromBlock": format!("{:#x}", seen + 1),
                "toBlock": format!("{head:#x}"),
                "address": proxy,
            });
            let logs = ask("eth_getLogs", json!([filter])).await?;
            for log in logs.as_array().into_iter().flatten() {
                client.post(&hook).json(log).send().await?;
            }
            seen = head;
        }
        sleep(Duration::from_millis(POLL_MS)).await;
    }
}
