//! Records attempts: batching into transactions, and handling of failed writes.

use crate::{
    ctx::Ctx,
    domain::{ids::EndpointId, webhook::FinishedAttempt},
    flows::{FlowError, webhooks::deliver},
};
use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};
use tokio::task::{JoinError, JoinSet};

/// Pause after the database did not respond.
pub(super) const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Maximum number of attempts recorded in one batch.
const RECORD_BATCH: usize = 256;

/// Maximum time that a finished attempt waits for attempts in flight, so that they share its batch.
const RECORD_PAUSE: Duration = Duration::from_millis(20);

/// Number of recorded attempts after which the queue table is vacuumed. Up to this number, a claim skips the dead rows
/// in about a millisecond.
const TIDY_AFTER: usize = 20_000;

/// Finished attempts that are not yet recorded. They are recorded in consecutive batches while others are sent. A batch
/// has a fixed cost for the database, so a batch that is not full waits a moment for attempts in flight.
///
/// After two consecutive failures, attempts are written separately for each endpoint until the batch is complete, so
/// that a failing write for one endpoint does not delay others.
///
/// A separate task writes each batch: a suspended future here could hold the single writer of SQLite while the loop
/// waits for another write.
#[derive(Default)]
pub(super) struct Records {
    made: Vec<FinishedAttempt>,
    /// Time of the first attempt.
    since: Option<Instant>,
    /// The batch being written; it returns the attempts that were not written.
    pub(super) writing: JoinSet<Vec<FinishedAttempt>>,
    /// Number of consecutive batches with failed writes.
    failures: u32,
    /// Number of attempts in batches started since the last vacuum.
    untidy: usize,
    tidying: JoinSet<()>,
}

impl Records {
    /// Adds finished attempts.
    pub(super) fn add(&mut self, made: Vec<FinishedAttempt>) {
        self.made.extend(made);
        self.since = self.since.or_else(|| (!self.made.is_empty()).then(Instant::now));
    }

    /// Whether attempts are waiting.
    pub(super) fn is_gathering(&self) -> bool {
        self.writing.is_empty() && !self.made.is_empty()
    }

    /// How long the finished attempts may still wait.
    pub(super) fn pause(&self) -> Duration {
        let waited = self.since.map_or(RECORD_PAUSE, |since| since.elapsed());
        RECORD_PAUSE.saturating_sub(waited)
    }

    /// Starts a batch, unless one is being written, or attempts in flight are worth waiting for.
    pub(super) fn start(&mut self, ctx: &Ctx, are_last: bool) {
        let is_due = are_last || self.made.len() >= RECORD_BATCH || self.pause().is_zero();
        if !self.is_gathering() || !is_due {
            return;
        }
        let batch: Vec<FinishedAttempt> = self.made.drain(..self.made.len().min(RECORD_BATCH)).collect();
        self.since = (!self.made.is_empty()).then(Instant::now);
        self.untidy += batch.len();
        while self.tidying.try_join_next().is_some() {}
        if self.untidy >= TIDY_AFTER && self.tidying.is_empty() {
            self.untidy = 0;
            self.tidying.spawn(tidy(ctx.clone()));
        }
        let parts = match self.failures {
            0 | 1 => vec![batch],
            _ => by_endpoint(batch),
        };
        self.writing.spawn(write(ctx.clone(), parts));
    }

    /// Puts unwritten attempts back in the queue, after the attempts that finished meanwhile.
    pub(super) fn take(&mut self, written: Result<Vec<FinishedAttempt>, JoinError>) {
        let left = unrecorded(written);
        self.failures = if left.is_empty() {
            0
        } else {
            self.failures.saturating_add(1)
        };
        self.add(left);
    }

    /// Writes all remaining attempts, each batch once: a stop does not wait for an unavailable database.
    pub(super) async fn finish(&mut self, ctx: &Ctx) {
        loop {
            self.start(ctx, true);
            match self.writing.join_next().await {
                None => return,
                Some(written) => drop(unrecorded(written)),
            }
        }
    }
}

/// Attempts grouped by endpoint, in order of first occurrence.
fn by_endpoint(batch: Vec<FinishedAttempt>) -> Vec<Vec<FinishedAttempt>> {
    let mut places: HashMap<EndpointId, usize> = HashMap::new();
    let mut parts: Vec<Vec<FinishedAttempt>> = Vec::new();
    for tried in batch {
        let next = places.len();
        let place = *places.entry(tried.delivery.endpoint.clone()).or_insert(next);
        match parts.get_mut(place) {
            Some(part) => part.push(tried),
            None => parts.push(vec![tried]),
        }
    }
    parts
}

/// Writes parts of a batch, each in its own transaction. A part that the database rejected is written again, separately
/// for each endpoint. After two consecutive parts that failed because the database was unavailable, the remaining parts
/// are not tried. Returns all unwritten attempts; those that were not tried come first.
async fn write(ctx: Ctx, parts: Vec<Vec<FinishedAttempt>>) -> Vec<FinishedAttempt> {
    let (mut left, mut failures) = (Vec::new(), 0);
    let mut parts = VecDeque::from(parts);
    while let Some(part) = parts.pop_front() {
        let Err(error) = deliver::record(&ctx, &part).await else {
            failures = 0;
            continue;
        };
        // The receivers may already have the events: an attempt that is not recorded before its lease ends is sent
        // again, with the same id.
        tracing::warn!(%error, count = part.len(), "delivery attempts could not be recorded");
        if !matches!(error, FlowError::Unavailable(_)) {
            let pieces = by_endpoint(part);
            if pieces.len() > 1 {
                parts.extend(pieces);
            }
            continue;
        }
        left.extend(part);
        failures += 1;
        if failures == 2 {
            break;
        }
    }
    let mut unwritten: Vec<FinishedAttempt> = parts.into_iter().flatten().collect();
    unwritten.extend(left);
    if !unwritten.is_empty() {
        tokio::time::sleep(FAILURE_PAUSE).await;
    }
    unwritten
}

async fn tidy(ctx: Ctx) {
    if let Err(error) = deliver::tidy(&ctx).await {
        tracing::debug!(%error, "the delivery queue could not be vacuumed; the autovacuum of the server will do it");
    }
}

/// Attempts to record again.
fn unrecorded(written: Result<Vec<FinishedAttempt>, JoinError>) -> Vec<FinishedAttempt> {
    written.unwrap_or_else(|error| {
        tracing::error!(%error, "a batch of delivery attempts was not recorded");
        Vec::new()
    })
}
