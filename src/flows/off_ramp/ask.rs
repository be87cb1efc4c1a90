//! Calls the off-ramp partner: opens due orders, and queries the status of open orders.

use super::{brought, follow, locked_request_of, news, request_of};
use crate::{
    ctx::Ctx,
    domain::{
        amount::Amount,
        off_ramp::{
            FiatOrder, OrderState, OrderTransition, OrderTrigger, PUT_OFF_MAX, PayoutOrder, open_again_after, order_key,
        },
        off_ramp_news::NewsResult,
        payment_record::PaymentRecord,
        request::Request,
    },
    flows::{Fault, FlowError, FlowResult, payers::disbelieved::disbelieved},
    ports::off_ramp::{OffRamp, OffRampError, OrderNews, OrderQuestion, PartnerKey},
    store,
};
use alloy::primitives::U256;
use anyhow::anyhow;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;

/// Maximum number of orders that one call of [`run`] handles.
const TOGETHER: u64 = 8;

/// How long a claimed order is reserved for this instance: longer than a call to the partner may take.
const LEASE: TimeDelta = TimeDelta::seconds(30);

/// Maximum number of characters of a reason that are stored.
const REASON_LENGTH_MAX: usize = 200;

/// Handles the due orders; returns whether there may be more.
///
/// Each order is claimed for a while, so that two instances do not handle the same order. If both do, the second
/// response changes nothing: both calls have the same key, and the news in both responses has the same number.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let Some(partner) = ctx.partners.off_ramp.as_deref() else {
        return Ok(false);
    };
    let now = ctx.clock.now();
    let claimed =
        store::off_ramp_orders::claim_due(ctx.db.writer(), now, now + PUT_OFF_MAX, now + LEASE, TOGETHER).await?;
    let asked = join_all(claimed.iter().map(|order| one(ctx, partner, order))).await;
    for (order, asked) in claimed.iter().zip(asked) {
        if let Err(error) = asked {
            tracing::warn!(order = %order.id, %error, "an order could not be opened or queried; the service retries");
        }
    }
    Ok(u64::try_from(claimed.len()).is_ok_and(|count| count == TOGETHER))
}

async fn one(ctx: &Ctx, partner: &dyn OffRamp, order: &FiatOrder) -> FlowResult<()> {
    match &order.partner_id {
        Some(id) => after(ctx, order, answered_for(id, partner.order(id).await)).await,
        None => open(ctx, partner, order).await,
    }
}

/// Rejects a response about another order.
fn answered_for(id: &str, answer: Result<OrderNews, OffRampError>) -> Result<OrderNews, OffRampError> {
    match answer {
        Ok(news) if news.id != id => Err(OffRampError::Odd("the response is about another order".to_owned())),
        answer => answer,
    }
}

/// Calls the partner to open an order, with the stored payout. The partner is not called in two cases:
/// - A reorganisation has removed the money from the chain. If the order was never sent to the partner, the order
///   stops. Otherwise the order waits until the money arrives again, in any transaction, or until the operator handles
///   the case, which is in the quarantine.
/// - The payer was erased before the money arrived. The operator settles such an order.
async fn open(ctx: &Ctx, partner: &dyn OffRamp, order: &FiatOrder) -> FlowResult<()> {
    let is_first = order.state == OrderState::Due;
    let order = &intended(ctx, order).await?;
    crate::fail_at("open_order", "intended");
    let opened = match question(ctx, order).await? {
        Ok(question) => partner.open_order(&question).await,
        Err(why) => Err(OffRampError::NotSent(format!("is not called: {why}"))),
    };
    crate::fail_at("open_order", "answered");
    match reject_other_order(ctx, order, opened).await? {
        Err(error @ (OffRampError::NotSent(_) | OffRampError::Busy)) if is_first => unsent(ctx, order, &error).await,
        opened => after(ctx, order, opened).await,
    }
}

/// Rejects a response whose partner id belongs to another known order.
async fn reject_other_order(
    ctx: &Ctx,
    order: &FiatOrder,
    opened: Result<OrderNews, OffRampError>,
) -> FlowResult<Result<OrderNews, OffRampError>> {
    let Ok(news) = &opened else { return Ok(opened) };
    let known = store::off_ramp_orders::by_partner_id(ctx.db.reader(), &news.id).await?;
    if known.is_some_and(|known| known.id != order.id) {
        let why = "the response has the id of another order";
        disbelieved("open_order", why);
        return Ok(Err(OffRampError::Odd(why.to_owned())));
    }
    Ok(opened)
}

fn changed(order: &FiatOrder) -> FlowError {
    FlowError::NotYet(anyhow!("order {} changed before it was opened", order.id))
}

/// Records the payout that the call to the partner is about to request. From then on nothing stops the order: after a
/// crash it is unknown whether the partner was called, so the same call is repeated under the same key.
async fn intended(ctx: &Ctx, order: &FiatOrder) -> FlowResult<FiatOrder> {
    if order.state == OrderState::Asked {
        return named_anew(ctx, order).await;
    }
    let OrderTransition::To(state) = order.state.after(OrderTrigger::Ask) else {
        return Err(changed(order));
    };
    let now = ctx.clock.now();
    let tx = ctx.db.begin("intend_order").await?;
    let request = locked_request_of(&tx, &order.platform, &order.request).await?;
    let ledger = request.ledger.ordered().ok_or_else(|| changed(order))?;
    let payments = store::payments::list_of_request(&tx, &request).await?;
    let asked = FiatOrder {
        state,
        asked: Some(PayoutOrder::of(brought(&payments))),
        ..order.clone()
    };
    let is_written = store::requests::advance(&tx, &request, &ledger, now).await?
        && store::off_ramp_orders::replace(&tx, order, &asked).await?;
    if !is_written {
        return Err(changed(order));
    }
    tx.commit().await?;
    Ok(asked)
}

/// Replaces the payments that an order pays out, after a reorganisation removed them and the same money arrived in
/// other payments. The amount and the order's key at the partner stay the same, so the partner recognises an order that
/// it already has.
async fn named_anew(ctx: &Ctx, order: &FiatOrder) -> FlowResult<FiatOrder> {
    let tx = ctx.db.begin("name_payments_anew").await?;
    let request = locked_request_of(&tx, &order.platform, &order.request).await?;
    let payments = store::payments::list_of_request(&tx, &request).await?;
    let asked = order.asked.as_ref().filter(|asked| !asked.is_there(brought(&payments)));
    let again = asked.and_then(|asked| asked.brought_by(&payments, |payment| (payment.tx_hash, payment.units)));
    let Some((asked, last)) = again else {
        return Ok(order.clone());
    };
    let quote = follow::quote_under(&tx, &request, Some(&last)).await?;
    let named = FiatOrder {
        quote: quote.id,
        payer: quote.to.payer,
        account: quote.to.account,
        asked: Some(asked),
        ..order.clone()
    };
    if !store::off_ramp_orders::replace(&tx, order, &named).await? {
        return Err(changed(order));
    }
    tx.commit().await?;
    Ok(named)
}

/// Deletes the record of a call that was certainly not sent. From then on, the order stops again when its money leaves
/// the chain. The order also stops now if its money left the chain after the record was written.
async fn unsent(ctx: &Ctx, order: &FiatOrder, error: &OffRampError) -> FlowResult<()> {
    let OrderTransition::To(state) = order.state.after(OrderTrigger::Unsent) else {
        return Err(changed(order));
    };
    let now = ctx.clock.now();
    let again = FiatOrder {
        state,
        asked: None,
        ..later(order, error, now)
    };
    let tx = ctx.db.begin("unsend_order").await?;
    let request = locked_request_of(&tx, &order.platform, &order.request).await?;
    let payments = store::payments::list_of_request(&tx, &request).await?;
    let before = Request {
        ledger: request.ledger.unordered(),
        ..request.clone()
    };
    let ledger = before.ledger.recounted(&PaymentRecord::credits(&payments));
    let is_written = store::off_ramp_orders::replace(&tx, order, &again).await?
        && store::requests::advance(&tx, &request, &ledger, now).await?;
    if !is_written {
        return Err(changed(order));
    }
    follow::run(ctx, &tx, &[(&before, &ledger)], now).await?;
    tx.commit().await?;
    Ok(())
}

/// The content of the call to the partner: the amount that had arrived when the call was first made, and the quote
/// whose deposit address received the last payment. The inner error is the reason why the partner must not be called.
async fn question(ctx: &Ctx, order: &FiatOrder) -> FlowResult<Result<OrderQuestion, &'static str>> {
    let request = request_of(ctx.db.reader(), &order.platform, &order.request).await?;
    let asked = order.asked.as_ref();
    let asked = asked.ok_or_else(|| {
        Fault(anyhow!(
            "the payout of order {} must be recorded before the call to the partner",
            order.id
        ))
    })?;
    let payments = store::payments::list_of_request(ctx.db.reader(), &request).await?;
    if !asked.is_there(brought(&payments)) {
        return Ok(Err("the payments for the order are no longer on the chain"));
    }
    let quotes = store::off_ramp_quotes::of_request(ctx.db.reader(), &request).await?;
    let quote = quotes.into_iter().find(|quote| quote.id == order.quote);
    let quote = quote.ok_or_else(|| Fault(anyhow!("the quote of order {} is missing", order.id)))?;
    let Some(called) = quote.called else {
        return Ok(Err("the payer was erased"));
    };
    let token = request.terms.token;
    Ok(Ok(OrderQuestion {
        key: PartnerKey(order_key(&order.platform, &request.id)),
        quote: quote.terms.partner_quote,
        payer: called.payer,
        account: called.account,
        network: request.terms.network,
        deposit_address: quote.terms.address,
        token: token.ok_or_else(|| Fault(anyhow!("request {} has no payment token", request.id)))?,
        amount: amount(ctx, &request, asked.units)?,
        transactions: asked.transactions.iter().map(ToString::to_string).collect(),
    }))
}

/// Converts token units of a request to an amount with decimals.
pub(super) fn amount(ctx: &Ctx, request: &Request, units: U256) -> FlowResult<Amount> {
    let known = ctx.catalogue.find(&request.terms.payment_currency);
    let amount = known.and_then(|currency| Amount::of_units(units, currency.decimals));
    Ok(amount.ok_or_else(|| {
        Fault(anyhow!(
            "an amount of request {} cannot be expressed in its payment currency",
            request.id
        ))
    })?)
}

/// Handles the response, and sets the time of the next call. An order that the partner does not open waits for the
/// operator: only the partner reports how an order ends.
async fn after(ctx: &Ctx, order: &FiatOrder, asked: Result<OrderNews, OffRampError>) -> FlowResult<()> {
    let now = ctx.clock.now();
    let again = match asked {
        Ok(told) => match news::take(ctx, order, &told).await? {
            // `None`: a concurrent call handled news of this order.
            Some(NewsResult::Changed) | None => return Ok(()),
            Some(NewsResult::Nothing | NewsResult::Unknown) => FiatOrder {
                failures: 0,
                next_at: news::next_after_nothing(order, now),
                ..order.clone()
            },
        },
        Err(error) => later(order, &error, now),
    };
    store::off_ramp_orders::replace(ctx.db.writer(), order, &again).await?;
    Ok(())
}

/// The order after a failed call. The call is retried, with a longer pause after each failure.
fn later(order: &FiatOrder, error: &OffRampError, now: DateTime<Utc>) -> FiatOrder {
    let failures = order.failures.saturating_add(1);
    tracing::debug!(order = %order.id, failures, "the off-ramp partner did not return the state of an order");
    let word = order.word.clone().filter(|_| order.partner_id.is_some());
    FiatOrder {
        failures,
        word: word.or_else(|| Some(error.to_string().chars().take(REASON_LENGTH_MAX).collect())),
        next_at: Some(now + open_again_after(failures)),
        ..order.clone()
    }
}
