//! What the client ID of a caller settles about a request, for every operation that makes one.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, client_id::ClientId, client_limits::ClientLimits, request::plan::OfClient},
    flows::{Fault, FlowResult},
    store,
};

/// The client ID of the call.
pub async fn client_of(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Option<ClientId>> {
    let Some(row) = caller.client() else {
        return Ok(None);
    };
    Ok(store::client_ids::find(ctx.db.reader(), &caller.platform, row).await?)
}

/// The payee destination that the client ID of the call is bound to, its limits and its fee; a caller without one is bound
/// and limited by nothing. Source: decisions D33; decisions D48.
pub async fn of_client(ctx: &Ctx, caller: &PlatformCaller, client: Option<&ClientId>) -> FlowResult<OfClient> {
    let Some(client) = client else {
        return Ok(OfClient {
            is_public: caller.is_public(),
            bound: None,
            limits: ClientLimits::default(),
            fee: None,
        });
    };
    let bound = match &client.payee_destination {
        Some(id) => {
            let found = store::destinations::find_by_id(ctx.db.reader(), &caller.platform, id).await?;
            // A client ID must not become free because its destination cannot be found.
            let missing = || Fault(anyhow::anyhow!("payee destination {id} of a client ID is not there"));
            Some(found.ok_or_else(missing)?)
        }
        None => None,
    };
    Ok(OfClient {
        is_public: caller.is_public(),
        bound,
        limits: client.limits.clone(),
        fee: client.fee(),
    })
}
