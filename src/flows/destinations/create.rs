//! Sets up a payee destination.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        destination::{Destination, registrable},
        refusal::Checks,
    },
    flows::{
        FlowResult,
        destinations::{NewDestination, put_in_use, wallet_of},
        idempotency::{self, KeyedResult, RepeatableCall, ResponseStorage},
    },
};

/// Creates or reactivates the destination of the signed-in wallet.
///
/// Errors: every wrong field at once (400); a session without a wallet (403). Source: rules P.4.3.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    input: &NewDestination,
    call: RepeatableCall<Destination>,
) -> FlowResult<KeyedResult<Destination>> {
    let wallet = wallet_of(caller)?;
    idempotency::once(ctx, caller, call, ResponseStorage::Shared, async |keeper| {
        let mut checks = Checks::new();
        let key = registrable(&ctx.catalogue, wallet, &input.token, Some(input.chain_id), &mut checks);
        if let Some(policy) = &input.policy {
            policy.check(&mut checks);
        }
        let key = checks.finish_with(key)?;
        let tx = ctx.db.begin("create_destination").await?;
        let destination = put_in_use(ctx, &tx, &caller.platform, &key, input.policy).await?;
        keeper.commit(tx, &destination).await?;
        Ok(destination)
    })
    .await
}
