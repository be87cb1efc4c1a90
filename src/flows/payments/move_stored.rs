//! Moves payments that a version before stored to the tables of now, batch by batch.

use crate::{ctx::Ctx, flows::FlowResult, store};

/// Rows of one transaction: few, because SQLite has one writer and calls wait for it.
const BATCH: u64 = 250;

/// Moves one batch; tells whether there may be more. It may end anywhere, and several instances may do it at once.
pub async fn step(ctx: &Ctx) -> FlowResult<bool> {
    let tx = ctx.db.begin("move_payments").await?;
    let has_more = store::payments::move_some(&tx, BATCH).await?;
    tx.commit().await?;
    Ok(has_more)
}
