//! Approves an endpoint that a public client ID registered.

use crate::{
    ctx::Ctx,
    domain::ids::EndpointId,
    flows::{
        FlowResult,
        webhooks::{Holder, ShownEndpoint, shown, unknown},
    },
    store,
};

/// Lets an endpoint be told about persons, and takes it out of the hands of its public client ID. A second time changes
/// nothing.
///
/// What was queued before is told whole as well, from its next try on. Errors: unknown, or another holder's, which looks
/// the same (404). Source: decisions D32.
pub async fn run(ctx: &Ctx, holder: impl Into<Holder>, id: &EndpointId) -> FlowResult<ShownEndpoint> {
    let holder = holder.into();
    let tx = ctx.db.begin("approve_webhook").await?;
    if !store::endpoints::approve(&tx, &holder, id).await? {
        return Err(unknown().into());
    }
    let endpoint = store::endpoints::find(&tx, &holder, id).await?.ok_or_else(unknown)?;
    tx.commit().await?;
    shown(ctx, vec![endpoint]).await?.pop().ok_or_else(|| unknown().into())
}
