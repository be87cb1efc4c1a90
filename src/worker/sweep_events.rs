//! Keeps the event log as long as the settings say, sessions as long as they last, and answers of repeatable calls for
//! their day.

use crate::{
    ctx::Ctx,
    flows::{auth, events::sweep, idempotency},
};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause between two sweeps.
const PAUSE: Duration = Duration::from_mins(10);

/// Pause between two batches, so that a long backlog does not hold up deliveries.
const BREATH: Duration = Duration::from_millis(50);

/// Runs until `stop`.
pub async fn run(ctx: Ctx, stop: CancellationToken) {
    while !stop.is_cancelled() {
        if let Err(error) = idempotency::sweep(&ctx).await {
            tracing::warn!(%error, "old idempotency keys could not be removed");
        }
        let mut pause = match sweep::run(&ctx).await {
            Ok(true) => BREATH,
            Ok(false) => PAUSE,
            Err(error) => {
                tracing::warn!(%error, "old events could not be removed");
                PAUSE
            }
        };
        match auth::sweep::run(&ctx).await {
            Ok(true) => pause = BREATH,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "old sessions could not be removed"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}
