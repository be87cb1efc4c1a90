//! Lists orders for the operator; counts the open orders and returns the age of the oldest.

use super::{ask::amount, brought, request_of};
use crate::{
    ctx::Ctx,
    domain::{
        amount::Amount,
        off_ramp::{FiatOrder, PayoutOrder, SILENT_AFTER},
        request::Request,
    },
    flows::FlowResult,
    store,
};
use chrono::TimeDelta;

pub use crate::store::off_ramp_orders::OrderSummary;

/// Maximum number of orders in a list.
pub const LISTED_MAX: u64 = 1_000;

/// Filter of an order list.
#[derive(Debug, Clone, Copy, Default)]
pub struct OrderFilter {
    /// Includes finished orders.
    pub all: bool,
    /// Only orders without news for a day.
    pub silent: bool,
}

/// Orders, oldest first.
pub async fn run(ctx: &Ctx, wanted: OrderFilter) -> FlowResult<Vec<OrderSummary>> {
    let silent_since = wanted.silent.then(|| ctx.clock.now() - SILENT_AFTER);
    Ok(store::off_ramp_orders::list(ctx.db.reader(), wanted.all, silent_since, LISTED_MAX).await?)
}

/// A request with money that no order has paid out or will pay out.
#[derive(Debug, Clone)]
pub struct UnsettledRequest {
    /// The request.
    pub request: Request,
    /// The amount that has arrived.
    pub arrived: Amount,
    /// The amount whose payout was requested from the partner; `None` before the first request.
    pub asked: Option<Amount>,
    /// The order, if there is one.
    pub order: Option<FiatOrder>,
}

/// Requests with money that no order has paid out or will pay out, oldest first: partial payments, money of cancelled
/// requests, and money that arrived after the payout was requested.
pub async fn unsettled(ctx: &Ctx) -> FlowResult<Vec<UnsettledRequest>> {
    let reader = ctx.db.reader();
    let mut found = Vec::new();
    for (platform, row) in store::off_ramp_bindings::unsettled(reader, LISTED_MAX).await? {
        let request = request_of(reader, &platform, &row).await?;
        let order = store::off_ramp_orders::of_request(reader, &platform, &row).await?;
        let payments = store::payments::list_of_request(reader, &request).await?;
        let asked = order.as_ref().and_then(|order| order.asked.as_ref());
        let asked = asked.map(|asked| amount(ctx, &request, asked.units)).transpose()?;
        found.push(UnsettledRequest {
            arrived: amount(ctx, &request, PayoutOrder::of(brought(&payments)).units)?,
            asked,
            order,
            request,
        });
    }
    Ok(found)
}

/// Number of open orders, and the age of the oldest.
pub async fn measure(ctx: &Ctx) -> FlowResult<(u64, TimeDelta)> {
    let (open, oldest) = store::off_ramp_orders::measure(ctx.db.reader()).await?;
    let now = ctx.clock.now();
    let age = oldest.map_or(TimeDelta::zero(), |oldest| (now - oldest).max(TimeDelta::zero()));
    Ok((open, age))
}
