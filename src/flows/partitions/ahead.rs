//! Creates the partitions of future months, and maintains what the database server does not maintain by itself, such as
//! statistics.

use crate::{
    ctx::Ctx,
    domain::partitions::{Partition, misjudged, missing},
    flows::FlowResult,
    store::{
        self,
        partitions::{MonthlyTable, list},
    },
};
use std::time::Duration;

/// Timeout of one statement: statistics of large tables take a while.
const PATIENCE: Duration = Duration::from_mins(6);

/// Creates the missing partitions of the current and future months, and measures the rows outside all partitions. Does
/// nothing for unpartitioned tables.
pub async fn run(ctx: &Ctx) -> FlowResult<()> {
    let ctx = &Ctx {
        db: ctx.db.answering_within(PATIENCE),
        ..ctx.clone()
    };
    let mut outcome = Ok(());
    for table in MonthlyTable::ALL {
        let Some(present) = list(ctx.db.reader(), table).await? else {
            return Ok(());
        };
        // If the partitions of a table cannot be created now, the loop continues: it handles the other tables and
        // counts the rows outside partitions.
        let looked = look(ctx, table, &present).await;
        let strays = store::partitions::strays(ctx.db.reader(), table).await?;
        #[expect(
            clippy::cast_precision_loss,
            reason = "a gauge is an f64, which is exact for whole numbers below 2^52; the count is smaller"
        )]
        metrics::gauge!("prs_partition_strays", "table" => table.table()).set(strays as f64);
        outcome = outcome.and(looked);
    }
    outcome
}

async fn look(ctx: &Ctx, table: MonthlyTable, present: &[Partition]) -> FlowResult<()> {
    let now = ctx.clock.now();
    if !missing(now, present).is_empty() || misjudged(now, present).next().is_some() {
        make(ctx, table).await?;
    }
    if store::partitions::is_unmeasured(ctx.db.reader(), table).await? {
        measure(ctx, table).await?;
    }
    Ok(())
}

/// Creates the partitions that are still missing, because another instance may have created some meanwhile. Recreates
/// future partitions that the server analysed while they were empty: its query plans would assume that they stay empty.
async fn make(ctx: &Ctx, table: MonthlyTable) -> FlowResult<()> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("make_partitions").await?;
    if !store::partitions::begin_change(&tx).await? {
        return Ok(());
    }
    for month in misjudged(now, &list(&tx, table).await?.unwrap_or_default()) {
        store::partitions::close(&tx, table, month).await?;
        if store::partitions::is_empty(&tx, month).await? {
            store::partitions::drop(&tx, month).await?;
        }
    }
    for month in missing(now, &list(&tx, table).await?.unwrap_or_default()) {
        store::partitions::add(&tx, table, month).await?;
        tracing::info!(table = table.table(), %month, "created a monthly partition");
    }
    tx.commit().await?;
    Ok(())
}

async fn measure(ctx: &Ctx, table: MonthlyTable) -> FlowResult<()> {
    let tx = ctx.db.begin("measure_partitions").await?;
    if store::partitions::begin_change(&tx).await? {
        store::partitions::measure(&tx, table).await?;
        tx.commit().await?;
    }
    Ok(())
}
