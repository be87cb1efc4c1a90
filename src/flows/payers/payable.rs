//! Whether a payer may pay to a bank account.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        event::PaymentDetailStatus,
        off_ramp::PaidOutTo,
        payer::{CompliancePayer, PayableBy, RegisteredAccount},
        refusal::Refusal,
    },
    flows::{FlowError, FlowResult},
    store,
};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Message for public client IDs.
const NOT_PAYABLE: &str = "must be given with paymentDetailsId and name a compliant payer of this platform with approved \
                           payment details; ask the platform which of these conditions is not met";

/// Time from the start of the call after which a public client ID gets the refusal. It is the same for every reason, so
/// that the response time reveals nothing.
const REFUSED_AFTER: Duration = Duration::from_millis(60);

/// The payer and the bank account that a caller names.
///
/// Errors (400, on the field that has to change): the platform has no such payer, or the payer is not compliant; the
/// payer has no such account, or the account is not approved. A public client ID gets one message for all four reasons
/// ([`refused`]), so that visitors of a page cannot find out which payers a platform has. Source: interface §4.3;
/// interface §5; rules S.5; rules S.6.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    client_user_id: &str,
    payment_details_id: &str,
) -> FlowResult<PayableBy> {
    let (reader, platform) = (ctx.db.reader(), &caller.platform);
    let payer = store::payers::find(reader, platform, client_user_id).await?;
    let payer = payer.filter(|payer| !payer.is_erasing);
    let account = match &payer {
        Some(payer) => store::bank_accounts::find(reader, platform, &payer.id, payment_details_id).await?,
        None => None,
    };
    Ok(decide(payer, account)?)
}

/// The refusal of a call that started at `begun`. A public client ID gets the same message for every reason, always
/// after the same time: the lookup of an existing payer takes longer than the lookup of an unknown one.
pub async fn refused(caller: &PlatformCaller, begun: Instant, why: FlowError) -> FlowError {
    match why {
        FlowError::Refused(_) if caller.is_public() => {
            sleep_until(begun + REFUSED_AFTER).await;
            named("clientUserId", NOT_PAYABLE).into()
        }
        why => why,
    }
}

/// Message for a payer whose erasure waits for a payout. A valid quote can still be paid, and no new quote is issued.
pub fn leaving() -> Refusal {
    let message = "must be the clientUserId of a payer that is not being erased: this one is erased once its payout has \
                   arrived; register it again to cancel the erasure";
    named("clientUserId", message)
}

/// Message when the payer does not exist, or was erased during the call to the partner.
pub fn not_registered() -> Refusal {
    let message = "must be the clientUserId of a payer that POST /v2/payer registered for this platform";
    named("clientUserId", message)
}

fn decide(payer: Option<CompliancePayer>, account: Option<RegisteredAccount>) -> Result<PayableBy, Refusal> {
    let payer = payer.ok_or_else(not_registered)?;
    if !payer.standing.is_compliant() {
        let message = format!(
            "must be the clientUserId of a compliant payer: the identity of this one is {}, the agreement {}",
            payer.kyc().wire(),
            payer.agreement().wire()
        );
        return Err(named("clientUserId", message));
    }
    let account = account.ok_or_else(|| {
        let message = "must be the id of payment details that were added to this payer";
        named("paymentDetailsId", message)
    })?;
    if account.status != PaymentDetailStatus::Approved {
        let message = format!(
            "must be the id of approved payment details: these are {}",
            account.status.wire()
        );
        return Err(named("paymentDetailsId", message));
    }
    Ok(PayableBy {
        to: PaidOutTo {
            payer: payer.id,
            account: account.id,
        },
        is_leaving: payer.is_leaving,
        partner_payer: payer.details.partner,
        partner_account: account.details.partner,
        currency: account.details.account.currency,
    })
}

/// A refusal whose main message is the message of its field.
fn named(field: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::field(field, message).led_by(field)
}
