//! Reads a client ID.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, client_id::ClientId, ids::ClientRowId},
    flows::{FlowResult, client_ids::unknown},
    store,
};

/// A client ID of the caller's platform. Errors: an unknown client ID, or a client ID of another platform (404 in both
/// cases).
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, row: &ClientRowId) -> FlowResult<ClientId> {
    let found = store::client_ids::find(ctx.db.reader(), &caller.platform, row).await?;
    found.ok_or_else(unknown)
}
