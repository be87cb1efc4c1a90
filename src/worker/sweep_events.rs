//! Deletes old data in batches: events, sessions, stored responses of idempotent calls, and rates. Deletes also
//! quarantine entries that were settled long ago, and secure payments that were never paid. Cancels recurring payments
//! that were not signed in time. Sets secure payments that were not paid in time to expired.

use super::pace::RetryPauses;
use crate::{
    ctx::Ctx,
    flows::{auth, events, idempotency, payments, rates, schedules, secure_payments},
};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause between two sweeps, and after a failed one.
const PAUSE: Duration = Duration::from_mins(10);

const PACE: RetryPauses = RetryPauses {
    base: PAUSE,
    longest: PAUSE,
};

/// Runs until `stop`.
pub async fn run(ctx: Ctx, stop: CancellationToken) {
    tokio::join!(
        PACE.keep_batches(&ctx, &stop, "removing old idempotency keys", idempotency::sweep),
        PACE.keep_batches(&ctx, &stop, "removing old events", events::sweep::run),
        PACE.keep_batches(&ctx, &stop, "removing old sessions", auth::sweep::run),
        PACE.keep_batches(
            &ctx,
            &stop,
            "removing old quarantined payments",
            payments::quarantine::sweep
        ),
        PACE.keep_batches(&ctx, &stop, "removing old rates", rates::sweep::run),
        PACE.keep_batches(&ctx, &stop, "ending unsigned recurring payments", schedules::lapse::run),
        PACE.keep_batches(&ctx, &stop, "ending secure payments", secure_payments::expire::run),
        PACE.keep_batches(
            &ctx,
            &stop,
            "removing old secure payments",
            secure_payments::forget::run
        ),
    );
}
