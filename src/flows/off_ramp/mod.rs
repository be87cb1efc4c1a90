//! Payments to bank accounts: quotes of the off-ramp partner, orders that pay out the money, and news from the partner
//! about orders.

pub mod ask;
pub mod close;
pub mod follow;
pub mod list;
pub mod news;
pub mod pay;

use crate::{
    ctx::Ctx,
    domain::{
        ids::{PlatformId, RequestRowId},
        payment_record::PaymentRecord,
        refusal::{Refusal, RefusalKind},
        request::Request,
    },
    flows::{Fault, FlowResult, payers::disbelieved::disbelieved},
    ports::off_ramp::{OffRamp, OffRampError},
    store::{self, Sealing, Tx},
};
use alloy::primitives::{B256, U256};
use anyhow::anyhow;

/// The partner that pays bank accounts. Errors: the operator removed it from the settings (502).
fn partner(ctx: &Ctx) -> Result<&dyn OffRamp, Refusal> {
    let missing = || upstream("A crypto-to-fiat provider is no longer configured on this service");
    ctx.partners.off_ramp.as_deref().ok_or_else(missing)
}

fn upstream(sentence: &str) -> Refusal {
    Refusal::new(RefusalKind::Upstream, sentence)
}

/// Message when the partner did not do what the service requested. The reason of the partner reveals the status of a
/// payer, so public callers do not get it.
fn not_quoted(error: &OffRampError, is_public: bool) -> Refusal {
    const NOTHING: &str = "The crypto-to-fiat provider has no offer for this payer, account and amount";
    match error {
        OffRampError::Refused { .. } if is_public => Refusal::invalid(NOTHING),
        OffRampError::Refused { reason, .. } => Refusal::invalid(format!("{NOTHING}: {}", reason.sentence())),
        OffRampError::Busy => upstream("Too many calls to the crypto-to-fiat provider are in progress; try again"),
        OffRampError::Unknown | OffRampError::NotSent(_) | OffRampError::NoAnswer(_) | OffRampError::Odd(_) => {
            upstream("The crypto-to-fiat provider returned no usable response; try again")
        }
    }
}

/// Message when the response of the partner is well-formed but contradicts stored data.
fn not_believed(operation: &'static str, why: &str) -> Refusal {
    disbelieved(operation, why);
    not_quoted(&OffRampError::Odd(why.to_owned()), false)
}

/// Transaction hash and units of each payment.
fn brought(payments: &[PaymentRecord]) -> impl Iterator<Item = (B256, U256)> {
    payments.iter().map(|payment| (payment.tx_hash, payment.units))
}

/// Locks and returns the request of an order. Every flow that writes a request and its order locks the request first,
/// so that two flows cannot deadlock.
async fn locked_request_of(tx: &Tx, platform: &PlatformId, row: &RequestRowId) -> FlowResult<Request> {
    let found = request_of(tx, platform, row).await?;
    store::requests::lock(tx, &found).await?;
    request_of(tx, platform, row).await
}

/// The request of an order.
async fn request_of(conn: &impl Sealing, platform: &PlatformId, row: &RequestRowId) -> FlowResult<Request> {
    let found = store::requests::of_rows(conn, [(platform, row)]).await?;
    let found = found.into_values().next();
    Ok(found.ok_or_else(|| Fault(anyhow!("request {row} of an order is missing")))?)
}
