//! The stage of the delivery benchmarks: a service with one tenant, and a receiver.

use std::time::Duration;

use prs::{
    boot,
    ctx::Ctx,
    domain::ids::PlatformId,
    flows,
    settings::Settings,
    worker::deliver_webhooks::{self, DeliveryOptions},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::queue::Queue;
use super::receiver::{Arrival, Receiver};
use crate::database::BenchDatabase;
use crate::service::{self, Running};

/// Time limit for an arrival.
pub(super) const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(120);

/// Pause between two events of a latency run, so that the worker is idle when the next one arrives.
const LATENCY_PAUSE: Duration = Duration::from_millis(10);

/// A separate service with one tenant in an otherwise empty database, and a receiver.
pub(super) struct Bench {
    pub(super) database: BenchDatabase,
    pub(super) settings: Settings,
    pub(super) ctx: Ctx,
    pub(super) queue: Queue,
    pub(super) receiver: Receiver,
    pub(super) folder: tempfile::TempDir,
}

impl Bench {
    pub(super) async fn start() -> anyhow::Result<Self> {
        Self::start_on(BenchDatabase::create().await?).await
    }

    /// Like [`Self::start`], on a durable database.
    pub(super) async fn start_durable() -> anyhow::Result<Self> {
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

    /// Queues events for one endpoint; returns when all events are committed.
    pub(super) async fn backlog(&mut self, path: &str, count: usize) -> anyhow::Result<()> {
        // A platform cannot register a URL twice.
        let path = format!("{path}/{}", self.ctx.ids.ulid());
        let endpoint = self.queue.endpoint(&self.receiver.url(&path)).await?;
        self.queue.add(&vec![endpoint; count]).await?;
        self.queue.analyze().await
    }

    /// The release service as a separate process.
    pub(super) fn serve(&self) -> anyhow::Result<Running> {
        Running::serve(&self.settings, "worker", self.folder.path())
    }

    /// Starts a worker within this process. Like a worker of the service, it can be notified of a commit at once.
    pub(super) fn work(&self) -> Working {
        let stop = CancellationToken::new();
        let sizes = DeliveryOptions {
            concurrency: self.settings.webhooks.concurrency,
            concurrency_per_endpoint: self.settings.webhooks.concurrency_per_endpoint,
        };
        let task = tokio::spawn(deliver_webhooks::run(self.ctx.clone(), sizes, stop.clone()));
        Working { stop, task }
    }

    /// Waits for this number of webhooks, on a thread that may block.
    pub(super) fn wait(&self, count: usize) -> anyhow::Result<Vec<Arrival>> {
        tokio::task::block_in_place(|| self.receiver.wait(count, ARRIVAL_TIMEOUT))
    }

    pub(super) async fn clear(&mut self) -> anyhow::Result<()> {
        self.queue.clear().await?;
        self.receiver.clear();
        Ok(())
    }

    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.ctx.db.close().await?;
        self.database.remove().await
    }
}

pub(super) struct Working {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Working {
    pub(super) async fn end(self) -> anyhow::Result<()> {
        self.stop.cancel();
        Ok(self.task.await?)
    }
}

/// The times from commit to arrival of events that are published one after another.
pub(super) async fn one_by_one(bench: &mut Bench, endpoint: &String, events: usize) -> anyhow::Result<Vec<Duration>> {
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
