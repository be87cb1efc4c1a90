//! Screens who paid a link without having been screened: calldata that was handed out to one wallet can be sent by another
//! one. The money stays credited.

use super::screen;
use crate::{
    ctx::Ctx,
    domain::{payment::PayerAccess, secure_payment::access::Payer},
    flows::{FlowResult, payments::payer_access},
    store::{self, Scope, payments::PaymentRecord},
};
use chrono::TimeDelta;

/// Payments whose payers are screened in one look, the newest first.
const TOGETHER: u64 = 50;

/// For how long after a payment its payer is screened while nobody answers.
const SCREENED_WITHIN: TimeDelta = TimeDelta::days(30);

/// Screens who paid without having been screened. What fails is tried again at the next look.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    if ctx.partners.screeners.is_empty() {
        return Ok(false);
    }
    let since = ctx.clock.now() - SCREENED_WITHIN;
    for payment in store::payments::of_unknown_access(ctx.db.reader(), since, TOGETHER).await? {
        if let Err(error) = one(ctx, &payment).await {
            tracing::debug!(tx_hash = %payment.tx_hash, %error, "who paid was not screened");
        }
    }
    Ok(false)
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
    screen::payer(ctx, &link, &Payer { wallet, eoa: None }).await?;
    let found = payer_access::of_link(ctx, &link, Some(wallet)).await?;
    if let Some(found) = found.filter(|found| *found != PayerAccess::Unknown) {
        store::payments::set_access(ctx.db.writer(), &payment.platform, &payment.id, found).await?;
        tracing::info!(tx_hash = %payment.tx_hash, request = payment.request_id, access = found.wire(), "who paid was screened afterwards");
    }
    Ok(())
}
