//! Ends the lock of a link that a Safe is about to pay.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::SecurePaymentToken,
        refusal::Refusal,
        secure_payment::{
            SecurePayment,
            intent::{IntentState, PaymentIntent},
        },
    },
    flows::FlowResult,
    store::{self, Scope},
};

/// Ends the lock, if there is one, and keeps callers with a public credential from locking the link again. A repeated
/// call changes nothing. A payment that the Safe still executes is credited.
///
/// Errors: the link is unknown or of another platform (404).
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, token: &str) -> FlowResult<SecurePayment> {
    let whole_platform = Scope::of_platform(&caller.platform);
    let now = ctx.clock.now();
    let tx = ctx.db.begin("release_secure_payment").await?;
    let tokens = [SecurePaymentToken(token.to_owned())];
    let mut locked = store::secure_payments::lock_all(&tx, &whole_platform, &tokens).await?;
    let payment = locked
        .pop()
        .ok_or_else(|| Refusal::not_found("Secure payment not found"))?;
    if payment.lock.is_none() && payment.locks_released_at.is_some() {
        return Ok(payment);
    }
    let mut hinted_at = payment.hinted_at;
    if let Some(lock) = &payment.lock {
        hinted_at = store::secure_payments::last_sent_at(&tx, &payment).await?;
        let hash = &lock.safe_tx_hash;
        let found = store::secure_payments::find_intent(&tx, &payment, payment.network, hash).await?;
        if let Some(intent) = found.filter(|intent| intent.state.may_lock(false)) {
            let released = PaymentIntent {
                state: IntentState::Released,
                ..intent
            };
            store::secure_payments::set_intent(&tx, &payment, &released).await?;
        }
    }
    let released = SecurePayment {
        lock: None,
        hinted_at,
        locks_released_at: Some(now),
        ..payment
    };
    store::secure_payments::set_lock(&tx, &released).await?;
    crate::fail_at("release_secure_payment", "unlocked");
    tx.commit().await?;
    Ok(released)
}
