//! Screens payers of a link that were not screened before. This is needed because calldata that was issued to one
//! wallet can be sent by another wallet. The payment stays credited.

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

/// Maximum number of payments whose payers are screened in one pass.
const TOGETHER: u64 = 50;

/// Time after a payment for which the screening of its payer is repeated while no provider returns a result.
const SCREENED_WITHIN: TimeDelta = TimeDelta::days(30);

/// Position after the payments that were already handled. The next pass begins there, so that payers whose screening
/// fails do not block older payments.
#[derive(Debug, Default)]
pub struct ScreenedPayments(Mutex<Option<PaidBefore>>);

/// Screens the payers of the next payments, from the newest to the oldest and then from the newest again. If a
/// screening fails, a later pass repeats it.
pub async fn run(ctx: &Ctx, turns: &ScreenedPayments) -> FlowResult<()> {
    if ctx.partners.screeners.is_empty() {
        return Ok(());
    }
    let since = ctx.clock.now() - SCREENED_WITHIN;
    let before = turns.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let reader = ctx.db.reader();
    let (payments, last) = store::payments::of_unknown_access(reader, since, before.as_ref(), TOGETHER).await?;
    for payment in payments {
        if let Err(error) = one(ctx, &payment).await {
            tracing::debug!(
                tx_hash = %payment.tx_hash, %error,
                "the payer of a credited payment could not be screened"
            );
        }
    }
    *turns.0.lock().unwrap_or_else(PoisonError::into_inner) = last;
    Ok(())
}

async fn one(ctx: &Ctx, payment: &PaymentRecord) -> FlowResult<()> {
    let (Some(wallet), reader) = (payment.payer, ctx.db.reader()) else {
        return Ok(());
    };
    let owner = Scope::of_platform(&payment.platform);
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
        tracing::info!(
            tx_hash = %payment.tx_hash, request = payment.request_id, access = found.wire(),
            "the payer of a credited payment was screened after the payment"
        );
    }
    Ok(())
}
