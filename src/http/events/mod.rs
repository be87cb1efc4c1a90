//! The event log: an addition of this service.

mod bodies;
mod stream;
mod view;

use crate::{
    domain::webhook::DeliveryState,
    flows::{
        self,
        events::{DeliveryFilter, EventFilter, replay::Span},
    },
    http::{forms::paging::page_limit, operation::*},
};
pub use bodies::*;
use poem::Request;
use std::collections::BTreeSet;
pub use stream::Messages;

/// The event log.
pub struct Events;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Events")]
impl Events {
    /// List events
    ///
    /// What happened, newest first, kept for 30 days unless the operator chose otherwise. A client ID sees the events
    /// of what was created with it.
    ///
    /// When: you look what was told, or missed deliveries
    /// Next: `GET /v2/events/{eventId}`, or `POST /v2/events/{eventId}/replay`
    /// 200: One page of events, newest first
    #[oai(path = "/events", method = "get", operation_id = "listEvents")]
    #[expect(
        clippy::too_many_arguments,
        reason = "one argument for each parameter of the contract"
    )]
    async fn list(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrBackend>,
        /// Name of the event
        event: Checked<EventKindText>,
        /// Id of the request
        #[oai(name = "requestId")]
        request_id: Checked<RequestIdText>,
        /// From this time on, inclusive
        since: Checked<IsoInstantText>,
        /// Up to this time, inclusive
        until: Checked<IsoInstantText>,
        /// `nextCursor` of the page before
        cursor: Checked<CursorText>,
        /// Page size, 1 to 100; 20 when absent
        limit: Checked<LimitText>,
    ) -> Result<Json<EventList>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let filter = EventFilter {
            kind: event.take(&mut checks).map(String::from),
            request_id: request_id.take(&mut checks).map(String::from),
            since: since.read(&mut checks),
            until: until.read(&mut checks),
            before: cursor.take(&mut checks).map(|text| text.id()),
            limit: page_limit(limit, &mut checks),
        };
        checks.finish()?;
        let page = flows::events::list::run(&ctx, &caller, &filter).await?;
        Ok(Json(EventList {
            events: page.events.into_iter().map(view::logged).collect(),
            next_cursor: OrNull(page.next.map(UlidText::written)),
        }))
    }

    /// Follow events
    ///
    /// Server-sent events: each message carries the id of the event, its name and its body, byte for byte as webhooks
    /// carry it. Without `after` and `Last-Event-ID` the stream begins with what happens next. It ends when the service
    /// stops, and within fifteen seconds after the credential is revoked; connect again with the last id you have seen. Test events are left out.
    ///
    /// When: you have no public address, or want to see events at once
    /// Needs: a client that reads server-sent events
    /// Next: remember the id of the last message and connect again with it
    /// Events: all that you may see, as messages
    /// 200: A stream without end: one message for each event
    /// 429: As many event streams are open as caps.event_streams allows, 32; close one first
    #[oai(path = "/events/stream", method = "get", operation_id = "followEvents")]
    async fn follow(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrBackend>,
        request: &Request,
        /// Names of events separated by commas; all when absent
        events: Checked<EventKindsText>,
        /// Id of the last event you have seen; the header `Last-Event-ID` does the same
        after: Checked<UlidText>,
    ) -> Result<Messages, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let kinds = events.take(&mut checks);
        let kinds = kinds.map(|text| text.as_str().split(',').map(str::to_owned).collect::<BTreeSet<_>>());
        let header = request.header("last-event-id").filter(|text| !text.is_empty());
        let resumed = header.and_then(|text| checks.take("Last-Event-ID", UlidText::parse(text)));
        let after = after.take(&mut checks).or(resumed);
        checks.finish()?;
        let after = after.map(|text| text.id());
        let kinds = kinds.unwrap_or_default().into_iter().collect();
        Ok(stream::open(&ctx, &caller, kinds, after, request).await?)
    }

    /// Read an event
    ///
    /// The event and the state of its deliveries. A client ID sees those to its own endpoints.
    ///
    /// When: a delivery of one event is in doubt
    /// Needs: the id of an event
    /// Next: `POST /v2/events/{eventId}/replay`
    /// 200: The event with its body and its deliveries
    /// 404: Event not found
    #[oai(path = "/events/:eventId", method = "get", operation_id = "getEvent")]
    async fn read(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrBackend>,
        /// Id of the event
        #[oai(name = "eventId")]
        event_id: Path<UlidText>,
    ) -> Result<Json<EventDetail>, Fail<{ s::NOT_FOUND }>> {
        let (event, deliveries, receivers) = flows::events::list::one(&ctx, &caller, &event_id.id()).await?;
        Ok(Json(EventDetail {
            event: view::logged(event),
            deliveries: deliveries
                .iter()
                .map(|found| view::delivery(found, &receivers))
                .collect(),
        }))
    }

    /// Replay an event
    ///
    /// Queues the deliveries of the event again: the same bytes and the same `x-service-delivery`, marked with
    /// `x-service-replay: true`, with a new round of four tries.
    ///
    /// When: a receiver lost or mistreated an event
    /// Needs: a finished delivery of it
    /// Next: `GET /v2/deliveries` shows the new tries
    /// Events: the same event once more
    /// 202: How many deliveries are queued
    /// 404: Event not found
    /// 409: The endpoint is switched off
    /// 429: As many deliveries wait for their turn as caps.due_deliveries allows, 10000; replays and tests are taken again once some were sent
    #[oai(path = "/events/:eventId/replay", method = "post", operation_id = "replayEvent")]
    async fn replay(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrBackend>,
        /// Id of the event
        #[oai(name = "eventId")]
        event_id: Path<UlidText>,
        body: Body<ReplayEventBody>,
    ) -> Result<Accepted<ReplayResult>, Fail<{ s::NOT_FOUND | s::CONFLICT }>> {
        let endpoint = body.endpoint_id.as_ref().map(UlidText::id);
        let result = flows::events::replay::one(&ctx, &caller, &event_id.id(), endpoint.as_ref()).await?;
        Ok(view::queued(result))
    }

    /// Replay the events of a span of time
    ///
    /// Like the replay of one event, for all of them; for example after an outage of the receiver. Test events are left
    /// out. It stops with `nextCursor` when as many deliveries are due as may be; go on from there a little later.
    ///
    /// When: a receiver was down for a while
    /// Needs: the begin of that time
    /// Next: call again with `nextCursor`, then `GET /v2/deliveries/summary`
    /// Events: the same events once more
    /// 202: How many deliveries are queued, and where to go on
    /// 404: Webhook not found
    /// 409: The endpoint is switched off
    /// 429: As many deliveries wait for their turn as caps.due_deliveries allows, 10000; replays and tests are taken again once some were sent
    #[oai(path = "/events/replay", method = "post", operation_id = "replayEvents")]
    async fn replay_span(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrBackend>,
        body: Body<ReplayEventsBody>,
    ) -> Result<Accepted<ReplayResult>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::CONFLICT }>> {
        let body = body.0;
        let mut checks = Checks::new();
        let since = checks.take("since", body.since.value());
        let until = body.until.and_then(|text| checks.take("until", text.value()));
        let span = Span {
            since: checks.finish_with(since)?,
            until,
            endpoint: body.endpoint_id.map(|text| text.id()),
            failed_only: body.failed_only.unwrap_or(false),
            after: body.cursor.map(|text| text.id()),
        };
        Ok(view::queued(flows::events::replay::span(&ctx, &caller, &span).await?))
    }

    /// List deliveries
    ///
    /// Newest first. A client ID sees those to its own endpoints.
    ///
    /// When: you look what reached your endpoints
    /// Next: `GET /v2/deliveries/{deliveryId}` for one of them
    /// 200: One page of deliveries, newest first
    #[oai(path = "/deliveries", method = "get", operation_id = "listDeliveries")]
    #[expect(
        clippy::too_many_arguments,
        reason = "one argument for each parameter of the contract"
    )]
    async fn deliveries(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrBackend>,
        /// Id of the event
        #[oai(name = "eventId")]
        event_id: Checked<UlidText>,
        /// Id of the endpoint
        #[oai(name = "endpointId")]
        endpoint_id: Checked<UlidText>,
        /// State
        state: Checked<DeliveryState>,
        /// `nextCursor` of the page before
        cursor: Checked<CursorText>,
        /// Page size, 1 to 100; 20 when absent
        limit: Checked<LimitText>,
    ) -> Result<Json<DeliveryList>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let filter = DeliveryFilter {
            event: event_id.take(&mut checks).map(|text| text.id()),
            endpoint: endpoint_id.take(&mut checks).map(|text| text.id()),
            state: state.take(&mut checks),
            before: cursor.take(&mut checks).map(|text| text.id()),
            limit: page_limit(limit, &mut checks),
        };
        checks.finish()?;
        let page = flows::events::deliveries::list(&ctx, &caller, &filter).await?;
        let found = page.deliveries.iter();
        Ok(Json(DeliveryList {
            deliveries: found.map(|found| view::delivery(found, &page.receivers)).collect(),
            next_cursor: OrNull(page.next.map(UlidText::written)),
        }))
    }

    /// Count deliveries
    ///
    /// Those that were created in a span of time, by endpoint and state. A client ID counts those to its own endpoints.
    ///
    /// When: a dashboard shows how deliveries go
    /// Next: `GET /v2/deliveries` with the state that stands out
    /// 200: One count for each endpoint and state that has deliveries in the span
    #[oai(path = "/deliveries/summary", method = "get", operation_id = "getDeliverySummary")]
    async fn summary(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrBackend>,
        /// From this time on, inclusive; a day before `until` when absent
        since: Checked<IsoInstantText>,
        /// Up to this time, inclusive; now when absent
        until: Checked<IsoInstantText>,
    ) -> Result<Json<DeliverySummary>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let since = since.read(&mut checks);
        let until = until.read(&mut checks);
        checks.finish()?;
        let counts = flows::events::deliveries::counts(&ctx, &caller, since, until).await?;
        Ok(Json(view::summary(counts)))
    }

    /// Read a delivery
    ///
    /// With each try: when, how long, what came back.
    ///
    /// When: you want to know why one did not arrive
    /// Needs: the id in `x-service-delivery`
    /// Next: `POST /v2/deliveries/{deliveryId}/retry`
    /// 200: The delivery with every try
    /// 404: Delivery not found
    #[oai(path = "/deliveries/:deliveryId", method = "get", operation_id = "getDelivery")]
    async fn read_delivery(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrBackend>,
        /// Id of the delivery
        #[oai(name = "deliveryId")]
        delivery_id: Path<UlidText>,
    ) -> Result<Json<DeliveryDetail>, Fail<{ s::NOT_FOUND }>> {
        let (found, receivers) = flows::events::deliveries::one(&ctx, &caller, &delivery_id.id()).await?;
        Ok(Json(view::detail(&found, &receivers)))
    }

    /// Retry a delivery
    ///
    /// Queues a finished delivery again, whether it failed, was cancelled or arrived: the same bytes and identity,
    /// marked with `x-service-replay: true`, with a new round of four tries.
    ///
    /// When: the receiver is mended
    /// Needs: a finished delivery
    /// Next: `GET /v2/deliveries/{deliveryId}` shows the new tries
    /// Events: the same event once more
    /// 202: The delivery, which is about to be sent again
    /// 404: Delivery not found
    /// 409: The delivery waits for its next try already
    /// 409: The endpoint is gone or switched off
    /// 429: As many deliveries wait for their turn as caps.due_deliveries allows, 10000; replays and tests are taken again once some were sent
    #[oai(
        path = "/deliveries/:deliveryId/retry",
        method = "post",
        operation_id = "retryDelivery"
    )]
    async fn retry(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrBackend>,
        /// Id of the delivery
        #[oai(name = "deliveryId")]
        delivery_id: Path<UlidText>,
    ) -> Result<Accepted<DeliveryDetail>, Fail<{ s::NOT_FOUND | s::CONFLICT }>> {
        let (found, receivers) = flows::events::deliveries::retry(&ctx, &caller, &delivery_id.id()).await?;
        Ok(Reply::new(view::detail(&found, &receivers)))
    }
}
