//! Measures the time from a callback of the partner to the arrival of the resulting webhook.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};

use super::partner::{self, Signed};
use super::stage::{Stage, name};
use crate::load;
use crate::report::{Goal, REPEATS, Row, in_ms, percentile, scaled};

/// Callbacks per second.
const RATE_PER_S: u32 = 50;

/// Number of callbacks in one run, which takes ten seconds.
const CALLBACKS: usize = 500;

/// Goals for the median and the 99th percentile, in milliseconds.
const P50_MS_MAX: f64 = 20.0;
const P99_MS_MAX: f64 = 100.0;

/// Time limit for the arrival of a webhook.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends callbacks that approve one payer each, at a fixed rate. Each time is measured from the moment at which the
/// callback is due, before the service accepts it.
pub(super) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let stage = Stage::set()?;
    let service = stage.serve("all")?;
    let (url, mut told) = stage.runtime.block_on(receive())?;
    let body = json!({ "url": url }).to_string();
    let endpoint = load::post(service.address, "/v1/webhook", &stage.key(), &body);
    load::run(service.address, endpoint, 1)?;
    let count = scaled(CALLBACKS, scale);
    let gap = Duration::from_secs(1) / RATE_PER_S;
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for run in 0..REPEATS {
        // An identity can be approved only once, so each run has its own payers.
        let payers = run * count..(run + 1) * count;
        stage.register(&service, payers.clone())?;
        let callback = |number| partner::callback(service.address, &name(number), Signed::Well);
        let callbacks = payers.clone().map(callback).collect();
        let begun = Instant::now();
        load::run_at(service.address, callbacks, (RATE_PER_S, count), 200)?;
        let told = stage.runtime.block_on(arrivals(&mut told, count))?;
        let mut times = Vec::with_capacity(count);
        for (turn, number) in (0..).zip(payers) {
            let at = told
                .get(&name(number))
                .context("a webhook for a payer that was not approved")?;
            times.push(at.saturating_duration_since(begun + gap * turn));
        }
        p50.push(in_ms(percentile(&times, 50)));
        p99.push(in_ms(percentile(&times, 99)));
    }
    drop(service);
    stage.strike()?;
    let row = |name, ours, most| Row {
        name,
        unit: "ms",
        ours,
        baseline_name: "",
        baseline: Vec::new(),
        goal: Goal::AtMost(most),
    };
    Ok(vec![
        row("callback to webhook, p50", p50, P50_MS_MAX),
        row("callback to webhook, p99", p99, P99_MS_MAX),
    ])
}

/// The approved payer that a webhook names, and the time of its arrival.
type Arrival = (String, Instant);

/// Starts a receiver; returns its URL and the channel of arrivals.
async fn receive() -> anyhow::Result<(String, UnboundedReceiver<Arrival>)> {
    let (sender, told) = unbounded_channel();
    let note = |State(sender): State<UnboundedSender<Arrival>>, Json(body): Json<Value>| async move {
        let at = Instant::now();
        if body["kycStatus"] == "approved" {
            let payer = body["clientUserId"].as_str().unwrap_or_default().to_owned();
            // The end of the benchmark drops the receiver, and later arrivals are not needed.
            let _ = sender.send((payer, at));
        }
        StatusCode::OK
    };
    let router = Router::new().route("/", post(note)).with_state(sender);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((url, told))
}

async fn arrivals(told: &mut UnboundedReceiver<Arrival>, count: usize) -> anyhow::Result<HashMap<String, Instant>> {
    let mut first = HashMap::new();
    while first.len() < count {
        let arrival = timeout(ARRIVAL_TIMEOUT, told.recv()).await;
        let (payer, at) = arrival.context("a webhook is missing")?.context("no receiver")?;
        first.entry(payer).or_insert(at);
    }
    Ok(first)
}
