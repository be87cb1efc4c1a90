//! Measures how long an event of one tenant waits while another tenant has a long backlog. The receiver of the backlog
//! responds in one case, and hangs in the other.

use prs::{domain::ids::PlatformId, flows};

use super::bench::{Bench, one_by_one};
use super::queue::Queue;
use super::receiver::Receiver;
use crate::report::{REPEATS, Row, in_ms, percentile, scaled};

/// Number of waiting deliveries of the other tenant.
const BACKLOG: usize = 100_000;

/// Measures both cases.
pub(super) async fn measure(events: usize, scale: f64) -> anyhow::Result<Vec<Row>> {
    let backlog = scaled(BACKLOG, scale);
    let (taken50, taken99) = beside("/ok", events, backlog).await?;
    let (hanging50, hanging99) = beside("/hang", events, backlog).await?;
    Ok(vec![
        Row::at_most("with a backlog, p50", "ms", taken50, 4.0),
        Row::at_most("with a backlog, p99", "ms", taken99, 20.0),
        Row::at_most("with a stuck backlog, p50", "ms", hanging50, 4.0),
        Row::at_most("with a stuck backlog, p99", "ms", hanging99, 20.0),
    ])
}

/// Returns the 50th and the 99th percentile of the waiting times in each run, in milliseconds. The receiver of the
/// backlog behaves as `path` says.
async fn beside(path: &str, events: usize, backlog: usize) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let mut bench = Bench::start_durable().await?;
    let other: PlatformId = flows::platforms::create::run(&bench.ctx, "Other").await?;
    let mut queue = Queue::open(&bench.database.url, bench.ctx.clone(), other).await?;
    let receiver = Receiver::start()?;
    let endpoint = bench.queue.endpoint(&bench.receiver.url("/ok")).await?;
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        // A platform cannot register a URL twice.
        let other_path = format!("{path}/{}", bench.ctx.ids.ulid());
        let waiting = queue.endpoint(&receiver.url(&other_path)).await?;
        queue.add(&vec![waiting; backlog]).await?;
        queue.analyze().await?;
        let worker = bench.work();
        let times = one_by_one(&mut bench, &endpoint, events).await?;
        let left = bench.queue.waiting().await?;
        worker.end().await?;
        eprintln!("  with a backlog ({path}): {left} of {backlog} still wait at the end");
        p50.push(in_ms(percentile(&times, 50)));
        p99.push(in_ms(percentile(&times, 99)));
        // The remaining deliveries of a run are deleted, so that they do not wait in the next run.
        bench.queue.clear().await?;
        bench.queue.switch_on(&endpoint).await?;
    }
    bench.end().await?;
    Ok((p50, p99))
}
