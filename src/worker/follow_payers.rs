//! Asks the off-ramp partner for what it may have told in vain, and ends erasures that were begun.

use super::pace::Pace;
use crate::{ctx::Ctx, flows::payers::follow};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause when nothing is left to ask for.
const PACE: Pace = Pace {
    base: Duration::from_secs(5),
    longest: Duration::from_mins(1),
};

/// Runs until `stop`; a service without a partner has nothing to do.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    if ctx.partners.off_ramp.is_none() {
        return;
    }
    let own = (&ctx, &stop);
    PACE.keep_batches(own, "asking the off-ramp partner", follow::step)
        .await;
}
