//! Deletes an endpoint for good.

use crate::{
    ctx::Ctx,
    domain::{caller::Caller, ids::EndpointId},
    flows::{
        FlowResult,
        webhooks::{client_scope, unknown},
    },
    store,
};

/// Deletes an endpoint and cancels what waits for it; the log of its deliveries stays.
///
/// Errors: unknown, or another client's, which looks the same (404). Source: seed §4.8.
pub async fn run(ctx: &Ctx, caller: &Caller, id: &EndpointId) -> FlowResult<()> {
    let scope = client_scope(caller)?;
    let tx = ctx.db.begin("delete_webhook").await?;
    if !store::endpoints::delete(&tx, &scope, id, ctx.clock.now()).await? {
        return Err(unknown().into());
    }
    tx.commit().await?;
    Ok(())
}
