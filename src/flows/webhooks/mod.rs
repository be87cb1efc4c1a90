//! Webhook endpoints of platforms, client IDs and orchestrators, and the delivery of events.

pub mod approve;
pub mod backlog;
pub mod cancel;
pub mod create;
pub mod delete;
pub mod deliver;
pub mod follow_clock;
pub mod list;
pub mod opened;
pub mod recover;
pub mod rotate;
pub mod test;
pub mod toggle;

use crate::{
    ctx::Ctx,
    domain::{
        caller::{Credential, PlatformCaller},
        client_id::ClientStatus,
        ids::{ClientRowId, EndpointId, OwnerId},
        refusal::Refusal,
    },
    flows::FlowResult,
    ports::sealer::EncryptionContext,
    store,
};
use std::collections::HashMap;

pub use crate::store::{Holder, endpoints::Endpoint};

/// An endpoint as its holder sees it.
#[derive(Debug, Clone)]
pub struct ShownEndpoint {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Client ID that the endpoint belongs to.
    pub client_id: Option<String>,
}

impl ShownEndpoint {
    fn new(endpoint: Endpoint, client_texts: &HashMap<ClientRowId, String>) -> Self {
        let client = endpoint.client.as_ref();
        Self {
            client_id: client.and_then(|client| client_texts.get(client).cloned()),
            endpoint,
        }
    }
}

/// Location of the secret of an endpoint.
fn secret_place<'a>(owner: &'a OwnerId, endpoint: &'a EndpointId) -> EncryptionContext<'a> {
    EncryptionContext {
        column: "webhook_endpoints.secret",
        owner: owner.as_str(),
        row: endpoint.as_str(),
    }
}

/// The holder of the endpoints of a call: the client ID in the body, otherwise the client ID of the call, otherwise the
/// platform.
///
/// Errors: an unknown client ID, or one that differs from the client ID of the call (400).
/// Source: rules P.4.4.
pub async fn holder(ctx: &Ctx, caller: &PlatformCaller, client_id: Option<&str>) -> FlowResult<Holder> {
    let own = Holder::from(caller);
    let Some(wanted) = client_id else { return Ok(own) };
    if let Credential::ClientId { client_id, .. } = &caller.credential {
        return if client_id == wanted {
            Ok(own)
        } else {
            Err(Refusal::field("clientId", "must be absent, or the client ID that makes the call").into())
        };
    }
    let found = store::client_ids::find_by_client_id(ctx.db.reader(), wanted).await?;
    let found = found.filter(|client| client.platform == caller.platform && client.status != ClientStatus::Revoked);
    let found = found.ok_or_else(|| Refusal::field("clientId", "must be a client ID of this platform"))?;
    Ok(Holder {
        client: Some(found.row),
        ..own
    })
}

fn unknown() -> Refusal {
    Refusal::not_found("Webhook not found")
}
