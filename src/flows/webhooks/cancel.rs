//! Cancels, in batches, pending deliveries of inactive or deleted endpoints.

use crate::{
    ctx::Ctx,
    domain::ids::{EndpointId, OwnerId},
    flows::FlowResult,
    store,
};

/// Maximum number of deliveries and rounds that one transaction cancels. Switching off an endpoint cancels up to this
/// number immediately, and the worker cancels the rest. So a long backlog does not exceed the timeout of a call.
pub(super) const BATCH: u64 = 500;

/// Number of endpoints for which one call cancels a batch.
const ENDPOINTS: u64 = 100;

/// Cancels a batch for each inactive or deleted endpoint with pending deliveries; returns whether there may be more.
///
/// Each endpoint has its own transaction, so that a failing one does not delay the others. Errors: the last error of an
/// endpoint. Source: interface §3; rules S.9.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let abandoned = store::outbox::abandoned(ctx.db.reader(), ENDPOINTS).await?;
    let mut ended = Ok(!abandoned.is_empty());
    for (owner, endpoint) in abandoned {
        if let Err(error) = cancel(ctx, &owner, endpoint).await {
            ended = Err(error);
        }
    }
    ended
}

/// Cancels a batch, unless the endpoint has been switched on meanwhile.
async fn cancel(ctx: &Ctx, owner: &OwnerId, endpoint: EndpointId) -> FlowResult<()> {
    let tx = ctx.db.begin("cancel_deliveries").await?;
    let id = std::slice::from_ref(&endpoint);
    let is_active = store::endpoints::lock(&tx, id)
        .await?
        .iter()
        .any(|found| found.is_active);
    if !is_active {
        store::outbox::cancel_some_of_endpoint(&tx, owner, &endpoint, ctx.clock.now(), BATCH).await?;
    }
    tx.commit().await?;
    Ok(())
}
