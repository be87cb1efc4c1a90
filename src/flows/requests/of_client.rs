//! What the client ID of a caller settles about a request, for every operation that makes one.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, client_limits::ClientLimits, request::plan::OfClient},
    flows::{Fault, FlowResult},
    store,
};

/// The payee destination that the client ID of the caller is bound to, and its limits; a caller without one is bound and
/// limited by nothing. Source: decisions D33.
pub(super) async fn of_client(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<OfClient> {
    let conn = ctx.db.reader();
    let client = match caller.client() {
        Some(row) => store::client_ids::find(conn, &caller.platform, row).await?,
        None => None,
    };
    let Some(client) = client else {
        return Ok(OfClient {
            bound: None,
            limits: ClientLimits::default(),
        });
    };
    let bound = match &client.payee_destination {
        Some(id) => {
            let found = store::destinations::find_by_id(conn, &caller.platform, id).await?;
            // A client ID must not become free because its destination cannot be found.
            let missing = || Fault(anyhow::anyhow!("payee destination {id} of a client ID is not there"));
            Some(found.ok_or_else(missing)?)
        }
        None => None,
    };
    Ok(OfClient {
        bound,
        limits: client.limits,
    })
}
