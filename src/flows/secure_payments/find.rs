//! Looks up the secure payment of a request, for the person who made it.

use super::{
    made::url,
    opened::{Opened, with_requests},
};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        caller::PlatformCaller,
        refusal::Refusal,
        screening::Screening,
        secure_payment::{Names, PaymentFlow, SecurePaymentKind, SecurePaymentStatus},
        wire_text::wire_text,
    },
    flows::FlowResult,
    store::{self, Scope},
};

/// Results of screenings that are shown.
const SCREENINGS_MAX: u64 = 1_000;

/// Payments among which the payer of the completing one is looked for.
const PAYMENTS_MAX: u64 = 100;

wire_text! {
    /// Why a secure payment could not be paid together with others. Source: rules P.3.7.
    pub enum BlockReason {
        /// Its creator is paid.
        NotOutgoing = "not_outgoing",
        /// It has several requests.
        NotSinglePayment = "not_single_payment",
        /// It is paid.
        AlreadyPaid = "already_paid",
        /// Its time is over.
        SecurePaymentExpired = "secure_payment_expired",
        /// It was withdrawn, or combined with others.
        SecurePaymentNotPending = "secure_payment_not_pending",
        /// Its recipient may not be paid.
        ComplianceFailed = "compliance_failed",
        /// Its request cannot be paid.
        NotPayableChild = "not_payable_child",
    }
}

/// A secure payment as its owner sees it.
#[derive(Debug, Clone)]
pub struct Found {
    /// The secure payment with its requests.
    pub opened: Opened,
    /// What its creator calls whom.
    pub names: Names,
    /// Where payers find it.
    pub url: String,
    /// Who paid the last of its requests.
    pub payer: Option<Address>,
    /// Whether the owner of its destination set that up.
    pub is_claimed: bool,
    /// What was found about wallets that wanted to pay it, or about its recipient; the newest results.
    pub screenings: Vec<Screening>,
    /// Why it could not be paid together with others; `None` when it could.
    pub block: Option<BlockReason>,
}

/// Finds the newest secure payment of a request of the caller. Errors: there is none, or it is somebody else's (404).
/// Source: interface §4.7; rules P.3.7.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, request_id: &str) -> FlowResult<Found> {
    let unknown = || Refusal::not_found("No secure payment found for this request ID");
    let reader = ctx.db.reader();
    let request = store::requests::find(reader, &Scope::from(caller), request_id).await?;
    let request = request.ok_or_else(unknown)?;
    let payment = store::secure_payments::of_request(reader, &caller.platform, &request).await?;
    let opened = with_requests(ctx, payment.ok_or_else(unknown)?).await?;
    let is_claimed = match &opened.payment.destination {
        Some(key) => {
            let known = store::destinations::find(reader, &caller.platform, key).await?;
            known.is_some_and(|known| known.is_claimed)
        }
        None => false,
    };
    let (platform, id) = (&caller.platform, &opened.payment.id);
    let screenings = store::screenings::of_payment_newest(reader, platform, id, SCREENINGS_MAX).await?;
    Ok(Found {
        screenings,
        names: store::secure_payment_names::of(reader, &opened.payment).await?,
        url: url(ctx, &opened.payment),
        payer: payer(ctx, &opened).await?,
        is_claimed,
        block: block(&opened),
        opened,
    })
}

/// Who completed the last of its requests, once all of them are paid.
pub async fn payer(ctx: &Ctx, opened: &Opened) -> FlowResult<Option<Address>> {
    let last = opened.requests.last().filter(|request| request.ledger.has_been_paid());
    let Some(last) = last else { return Ok(None) };
    let payments = store::payments::largest_of_request(ctx.db.reader(), last, PAYMENTS_MAX).await?;
    let completing = payments
        .iter()
        .find(|payment| Some(payment.tx_hash) == last.ledger.tx_hash);
    Ok(completing.and_then(|payment| payment.payer))
}

fn block(opened: &Opened) -> Option<BlockReason> {
    let payment = &opened.payment;
    if payment.flow != PaymentFlow::Pay {
        return Some(BlockReason::NotOutgoing);
    }
    if payment.kind() != SecurePaymentKind::Single {
        return Some(BlockReason::NotSinglePayment);
    }
    match opened.status() {
        SecurePaymentStatus::Completed => Some(BlockReason::AlreadyPaid),
        SecurePaymentStatus::Expired => Some(BlockReason::SecurePaymentExpired),
        SecurePaymentStatus::Invalidated => Some(BlockReason::SecurePaymentNotPending),
        SecurePaymentStatus::ComplianceFailed => Some(BlockReason::ComplianceFailed),
        SecurePaymentStatus::Pending if opened.unpaid().is_empty() => Some(BlockReason::NotPayableChild),
        SecurePaymentStatus::Pending => None,
    }
}
