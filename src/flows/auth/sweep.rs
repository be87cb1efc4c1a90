//! Deletes expired challenges, sessions, invites and devices.

use crate::{ctx::Ctx, domain::guesses::DEVICE_LIFETIME, flows::FlowResult, store};

/// Rows per transaction.
const BATCH_ROWS: u64 = 500;

/// Deletes one batch of each; returns whether there may be more.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("sweep_sessions").await?;
    let challenges = store::challenges::forget(&tx, now, BATCH_ROWS).await?;
    let sessions = store::sessions::forget(&tx, now, BATCH_ROWS).await?;
    let invites = store::invites::forget(&tx, now, BATCH_ROWS).await?;
    let devices = store::devices::forget(&tx, now - DEVICE_LIFETIME, BATCH_ROWS).await?;
    tx.commit().await?;
    Ok([challenges, sessions, invites, devices].contains(&BATCH_ROWS))
}
