//! Webhook endpoints of platforms, client IDs and orchestrators, and the delivery of events.

pub mod approve;
pub mod backlog;
pub mod create;
pub mod delete;
pub mod deliver;
pub mod follow_clock;
pub mod list;
pub mod recover;
pub mod rotate;
pub mod test;
pub mod toggle;

use crate::{
    ctx::Ctx,
    domain::{
        caller::{Credential, PlatformCaller},
        client_id::ClientStatus,
        ids::{EndpointId, OwnerId},
        refusal::Refusal,
    },
    flows::FlowResult,
    ports::sealer::Place,
    store,
};

pub use crate::store::{Holder, endpoints::Endpoint};

/// An endpoint as its holder sees it.
#[derive(Debug, Clone)]
pub struct ShownEndpoint {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Public text of the client ID that it belongs to.
    pub client_id: Option<String>,
}

/// Where the secret of an endpoint stands.
fn secret_place<'a>(owner: &'a OwnerId, endpoint: &'a EndpointId) -> Place<'a> {
    Place {
        column: "webhook_endpoints.secret",
        owner: owner.as_str(),
        row: endpoint.as_str(),
    }
}

/// Whose endpoints a call is about: those of the client ID that it names or was made with, else those of the platform.
///
/// Errors: a client ID that the platform does not have, or another one than that of the call (400).
/// Source: rules P.4.4.
pub async fn holder(ctx: &Ctx, caller: &PlatformCaller, client_id: Option<&str>) -> FlowResult<Holder> {
    let own = Holder::from(caller);
    let Some(wanted) = client_id else { return Ok(own) };
    if let Credential::ClientId { client_id, .. } = &caller.credential {
        return if client_id == wanted {
            Ok(own)
        } else {
            Err(Refusal::field("clientId", "must be absent or the client ID of the call").into())
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

async fn shown(ctx: &Ctx, endpoints: Vec<Endpoint>) -> FlowResult<Vec<ShownEndpoint>> {
    let texts = store::endpoints::client_texts(ctx.db.reader(), &endpoints).await?;
    let shown = endpoints.into_iter().map(|endpoint| ShownEndpoint {
        client_id: endpoint.client.as_ref().and_then(|client| texts.get(client).cloned()),
        endpoint,
    });
    Ok(shown.collect())
}

fn unknown() -> Refusal {
    Refusal::not_found("Webhook not found")
}
