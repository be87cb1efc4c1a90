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

/// Toggles an endpoint and returns its new state. Switching off cancels its pending deliveries, and a long backlog
/// within seconds. After it is switched on again, the endpoint receives only new events.
///
/// Errors: an unknown endpoint, or an endpoint of another holder (404 in both cases). Source: interface §3; interface
/// §4.8; rules S.9.
pub async fn run(ctx: &Ctx, holder: impl Into<Holder>, id: &EndpointId) -> FlowResult<ShownEndpoint> {
    switch(ctx, holder.into(), id, |is_active| !is_active).await
}

/// Sets the state of an endpoint; an endpoint already in this state stays unchanged. Switching off cancels its pending
/// deliveries.
///
/// Errors: as for [`run`]. Source: interface §3; interface §4.9; rules S.9.
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
