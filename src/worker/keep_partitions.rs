//! Maintains the monthly partitions of growing tables: creates those of future months and drops old ones.

use super::pace::RetryPauses;
use crate::{ctx::Ctx, flows::partitions};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Interval between two checks.
const PAUSE: Duration = Duration::from_mins(1);

/// Pause before retrying a change that waited too long for its locks.
const PACE: RetryPauses = RetryPauses {
    base: Duration::from_secs(2),
    longest: Duration::from_mins(10),
};

/// Runs until `stop`.
pub(super) async fn run(ctx: Ctx, stop: CancellationToken) {
    let make = || async {
        partitions::look_ahead(&ctx).await?;
        Ok(PAUSE)
    };
    let drop = || async {
        partitions::retire(&ctx).await?;
        Ok(PAUSE)
    };
    tokio::join!(
        PACE.keep(&stop, "making partitions", None, make),
        PACE.keep(&stop, "dropping old partitions", None, drop),
    );
}
