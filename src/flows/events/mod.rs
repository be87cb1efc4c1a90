//! The event log: reading, replaying, following and deleting events.

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
    delivery_log::{DeliveryFilter, EndpointStateCount, LoggedDelivery},
    event_log::{EventFilter, EventRecord},
    payer_keys::PayerText,
};

/// The endpoints that a caller may see, including inactive ones.
#[derive(Debug, Clone)]
pub struct VisibleEndpoints(HashMap<EndpointId, Endpoint>);

impl VisibleEndpoints {
    /// URL of an endpoint, unless it is deleted.
    pub fn url(&self, id: &EndpointId) -> Option<&str> {
        self.0.get(id).map(|endpoint| endpoint.url.as_str())
    }

    fn is_active(&self, id: &EndpointId) -> bool {
        self.0.get(id).is_some_and(|endpoint| endpoint.is_active)
    }

    /// The endpoints to which a client ID is limited: its own. `None` for an API key, which sees the deliveries of its
    /// whole platform.
    fn limit(&self, caller: &PlatformCaller) -> Option<Vec<EndpointId>> {
        caller.client().map(|_| self.0.keys().cloned().collect())
    }

    fn contains(&self, id: &EndpointId) -> bool {
        self.0.contains_key(id)
    }
}

/// Errors: a period that ends before it begins (400).
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
    Refusal::conflict("Test deliveries cannot be replayed; request another test")
}

fn erased() -> Refusal {
    Refusal::conflict(
        "The payer of this event was erased, and the contents of the event with it; the event cannot be sent again",
    )
}

/// The endpoints of a caller.
pub async fn receivers(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<VisibleEndpoints> {
    let endpoints = store::endpoints::list(ctx.db.reader(), caller).await?;
    let by_id = endpoints.into_iter().map(|endpoint| (endpoint.id.clone(), endpoint));
    Ok(VisibleEndpoints(by_id.collect()))
}
