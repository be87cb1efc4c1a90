//! What payments make of the orders of their requests, in the commit that credits or reverses them.

use crate::{
    ctx::Ctx,
    domain::{
        ids::{OffRampOrderId, QuarantineId},
        ledger::{Ending, Ledger, RequestStatus},
        oddity::{Concerned, OddReason, Oddity},
        off_ramp::{FiatOrder, FiatQuote, OrderState, OrderTrigger, Step},
        payment_record::PaymentRecord,
        request::Request,
    },
    flows::{Fault, FlowError, FlowResult},
    store::{self, Tx},
};
use anyhow::anyhow;
use chrono::{DateTime, Utc};
use std::collections::BTreeSet;

/// Makes the orders of requests due whose whole amount has arrived, and stops those from which some of it was taken back.
///
/// The accounts were written before in the same transaction. Errors: an order changed meanwhile, so that nothing of it may be
/// kept. Source: rules S.1; rules S.7.
pub(in crate::flows) async fn run(
    ctx: &Ctx,
    tx: &Tx,
    changes: &[(&Request, &Ledger)],
    now: DateTime<Utc>,
) -> FlowResult<()> {
    hold(tx, changes).await?;
    let is_complete = |ledger: &Ledger| ledger.ending == Ending::Bank && ledger.status == RequestStatus::Processing;
    for (request, after) in changes {
        match (is_complete(&request.ledger), is_complete(after)) {
            (false, true) => due(ctx, tx, request, after, now).await?,
            (true, false) => stop(tx, request, now).await?,
            // The money of the last payment went, and others are enough: the order is for what is there.
            (true, true) if request.ledger.tx_hash != after.tx_hash => {
                stop(tx, request, now).await?;
                due(ctx, tx, request, after, now).await?;
            }
            (true, true) | (false, false) => {}
        }
    }
    Ok(())
}

/// Whoever erases a payer whose requests changed waits, and finds the money. Payers are held in their order, so that no two
/// wait for each other.
async fn hold(tx: &Tx, changes: &[(&Request, &Ledger)]) -> FlowResult<()> {
    let mut payers = BTreeSet::new();
    for (request, _) in changes
        .iter()
        .filter(|(request, _)| request.ledger.ending != Ending::Wallet)
    {
        let bound = store::off_ramp_bindings::of_request(tx, request).await?;
        payers.extend(bound.map(|bound| (bound.payer, request.origin.platform.clone())));
    }
    for (payer, platform) in &payers {
        store::payers::hold(tx, platform, payer).await?;
    }
    Ok(())
}

/// Makes an order due under the quote of the payment that completed the request: one of its own, for its own account.
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
            let Step::To(state) = known.state.after(OrderTrigger::Complete) else {
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
    let Step::To(state) = known.state.after(OrderTrigger::Reversed) else {
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
    match store::off_ramp_orders::replace(tx, before, after).await? {
        true => Ok(()),
        false => Err(changed(request)),
    }
}

fn changed(request: &Request) -> FlowError {
    FlowError::NotYet(anyhow!(
        "the order of request {} changed while its payments did",
        request.id
    ))
}

/// The quote under which a payment of a request arrived, of the account to which the request is bound.
pub(super) async fn quote_under(tx: &Tx, request: &Request, payment: Option<&PaymentRecord>) -> FlowResult<FiatQuote> {
    let mut quotes = store::off_ramp_quotes::of_request(tx, request).await?;
    let bound = store::off_ramp_bindings::of_request(tx, request).await?;
    quotes.retain(|quote| bound.as_ref() == Some(&quote.to));
    let quote = payment.and_then(|payment| quote_of(payment, &quotes)).cloned();
    Ok(quote.ok_or_else(|| Fault(anyhow!("request {} was paid under no quote", request.id)))?)
}

/// The newest quote of the address of a payment.
fn quote_of<'a>(payment: &PaymentRecord, quotes: &'a [FiatQuote]) -> Option<&'a FiatQuote> {
    let of_address = |quote: &&FiatQuote| quote.terms.address == payment.payee;
    let is_exact = |quote: &&FiatQuote| of_address(quote) && quote.terms.units == payment.units;
    quotes
        .iter()
        .rfind(is_exact)
        .or_else(|| quotes.iter().rfind(of_address))
}

/// Sets aside for the operator that money left the chain for which the partner was asked to pay.
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
            "a payment of request {} left the chain after order {id} was opened, which is {state}: settle it with the partner",
            request.id
        ),
        concerned: Some(Concerned::of(request)),
    };
    tracing::error!(network = %odd.network, tx = %payment.tx_hash, "{}", odd.detail);
    Ok(store::quarantine::put(tx, &odd, QuarantineId(ctx.ids.ulid()), now).await?)
}
