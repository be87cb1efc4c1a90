//! Withdraws a secure payment.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, ids::SecurePaymentToken, refusal::Refusal, secure_payment::SecurePayment},
    flows::FlowResult,
    store::{self, Scope},
};
use chrono::{DateTime, Utc};

/// Expiry of a withdrawn link.
const NEVER: DateTime<Utc> = DateTime::UNIX_EPOCH;

/// Withdraws a secure payment of the caller's platform; a repeated call changes nothing. Its requests stay, and
/// payments that still arrive are credited to them.
///
/// Errors: the link is unknown or of another platform (404); it is already paid, or paying its recipient is forbidden
/// (409). Source: rules S.2.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, token: &str) -> FlowResult<SecurePayment> {
    let whole_platform = Scope::of_platform(&caller.platform);
    let tx = ctx.db.begin("withdraw_secure_payment").await?;
    let tokens = [SecurePaymentToken(token.to_owned())];
    store::secure_payments::lock_requests(&tx, &whole_platform, &tokens).await?;
    let mut locked = store::secure_payments::lock_all(&tx, &whole_platform, &tokens).await?;
    let payment = locked
        .pop()
        .ok_or_else(|| Refusal::not_found("Secure payment not found"))?;
    let status = payment.withdrawn()?;
    if status == payment.status {
        return Ok(payment);
    }
    let withdrawn = SecurePayment { status, ..payment };
    store::secure_payments::set_status(&tx, &withdrawn).await?;
    // The requests of a multicall stay payable with their own links.
    if !withdrawn.is_multicall() {
        let rows: Vec<_> = withdrawn.items.iter().map(|item| &item.request).collect();
        store::requests::set_link_until(&tx, &caller.platform, &rows, NEVER).await?;
    }
    tx.commit().await?;
    Ok(withdrawn)
}
