//! Approves an endpoint that a public client ID registered.

use crate::{
    ctx::Ctx,
    domain::ids::EndpointId,
    flows::{
        FlowResult,
        webhooks::{Holder, ShownEndpoint, unknown},
    },
    store,
};
use std::slice;

/// Lets an endpoint receive personal data, and removes it from the control of its public client ID. Approving it again
/// changes nothing.
///
/// Queued deliveries also contain personal data, from their next attempt on. Errors: an unknown endpoint, or an
/// endpoint of another holder (404 in both cases); more endpoints than the cap (409). Source: decisions D32.
pub async fn run(ctx: &Ctx, holder: impl Into<Holder>, id: &EndpointId) -> FlowResult<ShownEndpoint> {
    let holder = holder.into();
    let tx = ctx.db.begin("approve_webhook").await?;
    store::owners::lock(&tx, &holder.owner).await?;
    let found = store::endpoints::find_to_change(&tx, &holder, id).await?;
    let mut endpoint = found.ok_or_else(unknown)?;
    if !endpoint.is_approved {
        store::endpoints::approve(&tx, &holder, id).await?;
        let count = store::endpoints::count(&tx, &holder.owner).await?;
        ctx.caps.admit_endpoints(count)?;
        endpoint.is_approved = true;
    }
    let texts = store::endpoints::client_texts(&tx, slice::from_ref(&endpoint)).await?;
    tx.commit().await?;
    Ok(ShownEndpoint::new(endpoint, &texts))
}
