//! Lists orders for the operator, and measures those that are open.

use super::{ask::amount, brought, request_of};
use crate::{
    ctx::Ctx,
    domain::{
        amount::Amount,
        off_ramp::{AskedFor, FiatOrder, SILENT_AFTER},
        request::Request,
    },
    flows::FlowResult,
    store,
};
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

/// A request with money that no order paid out or will.
#[derive(Debug, Clone)]
pub struct Unsettled {
    /// The request.
    pub request: Request,
    /// What has arrived.
    pub arrived: Amount,
    /// What the partner was asked to pay out of it.
    pub asked: Option<Amount>,
    /// The order, where there is one.
    pub order: Option<FiatOrder>,
}

/// Requests with money that no order paid out or will, the oldest first: parts, what cancelled ones got, and what came after
/// the partner was asked.
pub async fn unsettled(ctx: &Ctx) -> FlowResult<Vec<Unsettled>> {
    let reader = ctx.db.reader();
    let mut found = Vec::new();
    for (platform, row) in store::off_ramp_bindings::unsettled(reader, LISTED_MAX).await? {
        let request = request_of(reader, &platform, &row).await?;
        let order = store::off_ramp_orders::of_request(reader, &platform, &row).await?;
        let payments = store::payments::list_of_request(reader, &request).await?;
        let asked = order.as_ref().and_then(|order| order.asked.as_ref());
        let asked = asked.map(|asked| amount(ctx, &request, asked.units)).transpose()?;
        found.push(Unsettled {
            arrived: amount(ctx, &request, AskedFor::of(brought(&payments)).units)?,
            asked,
            order,
            request,
        });
    }
    Ok(found)
}

/// How many orders are open, and for how long the oldest is.
pub async fn measure(ctx: &Ctx) -> FlowResult<(u64, TimeDelta)> {
    let (open, oldest) = store::off_ramp_orders::measure(ctx.db.reader()).await?;
    let now = ctx.clock.now();
    let age = oldest.map_or(TimeDelta::zero(), |oldest| (now - oldest).max(TimeDelta::zero()));
    Ok((open, age))
}
