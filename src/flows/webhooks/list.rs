//! Lists the endpoints of a client ID.

use crate::{
    ctx::Ctx,
    domain::caller::Caller,
    flows::{
        FlowResult,
        webhooks::{Endpoint, client_scope},
    },
    store,
};

/// All endpoints of the caller's client ID, oldest first, inactive ones included.
pub async fn run(ctx: &Ctx, caller: &Caller) -> FlowResult<Vec<Endpoint>> {
    Ok(store::endpoints::list(ctx.db.reader(), &client_scope(caller)?).await?)
}
