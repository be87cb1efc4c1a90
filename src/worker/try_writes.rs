//! Tests whether the database accepts writes, so that readiness probes need no write of their own.

use crate::ctx::Ctx;
use chrono::{DateTime, Utc};
use std::{
    fmt::Display,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Interval between two test writes.
const TRIED_EVERY: Duration = Duration::from_secs(2);

/// Minimum pause between two test writes when consecutive test writes time out.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// How long PostgreSQL may take for a test write before other writes are rejected immediately.
const HANGS_AFTER: Duration = Duration::from_millis(1_500);

/// How much longer a test write is awaited after [`HANGS_AFTER`]. Then the service gives it up, and the next test write
/// uses a new connection, because the old connection may never respond.
const WAITED_MAX: Duration = Duration::from_secs(2);

/// How long test writes may fail, other than by a rejection, before the database counts as unavailable. A test write
/// that only waits behind a long write is not an outage.
const MISSING_MAX: Duration = Duration::from_secs(10);

/// State of database writes. Before the first test write they count as accepted.
#[derive(Clone, Default)]
pub struct WriteHealth(Arc<Mutex<WriteAttempts>>);

#[derive(Default)]
struct WriteAttempts {
    last_ok: Option<DateTime<Utc>>,
    /// Time of the last successful test write, or of the start, on the monotonic clock.
    counted_from: Option<Duration>,
    is_refused: bool,
    /// Whether the failure has been logged.
    is_missing_told: bool,
}

impl WriteHealth {
    /// Whether the database accepts writes, as far as known at `steady`.
    pub fn are_taken(&self, steady: Duration) -> bool {
        let tries = self.tries();
        let is_missing = tries
            .counted_from
            .is_some_and(|from| steady.saturating_sub(from) > MISSING_MAX);
        !tries.is_refused && !is_missing
    }

    /// Time of the last successful test write.
    pub fn last_ok(&self) -> Option<DateTime<Utc>> {
        self.tries().last_ok
    }

    /// Records whether a test write was accepted. Records nothing if it failed for another reason. Returns whether to
    /// log the result.
    fn note(&self, is_taken: Option<bool>, ctx: &Ctx) -> bool {
        let steady = ctx.clock.steady();
        let mut tries = self.tries();
        let was_refused = tries.is_refused;
        tries.counted_from.get_or_insert(steady);
        match is_taken {
            Some(true) => {
                *tries = WriteAttempts {
                    last_ok: Some(ctx.clock.now()),
                    counted_from: Some(steady),
                    ..WriteAttempts::default()
                }
            }
            Some(false) => tries.is_refused = true,
            None => {}
        }
        tries.is_refused != was_refused
    }

    /// Whether to log now that test writes have failed for too long. True only once until a test write succeeds.
    fn begins_to_be_missing(&self, steady: Duration) -> bool {
        let are_taken = self.are_taken(steady);
        let mut tries = self.tries();
        !are_taken && !tries.is_refused && !std::mem::replace(&mut tries.is_missing_told, true)
    }

    fn tries(&self) -> MutexGuard<'_, WriteAttempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs one test write.
pub async fn once(ctx: &Ctx, writes: &WriteHealth) {
    let mut outcome = match ctx.db.try_write().await {
        Ok(tried) => pin!(tried),
        Err(error) => return note(ctx, writes, Err(error)),
    };
    let outcome = match tokio::time::timeout(HANGS_AFTER, &mut outcome).await {
        Ok(outcome) => outcome,
        Err(_) => {
            note_hanging(ctx, writes);
            match tokio::time::timeout(WAITED_MAX, outcome).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    ctx.db.replace_connections();
                    if let Err(error) = ctx.db.end_old_tries().await {
                        tracing::debug!(%error, "old test writes to the database could not be cancelled");
                    }
                    return;
                }
            }
        }
    };
    note(ctx, writes, outcome);
}

/// With PostgreSQL, rejects other writes while a test write hangs. With SQLite nothing changes: a test write may only
/// be waiting for another write, and readers do not wait for writers.
fn note_hanging(ctx: &Ctx, writes: &WriteHealth) {
    if ctx.db.is_postgres() {
        ctx.db.refuse_writes(true);
        if writes.note(Some(false), ctx) {
            tracing::error!("the database does not complete a commit; check its standbys, its disk and the network");
        }
    }
}

fn note(ctx: &Ctx, writes: &WriteHealth, outcome: Result<bool, impl Display>) {
    if outcome.is_ok() {
        ctx.db.refuse_writes(false);
    }
    let is_news = writes.note(outcome.as_ref().ok().copied(), ctx);
    match outcome {
        Ok(true) if is_news => tracing::info!("the database accepts writes again"),
        Ok(false) if is_news => {
            tracing::error!("the database is read-only; check the server that database.url points to")
        }
        Ok(_) => {}
        Err(error) if writes.begins_to_be_missing(ctx.clock.steady()) => {
            tracing::error!(%error, "test writes to the database fail; this process reports that it is not ready");
        }
        Err(error) => tracing::debug!(%error, "a test write failed"),
    }
    if let Some(last_ok) = writes.last_ok() {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a gauge is an f64, which is exact for whole numbers below 2^52; Unix times in seconds are smaller"
        )]
        metrics::gauge!("prs_database_last_write_timestamp_seconds").set(last_ok.timestamp() as f64);
    }
}

/// Repeats test writes until `stop`, immediately after a timeout.
pub async fn run(ctx: Ctx, writes: WriteHealth, stop: CancellationToken) {
    ctx.db.watch_writes();
    let tries = async {
        loop {
            once(&ctx, &writes).await;
            tokio::time::sleep(PAUSE_MIN).await;
            let _ = tokio::time::timeout(TRIED_EVERY - PAUSE_MIN, ctx.db.wait_for_given_up()).await;
        }
    };
    stop.run_until_cancelled(tries).await;
}
