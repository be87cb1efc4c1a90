//! Who may pay a secure payment: the only place that decides about a wallet.

use super::{screen, tell};
use crate::{
    ctx::Ctx,
    domain::secure_payment::{
        SecurePayment,
        access::{AccessDecision, AccessStatus, LinkPayer},
    },
    flows::FlowResult,
    store,
};

/// Reason code when it is unknown whether a wallet is on the payer list.
const OWNER_UNKNOWN: &str = "wallet_owner_unknown";

/// Decides whether a payer may see and pay a secure payment; `None` if any wallet may.
///
/// The payer list is checked first. A wallet that is not on the list is reported and never screened. If screening is
/// required and no provider returns a result, the decision is an error, which does not admit the payer. Source:
/// interface §2.10; rules P.7.7.
pub async fn decide(ctx: &Ctx, payment: &SecurePayment, payer: &LinkPayer) -> FlowResult<Option<AccessDecision>> {
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

/// The payer for the list lookup. If the chain proves that an account owns the wallet, the payer includes this account,
/// and the proof is stored for the payment that follows. Without a proof the account is ignored, because a caller can
/// name the account of another user. `None` if no node confirms or denies the ownership.
async fn proven(ctx: &Ctx, payment: &SecurePayment, payer: &LinkPayer) -> FlowResult<Option<LinkPayer>> {
    let alone = LinkPayer { eoa: None, ..*payer };
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
            tracing::debug!(network = %payment.network, %error, "the owner of a wallet could not be read");
            return Ok(None);
        }
    };
    if !is_proven {
        return Ok(Some(alone));
    }
    store::secure_payments::note_owner(ctx.db.writer(), payment, &wallet, &account, ctx.clock.now()).await?;
    Ok(Some(LinkPayer {
        wallet,
        eoa: Some(account),
    }))
}

/// Admits a payer who may pay. Errors: the payer may not pay, or it is unknown (403).
pub(super) async fn require(ctx: &Ctx, payment: &SecurePayment, payer: &LinkPayer) -> FlowResult<()> {
    match decide(ctx, payment, payer).await? {
        Some(decision) => Ok(decision.require()?),
        None => Ok(()),
    }
}
