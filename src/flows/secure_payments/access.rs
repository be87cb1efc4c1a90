//! Who may pay a secure payment: the one place that decides about a wallet.

use super::tell;
use crate::{
    ctx::Ctx,
    domain::{
        destination::AccessMode,
        secure_payment::{
            SecurePayment,
            access::{AccessDecision, AccessStatus, Payer},
        },
    },
    flows::FlowResult,
};

/// Why nobody is let in where wallets are to be screened and nobody screens.
const NO_SCREENING: &str = "screening_not_configured";

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
    match payment.policy.mode {
        AccessMode::Off => Ok(listed),
        AccessMode::KytAllWallets => Ok(Some(AccessDecision::error(NO_SCREENING, payment.policy.provider))),
    }
}
