//! Finds the secure payment of a request, for the person who created it.

use super::{
    made::url,
    opened::{OpenedLink, with_requests},
};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        caller::PlatformCaller,
        refusal::Refusal,
        screening::Screening,
        secure_payment::{MerchantNames, PaymentFlow, SecurePaymentKind, SecurePaymentStatus},
        wire_text::wire_text,
    },
    flows::FlowResult,
    store::{self, Scope},
};

/// Maximum number of screening results that are returned.
const SCREENINGS_MAX: u64 = 1_000;

/// Maximum number of payments that are searched for the payment that completed the request, to find its payer.
const PAYMENTS_MAX: u64 = 100;

wire_text! {
    /// Why a secure payment cannot be combined with others into one payout. Source: rules P.3.7.
    pub enum BlockReason {
        /// The secure payment pays its creator, not a recipient.
        NotOutgoing = "not_outgoing",
        /// The secure payment has several requests.
        NotSinglePayment = "not_single_payment",
        /// It is paid.
        AlreadyPaid = "already_paid",
        /// It has expired.
        SecurePaymentExpired = "secure_payment_expired",
        /// The secure payment was withdrawn, or combined with others.
        SecurePaymentNotPending = "secure_payment_not_pending",
        /// The recipient may not be paid.
        ComplianceFailed = "compliance_failed",
        /// Its request cannot be paid.
        NotPayableChild = "not_payable_child",
    }
}

/// A secure payment as its owner sees it.
#[derive(Debug, Clone)]
pub struct FoundLink {
    /// The secure payment with its requests.
    pub opened: OpenedLink,
    /// Its creator's identifiers of people.
    pub names: MerchantNames,
    /// Page for payers.
    pub url: String,
    /// Payer of the last request of the secure payment; `None` while this request is not paid.
    pub payer: Option<Address>,
    /// Whether the owner of the destination set the destination up.
    pub is_claimed: bool,
    /// Newest screening results of wallets that wanted to pay the link, or of the recipient of a payout.
    pub screenings: Vec<Screening>,
    /// Why the secure payment cannot be combined with others into one payout; `None` if it can.
    pub block: Option<BlockReason>,
}

/// Finds the newest secure payment of a request of the caller. Errors: the request has none, or belongs to another user
/// (404). Source: interface §4.7; rules P.3.7.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, request_id: &str) -> FlowResult<FoundLink> {
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
    Ok(FoundLink {
        screenings,
        names: store::secure_payment_names::of(reader, &opened.payment).await?,
        url: url(ctx, &opened.payment),
        payer: payer(ctx, &opened).await?,
        is_claimed,
        block: block(&opened),
        opened,
    })
}

/// Payer of the last request of a secure payment; `None` while this request is not paid.
pub async fn payer(ctx: &Ctx, opened: &OpenedLink) -> FlowResult<Option<Address>> {
    let last = opened.requests.last().filter(|request| request.ledger.has_been_paid());
    let Some(last) = last else { return Ok(None) };
    let payments = store::payments::largest_of_request(ctx.db.reader(), last, PAYMENTS_MAX).await?;
    let completing = payments
        .iter()
        .find(|payment| Some(payment.tx_hash) == last.ledger.tx_hash);
    Ok(completing.and_then(|payment| payment.payer))
}

fn block(opened: &OpenedLink) -> Option<BlockReason> {
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
