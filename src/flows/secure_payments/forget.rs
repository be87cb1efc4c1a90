//! Forgets secure payments that nobody paid, a while after their end. Their requests stay, so that late payments are
//! credited.

use crate::{ctx::Ctx, flows::FlowResult, store};

/// Secure payments of one transaction: with the most items that they can have, some 4,000 rows.
const BATCH: u64 = 20;

/// Transactions of one call.
const BATCHES: usize = 50;

/// Forgets some batches; tells whether there may be more. Each is chosen before its transaction, from where the one before
/// it ended: those that stay, because something arrived for them, are read once and keep no other writer waiting. A clock
/// that is ahead for a moment forgets nothing where another one is right.
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
