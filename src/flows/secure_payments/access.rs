//! Who may pay a secure payment: the one place that decides about a wallet.

use super::{screen, tell};
use crate::{
    ctx::Ctx,
    domain::secure_payment::{
        SecurePayment,
        access::{AccessDecision, AccessStatus, Payer},
    },
    flows::FlowResult,
};

/// Decides whether a payer may see and pay a secure payment; `None` where it is open to everybody.
///
/// The list is asked first; a wallet that is not on it is told about and never screened. Where wallets are to be screened
/// and nobody can say, the answer is an error, which is not yes. Source: interface §2.10; rules P.7.7.
pub async fn decide(ctx: &Ctx, payment: &SecurePayment, payer: &Payer) -> FlowResult<Option<AccessDecision>> {
    let listed = payment.policy.by_list(payment.flow, payer);
    if let Some(refused) = listed.as_ref().filter(|listed| listed.status != AccessStatus::Approved) {
        tell::refused(ctx, payment, &payer.listed_as()).await?;
        return Ok(Some(refused.clone()));
    }
    Ok(screen::payer(ctx, payment, payer).await?.or(listed))
}

/// Lets a payer through who may pay. Errors: he may not, or nobody can say (403).
pub(super) async fn require(ctx: &Ctx, payment: &SecurePayment, payer: &Payer) -> FlowResult<()> {
    match decide(ctx, payment, payer).await? {
        Some(decision) => Ok(decision.require()?),
        None => Ok(()),
    }
}
