//! Reads the rate feeds at their interval.

use super::pace::RetryPauses;
use crate::{ctx::Ctx, flows::rates::refresh};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Half of the pause after the first failed read.
const BASE: Duration = Duration::from_secs(1);

/// Runs until `stop`; a service without feeds has nothing to do.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    if ctx.partners.rate_feeds.is_empty() {
        return;
    }
    let pause = ctx.rates.read_every.to_std().unwrap_or(BASE);
    let pace = RetryPauses {
        base: BASE,
        longest: pause.max(BASE),
    };
    let step = || async { refresh::run(&ctx).await.map(|()| pause) };
    pace.keep(&stop, "reading the rates", None, step).await;
}
