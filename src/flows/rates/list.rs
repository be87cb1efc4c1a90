//! Lists the rates for the operator.

use crate::{
    ctx::Ctx,
    domain::{
        pair::Pair,
        rates::{AppliedRate, RateFlaw, StoredReading},
    },
    flows::{FlowResult, rates::at},
    store,
};

/// A pair with its rate and readings.
#[derive(Debug, Clone)]
pub struct ListedRate {
    /// Token and fiat currency.
    pub pair: Pair,
    /// The current rate of the pair, or why it has none.
    pub now: Result<AppliedRate, RateFlaw>,
    /// The newest reading.
    pub newest: Option<StoredReading>,
    /// The last accepted reading.
    pub last_accepted: Option<StoredReading>,
}

/// Every currency pair that a quote may need, with its rate and readings.
pub async fn run(ctx: &Ctx) -> FlowResult<Vec<ListedRate>> {
    let (reader, time) = (ctx.db.reader(), ctx.clock.now());
    let mut listed = Vec::new();
    for pair in ctx.catalogue.quoted_pairs() {
        listed.push(ListedRate {
            now: at(ctx, &pair, time).await?,
            newest: store::rates::newest(reader, &pair, time).await?,
            last_accepted: store::rates::last_accepted(reader, &pair).await?,
            pair,
        });
    }
    Ok(listed)
}
