//! Reverses payments that left the chain. Marks the payments, recounts their requests, and sends reversal events to the
//! receivers of their payment events.

use crate::{
    ctx::Ctx,
    domain::{
        event::{Event, PaymentReceived, PaymentReversed},
        ids::PlatformId,
        ledger::{Ledger, PaymentEnding},
        payment::ReversalReason,
        payment_record::PaymentRecord,
        request::Request,
    },
    flows::{
        FlowError, FlowResult, off_ramp,
        payments::{lines::ReversedPayment, links},
        publish_all,
    },
    store::{self, Scope, Tx},
};
use chrono::{DateTime, Utc};
use std::cmp::Reverse;

/// Reverses payments in the given transaction, newest first. Payments that are already reversed stay unchanged. A
/// payment that the chain proves again later is credited again. Returns the reversed payments, which the caller logs
/// after the commit.
///
/// All events are written together, so that their ids are in order. Source: decisions D37.
pub(super) async fn run(
    ctx: &Ctx,
    tx: &Tx,
    payments: &[&PaymentRecord],
    reason: ReversalReason,
    now: DateTime<Utc>,
) -> FlowResult<Vec<ReversedPayment>> {
    let mut newest_first = payments.to_vec();
    newest_first.sort_by_key(|payment| Reverse((payment.block_number, payment.log_index)));
    let (mut events, mut reversed) = (Vec::new(), Vec::new());
    for payment in newest_first {
        if let Some((payment, told)) = one(ctx, tx, payment, reason, now).await? {
            reversed.push(payment);
            events.extend(told);
        }
    }
    publish_all(ctx, tx, &events).await?;
    Ok(reversed)
}

/// Reverses one payment, unless it is already reversed; returns its events.
async fn one(
    ctx: &Ctx,
    tx: &Tx,
    payment: &PaymentRecord,
    reason: ReversalReason,
    now: DateTime<Utc>,
) -> FlowResult<Option<(ReversedPayment, Vec<Event>)>> {
    let Some(payment) = store::payments::reverse(tx, &payment.platform, &payment.id, reason, now).await? else {
        return Ok(None);
    };
    let Some((request, remaining)) = counted(tx, &payment.platform, &payment.request_id).await? else {
        return Ok(None);
    };
    let line = ReversedPayment {
        network: payment.network,
        tx_hash: payment.tx_hash,
        request: request.id.clone(),
        reason,
    };
    let reversed = request.ledger.reverse(
        payment.is_told,
        &PaymentRecord::credits(&remaining),
        ctx.webhooks.reversals,
    );
    advance(ctx, tx, &request, &reversed.ledger, now).await?;
    if request.ledger.ending == PaymentEnding::BankOrdered {
        off_ramp::follow::set_aside(ctx, tx, &request, &payment, now).await?;
    }
    if !reversed.is_told {
        return Ok(Some((line, Vec::new())));
    }
    let with = |ledger: Ledger| Request {
        ledger,
        ..request.clone()
    };
    let mut events = vec![Event::PaymentReversed(Box::new(PaymentReversed {
        request: with(reversed.ledger),
        payment: payment.settled(),
        id: payment.id.clone(),
        reason,
    }))];
    let tokens = links::tokens(tx, &[&request], ctx.webhooks.scoped_variants).await?;
    let mut told_ids = Vec::new();
    for (index, settlement, ledger) in reversed.then {
        let left = &remaining[index];
        let received = PaymentReceived {
            secure_payment_token: tokens.get(&request.row).map(|token| token.0.clone()),
            ..PaymentReceived::new(settlement, with(ledger), left.settled())
        };
        let event = Event::PaymentReceived(Box::new(received));
        let twins = event.twins(ctx.webhooks.scoped_variants);
        events.push(event);
        events.extend(twins);
        told_ids.push((left.platform.clone(), left.id.clone()));
    }
    store::payments::set_told(tx, &[(payment.platform, payment.id)], false).await?;
    store::payments::set_told(tx, &told_ids, true).await?;
    Ok(Some((line, events)))
}

/// Recounts a request from its recorded, unreversed payments, without events.
pub(super) async fn recount(
    ctx: &Ctx,
    tx: &Tx,
    platform: &PlatformId,
    request_id: &str,
    now: DateTime<Utc>,
) -> FlowResult<()> {
    let Some((request, remaining)) = counted(tx, platform, request_id).await? else {
        return Ok(());
    };
    let ledger = request.ledger.recount(&PaymentRecord::credits(&remaining));
    advance(ctx, tx, &request, &ledger, now).await
}

/// A request and its payments that count, oldest first.
async fn counted(
    tx: &Tx,
    platform: &PlatformId,
    request_id: &str,
) -> FlowResult<Option<(Request, Vec<PaymentRecord>)>> {
    let owner = Scope::of_platform(platform);
    let Some(request) = store::requests::find(tx, &owner, request_id).await? else {
        return Ok(None);
    };
    let payments = store::payments::list_of_request(tx, &request).await?;
    Ok(Some((request, payments)))
}

async fn advance(ctx: &Ctx, tx: &Tx, request: &Request, ledger: &Ledger, now: DateTime<Utc>) -> FlowResult<()> {
    if !store::requests::advance(tx, request, ledger, now).await? {
        return Err(FlowError::NotYet(anyhow::anyhow!(
            "request {} changed while its payments were recounted",
            request.id
        )));
    }
    links::follow(tx, &[(request, ledger)], now).await?;
    off_ramp::follow::run(ctx, tx, &[(request, ledger)], now).await
}
