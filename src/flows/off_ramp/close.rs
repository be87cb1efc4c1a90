//! Closes a request whose money no order pays out: a partial payment, an order that the partner never accepted, or a
//! surplus.

use crate::{
    ctx::Ctx,
    domain::{
        off_ramp::{FiatOrder, OrderTransition, OrderTrigger},
        refusal::Refusal,
        request::Request,
    },
    flows::{
        FlowError, FlowResult,
        off_ramp::{locked_request_of, news::failure},
        publish_all,
    },
    store,
};
use anyhow::anyhow;

/// Maximum number of characters of a note that are stored.
const NOTE_MAX: usize = 2_000;

/// Records that the operator settled the money of a request in another way, with a note. An open order fails, and an
/// event reports the failure. Returns the request.
///
/// Errors: an unknown request; a request without a payout to a bank account; no payment has arrived; the partner has
/// the order and decides how it ends.
pub async fn run(ctx: &Ctx, request_id: &str, note: &str) -> FlowResult<Request> {
    let found = store::requests::of_any_platform(ctx.db.reader(), request_id).await?;
    let found = found.ok_or_else(|| Refusal::not_found(format!("there is no request {request_id}")))?;
    let now = ctx.clock.now();
    let tx = ctx.db.begin("close_off_ramp").await?;
    let request = locked_request_of(&tx, &found.origin.platform, &found.row).await?;
    if store::off_ramp_bindings::of_request(&tx, &request).await?.is_none() {
        return Err(Refusal::conflict(format!("request {request_id} has no payout to a bank account")).into());
    }
    let conflict = |why: &str| Refusal::conflict(format!("request {request_id} cannot be closed: {why}"));
    let ledger = request.ledger.close().map_err(conflict)?;
    let order = store::off_ramp_orders::of_request(&tx, &request.origin.platform, &request.row).await?;
    let changed = || FlowError::NotYet(anyhow!("request {request_id} changed while it was closed"));
    match order
        .as_ref()
        .map(|order| (order, order.state.after(OrderTrigger::Close)))
    {
        Some((_, OrderTransition::Barred)) => {
            return Err(
                conflict("the partner already has the order of the request, and decides how the order ends").into(),
            );
        }
        Some((order, OrderTransition::To(state))) => {
            let ended = FiatOrder {
                state,
                word: Some("closed by the operator".to_owned()),
                next_at: None,
                changed_at: now,
                ..order.clone()
            };
            if !store::off_ramp_orders::replace(&tx, order, &ended).await? {
                return Err(changed());
            }
        }
        Some((_, OrderTransition::Nothing)) | None => {}
    }
    let note: String = note.chars().take(NOTE_MAX).collect();
    store::off_ramp_bindings::close(&tx, &request, &note, now).await?;
    let has_ended = ledger != request.ledger;
    if has_ended && !store::requests::advance(&tx, &request, &ledger, now).await? {
        return Err(changed());
    }
    let closed = Request { ledger, ..request };
    if has_ended {
        publish_all(ctx, &tx, &[failure(&closed, "failed", None, now)]).await?;
    }
    tx.commit().await?;
    ctx.due.notify_one();
    tracing::info!(request = %closed.id, payments = closed.ledger.payment_count, "the operator closed a payment to a bank account");
    Ok(closed)
}
