//! Records that a payment page prompts a wallet to pay, and that the wallet refused. It changes no state and sends no
//! event.

use super::{access, multicall, open, open::LinkVisit, opened::OpenedLink};
use crate::{
    ctx::Ctx,
    domain::{
        address::Address,
        refusal::Refusal,
        secure_payment::{SecurePayment, access::LinkPayer, attempt::AttemptId, multicall::check_children},
    },
    flows::FlowResult,
    store::{self, Tx},
};
use chrono::{DateTime, Utc};

/// Records an attempt to pay with a wallet. Returns until when the page has to warn its visitor that another visitor
/// may be paying: the attempts of other pages are recent. This attempt and `own`, the earlier attempts of the same
/// page, do not count.
///
/// Errors: the payment can no longer be paid (403); it is paid (409); a Safe is about to pay it (423); the wallet is of
/// another network (400), or may not pay it (403); a multicall cannot pay one of its links (400).
pub async fn note(
    ctx: &Ctx,
    opened: &OpenedLink,
    wallet: Address,
    id: AttemptId,
    own: &[AttemptId],
) -> FlowResult<Option<DateTime<Utc>>> {
    opened.payable().map_err(Refusal::from)?;
    let payer = LinkPayer { wallet, eoa: None };
    let look = LinkVisit {
        payer: Some(payer),
        source: None,
        is_safe: false,
    };
    opened.unlocked()?;
    open::check(ctx, opened, &look)?;
    access::require(ctx, &opened.payment, &payer).await?;
    if opened.payment.is_multicall() {
        let multicall = multicall::of(ctx, opened).await?;
        check_children(multicall.failures(opened))?;
    }
    let now = ctx.clock.now();
    let (tx, present) = locked(ctx, opened, "note_attempt").await?;
    present.payable_at(now).map_err(Refusal::from)?;
    let attempts = present.attempts.note(id, now);
    store::secure_payments::set_attempts(&tx, &present, &attempts).await?;
    tx.commit().await?;
    Ok(attempts.warn_until(&[own, &[id]].concat(), now))
}

/// Withdraws an attempt. The wallet proved that it sent nothing, or its transaction is known to pay nothing.
pub async fn withdraw(ctx: &Ctx, opened: &OpenedLink, id: AttemptId) -> FlowResult<()> {
    // A stranger with the token can repeat this call, so a call that would change nothing takes no lock.
    if !opened.payment.attempts.kept.iter().any(|attempt| attempt.id == id) {
        return Ok(());
    }
    let (tx, present) = locked(ctx, opened, "withdraw_attempt").await?;
    let attempts = present.attempts.withdraw(id, ctx.clock.now());
    store::secure_payments::set_attempts(&tx, &present, &attempts).await?;
    Ok(tx.commit().await?)
}

async fn locked(ctx: &Ctx, opened: &OpenedLink, name: &'static str) -> FlowResult<(Tx, SecurePayment)> {
    let payment = &opened.payment;
    let tx = ctx.db.begin(name).await?;
    let present = store::secure_payments::lock_one(&tx, &payment.origin.platform, &payment.id).await?;
    Ok((
        tx,
        present.ok_or_else(|| Refusal::not_found("Secure payment not found"))?,
    ))
}
