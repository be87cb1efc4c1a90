//! Hands out the calldata that pays a secure payment.

use super::{access, open, open::Look, opened::Opened};
use crate::{
    ctx::{Ctx, PermitHolder},
    domain::{
        caller::PlatformCaller,
        paying::{Allowing, BundleError},
        refusal::Refusal,
        secure_payment::{SecurePaymentKind, Unpayable},
    },
    flows::{
        FlowError, FlowResult,
        paying::{Handout, HandoutError, Packing, PayingWallet, PaymentDue, hand_out, keep, lookup::Lookup},
    },
};

/// Hands out the calldata of what is left to be paid, with allowances of exactly that: what is paid already is left out.
///
/// What is answered keeps to the price terms of the requests, with which a payment is compared. Lookups take the permits of the
/// platform when it calls itself, else a few of those of strangers. Errors: it cannot be paid any more (403), it
/// is paid (409), the payer may not pay it (403), who pays is not said where that counts (400), no node answers (502).
/// Source: interface §4.7; rules P.3.7; decisions D38.
pub async fn run(ctx: &Ctx, opened: &Opened, look: &Look, caller: Option<&PlatformCaller>) -> FlowResult<Handout> {
    opened.payable().map_err(Refusal::from)?;
    open::check(ctx, opened, look)?;
    let payment = &opened.payment;
    match &look.payer {
        Some(payer) => access::require(ctx, payment, payer).await?,
        None if payment.policy.asks_who_pays(payment.flow) => {
            let sentence = if payment.policy.hides_until_approved {
                "is required: nothing of this is shown before a wallet is named"
            } else {
                "is required: not every wallet may pay this"
            };
            return Err(Refusal::field("wallet", sentence).into());
        }
        None => {}
    }
    open::check_hidden_source(ctx, opened, look)?;
    let unpaid = opened.unpaid().into_iter();
    let due = unpaid.map(|(request, charges, _)| PaymentDue::all_of(request.clone(), charges.clone()));
    let due: Vec<PaymentDue> = due.collect();
    if due.is_empty() {
        return Err(Refusal::forbidden(Unpayable::ComplianceFailed.sentence()).into());
    }
    let is_own = caller.is_some_and(|caller| opened.is_of(caller));
    let holder = PermitHolder {
        platform: payment.origin.platform.clone(),
        is_public: !is_own,
        link: (!is_own).then(|| payment.id.clone()),
    };
    let wallet = PayingWallet {
        address: look.payer.map(|payer| payer.wallet),
        allowing: Allowing::WhatIsNeeded,
    };
    let packing = match payment.kind() {
        SecurePaymentKind::Single => Packing::Alone,
        SecurePaymentKind::Batch => Packing::Together { gas_max: None },
    };
    let lookup = Lookup::of_holder(ctx, holder, payment.network);
    let handout = hand_out(ctx, &lookup, due, wallet, packing).await;
    let handout = handout.map_err(|error| refused(error, packing))?;
    await_payments(ctx, &handout).await?;
    Ok(handout)
}

/// Why payments are not made, by the parameters of the call.
fn refused(error: HandoutError, packing: Packing) -> FlowError {
    match (error, packing) {
        (HandoutError::NoPayer, _) => Refusal::field("wallet", BundleError::NoPayer.to_string()).into(),
        (HandoutError::TooLarge(_), Packing::Together { .. }) => {
            Refusal::forbidden(Unpayable::ComplianceFailed.sentence()).into()
        }
        (other, _) => other.alone(),
    }
}

/// Notes that payments are awaited, unless they are already. The calldata of a link keeps to the price terms of its requests,
/// so nothing else is kept of it.
async fn await_payments(ctx: &Ctx, handout: &Handout) -> FlowResult<()> {
    let requests = handout.payments.iter().map(|payment| &payment.request);
    let silent = keep::silent(requests.collect());
    if silent.is_empty() {
        return Ok(());
    }
    let tx = ctx.db.begin("issue_calldata").await?;
    keep::await_payments(&tx, &silent).await?;
    Ok(tx.commit().await?)
}
