//! Tries whether the database can be written to, so that readiness is told without a write for each probe.

use crate::ctx::Ctx;
use chrono::{DateTime, Utc};
use std::{
    fmt::Display,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Pause between two tries.
const TRIED_EVERY: Duration = Duration::from_secs(2);

/// Shortest pause, when answers are given up one after the other.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// How long PostgreSQL may take for a try before other writes are refused at once.
const HANGS_AFTER: Duration = Duration::from_millis(1_500);

/// How long a try is waited for afterwards. The next one takes a new connection: nothing may be heard again of this one.
const WAITED_MAX: Duration = Duration::from_secs(2);

/// How long tries may fail in another way than by a refusal: a write that waits its turn behind a long one is no outage.
const MISSING_MAX: Duration = Duration::from_secs(10);

/// What is known of writes to the database. Before the first try nothing stands against them.
#[derive(Clone, Default)]
pub struct Writes(Arc<Mutex<Tries>>);

#[derive(Default)]
struct Tries {
    last_ok: Option<DateTime<Utc>>,
    /// When a try last succeeded, or the tries began, on the clock that never jumps.
    counted_from: Option<Duration>,
    is_refused: bool,
    /// Whether the operator was told that no try succeeds.
    is_missing_told: bool,
}

impl Writes {
    /// Whether the database takes writes, as far as is known at `steady`.
    pub fn are_taken(&self, steady: Duration) -> bool {
        let tries = self.tries();
        let is_missing = tries
            .counted_from
            .is_some_and(|from| steady.saturating_sub(from) > MISSING_MAX);
        !tries.is_refused && !is_missing
    }

    /// When a try last succeeded.
    pub fn last_ok(&self) -> Option<DateTime<Utc>> {
        self.tries().last_ok
    }

    /// Notes whether a write was taken, and nothing when the try failed in another way; returns whether the operator has to
    /// be told.
    fn note(&self, is_taken: Option<bool>, ctx: &Ctx) -> bool {
        let steady = ctx.clock.steady();
        let mut tries = self.tries();
        let was_refused = tries.is_refused;
        tries.counted_from.get_or_insert(steady);
        match is_taken {
            Some(true) => {
                *tries = Tries {
                    last_ok: Some(ctx.clock.now()),
                    counted_from: Some(steady),
                    ..Tries::default()
                }
            }
            Some(false) => tries.is_refused = true,
            None => {}
        }
        tries.is_refused != was_refused
    }

    /// Whether the operator has to be told now that no try succeeds.
    fn begins_to_be_missing(&self, steady: Duration) -> bool {
        let are_taken = self.are_taken(steady);
        let mut tries = self.tries();
        !are_taken && !tries.is_refused && !std::mem::replace(&mut tries.is_missing_told, true)
    }

    fn tries(&self) -> MutexGuard<'_, Tries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tries once.
pub async fn once(ctx: &Ctx, writes: &Writes) {
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
                        tracing::debug!(%error, "old tries to write were not ended");
                    }
                    return;
                }
            }
        }
    };
    note(ctx, writes, outcome);
}

/// Notes that a try hangs. SQLite answers no reader later than a writer, and its writers wait for each other.
fn note_hanging(ctx: &Ctx, writes: &Writes) {
    if ctx.db.is_postgres() {
        ctx.db.refuse_writes(true);
        if writes.note(Some(false), ctx) {
            tracing::error!(
                "the database does not answer a commit; look at its standbys, its disk and the network to it"
            );
        }
    }
}

fn note(ctx: &Ctx, writes: &Writes, outcome: Result<bool, impl Display>) {
    if outcome.is_ok() {
        ctx.db.refuse_writes(false);
    }
    let is_news = writes.note(outcome.as_ref().ok().copied(), ctx);
    match outcome {
        Ok(true) if is_news => tracing::info!("the database takes writes again"),
        Ok(false) if is_news => {
            tracing::error!("the database reads and refuses to write; look at what database.url leads to")
        }
        Ok(_) => {}
        Err(error) if writes.begins_to_be_missing(ctx.clock.steady()) => {
            tracing::error!(%error, "no try to write succeeds; this process is not ready");
        }
        Err(error) => tracing::debug!(%error, "a try to write failed"),
    }
    if let Some(last_ok) = writes.last_ok() {
        #[expect(
            clippy::cast_precision_loss,
            reason = "gauges are floats; seconds stay far below 2^52"
        )]
        metrics::gauge!("prs_database_last_write_timestamp_seconds").set(last_ok.timestamp() as f64);
    }
}

/// Tries again and again until `stop`, at once after an answer was given up.
pub async fn run(ctx: Ctx, writes: Writes, stop: CancellationToken) {
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
