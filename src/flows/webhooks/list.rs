//! Lists endpoints.

use crate::{
    ctx::Ctx,
    flows::{
        FlowResult,
        webhooks::{Holder, ShownEndpoint},
    },
    store,
};

/// All endpoints of a holder, oldest first, including inactive ones; a platform also gets those of its client IDs.
pub async fn run(ctx: &Ctx, holder: impl Into<Holder>) -> FlowResult<Vec<ShownEndpoint>> {
    let conn = ctx.db.reader();
    let endpoints = store::endpoints::list(conn, holder.into()).await?;
    let texts = store::endpoints::client_texts(conn, &endpoints).await?;
    let shown = endpoints
        .into_iter()
        .map(|endpoint| ShownEndpoint::new(endpoint, &texts));
    Ok(shown.collect())
}
