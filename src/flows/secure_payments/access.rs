//! Who may pay a secure payment: the one place that decides about a wallet.

use super::{screen, tell};
use crate::{
    ctx::Ctx,
    domain::secure_payment::{
        SecurePayment,
        access::{AccessDecision, AccessStatus, Payer},
    },
    flows::FlowResult,
    store,
};

/// Why nobody can say whether a wallet is on the list.
const OWNER_UNKNOWN: &str = "wallet_owner_unknown";

/// Decides whether a payer may see and pay a secure payment; `None` where it is open to everybody.
///
/// The list is asked first; a wallet that is not on it is told about and never screened. Where wallets are to be screened
/// and nobody can say, the answer is an error, which is not yes. Source: interface §2.10; rules P.7.7.
pub async fn decide(ctx: &Ctx, payment: &SecurePayment, payer: &Payer) -> FlowResult<Option<AccessDecision>> {
    let Some(proven) = proven(ctx, payment, payer).await? else {
        return Ok(Some(AccessDecision::error(OWNER_UNKNOWN, None)));
    };
    let listed = payment.policy.by_list(payment.flow, &proven);
    if let Some(refused) = listed.as_ref().filter(|listed| listed.status != AccessStatus::Approved) {
        tell::refused(ctx, payment, &payer.wallet).await?;
        return Ok(Some(refused.clone()));
    }
    Ok(screen::payer(ctx, payment, payer).await?.or(listed))
}

/// The payer as a list sees him: with the account behind the wallet where the chain proves that it owns the wallet, which is
/// kept for the payment that follows; `None` where no node says so or otherwise. Anybody can name an account of others.
async fn proven(ctx: &Ctx, payment: &SecurePayment, payer: &Payer) -> FlowResult<Option<Payer>> {
    let alone = Payer { eoa: None, ..*payer };
    let (policy, wallet) = (&payment.policy, payer.wallet);
    let named = payer
        .eoa
        .filter(|account| policy.has_list(payment.flow) && policy.allowed.contains(account));
    let Some(account) = named.filter(|account| *account != wallet && !policy.allowed.contains(&wallet)) else {
        return Ok(Some(alone));
    };
    let Some(wallets) = ctx.partners.chains.wallets.get(&payment.network) else {
        return Ok(Some(alone));
    };
    let is_proven = match wallets.has_delegated(wallet, account).await {
        Ok(is_proven) => is_proven,
        Err(error) => {
            tracing::debug!(network = %payment.network, %error, "who owns a wallet cannot be read");
            return Ok(None);
        }
    };
    if !is_proven {
        return Ok(Some(alone));
    }
    store::secure_payments::note_owner(ctx.db.writer(), payment, (&wallet, &account), ctx.clock.now()).await?;
    Ok(Some(Payer {
        wallet,
        eoa: Some(account),
    }))
}

/// Lets a payer through who may pay. Errors: he may not, or nobody can say (403).
pub(super) async fn require(ctx: &Ctx, payment: &SecurePayment, payer: &Payer) -> FlowResult<()> {
    match decide(ctx, payment, payer).await? {
        Some(decision) => Ok(decision.require()?),
        None => Ok(()),
    }
}
