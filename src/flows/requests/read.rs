//! Reads one payment request with its payments.

use crate::{
    ctx::Ctx,
    domain::{
        amount::format_units,
        caller::Caller,
        payment::Observation,
        request::Request,
    },
    flows::{FlowResult, requests::find},
    store::{self, payments::PaymentRecord},
};
use alloy::primitives::U256;

/// A request and what happened to it.
#[derive(Debug, Clone)]
pub struct RequestDetail {
    /// The request.
    pub request: Request,
    /// Its final payments, oldest first.
    pub payments: Vec<PaymentRecord>,
    /// Units that the chain shows for it and that are not final yet.
    pub detected_units: U256,
}

impl RequestDetail {
    /// What is detected and not final, in human units; `None` when there is nothing.
    pub fn detected_amount(&self, ctx: &Ctx) -> Option<String> {
        if self.detected_units.is_zero() {
            return None;
        }
        let payment = ctx.catalogue.find(&self.request.payment_currency)?;
        Some(format_units(self.detected_units, self.request.settlement_decimals(payment)))
    }
}

/// Reads a request of the caller's platform.
pub async fn run(ctx: &Ctx, caller: &Caller, request_id: &str) -> FlowResult<RequestDetail> {
    let request = find(ctx, caller, request_id).await?;
    let payments = store::payments::list_of_request(ctx.db.reader(), &request.row).await?;
    let seen: Vec<Observation> =
        store::observations::list_seen_by_topic(ctx.db.reader(), request.network, request.reference.topic()).await?;
    let matching = seen.iter().filter(|observed| request.matches(observed, &ctx.catalogue));
    let detected_units = matching.fold(U256::ZERO, |sum, observed| sum.saturating_add(request.credit(observed, observed.units)));
    Ok(RequestDetail { request, payments, detected_units })
}
