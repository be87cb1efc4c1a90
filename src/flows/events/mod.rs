//! The event log: read, told again, followed, swept.

pub mod deliveries;
pub mod follow;
pub mod list;
pub mod replay;
pub mod sweep;

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, ids::EndpointId, refusal::Refusal},
    flows::FlowResult,
    store::{self, endpoints::Endpoint},
};
use chrono::{DateTime, Utc};
use std::collections::HashMap;

pub use crate::store::{
    delivery_log::{DeliveryCount, DeliveryFilter, LoggedDelivery},
    event_log::{EventFilter, EventRecord},
    payer_keys::Opened,
};

/// The endpoints that a caller may see, the inactive ones too.
#[derive(Debug, Clone)]
pub struct Receivers(HashMap<EndpointId, Endpoint>);

impl Receivers {
    /// Where an endpoint is, unless it is gone.
    pub fn url(&self, id: &EndpointId) -> Option<&str> {
        self.0.get(id).map(|endpoint| endpoint.url.as_str())
    }

    fn is_active(&self, id: &EndpointId) -> bool {
        self.0.get(id).is_some_and(|endpoint| endpoint.is_active)
    }

    /// The endpoints whose deliveries a client ID sees: its own; an API key sees all of its platform.
    fn limit(&self, caller: &PlatformCaller) -> Option<Vec<EndpointId>> {
        caller.client().map(|_| self.0.keys().cloned().collect())
    }

    fn contains(&self, id: &EndpointId) -> bool {
        self.0.contains_key(id)
    }
}

/// Errors: a span that ends before it begins (400).
fn check_span(since: Option<DateTime<Utc>>, until: Option<DateTime<Utc>>) -> Result<(), Refusal> {
    match (since, until) {
        (Some(since), Some(until)) if until < since => Err(Refusal::field("until", "must not be before since")),
        _ => Ok(()),
    }
}

fn unknown_event() -> Refusal {
    Refusal::not_found("Event not found")
}

fn unknown_delivery() -> Refusal {
    Refusal::not_found("Delivery not found")
}

fn no_repeated_test() -> Refusal {
    Refusal::conflict("Test deliveries are not repeated; ask for another test")
}

fn erased() -> Refusal {
    Refusal::conflict("The payer of this event is erased, and what it told with them")
}

/// The receivers of a caller.
pub async fn receivers(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Receivers> {
    let endpoints = store::endpoints::list(ctx.db.reader(), caller).await?;
    let by_id = endpoints.into_iter().map(|endpoint| (endpoint.id.clone(), endpoint));
    Ok(Receivers(by_id.collect()))
}
