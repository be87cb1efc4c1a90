//! Lists the rates as the operator sees them.

use crate::{
    ctx::Ctx,
    domain::{
        pair::Pair,
        rates::{AppliedRate, Flaw, Reading},
    },
    flows::{FlowResult, rates::at},
    store,
};

/// A pair and what is known of it.
#[derive(Debug, Clone)]
pub struct ListedRate {
    /// Token and fiat currency.
    pub pair: Pair,
    /// Its rate now, or why it has none.
    pub now: Result<AppliedRate, Flaw>,
    /// The newest reading.
    pub newest: Option<Reading>,
    /// The last one that was accepted.
    pub last_accepted: Option<Reading>,
}

/// Every pair that a quote may need.
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
