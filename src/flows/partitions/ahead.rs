//! Makes the partitions of the months that come, and looks after what the server does not look after by itself.

use crate::{
    ctx::Ctx,
    domain::partitions::{Partition, misjudged, missing},
    flows::FlowResult,
    store::{
        self,
        partitions::{Divided, list},
    },
};
use std::time::Duration;

/// Longest wait for one statement: statistics of large tables take a while.
const PATIENCE: Duration = Duration::from_mins(6);

/// Makes what is missing of the present month and those ahead, and shows how much fits into no month. Does nothing where
/// tables are in one piece.
pub async fn run(ctx: &Ctx) -> FlowResult<()> {
    let ctx = &Ctx {
        db: ctx.db.answering_within(PATIENCE),
        ..ctx.clone()
    };
    let mut outcome = Ok(());
    for table in Divided::ALL {
        let Some(present) = list(ctx.db.reader(), table).await? else {
            return Ok(());
        };
        // A table whose months cannot be made now keeps neither the others from theirs nor its strays from being seen.
        let looked = look(ctx, table, &present).await;
        let strays = store::partitions::strays(ctx.db.reader(), table).await?;
        #[expect(
            clippy::cast_precision_loss,
            reason = "a gauge is a float; the count stays far below 2^52"
        )]
        metrics::gauge!("prs_partition_strays", "table" => table.table()).set(strays as f64);
        outcome = outcome.and(looked);
    }
    outcome
}

async fn look(ctx: &Ctx, table: Divided, present: &[Partition]) -> FlowResult<()> {
    let now = ctx.clock.now();
    if !missing(now, present).is_empty() || misjudged(now, present).next().is_some() {
        make(ctx, table).await?;
    }
    if store::partitions::is_unmeasured(ctx.db.reader(), table).await? {
        measure(ctx, table).await?;
    }
    Ok(())
}

/// Makes what is missing by then, since another instance may have been faster, and anew what the server misjudges.
async fn make(ctx: &Ctx, table: Divided) -> FlowResult<()> {
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
        tracing::info!(table = table.table(), %month, "made the partition of a month");
    }
    tx.commit().await?;
    Ok(())
}

async fn measure(ctx: &Ctx, table: Divided) -> FlowResult<()> {
    let tx = ctx.db.begin("measure_partitions").await?;
    if store::partitions::begin_change(&tx).await? {
        store::partitions::measure(&tx, table).await?;
        tx.commit().await?;
    }
    Ok(())
}
