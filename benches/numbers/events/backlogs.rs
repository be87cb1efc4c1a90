//! How long an event of one tenant waits while another tenant has a long backlog, whose receiver takes it or does not.

use prs::{domain::ids::PlatformId, flows};

use super::bench::{Bench, one_by_one};
use super::queue::Queue;
use super::receiver::Receiver;
use crate::report::{REPEATS, Row, in_ms, percentile, scaled};

/// Deliveries of the other tenant that wait.
const BACKLOG: usize = 100_000;

/// Measures both.
pub(super) async fn measure(events: usize, scale: f64) -> anyhow::Result<Vec<Row>> {
    let backlog = scaled(BACKLOG, scale);
    let (taken50, taken99) = beside("/ok", events, backlog).await?;
    let (hanging50, hanging99) = beside("/hang", events, backlog).await?;
    Ok(vec![
        Row::at_most("beside a backlog, p50", "ms", taken50, 4.0),
        Row::at_most("beside a backlog, p99", "ms", taken99, 20.0),
        Row::at_most("beside a stuck backlog, p50", "ms", hanging50, 4.0),
        Row::at_most("beside a stuck backlog, p99", "ms", hanging99, 20.0),
    ])
}

/// Percentiles 50 and 99 of each run, in milliseconds.
async fn beside(path: &str, events: usize, backlog: usize) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let mut bench = Bench::start_durable().await?;
    let other: PlatformId = flows::platforms::create::run(&bench.ctx, "Other").await?;
    let mut queue = Queue::open(&bench.database.url, bench.ctx.clone(), other).await?;
    let receiver = Receiver::start()?;
    let endpoint = bench.queue.endpoint(&bench.receiver.url("/ok")).await?;
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        // A platform registers no URL twice.
        let other_path = format!("{path}/{}", bench.ctx.ids.ulid());
        let waiting = queue.endpoint(&receiver.url(&other_path)).await?;
        queue.add(&vec![waiting; backlog]).await?;
        queue.analyze().await?;
        let worker = bench.work();
        let times = one_by_one(&mut bench, &endpoint, events).await?;
        let left = bench.queue.waiting().await?;
        worker.end().await?;
        eprintln!("  beside a backlog ({path}): {left} of {backlog} still wait at the end");
        p50.push(in_ms(percentile(&times, 50)));
        p99.push(in_ms(percentile(&times, 99)));
        // What is left of one run does not wait in the next one.
        bench.queue.clear().await?;
        bench.queue.switch_on(&endpoint).await?;
    }
    bench.end().await?;
    Ok((p50, p99))
}
