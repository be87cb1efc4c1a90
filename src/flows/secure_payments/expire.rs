//! Expires secure payments that were not paid in time. Responses show the expiry even before this runs. The stored
//! state keeps lists and counts right.

use crate::{ctx::Ctx, flows::FlowResult, store};

/// Maximum number of secure payments of one transaction.
const BATCH: u64 = 500;

/// Expires one batch; returns whether there may be more. An instance with a fast clock expires nothing while another
/// clock is right. Source: rules S.2.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let tx = ctx.db.begin("expire_secure_payments").await?;
    let ended = store::secure_payments::expire(&tx, ctx.clock.earliest(), BATCH).await?;
    tx.commit().await?;
    Ok(ended == BATCH)
}
