//! Moves payments that a version before stored to the tables of now, in the background; reads find both until it is done.

use super::pace::Pace;
use crate::{
    ctx::Ctx,
    flows::payments::move_stored::{self, Pass},
};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Pause after each batch, so that calls and chains do not wait for this.
const BREATH: Duration = Duration::from_millis(20);

/// Pause when nothing is left, which stays so.
const REST: Duration = Duration::from_hours(24);

const PACE: Pace = Pace {
    base: Duration::from_secs(1),
    longest: Duration::from_mins(10),
};

/// Batches between two lines of the log.
const TOLD_EVERY: u64 = 100;

/// Runs until `stop`.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    let (batches, pass) = (AtomicU64::new(0), Mutex::new(Pass::default()));
    let step = || async {
        if !move_stored::step(&ctx, &mut *pass.lock().await).await? {
            if batches.load(Ordering::Relaxed) > 0 {
                tracing::info!("moved the payments of the version before");
            }
            return Ok(REST);
        }
        let done = batches.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(TOLD_EVERY) {
            tracing::info!(batches = done, "moving payments of the version before");
        }
        Ok(BREATH)
    };
    PACE.keep(&stop, "moving payments of the version before", None, step)
        .await;
}
