//! Delivery of events on PostgreSQL: rate, latency, punctuality, fairness, recovery, and what bad receivers cost.

mod backlogs;
mod bare;
mod bench;
mod peers;
mod queue;
mod receiver;
mod recorded;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::report::{Goal, REPEATS, Row, in_ms, percentile, rate_per_s, scaled};
pub(crate) use bare::send as send_bare;
use bench::{ARRIVAL_TIMEOUT, Bench, one_by_one};
use receiver::Arrival;

/// Events of one run of the fan-out.
const FAN_OUT_EVENTS: usize = 20_000;

/// Share of the bare sender's rate that we want to reach.
const FAN_OUT_RATIO: f64 = 0.7;

/// Events of one run of the latency, one after the other.
const LATENCY_EVENTS: usize = 300;

/// Deliveries whose receiver refuses every try.
const REFUSED_DELIVERIES: usize = 100;

/// Pauses between the tries of a delivery.
const RETRY_DELAYS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(15)];

/// Endpoints of which one may hang.
const ENDPOINTS: usize = 100;

/// Batches of the run with a hanging endpoint, one event for each of a tenth of the endpoints.
const BATCHES: usize = 1_000;

/// Pause between two batches.
const BATCH_PAUSE: Duration = Duration::from_millis(10);

/// Deliveries that wait for the restart.
const BACKLOG_DELIVERIES: usize = 10_000;

/// Deliveries for each receiver that never ends its answer.
const ENDLESS_DELIVERIES: usize = 32;

/// How long the memory of the service is watched, with endless answers.
const WATCHED: Duration = Duration::from_secs(12);

/// Measures everything about delivery.
pub(crate) fn measure(scale: f64) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut rows = vec![fan_out(scaled(FAN_OUT_EVENTS, scale)).await?];
        rows.extend(recorded::measure(scaled(FAN_OUT_EVENTS, scale)).await?);
        rows.extend(latency(scaled(LATENCY_EVENTS, scale)).await?);
        rows.extend(backlogs::measure(scaled(LATENCY_EVENTS, scale), scale).await?);
        rows.extend(lateness(scaled(REFUSED_DELIVERIES, scale)).await?);
        rows.push(hanging(scaled(BATCHES, scale)).await?);
        rows.push(backlog(scaled(BACKLOG_DELIVERIES, scale)).await?);
        rows.extend(endless(scaled(ENDLESS_DELIVERIES, scale)).await?);
        Ok(rows)
    })
}

/// Queued events to one receiver that keeps its connections, against a sender that has nothing but the bytes.
async fn fan_out(events: usize) -> anyhow::Result<Row> {
    let mut bench = Bench::start().await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        bench.clear().await?;
        bench.backlog("/ok", events).await?;
        let running = bench.serve()?;
        ours.push(rate(&bench.wait(events)?));
        drop(running);
        bench.receiver.clear();
        let running = bare::Sender::start(&bench.receiver.url("/bare"), events)?;
        bare.push(rate(&bench.wait(events)?));
        running.end()?;
        eprintln!(
            "  fan-out: ours {:.0}/s, bare {:.0}/s",
            ours[ours.len() - 1],
            bare[bare.len() - 1]
        );
    }
    bench.end().await?;
    Ok(Row {
        name: "fan-out",
        unit: "deliveries/s",
        ours,
        baseline_name: "bare sender with HMAC",
        baseline: bare,
        goal: Goal::Ratio(FAN_OUT_RATIO),
    })
}

fn rate(arrivals: &[Arrival]) -> f64 {
    let times = || arrivals.iter().map(|arrival| arrival.at);
    let time = match (times().min(), times().max()) {
        (Some(first), Some(last)) => last - first,
        _ => Duration::ZERO,
    };
    rate_per_s(arrivals.len(), time)
}

/// From the commit to the arrival, with nothing else to do.
async fn latency(events: usize) -> anyhow::Result<Vec<Row>> {
    let mut bench = Bench::start().await?;
    let endpoint = bench.queue.endpoint(&bench.receiver.url("/ok")).await?;
    let worker = bench.work();
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let times = one_by_one(&mut bench, &endpoint, events).await?;
        p50.push(in_ms(percentile(&times, 50)));
        p99.push(in_ms(percentile(&times, 99)));
    }
    worker.end().await?;
    bench.end().await?;
    Ok(vec![
        Row::at_most("event p50", "ms", p50, 4.0),
        Row::at_most("event p99", "ms", p99, 20.0),
    ])
}

/// How late the tries after the first one are; none may be early.
async fn lateness(deliveries: usize) -> anyhow::Result<Vec<Row>> {
    let mut bench = Bench::start().await?;
    let endpoint = bench.queue.endpoint(&bench.receiver.url("/fail")).await?;
    let worker = bench.work();
    bench.queue.add(&vec![endpoint; deliveries]).await?;
    bench.ctx.due.notify_one();
    let arrivals = bench.wait(deliveries * (RETRY_DELAYS.len() + 1))?;
    worker.end().await?;
    bench.end().await?;
    let mut tries: HashMap<&str, Vec<Instant>> = HashMap::new();
    for arrival in &arrivals {
        tries.entry(&arrival.delivery).or_default().push(arrival.at);
    }
    let (mut late, mut early) = (Vec::new(), 0);
    for times in tries.values() {
        for (pair, delay) in times.windows(2).zip(RETRY_DELAYS) {
            match (pair[1] - pair[0]).checked_sub(delay) {
                Some(time) => late.push(time),
                None => early += 1,
            }
        }
    }
    Ok(vec![
        Row::at_most("retry late p99", "ms", vec![in_ms(percentile(&late, 99))], 250.0),
        Row::at_most("retries early", "tries", vec![f64::from(early)], 0.0),
    ])
}

/// A steady stream to many endpoints, with and without one of them hanging: how long the others wait.
async fn hanging(batches: usize) -> anyhow::Result<Row> {
    let mut bench = Bench::start().await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        without.push(stream_p99(&mut bench, batches, "ok").await?);
        with.push(stream_p99(&mut bench, batches, "hang").await?);
    }
    bench.end().await?;
    Ok(Row {
        name: "one hangs, p99",
        unit: "ms",
        ours: with,
        baseline_name: "none hangs",
        baseline: without,
        goal: Goal::RatioAtMost(1.2),
    })
}

/// The 99th percentile of the wait of all endpoints but the first, in milliseconds.
async fn stream_p99(bench: &mut Bench, batches: usize, first: &str) -> anyhow::Result<f64> {
    bench.clear().await?;
    let mut endpoints = Vec::with_capacity(ENDPOINTS);
    for number in 0..ENDPOINTS {
        let manners = if number == 0 { first } else { "ok" };
        let url = bench
            .receiver
            .url(&format!("/{manners}/{number}/{}", bench.ctx.ids.ulid()));
        endpoints.push(bench.queue.endpoint(&url).await?);
    }
    bench.queue.analyze().await?;
    let worker = bench.work();
    let mut committed: HashMap<String, Instant> = HashMap::new();
    let mut expected = HashSet::new();
    for batch in 0..batches {
        let part = endpoints
            .iter()
            .skip(batch % 10)
            .step_by(10)
            .cloned()
            .collect::<Vec<_>>();
        let (deliveries, at) = bench.queue.add(&part).await?;
        bench.ctx.due.notify_one();
        for (delivery, endpoint) in deliveries.into_iter().zip(part) {
            if endpoint != endpoints[0] {
                expected.insert(delivery.clone());
            }
            committed.insert(delivery, at);
        }
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    let deadline = Instant::now() + ARRIVAL_TIMEOUT;
    let times = loop {
        let arrivals = bench.receiver.wait(0, Duration::ZERO)?;
        let mut times: HashMap<&str, Duration> = HashMap::new();
        for arrival in arrivals.iter().filter(|arrival| expected.contains(&arrival.delivery)) {
            let waited = arrival.at.saturating_duration_since(committed[&arrival.delivery]);
            times.entry(&arrival.delivery).or_insert(waited);
        }
        if times.len() == expected.len() {
            break times.into_values().collect::<Vec<_>>();
        }
        ensure!(
            Instant::now() < deadline,
            "{} of {} arrived",
            times.len(),
            expected.len()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    worker.end().await?;
    Ok(in_ms(percentile(&times, 99)))
}

/// From the start of the process to the arrival of the last waiting delivery.
async fn backlog(deliveries: usize) -> anyhow::Result<Row> {
    let mut bench = Bench::start().await?;
    let mut ours = Vec::new();
    for _ in 0..REPEATS {
        bench.clear().await?;
        bench.backlog("/ok", deliveries).await?;
        let started = Instant::now();
        let running = bench.serve()?;
        let arrivals = bench.wait(deliveries)?;
        let last = arrivals.iter().map(|arrival| arrival.at).max().unwrap_or(started);
        ours.push((last - started).as_secs_f64());
        drop(running);
    }
    bench.end().await?;
    Ok(Row::at_most("backlog drained", "s", ours, 5.0))
}

/// Receivers that answer without end: what they cost in memory, and how long a try lasts.
async fn endless(deliveries: usize) -> anyhow::Result<Vec<Row>> {
    let mut bench = Bench::start().await?;
    let running = bench.serve()?;
    let before = running.resident_bytes()?;
    for path in ["/huge", "/drip"] {
        bench.backlog(path, deliveries).await?;
    }
    let mut peak = before;
    let until = Instant::now() + WATCHED;
    while Instant::now() < until {
        peak = peak.max(running.resident_bytes()?);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let longest_s = bench.queue.longest_try_s().await?;
    let waiting = bench.queue.waiting().await?;
    drop(running);
    bench.end().await?;
    ensure!(
        longest_s > 1.0,
        "no try met an endless answer; {waiting} deliveries wait"
    );
    // Far below 2^52 bytes.
    let grown_mb = (peak - before) as f64 / 1e6;
    Ok(vec![
        Row::at_most("endless answers, memory", "MB", vec![grown_mb], 20.0),
        Row::at_most("endless answers, try", "s", vec![longest_s], 5.2),
    ])
}
