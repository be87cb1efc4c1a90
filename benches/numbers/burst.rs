//! A thousand payments become final together, and the service confirms them through distant nodes.

use std::time::{Duration, Instant};

use anyhow::ensure;
use axum::{Router, body::Bytes, extract::State, http::StatusCode, routing::post};
use devnet::{Devnet, Options};
use prs::{
    boot::{self, dev},
    domain::network::Network,
    store,
};
use tokio::{net::TcpListener, time::sleep};

use crate::ingest::{catch_up, fill, request};
use crate::report::{Goal, REPEATS, Row, scaled};
use crate::service;

/// Number of payments, each in its own block.
const PAYMENTS: usize = 1_000;

/// Latency of a node call.
const ROUND_TRIP: Duration = Duration::from_millis(50);

/// Number of nodes; all of them must agree on a block.
const NODES: usize = 2;

/// Maximum time until all payments are confirmed, in seconds.
const GOAL_S: f64 = 20.0;

/// Measures the time from the first poll of the chain to the commit of the last payment, on SQLite.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Row> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let chain = Devnet::start(Options::default()).await?;
        let payments = scaled(PAYMENTS, scale);
        fill(&chain, payments, 1).await?;
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            nodes.push(far_node(&chain).await?);
        }
        let mut ours = Vec::new();
        for _ in 0..REPEATS {
            ours.push(confirm(&chain, &nodes, payments).await?.as_secs_f64());
        }
        Ok(Row {
            name: "burst",
            unit: "s",
            ours,
            baseline_name: "",
            baseline: Vec::new(),
            goal: Goal::AtMost(GOAL_S),
        })
    })
}

async fn confirm(chain: &Devnet, nodes: &[String], payments: usize) -> anyhow::Result<Duration> {
    let folder = tempfile::tempdir()?;
    let mut settings = service::settings(format!("sqlite:{}", folder.path().join("prs.db").display()))?;
    let section = dev::chain_settings(chain, nodes.to_vec());
    settings.chains.insert(Network::Sepolia.id().to_owned(), section);
    let ctx = boot::context(&settings, boot::open_database(&settings).await?)?;
    let requests = (1..=u64::try_from(payments)?).map(request);
    let requests = requests.collect::<anyhow::Result<Vec<_>>>()?;
    for request in &requests {
        store::requests::insert(ctx.db.writer(), request).await?;
    }
    let started = Instant::now();
    catch_up(&ctx).await?;
    let time = started.elapsed();
    let topics = requests.iter().map(|request| request.reference.topic()).collect();
    let (after, _) = store::requests::by_topics(ctx.db.reader(), Network::Sepolia, &topics).await?;
    let paid = after.iter().filter(|request| request.ledger.has_been_paid()).count();
    ensure!(paid == payments, "{paid} of {payments} requests are paid");
    ctx.db.clone().close().await?;
    Ok(time)
}

/// Starts a proxy that delays each call to the chain by [`ROUND_TRIP`]; returns the URL of the proxy.
async fn far_node(chain: &Devnet) -> anyhow::Result<String> {
    let near = (
        chain.rpc_url().to_owned(),
        reqwest::Client::builder().no_proxy().build()?,
    );
    let router = Router::new().route("/", post(relay)).with_state(near);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}

async fn relay(State((url, client)): State<(String, reqwest::Client)>, call: Bytes) -> Result<Bytes, StatusCode> {
    sleep(ROUND_TRIP).await;
    let call = client.post(url).header("content-type", "application/json").body(call);
    let answer = async { call.send().await?.error_for_status()?.bytes().await };
    answer.await.map_err(|_| StatusCode::BAD_GATEWAY)
}
