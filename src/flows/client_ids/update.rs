//! Changes a client ID.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        client_id::{ClientId, ClientIdChange, ClientStatus},
        ids::{ClientRowId, OwnerId},
        refusal::Refusal,
    },
    flows::{
        FlowResult,
        auth::identify,
        client_ids::{check_destination, unknown},
    },
    store,
};

/// Changes a client ID and returns it. The change applies immediately on this instance. Revoking a public client ID
/// switches off its unapproved endpoints. The link of a client ID to an orchestrator ends when the client ID is
/// revoked, and when its platform withdraws the consent or consents to another orchestrator instead.
///
/// Errors: every wrong field at once, a payee destination of another owner, an unknown orchestrator, reactivating a
/// revoked client ID (400); an unknown client ID (404). Source: rules P.3.2; rules P.4.2; rules S.10.
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
    if let Some(Some(orchestrator)) = &change.orchestrator
        && !store::orchestrators::exists(&tx, orchestrator).await?
    {
        return Err(Refusal::field("orchestratorId", "must be the id of an orchestrator of this service").into());
    }
    store::client_ids::update(&tx, &client).await?;
    if client.link != stored.link {
        store::orchestrator_links::end(&tx, &client.platform, row, client.updated_at).await?;
        crate::fail_at("update_client_id", "link_ended");
    }
    if client.status == ClientStatus::Revoked {
        // Anyone with the public client ID may have registered these endpoints. A worker cancels their pending
        // deliveries.
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
