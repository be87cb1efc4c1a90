//! Keeps the event log as long as the settings say, sessions as long as they last, answers of repeatable calls for their
//! day, what was set aside for a while after it was settled, rates as long as a payment may need them, recurring payments
//! and secure payments open as long as their payers may sign or pay them, and secure payments that nobody paid for a while
//! after that.

use super::pace::Pace;
use crate::{
    ctx::Ctx,
    flows::{auth, events, idempotency, payments, rates, schedules, secure_payments},
};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause between two sweeps, and after one that failed.
const PAUSE: Duration = Duration::from_mins(10);

const PACE: Pace = Pace {
    base: PAUSE,
    longest: PAUSE,
};

/// Runs until `stop`.
pub async fn run(ctx: Ctx, stop: CancellationToken) {
    let own = (&ctx, &stop);
    tokio::join!(
        PACE.keep_batches(own, "removing old idempotency keys", idempotency::sweep),
        PACE.keep_batches(own, "removing old events", events::sweep::run),
        PACE.keep_batches(own, "removing old sessions", auth::sweep::run),
        PACE.keep_batches(own, "removing what was settled long ago", payments::quarantine::sweep),
        PACE.keep_batches(own, "removing old rates", rates::sweep::run),
        PACE.keep_batches(own, "ending unsigned recurring payments", schedules::lapse::run),
        PACE.keep_batches(own, "ending secure payments", secure_payments::expire::run),
        PACE.keep_batches(own, "removing old secure payments", secure_payments::forget::run),
    );
}
