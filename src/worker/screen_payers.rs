//! Screens payers who paid a link without having been screened.

use super::pace::RetryPauses;
use crate::{
    ctx::Ctx,
    flows::secure_payments::paid::{self, ScreenedPayments},
};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PACE: RetryPauses = RetryPauses {
    base: Duration::from_secs(10),
    longest: Duration::from_mins(5),
};

/// Runs until `stop`.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    let turns = ScreenedPayments::default();
    let look = || async {
        paid::run(&ctx, &turns).await?;
        Ok(PACE.base)
    };
    PACE.keep(&stop, "screening who paid", None, look).await;
}
