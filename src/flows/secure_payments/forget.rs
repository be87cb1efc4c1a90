//! Forgets secure payments that nobody paid, a while after their end. Their requests stay, so that late payments are
//! credited.

use crate::{ctx::Ctx, flows::FlowResult, store};

/// Secure payments of one transaction: with the most items that they can have, some 4,000 rows.
const BATCH: u64 = 20;

/// Forgets one batch; tells whether there may be more. A clock that is ahead for a moment forgets nothing where another one
/// is right.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let before = ctx.clock.earliest() - ctx.secure_payments.kept;
    let tx = ctx.db.begin("forget_secure_payments").await?;
    let gone = store::secure_payments::forget(&tx, before, BATCH).await?;
    tx.commit().await?;
    Ok(gone == BATCH)
}
