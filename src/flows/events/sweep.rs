//! Deletes events that are older than the retention of the log.

use crate::{
    ctx::Ctx,
    domain::partitions::{self, Partition},
    flows::FlowResult,
    store::{
        self,
        partitions::{MonthlyTable, list},
    },
};
use chrono::{DateTime, Utc};

/// Events per transaction.
const BATCH_EVENTS: u64 = 200;

/// Keys per transaction.
const BATCH_KEYS: u64 = 2_000;

/// Deletes one batch; returns whether there may be more. Events with a queued delivery are never deleted. A month in
/// which every event is old is skipped, because its whole partition is dropped.
///
/// Source: ADR-0019.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let cutoff = ctx.webhooks.old_before(ctx.clock.earliest());
    let Some(months) = list(ctx.db.reader(), MonthlyTable::Events).await? else {
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

/// Deletes the deduplication keys of events that were dropped with their month.
async fn forget_keys(ctx: &Ctx, months: &[Partition]) -> FlowResult<bool> {
    let Some(first) = partitions::first(months) else {
        return Ok(false);
    };
    let tx = ctx.db.begin("sweep_event_keys").await?;
    let gone = store::event_log::forget_keys(&tx, first, BATCH_KEYS).await?;
    tx.commit().await?;
    Ok(gone == BATCH_KEYS)
}
