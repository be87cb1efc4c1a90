//! Recording tries: which of them go into one transaction, and what becomes of those that cannot be written.

use crate::{
    ctx::Ctx,
    domain::{ids::EndpointId, webhook::Tried},
    flows::{FlowError, webhooks::deliver},
};
use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};
use tokio::task::{JoinError, JoinSet};

/// Pause after the database did not answer.
pub(super) const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Tries that are recorded together at most.
const RECORD_BATCH: usize = 256;

/// Longest wait of a try for others that are recorded with it, while others are being made.
const RECORD_PAUSE: Duration = Duration::from_millis(20);

/// Recorded tries after which the queue is tidied: a claim of a full batch walks past this many in about a millisecond.
const TIDY_AFTER: usize = 20_000;

/// Tries that are made and not yet recorded. They are recorded in one batch after the other, while others are sent. A
/// batch costs the database about as much as its tries do, so one that is not full waits a moment for those in flight.
///
/// After two failures in a row, those of each endpoint are written apart, until all of a batch are: what cannot be
/// written of one endpoint keeps nobody else waiting.
///
/// A batch is written by a task of its own: a future that waits here would keep the one writer of SQLite from whoever
/// the loop waits for.
#[derive(Default)]
pub(super) struct Records {
    made: Vec<Tried>,
    /// When the first of them was made.
    since: Option<Instant>,
    /// The batch that is being written; it returns the tries that were not written.
    pub(super) writing: JoinSet<Vec<Tried>>,
    /// Batches in a row of which something was not written.
    failures: u32,
    /// Tries of batches that were begun since the queue was tidied.
    untidy: usize,
    tidying: JoinSet<()>,
}

impl Records {
    /// Takes tries in that were made.
    pub(super) fn add(&mut self, made: Vec<Tried>) {
        self.made.extend(made);
        self.since = self.since.or_else(|| (!self.made.is_empty()).then(Instant::now));
    }

    /// Whether tries wait for others.
    pub(super) fn is_gathering(&self) -> bool {
        self.writing.is_empty() && !self.made.is_empty()
    }

    /// How long they may go on waiting.
    pub(super) fn pause(&self) -> Duration {
        let waited = self.since.map_or(RECORD_PAUSE, |since| since.elapsed());
        RECORD_PAUSE.saturating_sub(waited)
    }

    /// Begins a batch, unless one is being written, or others that are in flight are worth waiting for.
    pub(super) fn start(&mut self, ctx: &Ctx, are_last: bool) {
        let is_due = are_last || self.made.len() >= RECORD_BATCH || self.pause().is_zero();
        if !self.is_gathering() || !is_due {
            return;
        }
        let batch: Vec<Tried> = self.made.drain(..self.made.len().min(RECORD_BATCH)).collect();
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

    /// Takes back what was not written, behind what was made meanwhile.
    pub(super) fn take(&mut self, written: Result<Vec<Tried>, JoinError>) {
        let left = unrecorded(written);
        self.failures = match left.is_empty() {
            true => 0,
            false => self.failures.saturating_add(1),
        };
        self.add(left);
    }

    /// Writes all that is left, each batch once: a stop does not wait for a database that is away.
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

/// The tries of each endpoint apart, in the order in which endpoints come first.
fn by_endpoint(batch: Vec<Tried>) -> Vec<Vec<Tried>> {
    let mut places: HashMap<EndpointId, usize> = HashMap::new();
    let mut parts: Vec<Vec<Tried>> = Vec::new();
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

/// Writes parts of a batch, each in a transaction of its own; returns what was not written because the database was
/// away. When two parts in a row were not, the rest waits for the next time, before them. A part that is refused is
/// written once more, each endpoint apart.
async fn write(ctx: Ctx, parts: Vec<Vec<Tried>>) -> Vec<Tried> {
    let (mut left, mut failures) = (Vec::new(), 0);
    let mut parts = VecDeque::from(parts);
    while let Some(part) = parts.pop_front() {
        let Err(error) = deliver::record(&ctx, &part).await else {
            failures = 0;
            continue;
        };
        // The receivers may have the events already: what is not recorded before its lease ends is sent again, under
        // the same identity.
        tracing::warn!(%error, count = part.len(), "tries could not be recorded");
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
    let mut unwritten: Vec<Tried> = parts.into_iter().flatten().collect();
    unwritten.extend(left);
    if !unwritten.is_empty() {
        tokio::time::sleep(FAILURE_PAUSE).await;
    }
    unwritten
}

async fn tidy(ctx: Ctx) {
    if let Err(error) = deliver::tidy(&ctx).await {
        tracing::debug!(%error, "the queue was not tidied; the server does it by itself");
    }
}

/// What is to be recorded again.
fn unrecorded(written: Result<Vec<Tried>, JoinError>) -> Vec<Tried> {
    written.unwrap_or_else(|error| {
        tracing::error!(%error, "a batch of tries was not recorded");
        Vec::new()
    })
}
