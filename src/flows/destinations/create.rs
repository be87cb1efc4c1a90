//! Sets up a payee destination.

use crate::{
    ctx::Ctx,
    domain::{
        caller::Caller,
        destination::{Destination, registrable},
        refusal::Checks,
    },
    flows::{
        FlowResult,
        destinations::{NewDestination, put_in_use, wallet_of},
        idempotency::{self, Answer, Once},
    },
};

/// Sets up the destination of the wallet that signed in, or brings it back; `render` writes the answer that a repeated
/// call gets.
///
/// Errors: every wrong field at once (400); a session without a wallet (403). Source: rules P.4.3.
pub async fn run(
    ctx: &Ctx,
    caller: &Caller,
    input: &NewDestination,
    once: Option<&Once>,
    render: impl FnOnce(&Destination) -> String,
) -> FlowResult<Answer<Destination>> {
    let wallet = wallet_of(caller)?;
    if let Some(once) = once
        && let Some(response) = idempotency::find(ctx, caller, once).await?
    {
        return Ok(Answer::Replayed(response));
    }
    let mut checks = Checks::new();
    let key = registrable(&ctx.catalogue, wallet, &input.token, Some(input.chain_id), &mut checks);
    if let Some(policy) = &input.policy {
        policy.check(&mut checks);
    }
    let key = checks.finish_with(key)?;
    let tx = ctx.db.begin("create_destination").await?;
    let destination = put_in_use(ctx, &tx, &caller.platform, &key, input.policy).await?;
    if let Some(once) = once {
        idempotency::keep(ctx, &tx, caller, once, render(&destination)).await?;
    }
    tx.commit().await?;
    Ok(Answer::Fresh(destination))
}
