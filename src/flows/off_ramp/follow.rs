//! Updates the orders of requests in the commit that credits or reverses their payments.

use crate::{
    ctx::Ctx,
    domain::{
        ids::{OffRampOrderId, QuarantineId},
        ledger::{Ledger, PaymentEnding, RequestStatus},
        oddity::{ConcernedRequest, OddReason, Oddity},
        off_ramp::{FiatOrder, FiatQuote, OrderState, OrderTransition, OrderTrigger},
        payment_record::PaymentRecord,
        request::Request,
    },
    flows::{Fault, FlowError, FlowResult},
    store::{self, Tx},
};
use anyhow::anyhow;
use chrono::{DateTime, Utc};
use std::collections::BTreeSet;

/// Makes the orders of fully paid requests due. Stops the orders of requests whose money was partly reversed.
///
/// The ledgers of the requests are written earlier in the same transaction. Errors: an order changed in the meantime;
/// the caller must then roll the transaction back. Source: rules S.1; rules S.7.
pub(in crate::flows) async fn run(
    ctx: &Ctx,
    tx: &Tx,
    changes: &[(&Request, &Ledger)],
    now: DateTime<Utc>,
) -> FlowResult<()> {
    hold(tx, changes).await?;
    let is_complete =
        |ledger: &Ledger| ledger.ending == PaymentEnding::Bank && ledger.status == RequestStatus::Processing;
    for (request, after) in changes {
        match (is_complete(&request.ledger), is_complete(after)) {
            (false, true) => due(ctx, tx, request, after, now).await?,
            (true, false) => stop(tx, request, now).await?,
            // The payment that completed the request was reversed, and other payments suffice: the order then pays out
            // the remaining money.
            (true, true) if request.ledger.tx_hash != after.tx_hash => {
                stop(tx, request, now).await?;
                due(ctx, tx, request, after, now).await?;
            }
            (true, true) | (false, false) => {}
        }
    }
    Ok(())
}

/// Locks the payers of the changed requests. A concurrent erasure waits for the lock and then finds the money. Payers
/// are locked in order, so that two transactions cannot deadlock.
async fn hold(tx: &Tx, changes: &[(&Request, &Ledger)]) -> FlowResult<()> {
    let mut payers = BTreeSet::new();
    for (request, _) in changes
        .iter()
        .filter(|(request, _)| request.ledger.ending != PaymentEnding::Wallet)
    {
        let bound = store::off_ramp_bindings::of_request(tx, request).await?;
        payers.extend(bound.map(|bound| (bound.payer, request.origin.platform.clone())));
    }
    for (payer, platform) in &payers {
        store::payers::hold(tx, platform, payer).await?;
    }
    Ok(())
}

/// Makes an order due under the quote of the payment that completed the request. The quote must be for the account to
/// which the request is bound.
async fn due(ctx: &Ctx, tx: &Tx, request: &Request, after: &Ledger, now: DateTime<Utc>) -> FlowResult<()> {
    let payments = store::payments::list_of_request(tx, request).await?;
    let completing = payments.iter().rfind(|payment| after.tx_hash == Some(payment.tx_hash));
    let quote = quote_under(tx, request, completing).await?;
    let order = FiatOrder {
        id: OffRampOrderId(ctx.ids.ulid()),
        platform: request.origin.platform.clone(),
        request: request.row.clone(),
        quote: quote.id,
        payer: quote.to.payer,
        account: quote.to.account,
        asked: None,
        partner_id: None,
        state: OrderState::Due,
        version: 0,
        word: None,
        failures: 0,
        next_at: Some(now),
        changed_at: now,
        created_at: now,
    };
    match store::off_ramp_orders::of_request(tx, &order.platform, &order.request).await? {
        None => Ok(store::off_ramp_orders::insert(tx, &order).await?),
        Some(known) => {
            let OrderTransition::To(state) = known.state.after(OrderTrigger::Complete) else {
                return Err(changed(request));
            };
            let again = FiatOrder {
                id: known.id.clone(),
                state,
                ..order
            };
            replace(tx, request, &known, &again).await
        }
    }
}

async fn stop(tx: &Tx, request: &Request, now: DateTime<Utc>) -> FlowResult<()> {
    let known = store::off_ramp_orders::of_request(tx, &request.origin.platform, &request.row).await?;
    let Some(known) = known else { return Ok(()) };
    let OrderTransition::To(state) = known.state.after(OrderTrigger::Reversed) else {
        return Err(changed(request));
    };
    let stopped = FiatOrder {
        state,
        next_at: None,
        changed_at: now,
        ..known.clone()
    };
    replace(tx, request, &known, &stopped).await
}

async fn replace(tx: &Tx, request: &Request, before: &FiatOrder, after: &FiatOrder) -> FlowResult<()> {
    if store::off_ramp_orders::replace(tx, before, after).await? {
        Ok(())
    } else {
        Err(changed(request))
    }
}

fn changed(request: &Request) -> FlowError {
    FlowError::NotYet(anyhow!(
        "the order of request {} changed while its payments changed",
        request.id
    ))
}

/// The quote under which a payment of a request arrived, for the account to which the request is bound.
pub(super) async fn quote_under(tx: &Tx, request: &Request, payment: Option<&PaymentRecord>) -> FlowResult<FiatQuote> {
    let mut quotes = store::off_ramp_quotes::of_request(tx, request).await?;
    let bound = store::off_ramp_bindings::of_request(tx, request).await?;
    quotes.retain(|quote| bound.as_ref() == Some(&quote.to));
    let quote = payment.and_then(|payment| quote_of(payment, &quotes)).cloned();
    Ok(quote.ok_or_else(|| Fault(anyhow!("a payment of request {} belongs to no quote", request.id)))?)
}

/// The newest quote with the deposit address and the exact amount of a payment. Without such a quote, the newest quote
/// with the deposit address.
fn quote_of<'a>(payment: &PaymentRecord, quotes: &'a [FiatQuote]) -> Option<&'a FiatQuote> {
    let of_address = |quote: &&FiatQuote| quote.terms.address == payment.payee;
    let is_exact = |quote: &&FiatQuote| of_address(quote) && quote.terms.units == payment.units;
    quotes
        .iter()
        .rfind(is_exact)
        .or_else(|| quotes.iter().rfind(of_address))
}

/// Quarantines money that left the chain after its payout was requested from the partner.
pub(in crate::flows) async fn set_aside(
    ctx: &Ctx,
    tx: &Tx,
    request: &Request,
    payment: &PaymentRecord,
    now: DateTime<Utc>,
) -> FlowResult<()> {
    let order = store::off_ramp_orders::of_request(tx, &request.origin.platform, &request.row).await?;
    let (id, state) = match &order {
        Some(order) => (order.id.as_str(), order.state.wire()),
        None => ("none", "unknown"),
    };
    let odd = Oddity {
        network: payment.network,
        block_number: payment.block_number,
        tx_hash: Some(payment.tx_hash),
        position: Some(payment.position),
        reason: OddReason::PaidOut,
        detail: format!(
            "a payment of request {} left the chain after order {id} was opened; \
             the order is {state}: settle the payment with the partner",
            request.id
        ),
        concerned: Some(ConcernedRequest::of(request)),
    };
    tracing::error!(network = %odd.network, tx = %payment.tx_hash, "{}", odd.detail);
    Ok(store::quarantine::put(tx, &odd, QuarantineId(ctx.ids.ulid()), now).await?)
}
