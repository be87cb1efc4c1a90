//! Drops whole months that are old: a table is gone at once, however many rows it had.

use crate::{
    ctx::Ctx,
    domain::partitions::{self, Partition},
    flows::FlowResult,
    store::{
        self,
        partitions::{Divided, is_needed, list},
    },
};

/// Drops the months that the log of events does not have to keep, the oldest first, up to the first one of which something
/// is still needed. Does nothing where tables are in one piece.
pub async fn run(ctx: &Ctx) -> FlowResult<()> {
    let cutoff = ctx.webhooks.old_before(ctx.clock.earliest());
    for table in Divided::ALL {
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

/// Drops a month; tells whether it is gone.
async fn retire(ctx: &Ctx, table: Divided, month: &Partition) -> FlowResult<bool> {
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
    // Somebody may have asked for something of it a moment ago.
    if is_needed(&tx, table, month.until).await? {
        return Ok(false);
    }
    store::partitions::drop(&tx, month).await?;
    tx.commit().await?;
    tracing::info!(table = table.table(), partition = %month.name, "dropped a month that is old");
    Ok(true)
}
