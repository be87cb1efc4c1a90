//! Payments to bank accounts: what is handed out for them, the order that pays one out, and what its partner tells.

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

/// The partner who pays bank accounts. Errors: there is none any more (502).
fn partner(ctx: &Ctx) -> Result<&dyn OffRamp, Refusal> {
    let missing = || upstream("No crypto-to-fiat provider is configured on this service any more");
    ctx.partners.off_ramp.as_deref().ok_or_else(missing)
}

fn upstream(sentence: &str) -> Refusal {
    Refusal::new(RefusalKind::Upstream, sentence)
}

/// What the caller is told when the partner did not do what it was asked. Why it refuses says how far a payer is: that is not
/// told to whoever reads a page.
fn not_quoted(error: &OffRampError, is_public: bool) -> Refusal {
    const NOTHING: &str = "The crypto-to-fiat provider offers nothing for this payer, account and amount";
    match error {
        OffRampError::Refused { .. } if is_public => Refusal::invalid(NOTHING),
        OffRampError::Refused { reason, .. } => Refusal::invalid(format!("{NOTHING}: {}", reason.sentence())),
        OffRampError::Busy => {
            upstream("Too many calls of the crypto-to-fiat provider are under way at this moment; try again")
        }
        OffRampError::Unknown | OffRampError::NotSent(_) | OffRampError::NoAnswer(_) | OffRampError::Odd(_) => {
            upstream("The crypto-to-fiat provider gives no usable answer at the moment; try again")
        }
    }
}

/// What the caller is told when the partner answered in its own shapes, and the answer contradicts what is known.
fn not_believed(operation: &'static str, why: &str) -> Refusal {
    disbelieved(operation, why);
    not_quoted(&OffRampError::Odd(why.to_owned()), false)
}

/// Payments by transaction and units.
fn brought(payments: &[PaymentRecord]) -> impl Iterator<Item = (B256, U256)> {
    payments.iter().map(|payment| (payment.tx_hash, payment.units))
}

/// The request of an order, which nobody else changes until the transaction ends. Whoever writes both locks it before the order,
/// so that no two wait for each other.
async fn locked_request_of(tx: &Tx, platform: &PlatformId, row: &RequestRowId) -> FlowResult<Request> {
    let found = request_of(tx, platform, row).await?;
    store::requests::lock(tx, &found).await?;
    request_of(tx, platform, row).await
}

/// The request of an order.
async fn request_of(conn: &impl Sealing, platform: &PlatformId, row: &RequestRowId) -> FlowResult<Request> {
    let found = store::requests::of_rows(conn, [(platform, row)]).await?;
    let found = found.into_values().next();
    Ok(found.ok_or_else(|| Fault(anyhow!("request {row} of an order is not there")))?)
}
