//! Screens who paid a link without having been screened: calldata that was handed out to one wallet can be sent by another
//! one. The money stays credited.

use super::screen;
use crate::{
    ctx::Ctx,
    domain::payment::PayerAccess,
    domain::payment_record::PaymentRecord,
    flows::{FlowResult, payments::payer_access},
    store::{self, Scope, payments::PaidBefore},
};
use chrono::TimeDelta;
use std::sync::{Mutex, PoisonError};

/// Payments whose payers are screened in one look.
const TOGETHER: u64 = 50;

/// For how long after a payment its payer is screened while nobody answers.
const SCREENED_WITHIN: TimeDelta = TimeDelta::days(30);

/// The payments that have had their turn: the next look begins after them, so that payers whose screening fails keep no
/// older payment waiting.
#[derive(Debug, Default)]
pub struct Turns(Mutex<Option<PaidBefore>>);

/// Screens the payers of the next payments, from the newest to the oldest and then from the newest again. A payer whose
/// screening fails has another turn.
pub async fn run(ctx: &Ctx, turns: &Turns) -> FlowResult<()> {
    if ctx.partners.screeners.is_empty() {
        return Ok(());
    }
    let since = ctx.clock.now() - SCREENED_WITHIN;
    let before = turns.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let reader = ctx.db.reader();
    let (payments, last) = store::payments::of_unknown_access(reader, since, before.as_ref(), TOGETHER).await?;
    for payment in payments {
        if let Err(error) = one(ctx, &payment).await {
            tracing::debug!(tx_hash = %payment.tx_hash, %error, "who paid was not screened");
        }
    }
    *turns.0.lock().unwrap_or_else(PoisonError::into_inner) = last;
    Ok(())
}

async fn one(ctx: &Ctx, payment: &PaymentRecord) -> FlowResult<()> {
    let (Some(wallet), reader) = (payment.payer, ctx.db.reader()) else {
        return Ok(());
    };
    let owner = Scope {
        platform: payment.platform.clone(),
        client: None,
    };
    let Some(request) = store::requests::find(reader, &owner, &payment.request_id).await? else {
        return Ok(());
    };
    let Some(link) = store::secure_payments::of_request(reader, &payment.platform, &request).await? else {
        return Ok(());
    };
    screen::who_paid(ctx, &link, wallet).await?;
    let found = payer_access::of_link(ctx, &link, Some(wallet)).await?;
    if let Some(found) = found.filter(|found| *found != PayerAccess::Unknown) {
        store::payments::set_access(ctx.db.writer(), &payment.platform, &payment.id, found).await?;
        tracing::info!(tx_hash = %payment.tx_hash, request = payment.request_id, access = found.wire(), "who paid was screened afterwards");
    }
    Ok(())
}
