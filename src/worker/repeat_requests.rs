//! Makes the requests of the periods of recurring requests.

use super::pace::Pace;
use crate::{ctx::Ctx, flows::requests::repeat};
use tokio_util::sync::CancellationToken;

/// Runs until `stop`.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    Pace::EACH_SECOND
        .keep_batches((&ctx, &stop), "repeating requests", repeat::run)
        .await;
}
