//! Deletes expired secure payments that received nothing, some time after their expiry. Their requests stay, so that
//! late payments are credited.

use crate::{ctx::Ctx, flows::FlowResult, store};

/// Maximum number of secure payments per transaction: with the maximum number of items, about 4,000 rows.
const BATCH: u64 = 20;

/// Transactions per call.
const BATCHES: usize = 50;

/// Deletes some batches; returns whether there may be more. Each batch is chosen before its transaction and starts
/// after the previous batch. So links that stay because a payment arrived are read once, and block no other writer. An
/// instance with a fast clock deletes nothing while another clock is right.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let before = ctx.clock.earliest() - ctx.secure_payments.kept;
    let mut last = None;
    for _ in 0..BATCHES {
        let chosen = store::secure_payments::forgettable(ctx.db.reader(), before, last.as_ref(), BATCH).await?;
        last = chosen.last().cloned();
        if last.is_none() {
            return Ok(false);
        }
        let tx = ctx.db.begin("forget_secure_payments").await?;
        store::secure_payments::forget(&tx, before, chosen).await?;
        tx.commit().await?;
    }
    Ok(true)
}
