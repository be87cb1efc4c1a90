//! Lists the client IDs of a platform.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, client_id::ClientId},
    flows::FlowResult,
    store,
};

/// Client IDs of the caller's platform, newest first: all that are not revoked, and the last thousand revoked ones.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Vec<ClientId>> {
    Ok(store::client_ids::list(ctx.db.reader(), &caller.platform).await?)
}
