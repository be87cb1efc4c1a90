//! Links a client ID to the calling orchestrator.

use crate::{
    ctx::Ctx,
    domain::{
        caller::OrchestratorCaller,
        orchestrator::{LinkStatus, OrchestratorLink},
        refusal::Refusal,
    },
    flows::{
        FlowError, FlowResult,
        auth::identify,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseStorage},
    },
    store::{self, StoreError},
};

/// Message for a client ID that has a link, or had one that has ended.
const LINKED_ONCE: &str = "This client ID already has a link, and a client ID can be linked only once: ask its \
                           platform for another client ID";

/// A client ID with an active link.
#[derive(Debug, Clone)]
pub struct LinkedClientId {
    /// The client ID that callers send.
    pub client_id: String,
}

/// Links a client ID. The link applies immediately on this instance.
///
/// Errors, in this order:
/// - 403: the settings allow no direct links.
/// - 404: an unknown client ID, or one whose platform does not consent.
/// - 403: a revoked client ID.
/// - 409: the client ID has a link, or had one.
pub async fn run(
    ctx: &Ctx,
    caller: &OrchestratorCaller,
    client_id: &str,
    call: RepeatableCall<LinkedClientId>,
) -> FlowResult<KeyedResult<LinkedClientId>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Shared, async |keeper| {
        let known = store::client_ids::find_by_client_id(ctx.db.reader(), client_id).await?;
        let tx = ctx.db.begin("link_client_id").await?;
        // The lock prevents changes of the client ID's consent and state until the commit.
        let client = match known {
            Some(known) => store::client_ids::lock(&tx, &known.platform, &known.row).await?,
            None => None,
        };
        let client = ctx.direct_links.admit(client, &caller.id)?;
        let link = OrchestratorLink {
            orchestrator: caller.id.clone(),
            status: LinkStatus::Active,
            linked_at: ctx.clock.now(),
        };
        store::orchestrator_links::insert(&tx, &client, &link)
            .await
            .map_err(|error| match error {
                StoreError::Conflict(store::ORCHESTRATOR_LINK) => Refusal::conflict(LINKED_ONCE).into(),
                other => FlowError::from(other),
            })?;
        crate::fail_at("link_client_id", "inserted");
        let linked = LinkedClientId {
            client_id: client.client_id,
        };
        keeper.commit(tx, &linked).await?;
        identify::forget(ctx);
        Ok(linked)
    })
    .await
}
