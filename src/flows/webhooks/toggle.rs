//! Switches an endpoint on or off.

use crate::{
    ctx::Ctx,
    domain::ids::EndpointId,
    flows::{
        FlowResult,
        webhooks::{Holder, ShownEndpoint, cancel::BATCH, unknown},
    },
    store,
};
use std::slice;

/// Toggles an endpoint and returns its new state. Switching off cancels what waits for it, a long backlog
/// within seconds; switched on again after that, it receives new events only.
///
/// Errors: unknown, or another holder's, which looks the same (404). Source: interface §3; interface §4.8; rules S.9.
pub async fn run(ctx: &Ctx, holder: impl Into<Holder>, id: &EndpointId) -> FlowResult<ShownEndpoint> {
    switch(ctx, holder.into(), id, |is_active| !is_active).await
}

/// Brings an endpoint into a state; one that is in it already stays as it is. Switching off cancels what waits for it.
///
/// Errors: as [`run`]. Source: interface §3; interface §4.9; rules S.9.
pub async fn to(ctx: &Ctx, holder: impl Into<Holder>, id: &EndpointId, is_active: bool) -> FlowResult<ShownEndpoint> {
    switch(ctx, holder.into(), id, |_| is_active).await
}

async fn switch(
    ctx: &Ctx,
    holder: Holder,
    id: &EndpointId,
    decide: impl FnOnce(bool) -> bool,
) -> FlowResult<ShownEndpoint> {
    let tx = ctx.db.begin("switch_webhook").await?;
    let endpoint = store::endpoints::find_to_change(&tx, &holder, id).await?;
    let mut endpoint = endpoint.ok_or_else(unknown)?;
    endpoint.is_active = decide(endpoint.is_active);
    store::endpoints::set_active(&tx, &holder, id, endpoint.is_active).await?;
    if !endpoint.is_active {
        store::outbox::cancel_some_of_endpoint(&tx, &endpoint.owner, id, ctx.clock.now(), BATCH).await?;
    }
    let texts = store::endpoints::client_texts(&tx, slice::from_ref(&endpoint)).await?;
    tx.commit().await?;
    Ok(ShownEndpoint::new(endpoint, &texts))
}
