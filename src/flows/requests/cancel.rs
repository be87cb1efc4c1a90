//! Cancels a payment request.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, refusal::Refusal, request::Request},
    flows::{
        FlowError, FlowResult,
        requests::{find, find_locked},
    },
    store,
};

/// The message for a request that belongs to a secure payment.
const OF_LINK: &str =
    "This request is paid by a secure payment: withdraw it with POST /v2/secure-payments/{token}/withdraw";

/// Cancels a request without payments and ends its recurrence. A repeated call changes nothing.
///
/// A concurrent credit is committed before or after the cancellation, never in between.
///
/// Errors:
/// - 404: an unknown request.
/// - 400: the request is paid in part or in full, has a payment in progress, or belongs to a recurring payment or to a
///   payable secure payment.
///
/// Source: rules S.1.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, request_id: &str) -> FlowResult<Request> {
    let found = find(ctx, caller, request_id).await?;
    if let Some(schedule) = &found.terms.schedule {
        let sentence = format!(
            "This request is paid by recurring payment {schedule}: cancel it with PATCH \
             /v2/payouts/recurring/{schedule}"
        );
        return Err(Refusal::invalid(sentence).into());
    }
    let tx = ctx.db.begin("cancel_request").await?;
    let request = find_locked(&tx, &found).await?;
    let (payments, unreadable) = store::secure_payments::lock_of_requests(&tx, &[&request]).await?;
    if let Some(link) = unreadable.into_iter().next() {
        return Err(link.error.into());
    }
    let now = ctx.clock.now();
    if payments.iter().any(|payment| payment.payable_at(now).is_ok()) {
        return Err(Refusal::invalid(OF_LINK).into());
    }
    let ledger = request.ledger.cancel().map_err(Refusal::invalid)?;
    if ledger == request.ledger {
        return Ok(request);
    }
    if !store::requests::advance(&tx, &request, &ledger, now).await? {
        let cause = anyhow::anyhow!("request {} changed while it was cancelled", request.id);
        return Err(FlowError::NotYet(cause));
    }
    if request.terms.recurrence.is_some() {
        store::repeats::set_stopped(&tx, &request, true, None).await?;
    }
    tx.commit().await?;
    Ok(Request { ledger, ..request })
}
