//! Creates the requests for new periods of recurring requests.

use super::pace::RetryPauses;
use crate::{ctx::Ctx, flows::requests::repeat};
use tokio_util::sync::CancellationToken;

/// Runs until `stop`.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    RetryPauses::EACH_SECOND
        .keep_batches(&ctx, &stop, "repeating requests", repeat::run)
        .await;
}
