//! Deletes readings and quotes that no payment needs any longer.

use crate::{ctx::Ctx, flows::FlowResult, store};
use chrono::TimeDelta;

/// Days for which readings are stored: a payment that is found late uses the rate of its own time.
const KEPT_DAYS: i64 = 400;

/// Days for which quotes are stored after they expire. Their payments are settled long before.
const QUOTES_KEPT_DAYS: i64 = 90;

/// Rows of one transaction.
const BATCH_ROWS: u64 = 2_000;

/// Deletes one batch; returns whether there may be more.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("sweep_rates").await?;
    let readings = store::rates::forget(&tx, now - TimeDelta::days(KEPT_DAYS), BATCH_ROWS).await?;
    let quotes = store::quotes::forget(&tx, now - TimeDelta::days(QUOTES_KEPT_DAYS), BATCH_ROWS).await?;
    tx.commit().await?;
    Ok(readings.max(quotes) == BATCH_ROWS)
}
