//! Sends due deliveries: claims batches, sends many at a time but few to each endpoint, records in batches.

use crate::{
    ctx::Ctx,
    domain::{ids::EndpointId, webhook::ClaimedDelivery},
    flows::webhooks::deliver::{self, Tried},
};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// Longest sleep when nothing seems due; another instance may have queued something.
const IDLE_PAUSE: Duration = Duration::from_millis(250);

/// Pause after the database did not answer.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Tries that are recorded together at most.
const RECORD_BATCH: usize = 256;

/// Sizes of the worker.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Deliveries in flight.
    pub concurrency: usize,
    /// Deliveries in flight to one endpoint.
    pub concurrency_per_endpoint: usize,
}

/// Claimed deliveries that wait for their turn, and what is in flight to each endpoint.
#[derive(Default)]
struct Turns {
    waiting: VecDeque<ClaimedDelivery>,
    in_flight: HashMap<EndpointId, usize>,
}

impl Turns {
    /// The next delivery whose endpoint has room; those of a full endpoint keep their place.
    fn next(&mut self, per_endpoint: usize) -> Option<ClaimedDelivery> {
        let position = self
            .waiting
            .iter()
            .position(|delivery| self.in_flight.get(&delivery.endpoint).copied().unwrap_or(0) < per_endpoint)?;
        let delivery = self.waiting.remove(position)?;
        *self.in_flight.entry(delivery.endpoint.clone()).or_default() += 1;
        Some(delivery)
    }

    fn done(&mut self, endpoint: &EndpointId) {
        if let Some(count) = self.in_flight.get_mut(endpoint) {
            *count -= 1;
            if *count == 0 {
                self.in_flight.remove(endpoint);
            }
        }
    }
}

/// Runs until `stop`, then finishes what is in flight and hands back what was only claimed.
pub async fn run(ctx: Ctx, options: Options, stop: CancellationToken) {
    let mut sending: JoinSet<Tried> = JoinSet::new();
    let mut turns = Turns::default();
    // Whether more may be due than was claimed; when not, the pause tells when to look again.
    let mut is_hungry = true;
    let mut pause = IDLE_PAUSE;
    while !stop.is_cancelled() {
        let room = options.concurrency.saturating_sub(sending.len() + turns.waiting.len());
        // Small claims cost as much as large ones, so a busy worker waits for a quarter of its room.
        if is_hungry && room > 0 && room >= options.concurrency / 4 {
            (is_hungry, pause) = claim(&ctx, room, &mut turns).await;
        }
        while let Some(delivery) = turns.next(options.concurrency_per_endpoint) {
            let ctx = ctx.clone();
            sending.spawn(async move { deliver::send(&ctx, delivery).await });
        }
        tokio::select! {
            () = ctx.due.notified() => is_hungry = true,
            () = tokio::time::sleep(pause) => is_hungry = true,
            Some(finished) = sending.join_next() => record(&ctx, &mut sending, &mut turns, finished).await,
            () = stop.cancelled() => {}
        }
    }
    while let Some(finished) = sending.join_next().await {
        record(&ctx, &mut sending, &mut turns, finished).await;
    }
    let held: HashSet<String> = turns.waiting.into_iter().map(|delivery| delivery.lease_token).collect();
    for token in held {
        if let Err(error) = deliver::release(&ctx, &token).await {
            tracing::warn!(%error, "claimed deliveries could not be handed back; their lease ends by itself");
        }
    }
}

/// Claims a batch; tells whether more may be due, and how long to wait when not.
async fn claim(ctx: &Ctx, room: usize, turns: &mut Turns) -> (bool, Duration) {
    let token = ctx.ids.ulid();
    match deliver::claim(ctx, &token, u64::try_from(room).unwrap_or(1)).await {
        Ok(batch) if batch.len() == room => {
            turns.waiting.extend(batch);
            (true, IDLE_PAUSE)
        }
        Ok(batch) => {
            turns.waiting.extend(batch);
            (false, until_due(ctx).await)
        }
        Err(error) => {
            tracing::warn!(%error, "due deliveries could not be claimed");
            (false, FAILURE_PAUSE)
        }
    }
}

/// Time until the next delivery is due, at most the idle pause.
async fn until_due(ctx: &Ctx) -> Duration {
    match deliver::next_due(ctx).await {
        Ok(Some(due)) => (due - ctx.clock.now())
            .to_std()
            .unwrap_or(Duration::ZERO)
            .clamp(Duration::from_millis(1), IDLE_PAUSE),
        Ok(None) => IDLE_PAUSE,
        Err(_) => FAILURE_PAUSE,
    }
}

/// Records the finished try and every other one that has finished meanwhile.
async fn record(ctx: &Ctx, sending: &mut JoinSet<Tried>, turns: &mut Turns, first: Result<Tried, JoinError>) {
    let mut batch: Vec<Tried> = Vec::new();
    let mut next = Some(first);
    while let Some(finished) = next {
        match finished {
            Ok(tried) => {
                turns.done(&tried.delivery.endpoint);
                batch.push(tried);
            }
            Err(error) => tracing::error!(%error, "a delivery task ended without a result; its lease ends by itself"),
        }
        next = if batch.len() < RECORD_BATCH {
            sending.try_join_next()
        } else {
            None
        };
    }
    if let Err(error) = deliver::record(ctx, &batch).await {
        // The receivers may have the events already; after the lease they are sent again with the same identity.
        tracing::warn!(%error, count = batch.len(), "tries could not be recorded");
    }
}
