//! Keeps the event log as long as the settings say, sessions as long as they last, answers of repeatable calls for their
//! day, and what was set aside for a while after it was settled.

use super::pace::Pace;
use crate::{
    ctx::Ctx,
    flows::{auth, events, idempotency, payments},
};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause between two sweeps, and after one that failed.
const PAUSE: Duration = Duration::from_mins(10);

/// Pause between two batches, so that a long backlog does not hold up deliveries.
const BREATH: Duration = Duration::from_millis(50);

const PACE: Pace = Pace {
    base: PAUSE,
    longest: PAUSE,
};

/// Runs until `stop`.
pub async fn run(ctx: Ctx, stop: CancellationToken) {
    let pause = |has_more: bool| if has_more { BREATH } else { PAUSE };
    tokio::join!(
        PACE.keep(&stop, "removing old idempotency keys", None, || async {
            idempotency::sweep(&ctx).await.map(pause)
        }),
        PACE.keep(&stop, "removing old events", None, || async {
            events::sweep::run(&ctx).await.map(pause)
        }),
        PACE.keep(&stop, "removing old sessions", None, || async {
            auth::sweep::run(&ctx).await.map(pause)
        }),
        PACE.keep(&stop, "removing what was settled long ago", None, || async {
            payments::quarantine::sweep(&ctx).await.map(pause)
        }),
    );
}
