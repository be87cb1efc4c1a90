//! Screens who paid a link without having been screened.

use super::pace::Pace;
use crate::{
    ctx::Ctx,
    flows::secure_payments::paid::{self, Turns},
};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PACE: Pace = Pace {
    base: Duration::from_secs(10),
    longest: Duration::from_mins(5),
};

/// Runs until `stop`.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    let turns = Turns::default();
    let look = || async {
        paid::run(&ctx, &turns).await?;
        Ok(PACE.base)
    };
    PACE.keep(&stop, "screening who paid", None, look).await;
}
