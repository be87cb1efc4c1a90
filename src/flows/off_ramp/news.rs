//! Handles the partner's news of an order: updates the order and its request, and reports each sub-status once.

use super::{brought, follow, locked_request_of};
use crate::{
    ctx::Ctx,
    domain::{
        event::{ChainTransaction, Event, PaymentFailed, PaymentProcessing, PaymentReceived},
        ledger::Settlement,
        off_ramp::{FiatOrder, OrderState, OrderTransition, ask_again_after, order_key},
        off_ramp_news::NewsResult,
        payment_record::PaymentRecord,
        request::Request,
    },
    flows::{FlowError, FlowResult, payers::disbelieved::disbelieved, publish_all},
    ports::off_ramp::{OrderNews, OrderStatus},
    store::{self, Tx},
};
use anyhow::anyhow;
use chrono::{DateTime, TimeDelta, Utc};

/// Maximum number of attempts to handle news of an order that changes concurrently.
const TRIES_MAX: usize = 3;

/// How long after a payout the service keeps querying the partner whether the bank returned the money.
const MAY_BOUNCE: TimeDelta = TimeDelta::days(14);

/// Handles news of an order. Source: rules S.7.
pub async fn order(ctx: &Ctx, news: &OrderNews) -> FlowResult<NewsResult> {
    for _ in 0..TRIES_MAX {
        let Some(order) = store::off_ramp_orders::by_partner_id(ctx.db.reader(), &news.id).await? else {
            return Ok(NewsResult::Unknown);
        };
        if let Some(taken) = take(ctx, &order, news).await? {
            return Ok(taken);
        }
    }
    Err(FlowError::NotYet(anyhow!(
        "an order kept changing while the service processed news about it"
    )))
}

/// Handles news of an order that was read before; `None` when it changed in the meantime.
///
/// State, request, events and deliveries are written in one commit. News changes nothing if its sequence number is not
/// above the stored number. News also changes nothing if its status comes before the stored status, because the partner
/// may number its news wrongly.
pub(super) async fn take(ctx: &Ctx, order: &FiatOrder, news: &OrderNews) -> FlowResult<Option<NewsResult>> {
    let status = match news.status {
        OrderStatus::Moved(status) => Some(status),
        OrderStatus::Failed => None,
    };
    let OrderTransition::To(state) = order.after_news(news.version, status) else {
        return Ok(Some(NewsResult::Nothing));
    };
    let now = ctx.clock.now();
    let tx = ctx.db.begin("take_order_news").await?;
    let request = locked_request_of(&tx, &order.platform, &order.request).await?;
    if news.key.0 != order_key(&order.platform, &request.id) {
        disbelieved(
            "order",
            &format!("the news about order {} has the key of another order", order.id),
        );
        return Ok(Some(NewsResult::Unknown));
    }
    let after = FiatOrder {
        partner_id: Some(news.id.clone()),
        state,
        version: news.version,
        word: Some(news.word.clone()),
        failures: 0,
        next_at: next_at(state, now),
        changed_at: now,
        ..order.clone()
    };
    if !store::off_ramp_orders::replace(&tx, order, &after).await? {
        return Ok(None);
    }
    crate::fail_at("take_order_news", "moved");
    let (ledger, is_confirmed) = match state {
        OrderState::FiatSent => request.ledger.paid_out(),
        OrderState::Bounced | OrderState::Failed => (request.ledger.not_paid_out(), false),
        _ => (request.ledger.clone(), false),
    };
    if ledger != request.ledger && !store::requests::advance(&tx, &request, &ledger, now).await? {
        return Ok(None);
    }
    let completing = completing(&tx, &request).await?;
    if let (true, Some(payment)) = (is_confirmed, &completing)
        && !is_there(&tx, order, &request).await?
    {
        follow::set_aside(ctx, &tx, &request, payment, now).await?;
    }
    let told = OrderChange {
        order: &after,
        news,
        request: Request { ledger, ..request },
        completing,
        now,
    };
    let mut events = told.events();
    if is_confirmed {
        events.extend(told.confirmed(ctx, &tx).await?);
    }
    publish_all(ctx, &tx, &events).await?;
    crate::fail_at("take_order_news", "told");
    tx.commit().await?;
    ctx.due.notify_one();
    tracing::info!(
        order = %after.id, request = %told.request.id, state = state.wire(),
        "the state of an order changed"
    );
    Ok(Some(NewsResult::Changed))
}

/// Whether the money of the requested payout is still on the chain. The status of the partner is reported even if the
/// money is missing; the operator decides about missing money.
async fn is_there(tx: &Tx, order: &FiatOrder, request: &Request) -> FlowResult<bool> {
    let payments = store::payments::list_of_request(tx, request).await?;
    let asked = order.asked.as_ref();
    Ok(asked.is_none_or(|asked| asked.is_there(brought(&payments))))
}

/// When the partner is queried next about an order that just changed.
fn next_at(state: OrderState, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    match state {
        OrderState::Bounced | OrderState::Failed | OrderState::Stopped => None,
        _ => Some(now + ask_again_after(now, now)),
    }
}

/// When the partner is queried next after a response without news.
pub(super) fn next_after_nothing(order: &FiatOrder, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let is_over = order.state == OrderState::FiatSent && now > order.changed_at + MAY_BOUNCE;
    (!is_over).then(|| now + ask_again_after(order.changed_at, now))
}

/// The payment that completed a request, even if it was reversed since.
async fn completing(tx: &Tx, request: &Request) -> FlowResult<Option<PaymentRecord>> {
    let Some(tx_hash) = request.ledger.tx_hash else {
        return Ok(None);
    };
    let paid = store::payments::of_transactions(tx, request.terms.network, &[tx_hash]).await?;
    let mut own = paid.into_iter().filter(|payment| payment.request == request.row);
    let first = own.next();
    Ok(own.next_back().or(first))
}

/// The event about a failed payment to a bank account.
pub(super) fn failure(
    request: &Request,
    reason: &str,
    transaction: Option<ChainTransaction>,
    at: DateTime<Utc>,
) -> Event {
    Event::PaymentFailed(Box::new(PaymentFailed {
        request: request.clone(),
        reason: reason.to_owned(),
        message: None,
        execution: 1,
        recurring_payment: None,
        transaction,
        at,
    }))
}

/// Input of the events about an order whose status changed.
struct OrderChange<'a> {
    order: &'a FiatOrder,
    news: &'a OrderNews,
    request: Request,
    completing: Option<PaymentRecord>,
    now: DateTime<Utc>,
}

impl OrderChange<'_> {
    fn transaction(&self) -> Option<ChainTransaction> {
        self.completing.as_ref().map(|payment| ChainTransaction {
            network: payment.network,
            hash: payment.tx_hash.to_string(),
        })
    }

    /// The event about the new sub-status and, if the order failed, the event about the failure.
    fn events(&self) -> Vec<Event> {
        let state = self.order.state;
        let processing = state.reported_status().map(|status| {
            Event::PaymentProcessing(Box::new(PaymentProcessing {
                request: self.request.clone(),
                off_ramp_id: self.order.id.to_string(),
                status,
                provider_status: self.news.word.clone(),
                provider_id: self.news.id.clone(),
                transaction: self.transaction(),
                at: self.now,
            }))
        });
        let failed = matches!(state, OrderState::Bounced | OrderState::Failed)
            .then(|| failure(&self.request, state.wire(), self.transaction(), self.now));
        processing.into_iter().chain(failed).collect()
    }

    /// The event that the request is paid, with the payment that completed it and the partner's fee.
    async fn confirmed(&self, ctx: &Ctx, tx: &Tx) -> FlowResult<Vec<Event>> {
        let Some(payment) = &self.completing else {
            tracing::error!(request = %self.request.id, "an order was paid out, but its payment does not exist");
            return Ok(Vec::new());
        };
        let quotes = store::off_ramp_quotes::of_request(tx, &self.request).await?;
        let quote = quotes.iter().find(|quote| quote.id == self.order.quote);
        let told = (payment.platform.clone(), payment.id.clone());
        store::payments::set_told(tx, &[told], true).await?;
        let event = Event::PaymentReceived(Box::new(PaymentReceived {
            off_ramp_status: self.order.state.reported_status(),
            off_ramp_fee: quote.map(|quote| quote.terms.fee),
            ..PaymentReceived::new(Settlement::Confirmed, self.request.clone(), payment.settled())
        }));
        let twins = event.twins(ctx.webhooks.scoped_variants);
        Ok([event].into_iter().chain(twins).collect())
    }
}
