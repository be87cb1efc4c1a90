//! Drops old monthly partitions: dropping a table takes the same time for any number of rows.

use crate::{
    ctx::Ctx,
    domain::partitions::{self, Partition},
    flows::FlowResult,
    store::{
        self,
        partitions::{MonthlyTable, is_needed, list},
    },
};

/// Drops the months that the event log no longer has to store, oldest first, up to the first one with rows that are
/// still needed. Does nothing for unpartitioned tables.
pub async fn run(ctx: &Ctx) -> FlowResult<()> {
    let cutoff = ctx.webhooks.old_before(ctx.clock.earliest());
    for table in MonthlyTable::ALL {
        let Some(present) = list(ctx.db.reader(), table).await? else {
            return Ok(());
        };
        for month in partitions::old(cutoff, present) {
            if !retire(ctx, table, &month).await? {
                break;
            }
        }
    }
    Ok(())
}

/// Drops a month; returns whether it was dropped.
async fn retire(ctx: &Ctx, table: MonthlyTable, month: &Partition) -> FlowResult<bool> {
    if is_needed(ctx.db.reader(), table, month.until).await? {
        return Ok(false);
    }
    let tx = ctx.db.begin("drop_partition").await?;
    if !store::partitions::begin_change(&tx).await? {
        return Ok(false);
    }
    let is_there = |present: Vec<Partition>| present.iter().any(|one| one.name == month.name);
    if !list(&tx, table).await?.is_some_and(is_there) {
        return Ok(true);
    }
    store::partitions::close(&tx, table, month).await?;
    // A caller may have queued a row of this month again a moment ago.
    if is_needed(&tx, table, month.until).await? {
        return Ok(false);
    }
    store::partitions::drop(&tx, month).await?;
    tx.commit().await?;
    tracing::info!(table = table.table(), partition = %month.name, "dropped an old partition");
    Ok(true)
}
