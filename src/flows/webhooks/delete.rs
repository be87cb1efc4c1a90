//! Deletes an endpoint permanently.

use crate::{
    ctx::Ctx,
    domain::ids::EndpointId,
    flows::{
        FlowResult,
        webhooks::{Holder, cancel::BATCH, unknown},
    },
    store,
};

/// Deletes an endpoint and cancels its pending deliveries. A long backlog is cancelled within seconds. The delivery log
/// of the endpoint is kept.
///
/// Errors: an unknown endpoint, or an endpoint of another holder (404 in both cases). Source: interface §4.8.
pub async fn run(ctx: &Ctx, holder: impl Into<Holder>, id: &EndpointId) -> FlowResult<()> {
    let holder = holder.into();
    let tx = ctx.db.begin("delete_webhook").await?;
    if !store::endpoints::delete(&tx, &holder, id).await? {
        return Err(unknown().into());
    }
    store::outbox::cancel_some_of_endpoint(&tx, &holder.owner, id, ctx.clock.now(), BATCH).await?;
    tx.commit().await?;
    Ok(())
}
