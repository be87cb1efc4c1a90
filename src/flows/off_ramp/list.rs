//! Lists orders for the operator, and measures those that are open.

use crate::{ctx::Ctx, domain::off_ramp::SILENT_AFTER, flows::FlowResult, store};
use chrono::TimeDelta;

pub use crate::store::off_ramp_orders::Listed;

/// Most orders of one list.
pub const LISTED_MAX: u64 = 1_000;

/// Which orders the operator looks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Also those that are over.
    pub all: bool,
    /// Only those without news for a day.
    pub silent: bool,
}

/// Orders, the oldest first.
pub async fn run(ctx: &Ctx, wanted: Wanted) -> FlowResult<Vec<Listed>> {
    let silent_since = wanted.silent.then(|| ctx.clock.now() - SILENT_AFTER);
    Ok(store::off_ramp_orders::list(ctx.db.reader(), (wanted.all, silent_since), LISTED_MAX).await?)
}

/// How many orders are open, and for how long the oldest is.
pub async fn measure(ctx: &Ctx) -> FlowResult<(u64, TimeDelta)> {
    let (open, oldest) = store::off_ramp_orders::measure(ctx.db.reader()).await?;
    let now = ctx.clock.now();
    let age = oldest.map_or(TimeDelta::zero(), |oldest| (now - oldest).max(TimeDelta::zero()));
    Ok((open, age))
}
