//! From a callback of the partner to the arrival of the webhook that tells of it.

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

/// Callbacks in a second.
const RATE_PER_S: u32 = 50;

/// Callbacks of one run: ten seconds.
const CALLBACKS: usize = 500;

/// The most that the median and the 99th percentile may be, in milliseconds.
const P50_MS_MAX: f64 = 20.0;
const P99_MS_MAX: f64 = 100.0;

/// A webhook that has not arrived by then never will.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Has payers approved, one callback each, at a fixed rate. A time counts from the moment at which its callback is due,
/// which is before it is accepted.
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
        // An identity is approved once, so each run has payers of its own.
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
                .context("a webhook of nobody who was approved")?;
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

/// Of whom an approval told, and when it arrived.
type Arrival = (String, Instant);

/// Starts a receiver; returns its address and what arrives there.
async fn receive() -> anyhow::Result<(String, UnboundedReceiver<Arrival>)> {
    let (sender, told) = unbounded_channel();
    let note = |State(sender): State<UnboundedSender<Arrival>>, Json(body): Json<Value>| async move {
        let at = Instant::now();
        if body["kycStatus"] == "approved" {
            let payer = body["clientUserId"].as_str().unwrap_or_default().to_owned();
            // The end of the measurement drops the receiver, and then nobody wants to know.
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
