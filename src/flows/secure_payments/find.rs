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
        payment_record::PaymentRecord,
        refusal::Refusal,
        screening::Screening,
        secure_payment::{
            MerchantNames,
            multicall::{BlockReason, block_of},
        },
    },
    flows::FlowResult,
    store::{self, Scope},
};

/// Maximum number of screening results that are returned.
const SCREENINGS_MAX: u64 = 1_000;

/// Maximum number of payments of a request that are read. The payment that completed the request is one of them.
const PAYMENTS_MAX: u64 = 100;

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
    /// Why a multicall cannot pay the link; `None` if it can.
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
    let payments = payments(ctx, &opened).await?;
    Ok(FoundLink {
        screenings,
        names: store::secure_payment_names::of(reader, &opened.payment).await?,
        url: url(ctx, &opened.payment),
        payer: payer(&opened, &payments),
        is_claimed,
        block: block_of(
            &opened.payment,
            &opened.requests,
            opened.is_seen(ctx).await?,
            opened.now,
        ),
        opened,
    })
}

/// The largest payments of the last request of a secure payment, oldest first.
pub async fn payments(ctx: &Ctx, opened: &OpenedLink) -> FlowResult<Vec<PaymentRecord>> {
    let last = opened
        .requests
        .last()
        .filter(|request| request.ledger.payment_count > 0);
    let Some(last) = last else { return Ok(Vec::new()) };
    Ok(store::payments::largest_of_request(ctx.db.reader(), last, PAYMENTS_MAX).await?)
}

/// Payer of the last request of a secure payment with these payments; `None` while this request is not paid.
pub fn payer(opened: &OpenedLink, payments: &[PaymentRecord]) -> Option<Address> {
    let last = opened
        .requests
        .last()
        .filter(|request| request.ledger.has_been_paid())?;
    let completing = payments
        .iter()
        .find(|payment| Some(payment.tx_hash) == last.ledger.tx_hash);
    completing.and_then(|payment| payment.payer)
}
