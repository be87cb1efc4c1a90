//! Reads events.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, ids::EventId},
    flows::{
        FlowResult,
        events::{EventRecord, LoggedDelivery, VisibleEndpoints, check_span, receivers, unknown_event},
    },
    store::{self, Scope, event_log::EventFilter},
};

/// One page of events, newest first.
#[derive(Debug, Clone)]
pub struct EventPage {
    /// The events.
    pub events: Vec<EventRecord>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<EventId>,
}

/// Lists the caller's events. Errors: times in the wrong order (400).
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, filter: &EventFilter) -> FlowResult<EventPage> {
    check_span(filter.since, filter.until)?;
    let more = EventFilter {
        limit: filter.limit + 1,
        ..filter.clone()
    };
    let mut events = store::event_log::events(ctx.db.reader(), &Scope::from(caller), &more).await?;
    let has_more = events.len() > usize::try_from(filter.limit).unwrap_or(usize::MAX);
    if has_more {
        events.pop();
    }
    let next = has_more.then(|| events.last().map(|event| event.id.clone())).flatten();
    Ok(EventPage { events, next })
}

/// Reads one event and its deliveries. Errors: an unknown event (404).
pub async fn one(
    ctx: &Ctx,
    caller: &PlatformCaller,
    id: &EventId,
) -> FlowResult<(EventRecord, Vec<LoggedDelivery>, VisibleEndpoints)> {
    let event = store::event_log::find_event(ctx.db.reader(), &Scope::from(caller), id).await?;
    let event = event.ok_or_else(unknown_event)?;
    let receivers = receivers(ctx, caller).await?;
    let mut deliveries =
        store::delivery_log::deliveries_of(ctx.db.reader(), &caller.platform, std::slice::from_ref(id)).await?;
    deliveries.retain(|one| caller.client().is_none() || receivers.contains(&one.delivery.endpoint));
    Ok((event, deliveries, receivers))
}
