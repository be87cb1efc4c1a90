//! Deletes an endpoint for good.

use crate::{
    ctx::Ctx,
    domain::ids::EndpointId,
    flows::{
        FlowResult,
        webhooks::{Holder, cancel::BATCH, unknown},
    },
    store,
};

/// Deletes an endpoint and cancels what waits for it, a long backlog within seconds; the log of its deliveries stays.
///
/// Errors: unknown, or another holder's, which looks the same (404). Source: interface §4.8.
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
