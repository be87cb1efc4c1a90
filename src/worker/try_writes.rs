//! Tries whether the database can be written to, so that readiness is told without a write for each probe.

use crate::ctx::Ctx;
use chrono::{DateTime, Utc};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Pause between two tries.
const TRIED_EVERY: Duration = Duration::from_secs(2);

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
                    is_refused: false,
                }
            }
            Some(false) => tries.is_refused = true,
            None => {}
        }
        tries.is_refused != was_refused
    }

    fn tries(&self) -> MutexGuard<'_, Tries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tries once.
pub async fn once(ctx: &Ctx, writes: &Writes) {
    let outcome = ctx.db.try_write().await;
    let is_news = writes.note(outcome.as_ref().ok().copied(), ctx);
    match outcome {
        Ok(true) if is_news => tracing::info!("the database takes writes again"),
        Ok(false) if is_news => {
            tracing::error!("the database reads and refuses to write; look at what database.url leads to")
        }
        Ok(_) => {}
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

/// Tries again and again until `stop`.
pub async fn run(ctx: Ctx, writes: Writes, stop: CancellationToken) {
    let tries = async {
        loop {
            once(&ctx, &writes).await;
            tokio::time::sleep(TRIED_EVERY).await;
        }
    };
    stop.run_until_cancelled(tries).await;
}
