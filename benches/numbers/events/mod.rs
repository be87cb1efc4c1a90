//! Delivery of events on PostgreSQL: rate, latency, punctuality, fairness, recovery, and what bad receivers cost.

mod backlogs;
mod bare;
mod peers;
mod queue;
mod receiver;
mod recorded;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::ensure;
use prs::{
    boot,
    ctx::Ctx,
    domain::ids::PlatformId,
    flows,
    settings::Settings,
    worker::deliver_webhooks::{self, Options},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use bare::send as send_bare;

use crate::database::BenchDatabase;
use crate::report::{Goal, Row, in_ms, percentile, rate_per_s};
use crate::service::{self, Running};
use crate::{REPEATS, scaled};
use queue::Queue;
use receiver::{Arrival, Receiver};

/// Events of one run of the fan-out.
const FAN_OUT_EVENTS: usize = 20_000;

/// Share of the bare sender's rate that we want to reach.
const FAN_OUT_RATIO: f64 = 0.7;

/// Events of one run of the latency, one after the other.
const LATENCY_EVENTS: usize = 300;

/// Pause between two of them, so that the worker is idle when the next one comes.
const LATENCY_PAUSE: Duration = Duration::from_millis(10);

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

/// What has not arrived by then never will.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(120);

/// A service of our own: a tenant in a database that is empty otherwise, and somebody who receives.
struct Bench {
    database: BenchDatabase,
    settings: Settings,
    ctx: Ctx,
    queue: Queue,
    receiver: Receiver,
    folder: tempfile::TempDir,
}

impl Bench {
    async fn start() -> anyhow::Result<Self> {
        Self::start_on(BenchDatabase::create().await?).await
    }

    /// The same on a database that waits for the disk.
    async fn start_durable() -> anyhow::Result<Self> {
        Self::start_on(BenchDatabase::create_durable().await?).await
    }

    async fn start_on(database: BenchDatabase) -> anyhow::Result<Self> {
        let settings = service::settings(database.url.clone())?;
        let ctx = boot::context(&settings, boot::open_database(&settings).await?)?;
        let platform: PlatformId = flows::platforms::create::run(&ctx, "Bench").await?;
        let queue = Queue::open(&database.url, ctx.clone(), platform).await?;
        Ok(Self {
            database,
            settings,
            ctx,
            queue,
            receiver: Receiver::start()?,
            folder: tempfile::tempdir()?,
        })
    }

    /// Queues events for one endpoint; answers when all are committed.
    async fn backlog(&mut self, path: &str, count: usize) -> anyhow::Result<()> {
        // A platform registers no URL twice.
        let path = format!("{path}/{}", self.ctx.ids.ulid());
        let endpoint = self.queue.endpoint(&self.receiver.url(&path)).await?;
        self.queue.add(&vec![endpoint; count]).await?;
        self.queue.analyze().await
    }

    /// The release service as a process of its own.
    fn serve(&self) -> anyhow::Result<Running> {
        Running::serve(&self.settings, "worker", self.folder.path())
    }

    /// A worker within this process, which can be told of a commit at once, as it is within the service.
    fn work(&self) -> Working {
        let stop = CancellationToken::new();
        let sizes = Options {
            concurrency: self.settings.webhooks.concurrency,
            concurrency_per_endpoint: self.settings.webhooks.concurrency_per_endpoint,
        };
        let task = tokio::spawn(deliver_webhooks::run(self.ctx.clone(), sizes, stop.clone()));
        Working { stop, task }
    }

    /// Waits on a thread that may block.
    fn wait(&self, count: usize) -> anyhow::Result<Vec<Arrival>> {
        tokio::task::block_in_place(|| self.receiver.wait(count, ARRIVAL_TIMEOUT))
    }

    async fn clear(&mut self) -> anyhow::Result<()> {
        self.queue.clear().await?;
        self.receiver.clear();
        Ok(())
    }

    async fn end(self) -> anyhow::Result<()> {
        self.ctx.db.close().await?;
        self.database.remove().await
    }
}

struct Working {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Working {
    async fn end(self) -> anyhow::Result<()> {
        self.stop.cancel();
        Ok(self.task.await?)
    }
}

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
        at_most("event p50", "ms", p50, 4.0),
        at_most("event p99", "ms", p99, 20.0),
    ])
}

/// The times from commit to arrival of events that are told one after the other.
async fn one_by_one(bench: &mut Bench, endpoint: &String, events: usize) -> anyhow::Result<Vec<Duration>> {
    bench.receiver.clear();
    let mut times = Vec::with_capacity(events);
    for number in 1..=events {
        let (_, committed) = bench.queue.add(std::slice::from_ref(endpoint)).await?;
        bench.ctx.due.notify_one();
        let arrivals = bench.wait(number)?;
        times.extend(arrivals.last().map(|last| last.at.saturating_duration_since(committed)));
        tokio::time::sleep(LATENCY_PAUSE).await;
    }
    Ok(times)
}

fn at_most(name: &'static str, unit: &'static str, ours: Vec<f64>, most: f64) -> Row {
    Row {
        name,
        unit,
        ours,
        baseline_name: "",
        baseline: Vec::new(),
        goal: Goal::AtMost(most),
    }
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
        at_most("retry late p99", "ms", vec![in_ms(percentile(&late, 99))], 250.0),
        at_most("retries early", "tries", vec![f64::from(early)], 0.0),
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
    Ok(at_most("backlog drained", "s", ours, 5.0))
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
        at_most("endless answers, memory", "MB", vec![grown_mb], 20.0),
        at_most("endless answers, try", "s", vec![longest_s], 5.2),
    ])
}
