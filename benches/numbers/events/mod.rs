//! Measures the delivery of events on PostgreSQL: rate, latency, punctuality, fairness, recovery, and the cost of bad
//! receivers.

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

/// Number of events in one run of the throughput benchmark.
const FAN_OUT_EVENTS: usize = 20_000;

/// Goal for the service's rate, as a fraction of the bare sender's rate.
const FAN_OUT_RATIO: f64 = 0.7;

/// Number of events in one latency run, which are published one after another.
const LATENCY_EVENTS: usize = 300;

/// Number of deliveries whose receiver refuses every attempt.
const REFUSED_DELIVERIES: usize = 100;

/// Pauses between the attempts of a delivery.
const RETRY_DELAYS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(15)];

/// Number of endpoints; one of them may hang.
const ENDPOINTS: usize = 100;

/// Number of batches in the run with a hanging endpoint. Each batch has one event for a tenth of the endpoints.
const BATCHES: usize = 1_000;

/// Pause between two batches.
const BATCH_PAUSE: Duration = Duration::from_millis(10);

/// Number of deliveries that are already pending when the service starts.
const BACKLOG_DELIVERIES: usize = 10_000;

/// Number of deliveries to each receiver with an endless response.
const ENDLESS_DELIVERIES: usize = 32;

/// How long the memory of the service is watched during endless responses.
const WATCHED: Duration = Duration::from_secs(12);

/// Runs all delivery benchmarks.
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

/// Measures how fast queued events are sent to one receiver with keep-alive, compared with a sender that only sends the
/// bytes.
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

/// Measures the time from the commit of an event to its arrival, with an otherwise idle worker.
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

/// Measures how much later than planned each retry arrives, and counts the retries that arrive too early; this count
/// must be zero.
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
        Row::at_most("retries early", "attempts", vec![f64::from(early)], 0.0),
    ])
}

/// Measures how long the deliveries to many endpoints wait, with and without one endpoint that hangs.
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

/// The 99th percentile of the time that deliveries wait, in milliseconds. Deliveries to the first endpoint, whose
/// receiver behaves as `first` says, are not counted.
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

/// Measures the time from the start of the process to the arrival of the last waiting delivery.
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

/// Measures what receivers with an endless response cost: memory of the service, and the duration of an attempt.
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
        "no attempt got an endless response; {waiting} deliveries wait"
    );
    // The number of bytes is far below 2^52, so its conversion to a float is exact.
    let grown_mb = (peak - before) as f64 / 1e6;
    Ok(vec![
        Row::at_most("endless responses, memory", "MB", vec![grown_mb], 20.0),
        Row::at_most("endless responses, attempt", "s", vec![longest_s], 5.2),
    ])
}
