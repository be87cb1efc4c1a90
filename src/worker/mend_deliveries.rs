//! Does to deliveries what no try does: begins recovery rounds, and cancels what waits for endpoints that were switched off
//! or deleted.

use super::pace::Pace;
use crate::{
    ctx::Ctx,
    flows::webhooks::{cancel, recover},
};
use tokio_util::sync::CancellationToken;

/// Runs until `stop`. An endpoint that answers again waits for the next look.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    let (pace, own) = (Pace::EACH_SECOND, (&ctx, &stop));
    tokio::join!(
        pace.keep_batches(own, "recovering deliveries", recover::run),
        pace.keep_batches(own, "cancelling deliveries", cancel::run),
    );
}
