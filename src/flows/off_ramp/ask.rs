//! Asks the partner: to open the orders that are due, and how far those are that are open.

use super::{brought, follow, locked_request_of, news, request_of};
use crate::{
    ctx::Ctx,
    domain::{
        amount::Amount,
        off_ramp::{AskedFor, FiatOrder, OrderState, OrderTrigger, PUT_OFF_MAX, Step, open_again_after, order_key},
        off_ramp_news::Taken,
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

/// Orders that are asked about together.
const TOGETHER: u64 = 8;

/// For how long nobody else asks about an order that is being asked about: longer than the partner may take.
const LEASE: TimeDelta = TimeDelta::seconds(30);

/// Characters of a reason that are kept.
const REASON_LENGTH_MAX: usize = 200;

/// Asks about the orders that are due; returns whether there may be more.
///
/// Each is claimed for a while, so that two instances do not ask about the same one; if they do all the same, the key and the
/// number of the news make the second answer change nothing.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let Some(partner) = ctx.partners.off_ramp.as_deref() else {
        return Ok(false);
    };
    let now = ctx.clock.now();
    let claimed =
        store::off_ramp_orders::claim_due(ctx.db.writer(), (now, now + PUT_OFF_MAX), now + LEASE, TOGETHER).await?;
    let asked = join_all(claimed.iter().map(|order| one(ctx, partner, order))).await;
    for (order, asked) in claimed.iter().zip(asked) {
        if let Err(error) = asked {
            tracing::warn!(order = %order.id, %error, "an order could not be followed");
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

/// An answer about another order is not believed.
fn answered_for(id: &str, answer: Result<OrderNews, OffRampError>) -> Result<OrderNews, OffRampError> {
    match answer {
        Ok(news) if news.id != id => Err(OffRampError::Odd("it tells of another order".to_owned())),
        answer => answer,
    }
}

/// Asks the partner to open an order, for what is kept before. Where the money left the chain since, it is not asked: an order
/// that was never sent stops, and another one waits for its money, in whatever transaction, or for the operator,
/// who finds it in the quarantine. Nor is it asked for a payer who was erased before the money came: that is for the operator to settle.
async fn open(ctx: &Ctx, partner: &dyn OffRamp, order: &FiatOrder) -> FlowResult<()> {
    let is_first = order.state == OrderState::Due;
    let order = &intended(ctx, order).await?;
    crate::fail_at("open_order", "intended");
    let opened = match question(ctx, order).await? {
        Ok(question) => partner.open_order(&question).await,
        Err(why) => Err(OffRampError::NotSent(format!("is not asked: {why}"))),
    };
    crate::fail_at("open_order", "answered");
    match of_nobody_else(ctx, order, opened).await? {
        Err(error @ (OffRampError::NotSent(_) | OffRampError::Busy)) if is_first => unsent(ctx, order, &error).await,
        opened => after(ctx, order, opened).await,
    }
}

/// The id of an order that is known is not believed of another one.
async fn of_nobody_else(
    ctx: &Ctx,
    order: &FiatOrder,
    opened: Result<OrderNews, OffRampError>,
) -> FlowResult<Result<OrderNews, OffRampError>> {
    let Ok(news) = &opened else { return Ok(opened) };
    let known = store::off_ramp_orders::by_partner_id(ctx.db.reader(), &news.id).await?;
    if known.is_some_and(|known| known.id != order.id) {
        let why = "it gives the id of another order";
        disbelieved("open_order", why);
        return Ok(Err(OffRampError::Odd(why.to_owned())));
    }
    Ok(opened)
}

fn changed(order: &FiatOrder) -> FlowError {
    FlowError::NotYet(anyhow!("order {} changed before it was opened", order.id))
}

/// Notes that the partner is about to be asked, and for what, so that nothing stops the order any more: whether it was asked is
/// not known after a crash, and it is asked again under the same key and for the same.
async fn intended(ctx: &Ctx, order: &FiatOrder) -> FlowResult<FiatOrder> {
    if order.state == OrderState::Asked {
        return named_anew(ctx, order).await;
    }
    let Step::To(state) = order.state.after(OrderTrigger::Ask) else {
        return Err(changed(order));
    };
    let now = ctx.clock.now();
    let tx = ctx.db.begin("intend_order").await?;
    let request = locked_request_of(&tx, &order.platform, &order.request).await?;
    let ledger = request.ledger.ordered().ok_or_else(|| changed(order))?;
    let payments = store::payments::list_of_request(&tx, &request).await?;
    let asked = FiatOrder {
        state,
        asked: Some(AskedFor::of(brought(&payments))),
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

/// Names the payments that have the money of an order now, where it left the chain and came back in others: for the same
/// amount and under the same key, by which the partner finds the order if it has it.
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

/// Takes back that the partner was to be asked, because nothing was sent: what becomes of the money stops the order again, also
/// what became of it meanwhile.
async fn unsent(ctx: &Ctx, order: &FiatOrder, error: &OffRampError) -> FlowResult<()> {
    let Step::To(state) = order.state.after(OrderTrigger::Unsent) else {
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

/// What the partner is asked: as much as had arrived when it was asked first, under the quote whose address brought the
/// last of it. The inner error is why it is not asked.
async fn question(ctx: &Ctx, order: &FiatOrder) -> FlowResult<Result<OrderQuestion, &'static str>> {
    let request = request_of(ctx.db.reader(), &order.platform, &order.request).await?;
    let asked = order.asked.as_ref();
    let asked = asked.ok_or_else(|| Fault(anyhow!("for what order {} was asked is not there", order.id)))?;
    let payments = store::payments::list_of_request(ctx.db.reader(), &request).await?;
    if !asked.is_there(brought(&payments)) {
        return Ok(Err("the money of the order left the chain"));
    }
    let quotes = store::off_ramp_quotes::of_request(ctx.db.reader(), &request).await?;
    let quote = quotes.into_iter().find(|quote| quote.id == order.quote);
    let quote = quote.ok_or_else(|| Fault(anyhow!("the quote of order {} is not there", order.id)))?;
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
        token: token.ok_or_else(|| Fault(anyhow!("request {} is paid in no token", request.id)))?,
        amount: amount(ctx, &request, asked.units)?,
        transactions: asked.transactions.iter().map(ToString::to_string).collect(),
    }))
}

/// Token units of a request in human units.
pub(super) fn amount(ctx: &Ctx, request: &Request, units: U256) -> FlowResult<Amount> {
    let known = ctx.catalogue.find(&request.terms.payment_currency);
    let amount = known.and_then(|currency| Amount::of_units(units, currency.decimals));
    Ok(amount.ok_or_else(|| Fault(anyhow!("request {} has no amount in its currency", request.id)))?)
}

/// Takes the answer, and says when to ask again. An order that the partner does not open waits for the operator: nothing says
/// how it ended that the partner did not tell.
async fn after(ctx: &Ctx, order: &FiatOrder, asked: Result<OrderNews, OffRampError>) -> FlowResult<()> {
    let now = ctx.clock.now();
    let again = match asked {
        Ok(told) => match news::take(ctx, order, &told).await? {
            // In the other case somebody else took news of it.
            Some(Taken::Changed) | None => return Ok(()),
            Some(Taken::Nothing | Taken::Unknown) => FiatOrder {
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

/// An order about which the partner was asked in vain, and is asked again, slower and slower.
fn later(order: &FiatOrder, error: &OffRampError, now: DateTime<Utc>) -> FiatOrder {
    let failures = order.failures.saturating_add(1);
    tracing::debug!(order = %order.id, failures, "the off-ramp partner does not tell how far an order is");
    let word = order.word.clone().filter(|_| order.partner_id.is_some());
    FiatOrder {
        failures,
        word: word.or_else(|| Some(error.to_string().chars().take(REASON_LENGTH_MAX).collect())),
        next_at: Some(now + open_again_after(failures)),
        ..order.clone()
    }
}
