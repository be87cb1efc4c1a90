//! Cancels, in batches, what waits for endpoints that are off or gone.

use crate::{
    ctx::Ctx,
    domain::ids::{EndpointId, OwnerId},
    flows::FlowResult,
    store,
};

/// Deliveries of an endpoint, and rounds of others, that end in one transaction. Whoever switches an endpoint off ends as
/// many at once; the worker ends the rest, so that no backlog is too long for the time of an answer.
pub(super) const BATCH: u64 = 500;

/// Endpoints of which one call cancels a batch each.
const ENDPOINTS: u64 = 100;

/// Cancels a batch of each endpoint that is off or gone while something waits for it; tells whether there may be more.
///
/// Each endpoint has a transaction of its own: one that cannot be written keeps no other waiting. Errors: the last one.
/// Source: interface §3; rules S.9.
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

/// Cancels a batch, unless the endpoint was switched on meanwhile.
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
