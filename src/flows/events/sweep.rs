//! Forgets events that are older than the log has to be.

use crate::{ctx::Ctx, flows::FlowResult, store};
use chrono::TimeDelta;

/// Events of one transaction.
const BATCH_EVENTS: u64 = 200;

/// Forgets one batch; tells whether there may be more. What waits for its delivery is never forgotten.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let cutoff = ctx.clock.now() - TimeDelta::days(i64::from(ctx.webhooks.retention_days));
    let tx = ctx.db.begin("sweep_events").await?;
    let gone = store::event_log::forget(&tx, cutoff, BATCH_EVENTS).await?;
    tx.commit().await?;
    Ok(gone == BATCH_EVENTS)
}
