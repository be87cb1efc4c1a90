//! The event log, which this service adds to the published interface.

mod bodies;
mod stream;
mod view;

use crate::{
    domain::webhook::DeliveryState,
    flows::{
        self,
        events::{DeliveryFilter, EventFilter, replay::ReplayRange},
    },
    http::{forms::paging::page_limit, operation::*},
};
pub use bodies::*;
use poem::Request;
use std::collections::BTreeSet;
pub use stream::MessageStream;

/// The event log.
pub struct Events;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Events")]
impl Events {
    /// List events
    ///
    /// Lists events, newest first. Events are stored for 30 days unless the operator chose otherwise. A client ID sees
    /// the events of objects that were created with it.
    ///
    /// When: you look up which events were sent, or missed deliveries
    /// Next: read one with `GET /v2/events/{eventId}`, or send it again with `POST /v2/events/{eventId}/replay`
    /// 200: One page of events, newest first
    #[oai(path = "/events", method = "get", operation_id = "listEvents")]
    #[expect(
        clippy::too_many_arguments,
        reason = "the function has one argument for each parameter of the operation"
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
        /// Since this time, inclusive
        since: Checked<IsoInstantText>,
        /// Up to this time, inclusive
        until: Checked<IsoInstantText>,
        /// `nextCursor` of the previous page
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
    /// Server-sent events. Each message has the id, the name and the body of the event; the body is byte for byte the
    /// one that webhooks send. Without `after` and `Last-Event-ID` the stream starts with the next event. It ends when
    /// the service stops, and within 15 seconds after the credential is revoked. Reconnect with the last id you
    /// received. Test events are excluded.
    ///
    /// When: you have no public address, or want to see events immediately
    /// Needs: a client that reads server-sent events
    /// Next: after a disconnect, connect again with the id of the last message
    /// Events: every event that you may see, as messages
    /// 200: An endless stream: one message for each event
    /// 429: The limit is 32 open event streams (caps.event_streams); close a stream first
    #[oai(path = "/events/stream", method = "get", operation_id = "followEvents")]
    async fn follow(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrBackend>,
        request: &Request,
        /// Names of events separated by commas; all when absent
        events: Checked<EventKindsText>,
        /// Id of the last event you received; the header `Last-Event-ID` has the same effect
        after: Checked<UlidText>,
    ) -> Result<MessageStream, Fail<{ s::BAD_REQUEST }>> {
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
    /// Returns the event and the state of its deliveries. A client ID sees only deliveries to its own endpoints.
    ///
    /// When: you want to check the deliveries of one event
    /// Needs: the id of an event
    /// Next: send it again with `POST /v2/events/{eventId}/replay`
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
    /// Queues the deliveries of the event again, each with a new round of four attempts. The body and
    /// `x-service-delivery` stay the same; the header `x-service-replay: true` marks the repetition.
    ///
    /// When: a receiver lost an event or handled it wrongly
    /// Needs: a finished delivery of the event
    /// Next: read the new attempts with `GET /v2/deliveries`
    /// Events: the same event again
    /// 202: How many deliveries are queued
    /// 404: Event not found
    /// 409: The endpoint is switched off
    /// 429: The limit of 10000 due deliveries (caps.due_deliveries) is reached; retry replays and tests after some have been sent
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

    /// Replay the events of a period
    ///
    /// Like the replay of one event, but for all events of a period, for example after an outage of the receiver. Test
    /// events are excluded. If the maximum number of queued deliveries is reached, the replay stops and returns
    /// `nextCursor`; send this cursor a little later to continue.
    ///
    /// When: a receiver was down for a while
    /// Needs: the start of the outage
    /// Next: repeat the call with `nextCursor`, then check `GET /v2/deliveries/summary`
    /// Events: the same events again
    /// 202: How many deliveries are queued, and where to continue
    /// 404: Webhook not found
    /// 409: The endpoint is switched off
    /// 429: The limit of 10000 due deliveries (caps.due_deliveries) is reached; retry replays and tests after some have been sent
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
        let span = ReplayRange {
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
    /// Lists deliveries, newest first. A client ID sees only deliveries to its own endpoints.
    ///
    /// When: you check which events reached your endpoints
    /// Next: read one of them with `GET /v2/deliveries/{deliveryId}`
    /// 200: One page of deliveries, newest first
    #[oai(path = "/deliveries", method = "get", operation_id = "listDeliveries")]
    #[expect(
        clippy::too_many_arguments,
        reason = "the function has one argument for each parameter of the operation"
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
        /// `nextCursor` of the previous page
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
    /// Counts the deliveries created in a period, by endpoint and state. A client ID counts only deliveries to its own
    /// endpoints.
    ///
    /// When: a dashboard shows the state of deliveries
    /// Next: list the deliveries of a state with `GET /v2/deliveries`
    /// 200: One count for each endpoint and state with deliveries in the period
    #[oai(path = "/deliveries/summary", method = "get", operation_id = "getDeliverySummary")]
    async fn summary(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrBackend>,
        /// Since this time, inclusive; one day before `until` when absent
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
    /// Returns each attempt with its time, its duration and the response.
    ///
    /// When: you want to know why a delivery did not arrive
    /// Needs: the id in `x-service-delivery`
    /// Next: retry it with `POST /v2/deliveries/{deliveryId}/retry`
    /// 200: The delivery with every attempt
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
    /// Queues a finished delivery again, whether it failed, was cancelled or was delivered, with a new round of four
    /// attempts. The body and the delivery id stay the same; the header `x-service-replay: true` marks the repetition.
    ///
    /// When: the receiver is fixed
    /// Needs: a finished delivery
    /// Next: read the new attempts with `GET /v2/deliveries/{deliveryId}`
    /// Events: the same event again
    /// 202: The delivery, queued again
    /// 404: Delivery not found
    /// 409: The delivery is already waiting for its next attempt
    /// 409: The endpoint is deleted or switched off
    /// 429: The limit of 10000 due deliveries (caps.due_deliveries) is reached; retry replays and tests after some have been sent
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
