//! Starts recovery rounds of deliveries, and cancels pending deliveries of inactive or deleted endpoints.

use super::pace::RetryPauses;
use crate::{
    ctx::Ctx,
    flows::webhooks::{cancel, recover},
};
use tokio_util::sync::CancellationToken;

/// Runs until `stop`. A recovered endpoint is handled at the next check.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    let pace = RetryPauses::EACH_SECOND;
    tokio::join!(
        pace.keep_batches(&ctx, &stop, "recovering deliveries", recover::run),
        pace.keep_batches(&ctx, &stop, "cancelling deliveries", cancel::run),
    );
}
