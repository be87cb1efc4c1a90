//! Webhook endpoints of client IDs, and the delivery of events.

pub mod create;
pub mod delete;
pub mod deliver;
pub mod follow_clock;
pub mod list;
pub mod test;
pub mod toggle;

use crate::{
    domain::{caller::Caller, refusal::Refusal},
    flows::FlowResult,
    store::Scope,
};

pub use crate::store::endpoints::Endpoint;

/// The client ID whose endpoints are managed. Errors: a credential without one (403).
fn client_scope(caller: &Caller) -> FlowResult<Scope> {
    let client = caller
        .client()
        .ok_or_else(|| Refusal::forbidden("Webhooks are managed with a client ID"))?;
    Ok(Scope {
        platform: caller.platform.clone(),
        client: Some(client.clone()),
    })
}

fn unknown() -> Refusal {
    Refusal::not_found("Webhook not found")
}
