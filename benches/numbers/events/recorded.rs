//! Measures how many deliveries per second are recorded on a durable PostgreSQL, compared with third-party job queues,
//! and how much WAL a delivery costs.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::bench::{ARRIVAL_TIMEOUT, Bench};
use super::peers;
use crate::database::BenchDatabase;
use crate::report::{Goal, REPEATS, Row, rate_per_s};

/// Goal for the service's rate, as a multiple of the rate of another queue.
const PEER_RATIO: f64 = 1.5;

/// Maximum WAL per delivery, from its claim to its record.
const LOGGED_BYTES_MAX: f64 = 600.0;

/// Pause between two polls of the waiting deliveries.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// Measures the service and the other job queues alternately.
pub(super) async fn measure(events: usize) -> anyhow::Result<Vec<Row>> {
    let mut bench = Bench::start_durable().await?;
    let are_there = peers::are_there();
    let redis = if are_there { peers::Redis::start()? } else { None };
    let (mut ours, mut logged) = (Vec::new(), Vec::new());
    let (mut bullmq, mut graphile) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let (rate, bytes) = recorded(&mut bench, events).await?;
        ours.push(rate);
        logged.push(bytes);
        let url = bench.receiver.url("/peer");
        if let Some(redis) = &redis {
            bullmq.push(tokio::task::block_in_place(|| peers::bullmq(redis, &url, events))?);
        }
        if are_there {
            let database = BenchDatabase::create_durable().await?;
            let rate = tokio::task::block_in_place(|| peers::graphile(&database.url, &url, events));
            database.remove().await?;
            graphile.push(rate?);
        }
        eprintln!("  fan-out, recorded: ours {rate:.0}/s, BullMQ {bullmq:.0?}/s, graphile-worker {graphile:.0?}/s");
    }
    bench.end().await?;
    let row = |name, baseline_name, baseline| Row {
        name,
        unit: "deliveries/s",
        ours: ours.clone(),
        baseline_name,
        baseline,
        goal: Goal::Ratio(PEER_RATIO),
    };
    Ok(vec![
        row("recorded, BullMQ", "BullMQ on Redis, AOF always", bullmq),
        row("recorded, graphile", "graphile-worker in batches", graphile),
        Row::at_most("log of the server", "B/delivery", logged, LOGGED_BYTES_MAX),
    ])
}

/// Rate and WAL bytes of one run, from the first arrival until every delivery is recorded.
async fn recorded(bench: &mut Bench, events: usize) -> anyhow::Result<(f64, f64)> {
    bench.clear().await?;
    bench.backlog("/ok", events).await?;
    let logged = bench.queue.logged_bytes().await?;
    let running = bench.serve()?;
    let arrivals = bench.wait(events)?;
    let deadline = Instant::now() + ARRIVAL_TIMEOUT;
    while bench.queue.waiting().await? > 0 {
        ensure!(Instant::now() < deadline, "the arrived deliveries are not recorded");
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    let ended = Instant::now();
    drop(running);
    let first = arrivals.iter().map(|arrival| arrival.at).min().unwrap_or(ended);
    // The number of bytes is far below 2^52, so its conversion to a float is exact.
    let bytes = (bench.queue.logged_bytes().await? - logged) as f64 / events as f64;
    Ok((rate_per_s(events, ended - first), bytes))
}
