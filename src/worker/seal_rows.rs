//! Seals what a version before stored clear, in the background; reads understand both until it is done.

use super::pace::Pace;
use crate::{
    ctx::Ctx,
    flows::{
        FlowResult,
        at_rest::{self, Walk},
    },
};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause after each step, so that calls do not wait for this.
const BREATH: Duration = Duration::from_millis(20);

/// Pause before another walk when something was left.
const PAUSE: Duration = Duration::from_secs(1);

/// Pause when nothing is left, which stays so.
const REST: Duration = Duration::from_hours(24);

const PACE: Pace = Pace {
    base: PAUSE,
    longest: Duration::from_mins(10),
};

/// Runs until `stop`.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    let walk = || async {
        if at_rest::is_all_sealed(&ctx).await? {
            return Ok(REST);
        }
        let left = walk(&ctx).await?;
        let is_done = left == 0 && at_rest::conclude(&ctx).await?;
        Ok(if is_done { REST } else { PAUSE })
    };
    PACE.keep(&stop, "sealing rows of before", None, walk).await;
}

/// One walk over everything; returns how many rows it found clear.
async fn walk(ctx: &Ctx) -> FlowResult<u64> {
    let (mut walk, mut found, mut sealed) = (Walk::to_seal(), 0, 0);
    while let Some(batch) = at_rest::step(ctx, &mut walk).await? {
        found += batch.stale;
        sealed += batch.replaced;
        if batch.stale > 0 {
            tracing::info!(column = batch.column, sealed, "sealed rows of before");
        }
        tokio::time::sleep(BREATH).await;
    }
    Ok(found)
}
