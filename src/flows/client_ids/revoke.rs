//! Revokes a client ID.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        client_id::{ClientIdChange, ClientStatus},
        ids::ClientRowId,
    },
    flows::FlowResult,
};

/// Revokes a client ID permanently; revoking it again changes nothing.
///
/// Errors: an unknown client ID, or a client ID of another platform (404). Source: rules P.3.2.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, row: &ClientRowId) -> FlowResult<()> {
    let change = ClientIdChange {
        status: Some(ClientStatus::Revoked),
        ..ClientIdChange::default()
    };
    super::update::run(ctx, caller, row, &change).await?;
    Ok(())
}
