//! Lists endpoints.

use crate::{
    ctx::Ctx,
    flows::{
        FlowResult,
        webhooks::{Holder, ShownEndpoint, shown},
    },
    store,
};

/// All endpoints of a holder, oldest first, inactive ones included; a platform sees those of its client IDs too.
pub async fn run(ctx: &Ctx, holder: impl Into<Holder>) -> FlowResult<Vec<ShownEndpoint>> {
    let endpoints = store::endpoints::list(ctx.db.reader(), holder.into()).await?;
    shown(ctx, endpoints).await
}
