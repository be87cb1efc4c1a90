//! Moves payments that a version before stored to the tables of now, batch by batch.

use crate::{ctx::Ctx, flows::FlowResult, store};

/// Rows of one transaction: few, because SQLite has one writer and calls wait for it.
const BATCH: u64 = 250;

/// How far one look at all of them is.
#[derive(Debug, Default)]
pub struct Pass {
    after: Option<String>,
    unreadable: usize,
}

/// Moves one batch; tells whether there may be more. It may end anywhere, and several instances may do it at once. What
/// cannot be read is told to the operator and left alone until the next pass.
pub async fn step(ctx: &Ctx, pass: &mut Pass) -> FlowResult<bool> {
    let tx = ctx.db.begin("move_payments").await?;
    let moved = store::payments::move_some(&tx, pass.after.as_deref(), BATCH).await?;
    tx.commit().await?;
    for (id, error) in &moved.unreadable {
        tracing::error!(payment = %id, %error, "a payment of the version before cannot be read and is not moved");
    }
    pass.unreadable += moved.unreadable.len();
    if moved.last.is_some() {
        pass.after = moved.last;
        return Ok(true);
    }
    let is_stuck = std::mem::take(pass).unreadable > 0;
    Ok(moved.has_more && !is_stuck)
}
