//! Switches an endpoint on or off.

use crate::{
    ctx::Ctx,
    domain::{caller::Caller, ids::EndpointId},
    flows::{
        FlowResult,
        webhooks::{Endpoint, client_scope, unknown},
    },
    store,
};

/// Toggles an endpoint and answers its new state. Switching off cancels what waits for it.
///
/// Errors: unknown, or another client's, which looks the same (404). Source: seed §3, §4.8; contract states §9.
pub async fn run(ctx: &Ctx, caller: &Caller, id: &EndpointId) -> FlowResult<Endpoint> {
    let scope = client_scope(caller)?;
    let tx = ctx.db.begin("toggle_webhook").await?;
    let mut endpoint = store::endpoints::find(&tx, &scope, id).await?.ok_or_else(unknown)?;
    endpoint.is_active = !endpoint.is_active;
    store::endpoints::set_active(&tx, &scope, id, endpoint.is_active, ctx.clock.now()).await?;
    tx.commit().await?;
    Ok(endpoint)
}
