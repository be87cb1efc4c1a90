//! Keeps the partitions of tables that grow: makes those of the months that come, drops those that are old.

use super::pace::Pace;
use crate::{ctx::Ctx, flows::partitions};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_mins(1);

/// A change that had to wait too long for its locks is tried again soon.
const PACE: Pace = Pace {
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
