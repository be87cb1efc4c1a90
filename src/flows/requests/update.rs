//! Stops and resumes the recurrence of a request.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, refusal::Refusal},
    flows::{
        FlowResult,
        requests::{find, find_locked},
    },
    store,
};

const NOT_ITS_OWN: &str = "A public client ID can only change requests that it created; for other requests, use an \
                           API key or a client ID without domains";

/// Sets `isRecurrenceStopped`. A resumed recurrence continues with the next period; periods that began while it was
/// stopped are skipped.
///
/// Errors: an unknown request (404); a request that the public client ID of the call did not create (403); a request
/// without recurrence, or a cancelled request whose recurrence is resumed (400). Source: rules P.3.3.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, request_id: &str, is_stopped: bool) -> FlowResult<()> {
    let found = find(ctx, caller, request_id).await?;
    if caller.is_public() && found.origin.client.as_ref() != caller.client() {
        return Err(Refusal::forbidden(NOT_ITS_OWN).into());
    }
    if found.terms.recurrence.is_none() {
        return Err(Refusal::field("isRecurrenceStopped", "cannot be set: the request has no recurrence").into());
    }
    let tx = ctx.db.begin("update_request").await?;
    let request = find_locked(&tx, &found).await?;
    let recurrence = request.terms.recurrence.as_ref();
    let Some(recurrence) = recurrence.filter(|recurrence| recurrence.is_stopped != is_stopped) else {
        return Ok(());
    };
    if request.ledger.is_cancelled() {
        return Err(Refusal::field("isRecurrenceStopped", "must be true: the request has been cancelled").into());
    }
    let next = if is_stopped {
        None
    } else {
        let made = store::repeats::next_period(&tx, &request).await?.saturating_sub(1);
        recurrence.next_after(made, ctx.clock.now())
    };
    store::repeats::set_stopped(&tx, &request, is_stopped, next).await?;
    tx.commit().await?;
    Ok(())
}
