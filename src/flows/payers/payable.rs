//! Whether a payer may pay to a bank account.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        event::PaymentDetailStatus,
        off_ramp::PaidOutTo,
        payer::{PayableBy, Payer, RegisteredAccount},
        refusal::Refusal,
    },
    flows::{FlowError, FlowResult},
    store,
};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// What anybody reads who may not pay.
const NOT_PAYABLE: &str = "must go together with paymentDetailsId and name a compliant payer of this platform with approved \
                           payment details; ask the platform which of this does not hold";

/// When a public client ID is refused, whatever the reason.
const REFUSED_AFTER: Duration = Duration::from_millis(60);

/// The payer and the bank account that a caller names.
///
/// Errors (400, on the field that has to change): the tenant has no such payer, or it is not compliant; the payer has no such
/// account, or it is not approved. To a public client ID all of this is one refusal ([`refused`]): who the payers of a platform
/// are, and how far, is nobody's business who reads a page. Source: interface §4.3; interface §5; rules S.5; rules S.6.
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

/// Refuses somebody who was asked for at `begun`. A public client ID reads the same of whatever does not hold, and no sooner:
/// a payer who is there takes longer to be read than one who is not.
pub async fn refused(caller: &PlatformCaller, begun: Instant, why: FlowError) -> FlowError {
    match why {
        FlowError::Refused(_) if caller.is_public() => {
            sleep_until(begun + REFUSED_AFTER).await;
            named("clientUserId", NOT_PAYABLE).into()
        }
        why => why,
    }
}

/// What somebody reads whose payer leaves: a quote that holds may still be paid, and no other one is handed out.
pub fn leaving() -> Refusal {
    let message = "must be the clientUserId of a payer who stays: this one is to be erased once its money has arrived; register \
                   it again to keep it";
    named("clientUserId", message)
}

/// What somebody reads whose payer is not there, or went while the partner was asked.
pub fn not_registered() -> Refusal {
    let message = "must be the clientUserId of a payer that POST /v2/payer registered for this platform";
    named("clientUserId", message)
}

fn decide(payer: Option<Payer>, account: Option<RegisteredAccount>) -> Result<PayableBy, Refusal> {
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

/// A refusal whose message is the sentence about the field.
fn named(field: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::field(field, message).led_by(field)
}
