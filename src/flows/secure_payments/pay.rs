//! Returns the calldata that pays a secure payment.

use super::{access, multicall, open, open::LinkVisit, opened::OpenedLink, safe};
use crate::{
    ctx::{Ctx, PermitHolder},
    domain::{
        address::Address,
        caller::PlatformCaller,
        paying::{ApprovalAmount, BundleError, PaymentTransactions},
        refusal::Refusal,
        secure_payment::{SecurePayment, SecurePaymentKind, UnpayableLink, multicall::check_children},
    },
    flows::{
        FlowError, FlowResult,
        paying::{
            Handout, HandoutError, PayingWallet, PaymentDue, PaymentPacking, hand_out, keep, list_steps, lookup::Lookup,
        },
    },
    store,
};

/// Maximum number of Safes that are stored for a link. Anyone with the token can name a Safe.
const SAFES_MAX: u64 = 100;

/// Returns the calldata for the amount due, with allowances of exactly that amount; paid requests are left out.
///
/// The calldata follows the price terms of the requests, with which payments are compared. For a caller with a secret
/// credential of the platform, chain lookups use the permits of the platform. For other callers, they use a few permits
/// that all of them share.
///
/// Errors:
/// - 403: the payment can no longer be paid, or the payer may not pay it.
/// - 409: it is paid.
/// - 423: a Safe is about to pay it.
/// - 400: a multicall cannot pay one of its links.
/// - 400: no wallet is given where one is required, the wallet is no Safe although the call says so, or it can pay
///   nothing.
/// - 400: an estimated fee is above its limit.
/// - 502: no node responds.
///
/// Source: interface §4.7; rules P.3.7; decisions D38.
pub async fn run(
    ctx: &Ctx,
    opened: &OpenedLink,
    look: &LinkVisit,
    caller: Option<&PlatformCaller>,
) -> FlowResult<Handout> {
    opened.payable().map_err(Refusal::from)?;
    opened.unlocked()?;
    // A payer who may not see the link does not learn which of its children are blocked.
    admit(ctx, opened, look).await?;
    if opened.payment.is_multicall() {
        let multicall = multicall::of(ctx, opened).await?;
        check_children(multicall.failures(opened))?;
    }
    let safe = safe::find(ctx, &opened.payment, look.safe()).await?;
    let handout = issue(ctx, opened, look, caller).await?;
    await_payments(ctx, opened, &handout, safe).await?;
    Ok(handout)
}

/// Whether a wallet is a Safe on the network of a payment. If the chain does not respond, the wallet counts as no Safe.
pub async fn is_safe(ctx: &Ctx, payment: &SecurePayment, wallet: Address) -> bool {
    matches!(safe::find(ctx, payment, Some(wallet)).await, Ok(Some(_)))
}

/// Checks the payer. Errors: no wallet is given where one is required, or its network, chain or token is another (400);
/// the wallet may not pay (403).
async fn admit(ctx: &Ctx, opened: &OpenedLink, look: &LinkVisit) -> FlowResult<()> {
    open::check(ctx, opened, look)?;
    let payment = &opened.payment;
    match &look.payer {
        Some(payer) => access::require(ctx, payment, payer).await?,
        None if payment.policy.asks_who_pays(payment.flow) => {
            let sentence = if payment.policy.hides_until_approved {
                "is required: this payment is hidden until a wallet is given"
            } else {
                "is required: only some wallets may pay this secure payment"
            };
            return Err(Refusal::field("wallet", sentence).into());
        }
        None => {}
    }
    Ok(open::check_hidden_source(ctx, opened, look)?)
}

/// The transactions for the amount due, of which nothing is stored. The payer was checked before.
pub(super) async fn issue(
    ctx: &Ctx,
    opened: &OpenedLink,
    look: &LinkVisit,
    caller: Option<&PlatformCaller>,
) -> FlowResult<Handout> {
    let (due, wallet, packing) = asked(opened, look)?;
    let lookup = lookup(ctx, opened, caller);
    let handout = hand_out(ctx, &lookup, due, wallet, packing).await;
    handout.map_err(|error| refused(error, packing))
}

/// The transactions that [`run`] would return now to the wallet of a visit. Contract, calldata and value of a signed
/// transaction are compared with them ([`owner_call`]).
///
/// Errors: those of [`run`] that do not depend on estimates. A multicall is not checked, as it is never on a network
/// whose transactions the service prepares.
///
/// [`owner_call`]: crate::domain::paying::prepared::owner_call
pub async fn due_steps(
    ctx: &Ctx,
    opened: &OpenedLink,
    look: &LinkVisit,
    caller: Option<&PlatformCaller>,
) -> FlowResult<PaymentTransactions> {
    opened.payable().map_err(Refusal::from)?;
    opened.unlocked()?;
    admit(ctx, opened, look).await?;
    let (due, wallet, packing) = asked(opened, look)?;
    let lookup = lookup(ctx, opened, caller);
    let steps = list_steps(ctx, &lookup, due, wallet, packing).await;
    steps.map_err(|error| refused(error, packing))
}

/// The amounts due, the paying wallet, and how the payments are packed. Errors: nothing can be paid (403).
fn asked(opened: &OpenedLink, look: &LinkVisit) -> Result<(Vec<PaymentDue>, PayingWallet, PaymentPacking), Refusal> {
    let unpaid = opened.unpaid().into_iter();
    let due = unpaid.map(|(request, charges, _)| PaymentDue::all_of(request.clone(), charges));
    let due: Vec<PaymentDue> = due.collect();
    if due.is_empty() {
        return Err(Refusal::forbidden(UnpayableLink::ComplianceFailed.sentence()));
    }
    let wallet = PayingWallet {
        address: look.payer.map(|payer| payer.wallet),
        allowing: ApprovalAmount::WhatIsNeeded,
        is_safe: look.is_safe,
    };
    let packing = match opened.payment.kind() {
        SecurePaymentKind::Single => PaymentPacking::Alone,
        SecurePaymentKind::Batch => PaymentPacking::Together { gas_max: None },
    };
    Ok((due, wallet, packing))
}

/// Chain lookups for a caller of a link.
pub(super) fn lookup(ctx: &Ctx, opened: &OpenedLink, caller: Option<&PlatformCaller>) -> Lookup {
    Lookup::of_holder(ctx, holder(opened, caller), opened.payment.network)
}

/// The holder of the permits of a caller of a link.
pub(super) fn holder(opened: &OpenedLink, caller: Option<&PlatformCaller>) -> PermitHolder {
    let payment = &opened.payment;
    let is_own = caller.is_some_and(|caller| opened.is_of(caller));
    PermitHolder {
        platform: payment.origin.platform.clone(),
        is_public: !is_own,
        link: (!is_own).then(|| payment.id.clone()),
    }
}

/// Converts a refusal of a payment to one with the parameters of the call.
fn refused(error: HandoutError, packing: PaymentPacking) -> FlowError {
    match (error, packing) {
        (HandoutError::NoPayer, _) => Refusal::field("wallet", BundleError::NoPayer.to_string()).into(),
        (HandoutError::TooLarge(_), PaymentPacking::Together { .. }) => {
            Refusal::forbidden(UnpayableLink::ComplianceFailed.sentence()).into()
        }
        (other, _) => other.alone(),
    }
}

/// Marks the payments of requests as expected, unless they already are, and stores the Safe that got the calldata. The
/// calldata of a link follows the price terms of its requests, so no other terms are stored.
async fn await_payments(ctx: &Ctx, opened: &OpenedLink, handout: &Handout, safe: Option<Address>) -> FlowResult<()> {
    let payment = &opened.payment;
    let safe = match safe {
        Some(wallet) => {
            let handed = store::safe_payers::find(ctx.db.reader(), payment, &wallet).await?;
            handed.is_none().then_some(wallet)
        }
        None => None,
    };
    let requests = handout.payments.iter().map(|payment| &payment.request);
    let silent = keep::silent(requests.collect());
    if silent.is_empty() && safe.is_none() {
        return Ok(());
    }
    let tx = ctx.db.begin("issue_calldata").await?;
    keep::await_payments(&tx, &silent).await?;
    if let Some(wallet) = safe {
        store::safe_payers::note_handed(&tx, payment, &wallet, SAFES_MAX, opened.now).await?;
    }
    Ok(tx.commit().await?)
}
