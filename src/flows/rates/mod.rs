//! Rates of off-chain feeds: reading them, and finding the valid one.

pub mod accept;
pub mod list;
pub mod refresh;
pub mod sweep;
mod waiting;

use crate::{
    ctx::Ctx,
    domain::{
        pair::Pair,
        rates::{AppliedRate, RateFlaw},
        refusal::{Refusal, RefusalKind},
    },
    flows::FlowResult,
    store,
};
use chrono::{DateTime, Utc};

/// The valid rate of a pair at a time, or why there was none. The newest reading at that time decides.
pub async fn at(ctx: &Ctx, pair: &Pair, time: DateTime<Utc>) -> FlowResult<Result<AppliedRate, RateFlaw>> {
    let newest = store::rates::newest(ctx.db.reader(), pair, time).await?;
    let holds = newest.map(|reading| reading.holds_at(time, &ctx.rates.guards));
    Ok(holds.unwrap_or(Err(RateFlaw::Absent)))
}

/// The current rate of a pair. Errors: no accepted rate (502).
pub async fn current(ctx: &Ctx, pair: &Pair) -> FlowResult<AppliedRate> {
    let found = at(ctx, pair, ctx.clock.now()).await?;
    Ok(found.map_err(|flaw| {
        let Pair { symbol, invoice } = pair;
        let message = format!(
            "There is currently no usable rate of {symbol} in {invoice}: {}; retry later",
            flaw.sentence()
        );
        Refusal::new(RefusalKind::Upstream, message)
    })?)
}
