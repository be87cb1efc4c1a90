//! Queries the off-ramp partner for states whose callbacks may have been lost, and completes started erasures.

use super::pace::RetryPauses;
use crate::{ctx::Ctx, flows::payers::follow};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause when nothing is left to read.
const PACE: RetryPauses = RetryPauses {
    base: Duration::from_secs(5),
    longest: Duration::from_mins(1),
};

/// Runs until `stop`; a service without a partner has nothing to do.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    if ctx.partners.off_ramp.is_none() {
        return;
    }
    PACE.keep_batches(&ctx, &stop, "asking the off-ramp partner", follow::step)
        .await;
}
