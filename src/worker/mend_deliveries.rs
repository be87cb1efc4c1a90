//! Does to deliveries what no try does: begins recovery rounds, and cancels what waits for endpoints that were switched off
//! or deleted.

use super::pace::Pace;
use crate::{
    ctx::Ctx,
    flows::webhooks::{cancel, recover},
};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause between two looks; an endpoint that answers again waits for it.
const PAUSE: Duration = Duration::from_secs(1);

/// Pause between two batches, so that a long backlog does not hold up new deliveries.
const BREATH: Duration = Duration::from_millis(50);

const PACE: Pace = Pace {
    base: PAUSE,
    longest: Duration::from_secs(30),
};

/// Runs until `stop`.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    let pause = |has_more: bool| if has_more { BREATH } else { PAUSE };
    tokio::join!(
        PACE.keep(&stop, "recovering deliveries", None, || async {
            recover::run(&ctx).await.map(pause)
        }),
        PACE.keep(&stop, "cancelling deliveries", None, || async {
            cancel::run(&ctx).await.map(pause)
        }),
    );
}
