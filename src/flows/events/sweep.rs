//! Forgets events that are older than the log has to be.

use crate::{
    ctx::Ctx,
    domain::partitions::{self, Partition},
    flows::FlowResult,
    store::{
        self,
        partitions::{Divided, list},
    },
};
use chrono::{DateTime, Utc};

/// Events of one transaction.
const BATCH_EVENTS: u64 = 200;

/// Keys of one transaction.
const BATCH_KEYS: u64 = 2_000;

/// Forgets one batch; tells whether there may be more. What waits for its delivery is never forgotten, and months that
/// are dropped as a whole are left to that.
///
/// Source: ADR-0019.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let cutoff = ctx.webhooks.old_before(ctx.clock.earliest());
    let Some(months) = list(ctx.db.reader(), Divided::Events).await? else {
        return forget(ctx, cutoff, cutoff).await;
    };
    let has_more = match partitions::swept_until(cutoff, &months) {
        Some(until) => forget(ctx, cutoff, until).await?,
        None => false,
    };
    Ok(forget_keys(ctx, &months).await? || has_more)
}

async fn forget(ctx: &Ctx, cutoff: DateTime<Utc>, until: DateTime<Utc>) -> FlowResult<bool> {
    let tx = ctx.db.begin("sweep_events").await?;
    let gone = store::event_log::forget(&tx, cutoff, until, BATCH_EVENTS).await?;
    tx.commit().await?;
    Ok(gone == BATCH_EVENTS)
}

/// Forgets the keys of events that were dropped with their month.
async fn forget_keys(ctx: &Ctx, months: &[Partition]) -> FlowResult<bool> {
    let Some(first) = partitions::first(months) else {
        return Ok(false);
    };
    let tx = ctx.db.begin("sweep_event_keys").await?;
    let gone = store::event_log::forget_keys(&tx, first, BATCH_KEYS).await?;
    tx.commit().await?;
    Ok(gone == BATCH_KEYS)
}
