//! Changes the active payee destination.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        destination::{Destination, registrable},
        refusal::Checks,
    },
    flows::{
        FlowResult,
        destinations::{NewDestination, put_in_use, unknown, wallet_of},
    },
    store,
};

/// Replaces the destination of the signed-in wallet. If the call sets no policy, the new destination gets the policy of
/// the previous one.
///
/// Errors: every wrong field at once (400); a session without a wallet (403); no active destination (404). Source:
/// rules P.4.3.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, input: &NewDestination) -> FlowResult<Destination> {
    let wallet = wallet_of(caller)?;
    let mut checks = Checks::new();
    let key = registrable(&ctx.catalogue, wallet, &input.token, Some(input.chain_id), &mut checks);
    if let Some(policy) = &input.policy {
        policy.check(&mut checks);
    }
    let key = checks.finish_with(key)?;
    let tx = ctx.db.begin("update_destination").await?;
    let active = store::destinations::active_of(&tx, &caller.platform, &wallet).await?;
    let policy = input.policy.or(active.ok_or_else(unknown)?.policy);
    let destination = put_in_use(ctx, &tx, &caller.platform, &key, policy).await?;
    tx.commit().await?;
    Ok(destination)
}
