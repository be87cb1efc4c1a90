//! Ends recurring payments that their payers did not sign in time.

use crate::{ctx::Ctx, flows::FlowResult, store};

/// Schedules of one transaction.
const BATCH_SCHEDULES: u64 = 200;

/// Cancels one batch; returns whether there may be more. A recurring payment that is concurrently signed or cancelled
/// stays unchanged.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let before = ctx.clock.now() - ctx.schedules.lapse_after;
    let unsigned = store::schedules::unsigned_since(ctx.db.reader(), before, BATCH_SCHEDULES).await?;
    if unsigned.is_empty() {
        return Ok(false);
    }
    let tx = ctx.db.begin("lapse_schedules").await?;
    for schedule in &unsigned {
        store::schedules::replace(&tx, schedule, &schedule.lapsed()).await?;
    }
    tx.commit().await?;
    Ok(u64::try_from(unsigned.len()).is_ok_and(|rows| rows == BATCH_SCHEDULES))
}
