//! Whether who paid a link might have, by the word of the chain: calldata that was handed out to one wallet can be sent by
//! another one. Whoever paid and was never screened is screened afterwards; the money stays credited.

use super::screen;
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        payment::PayerAccess,
        screening::{self, ScreenedWallet},
        secure_payment::{SecurePayment, access::Payer},
    },
    flows::FlowResult,
    store::{self, Scope, payments::PaymentRecord},
};
use chrono::TimeDelta;

/// Payments whose payers are screened in one look, the newest first.
const TOGETHER: u64 = 50;

/// For how long after a payment its payer is screened while nobody answers.
const SCREENED_WITHIN: TimeDelta = TimeDelta::days(30);

/// Compares who paid with list and screening of a link; `None` where it has neither.
pub(in crate::flows) async fn access(
    ctx: &Ctx,
    link: &SecurePayment,
    payer: Option<Address>,
) -> FlowResult<Option<PayerAccess>> {
    if !screening::asks_who_paid(&link.policy, link.flow) {
        return Ok(None);
    }
    let Some(payer) = payer else {
        return Ok(Some(PayerAccess::Unknown));
    };
    let conn = ctx.db.reader();
    let owners = store::secure_payments::owners_of(conn, link, &payer).await?;
    let wallets = std::iter::once(payer).chain(owners.iter().copied());
    let wallets: Vec<ScreenedWallet> = wallets.map(ScreenedWallet::alone).collect();
    let known = store::screenings::of_wallets(conn, &link.origin.platform, &link.id, &wallets).await?;
    Ok(Some(screening::who_paid(&link.policy, payer, &owners, &known)))
}

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
    let found = access(ctx, &link, Some(wallet)).await?;
    if let Some(found) = found.filter(|found| *found != PayerAccess::Unknown) {
        store::payments::set_access(ctx.db.writer(), &payment.platform, &payment.id, found).await?;
        tracing::info!(tx_hash = %payment.tx_hash, request = payment.request_id, access = found.wire(), "who paid was screened afterwards");
    }
    Ok(())
}
