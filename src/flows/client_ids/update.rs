//! Changes a client ID.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        client_id::{ClientId, ClientIdChange, ClientStatus},
        ids::{ClientRowId, OwnerId},
    },
    flows::{
        FlowResult,
        auth::identify,
        client_ids::{check_destination, unknown},
    },
    store,
};

/// Changes a client ID and returns it. Calls with it follow the change at once on this instance. Revoking it switches
/// off what it registered as a public one and nobody approved.
///
/// Errors: every wrong field at once, a payee destination that is not the caller's, a revoked client ID that is to come
/// back (400); unknown (404). Source: rules P.3.2; rules P.4.2; rules S.10.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    row: &ClientRowId,
    change: &ClientIdChange,
) -> FlowResult<ClientId> {
    let tx = ctx.db.begin("update_client_id").await?;
    let stored = store::client_ids::lock(&tx, &caller.platform, row).await?;
    let stored = stored.ok_or_else(unknown)?;
    let client = stored.changed(change, &ctx.catalogue, ctx.clock.now())?;
    if let Some(Some(destination)) = &change.payee_destination {
        check_destination(&tx, caller, destination).await?;
    }
    store::client_ids::update(&tx, &client).await?;
    if client.status == ClientStatus::Revoked {
        // Whoever read it off a page registered these; nobody else wants what they hear. A worker cancels what waits for
        // them.
        let owner = OwnerId::from(&client.platform);
        for endpoint in store::endpoints::lock_unapproved(&tx, &owner, row).await? {
            store::endpoints::set_active(&tx, caller, &endpoint.id, false).await?;
        }
    }
    tx.commit().await?;
    identify::forget(ctx);
    if client.allowed_domains != stored.allowed_domains || client.status != stored.status {
        identify::forget_origins(ctx);
    }
    Ok(client)
}
