//! Rates of feeds beside the chains: reading them, and which one holds.

pub mod accept;
pub mod list;
pub mod refresh;
pub mod sweep;
mod waiting;

use crate::{
    ctx::Ctx,
    domain::{
        pair::Pair,
        rates::{AppliedRate, Flaw},
        refusal::{Refusal, RefusalKind},
    },
    flows::FlowResult,
    store,
};
use chrono::{DateTime, Utc};

/// The rate of a pair that held at a time; inside, why there was none: the newest reading of that time decides.
pub async fn at(ctx: &Ctx, pair: &Pair, time: DateTime<Utc>) -> FlowResult<Result<AppliedRate, Flaw>> {
    let newest = store::rates::newest(ctx.db.reader(), pair, time).await?;
    let holds = newest.map(|reading| reading.holds_at(time, &ctx.rates.guards));
    Ok(holds.unwrap_or(Err(Flaw::Absent)))
}

/// The rate of a pair now. Errors: there is none that is beyond doubt (502).
pub async fn current(ctx: &Ctx, pair: &Pair) -> FlowResult<AppliedRate> {
    let found = at(ctx, pair, ctx.clock.now()).await?;
    Ok(found.map_err(|flaw| {
        let Pair { symbol, invoice } = pair;
        let message = format!(
            "There is no usable rate of {symbol} in {invoice} at the moment: {}; try again later",
            flaw.sentence()
        );
        Refusal::new(RefusalKind::Upstream, message)
    })?)
}
