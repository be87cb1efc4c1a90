//! Ends secure payments that nobody paid in time. Whoever reads one sees its end before; this keeps lists and counts right.

use crate::{ctx::Ctx, flows::FlowResult, store};

/// Secure payments of one transaction.
const BATCH: u64 = 500;

/// Ends one batch; tells whether there may be more. A clock that is ahead for a moment ends nothing where another one is right.
/// Source: rules S.2.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let tx = ctx.db.begin("expire_secure_payments").await?;
    let ended = store::secure_payments::expire(&tx, ctx.clock.earliest(), BATCH).await?;
    tx.commit().await?;
    Ok(ended == BATCH)
}
