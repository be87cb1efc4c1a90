//! Lists the client IDs of a platform.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, client_id::ClientId},
    flows::FlowResult,
    store,
};

/// All client IDs of the caller's platform, newest first, revoked ones included.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Vec<ClientId>> {
    Ok(store::client_ids::list(ctx.db.reader(), &caller.platform).await?)
}
