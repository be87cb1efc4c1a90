//! The event log: an addition of this service.

use crate::{
    ctx::Ctx,
    domain::{
        ids::{DeliveryId, EndpointId, EventId},
        refusal::{Checks, Refusal, RefusalKind},
        webhook,
    },
    flows::{
        self,
        events::{
            DeliveryFilter, EventFilter, EventRecord, LoggedDelivery, Receivers,
            follow::Follower,
            replay::{Replayed, Span},
        },
    },
    http::{
        contract::tags::PlatformTag,
        edge::server::Stopping,
        error::{Fail, s},
        forms::{
            body::Body,
            null::OrNull,
            reply::{Accepted, Reply},
            text::text,
            wire::{Checked, Instant, IsoInstantText, LimitText, RequestIdText, UlidText},
        },
        gate::{access::KeyOrClient, extractor::Auth},
    },
};
use chrono::TimeDelta;
use futures_util::{StreamExt, stream, stream::BoxStream};
use poem::{IntoResponse, Request, Response, web::Data};
use poem_openapi::{
    ApiResponse, Enum, Object, OpenApi,
    param::{Path, Query},
    payload::{EventStream, Json},
    registry::{MetaMediaType, MetaResponse, MetaResponses, Registry},
    types::{Example, Type},
};
use std::{collections::VecDeque, time::Duration};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

/// Page size when none is asked for.
const LIMIT_DEFAULT: u64 = 20;

/// Largest page.
const LIMIT_MAX: u64 = 100;

/// Pause between two looks of a stream.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Pause after which a stream without events says that it lives, and its credential is looked up again.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Streams of this process at a time: each of them asks the database four times a second.
static STREAMS: Semaphore = Semaphore::const_new(256);

text! {
    /// Name of an event.
    EventKindText {
        pattern: r"^[a-z_]{1,32}(\.[a-z_]{1,32}){1,3}$",
        length_max: 64,
        example: "payment.confirmed",
        hint: "must be the name of an event, for example payment.confirmed",
    }
    /// Names of events.
    EventKindsText {
        pattern: r"^[a-z_.]{1,64}(,[a-z_.]{1,64}){0,31}$",
        length_max: 2048,
        example: "payment.confirmed,payment.partial",
        hint: "must be names of events separated by commas, for example payment.confirmed,payment.partial",
    }
    /// Where a page begins: `nextCursor` of the page before.
    CursorText {
        pattern: "^[0-7][0-9A-HJKMNP-TV-Z]{25}$",
        length_max: 26,
        example: "01JZX4T9QK3M7N8P2R5S6V0WYB",
        hint: "must be the nextCursor of an earlier page",
    }
}

/// State of a delivery
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "lowercase")]
pub enum DeliveryState {
    /// Waits for its next try
    Queued,
    /// Answered with 2xx
    Delivered,
    /// All tries failed
    Failed,
    /// The endpoint was switched off or deleted
    Cancelled,
}

impl From<webhook::DeliveryState> for DeliveryState {
    fn from(state: webhook::DeliveryState) -> Self {
        match state {
            webhook::DeliveryState::Queued => Self::Queued,
            webhook::DeliveryState::Delivered => Self::Delivered,
            webhook::DeliveryState::Failed => Self::Failed,
            webhook::DeliveryState::Cancelled => Self::Cancelled,
        }
    }
}

impl From<DeliveryState> for webhook::DeliveryState {
    fn from(state: DeliveryState) -> Self {
        match state {
            DeliveryState::Queued => Self::Queued,
            DeliveryState::Delivered => Self::Delivered,
            DeliveryState::Failed => Self::Failed,
            DeliveryState::Cancelled => Self::Cancelled,
        }
    }
}

/// Something that happened and was told.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct LoggedEvent {
    /// Id of the event. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub id: String,
    /// Name. Example: `payment.confirmed`
    #[oai(validator(max_length = 64))]
    pub event: String,
    /// Request that it is about, or null. Example: `0112fe71c1b7e1f3b7b1d8a4f6f0c6d7e9b2a5c8d1e4f7a0b3c6d9e2f5a8b1c4d7`
    #[oai(validator(max_length = 128))]
    pub request_id: OrNull<String>,
    /// Client ID that the object belongs to, or null. Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(max_length = 34))]
    pub client_id: OrNull<String>,
    /// Whether it is the sample of a test. Example: `false`
    pub is_test: bool,
    /// Time of creation
    pub created_at: Instant,
    /// The body as it is signed and sent, byte for byte. Example: `{"event":"payment.confirmed"}`
    #[oai(validator(max_length = 65536))]
    pub body: String,
}

/// One page of events, newest first.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct EventList {
    /// The events
    #[oai(validator(max_items = 100))]
    pub events: Vec<LoggedEvent>,
    /// `cursor` of the next page; null after the last one. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub next_cursor: OrNull<String>,
}

/// An event with its deliveries.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct EventDetail {
    /// The event
    pub event: LoggedEvent,
    /// Its deliveries, one for each endpoint
    #[oai(validator(max_items = 1000))]
    pub deliveries: Vec<Delivery>,
}

/// An event on its way to one endpoint.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct Delivery {
    /// Id of the delivery, as in `x-service-delivery`. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub id: String,
    /// Id of the event. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub event_id: String,
    /// Name of the event. Example: `payment.confirmed`
    #[oai(validator(max_length = 64))]
    pub event: String,
    /// Id of the endpoint. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub endpoint_id: String,
    /// Where it is posted; null when the endpoint is gone. Example: `https://shop.example.com/hooks`
    #[oai(validator(max_length = 2048))]
    pub url: OrNull<String>,
    /// State
    pub state: DeliveryState,
    /// Tries that failed in the current round, 0 to 3. Example: `0`
    pub retry_count: u32,
    /// Whether it is a test. Example: `false`
    pub is_test: bool,
    /// Whether it was asked for again. Example: `false`
    pub is_replay: bool,
    /// Time of creation
    pub created_at: Instant,
    /// Not before this time; null unless it is queued
    pub next_attempt_at: OrNull<Instant>,
    /// When it was delivered, failed or cancelled; null while it is queued
    pub finished_at: OrNull<Instant>,
}

/// One page of deliveries, newest first.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct DeliveryList {
    /// The deliveries
    #[oai(validator(max_items = 100))]
    pub deliveries: Vec<Delivery>,
    /// `cursor` of the next page; null after the last one. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub next_cursor: OrNull<String>,
}

/// How many deliveries of an endpoint are in a state.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct DeliveryCount {
    /// Id of the endpoint. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub endpoint_id: String,
    /// State
    pub state: DeliveryState,
    /// Deliveries. Example: `118`
    pub count: u64,
}

/// The deliveries of a span of time in numbers.
#[derive(Debug, Clone, Object)]
pub struct DeliverySummary {
    /// One for each endpoint and state that occur
    #[oai(validator(max_items = 10000))]
    pub counts: Vec<DeliveryCount>,
}

/// One POST of a delivery.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct DeliveryTry {
    /// Number in its round, from 1. Example: `1`
    pub number: u32,
    /// When it began
    pub started_at: Instant,
    /// How long it took, in milliseconds. Example: `42`
    pub duration_ms: u64,
    /// Status of the answer; null when there was none. Example: `200`
    pub status: OrNull<u16>,
    /// Why there was no usable answer; null when there was one. Example: `the connection could not be opened`
    #[oai(validator(max_length = 1024))]
    pub error: OrNull<String>,
    /// First bytes of the answer; null when there was none. Example: `ok`
    #[oai(validator(max_length = 4096))]
    pub response: OrNull<String>,
}

/// A delivery with its tries.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct DeliveryDetail {
    /// The delivery
    pub delivery: Delivery,
    /// Its tries in the order in which they were made; a replay begins a new round
    #[oai(validator(max_items = 10000))]
    pub tries: Vec<DeliveryTry>,
}

/// Whom to tell one event again.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct ReplayEventBody {
    /// Only this endpoint, even if it was registered after the event; absent, every endpoint that was told. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    pub endpoint_id: Option<UlidText>,
}

impl Example for ReplayEventBody {
    fn example() -> Self {
        Self { endpoint_id: None }
    }
}

/// Which events to tell again, and to whom.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct ReplayEventsBody {
    /// Events from this time on, inclusive. Example: `2030-01-31T12:00:00.000Z`
    pub since: IsoInstantText,
    /// Events up to this time, inclusive; absent, until now. Example: `2030-01-31T13:00:00.000Z`
    pub until: Option<IsoInstantText>,
    /// Only this endpoint, even if it was registered after the events; absent, every endpoint that was told. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    pub endpoint_id: Option<UlidText>,
    /// Leave out what was delivered. Example: `true`
    pub failed_only: Option<bool>,
    /// `nextCursor` of an earlier call with the same members. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    pub cursor: Option<CursorText>,
}

impl Example for ReplayEventsBody {
    fn example() -> Self {
        Self {
            since: IsoInstantText::written(IsoInstantText::EXAMPLE),
            until: None,
            endpoint_id: None,
            failed_only: Some(true),
            cursor: None,
        }
    }
}

/// What was queued.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ReplayResult {
    /// Deliveries that were queued. Example: `3`
    pub replayed: u64,
    /// Deliveries that were left alone: they wait already, or their endpoint is gone or switched off. Example: `0`
    pub skipped: u64,
    /// More than 5000 events are replayed by several calls: `cursor` of the next one; null when this was the last. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub next_cursor: OrNull<String>,
}

/// One message of the stream.
#[derive(Debug, Clone, Object)]
pub struct EventMessage {
    /// Id of the event, to resume after. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub id: String,
    /// Name of the event. Example: `payment.confirmed`
    #[oai(validator(max_length = 64))]
    pub event: String,
    /// The body as it is signed and sent, byte for byte. Example: `{"event":"payment.confirmed"}`
    #[oai(validator(max_length = 65536))]
    pub data: String,
}

fn logged(event: EventRecord) -> LoggedEvent {
    LoggedEvent {
        id: event.id.to_string(),
        event: event.kind,
        request_id: OrNull(event.request_id),
        client_id: OrNull(event.client_id),
        is_test: event.is_test,
        created_at: Instant(event.created_at),
        body: event.body,
    }
}

fn delivery(found: &LoggedDelivery, receivers: &Receivers) -> Delivery {
    let delivery = &found.delivery;
    let is_queued = delivery.state == webhook::DeliveryState::Queued;
    Delivery {
        id: delivery.id.to_string(),
        event_id: found.event.to_string(),
        event: found.kind.clone(),
        endpoint_id: delivery.endpoint.to_string(),
        url: OrNull(receivers.url(&delivery.endpoint).map(str::to_owned)),
        state: delivery.state.into(),
        retry_count: delivery.retry_count,
        is_test: delivery.is_test,
        is_replay: found.is_replay,
        created_at: Instant(found.created_at),
        next_attempt_at: OrNull(is_queued.then_some(Instant(delivery.next_at))),
        finished_at: OrNull(delivery.finished_at.map(Instant)),
    }
}

fn detail(found: &LoggedDelivery, receivers: &Receivers) -> DeliveryDetail {
    let tries = found.delivery.attempts.iter().map(|attempt| {
        let outcome = &attempt.outcome;
        let duration_ms = (outcome.ended_at - outcome.started_at).num_milliseconds();
        DeliveryTry {
            number: attempt.number,
            started_at: Instant(outcome.started_at),
            // A clock that was set back between the two is not worth a failure.
            duration_ms: u64::try_from(duration_ms).unwrap_or(0),
            status: OrNull(outcome.status),
            error: OrNull(outcome.error.clone()),
            response: OrNull(outcome.response.clone()),
        }
    });
    DeliveryDetail {
        delivery: delivery(found, receivers),
        tries: tries.collect(),
    }
}

fn queued(result: Replayed) -> Accepted<ReplayResult> {
    Reply::new(ReplayResult {
        replayed: result.replayed,
        skipped: result.skipped,
        next_cursor: OrNull(result.next.map(|id| id.to_string())),
    })
}

fn page_limit(limit: Checked<LimitText>, checks: &mut Checks) -> u64 {
    if !limit.is_given() {
        return LIMIT_DEFAULT;
    }
    let asked = limit.take("limit", checks).map(|text| u64::from(text.number()));
    if asked.is_some_and(|limit| !(1..=LIMIT_MAX).contains(&limit)) {
        checks.fail("limit", format!("must be a whole number from 1 to {LIMIT_MAX}"));
    }
    asked.unwrap_or(LIMIT_DEFAULT)
}

/// A stream of messages. Its documented schema is that of one message, since 3.0 has no word for a list without an end.
pub struct Messages(EventStream<BoxStream<'static, EventMessage>>);

impl IntoResponse for Messages {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl ApiResponse for Messages {
    fn meta() -> MetaResponses {
        MetaResponses {
            responses: vec![MetaResponse {
                description: "Messages, one after the other; the schema shows one of them.",
                status: Some(200),
                status_range: None,
                content: vec![MetaMediaType {
                    content_type: "text/event-stream",
                    schema: EventMessage::schema_ref(),
                }],
                headers: Vec::new(),
            }],
        }
    }

    fn register(registry: &mut Registry) {
        EventMessage::register(registry);
    }
}

/// What an open stream holds.
struct Open {
    follower: Follower,
    waiting: VecDeque<EventRecord>,
    admitted_at: tokio::time::Instant,
    stop: CancellationToken,
    _place: SemaphorePermit<'static>,
}

impl Open {
    /// The next event; `None` ends the stream, after which a client comes again with the last id it has seen.
    async fn next(mut self) -> Option<(EventMessage, Self)> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                let message = EventMessage {
                    id: event.id.to_string(),
                    event: event.kind,
                    data: event.body,
                };
                return Some((message, self));
            }
            if self.stop.is_cancelled() || !self.is_admitted().await {
                return None;
            }
            match self.follower.look().await {
                Ok(events) if events.is_empty() => {
                    tokio::select! {
                        () = tokio::time::sleep(LOOK_PAUSE) => {}
                        () = self.stop.cancelled() => return None,
                    }
                }
                Ok(events) => self.waiting.extend(events),
                Err(error) => {
                    tracing::warn!(%error, "a stream of events ends early");
                    return None;
                }
            }
        }
    }

    async fn is_admitted(&mut self) -> bool {
        if self.admitted_at.elapsed() < HEARTBEAT {
            return true;
        }
        self.admitted_at = tokio::time::Instant::now();
        match self.follower.is_admitted().await {
            Ok(is_admitted) => is_admitted,
            Err(error) => {
                tracing::warn!(%error, "the credential of a stream could not be looked up");
                false
            }
        }
    }
}

/// The event log.
pub struct Events;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::Events")]
impl Events {
    /// List events
    ///
    /// What happened, newest first, kept for 30 days unless the operator chose otherwise. A client ID sees the events
    /// of what was created with it.
    ///
    /// 200: One page of events, newest first
    #[oai(path = "/events", method = "get", operation_id = "listEvents")]
    #[expect(
        clippy::too_many_arguments,
        reason = "one argument for each parameter of the contract"
    )]
    async fn list(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        /// Name of the event
        event: Query<Checked<EventKindText>>,
        /// Id of the request
        #[oai(name = "requestId")]
        request_id: Query<Checked<RequestIdText>>,
        /// From this time on, inclusive; UTC ending in `Z`
        since: Query<Checked<IsoInstantText>>,
        /// Up to this time, inclusive; UTC ending in `Z`
        until: Query<Checked<IsoInstantText>>,
        /// `nextCursor` of the page before
        cursor: Query<Checked<CursorText>>,
        /// Page size, 1 to 100; 20 when absent
        limit: Query<Checked<LimitText>>,
    ) -> Result<Json<EventList>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let since = since.0.take("since", &mut checks);
        let until = until.0.take("until", &mut checks);
        let filter = EventFilter {
            kind: event.0.take("event", &mut checks).map(String::from),
            request_id: request_id.0.take("requestId", &mut checks).map(String::from),
            since: since.and_then(|text| text.instant()),
            until: until.and_then(|text| text.instant()),
            before: cursor.0.take("cursor", &mut checks).map(|text| EventId(text.into())),
            limit: page_limit(limit.0, &mut checks),
        };
        checks.finish()?;
        let page = flows::events::list::run(&ctx, &caller, &filter).await?;
        Ok(Json(EventList {
            events: page.events.into_iter().map(logged).collect(),
            next_cursor: OrNull(page.next.map(|id| id.to_string())),
        }))
    }

    /// Follow events
    ///
    /// Server-sent events: each message carries the id of the event, its name and its body, byte for byte as webhooks
    /// carry it. Without `after` and `Last-Event-ID` the stream begins with what happens next. It ends when the service
    /// stops or the credential is revoked; connect again with the last id you have seen. Test events are left out.
    ///
    /// 200: A stream without end: one message for each event
    #[oai(path = "/events/stream", method = "get", operation_id = "followEvents")]
    async fn follow(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        request: &Request,
        /// Names of events separated by commas; all when absent
        events: Query<Checked<EventKindsText>>,
        /// Id of the last event you have seen; the header `Last-Event-ID` does the same
        after: Query<Checked<UlidText>>,
    ) -> Result<Messages, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let kinds = events.0.take("events", &mut checks);
        let kinds = kinds.map(|text| text.as_str().split(',').map(str::to_owned).collect());
        let header = request.header("last-event-id").filter(|text| !text.is_empty());
        let resumed = header.and_then(|text| checks.take("Last-Event-ID", UlidText::parse(text)));
        let after = after.0.take("after", &mut checks).or(resumed);
        checks.finish()?;
        let place = STREAMS
            .try_acquire()
            .map_err(|_| Refusal::new(RefusalKind::TooMany, "Too many open streams; try again later"))?;
        let after = after.map(|text| EventId(text.into()));
        let follower = Follower::start(&ctx, &caller, kinds.unwrap_or_default(), after).await?;
        let open = Open {
            follower,
            waiting: VecDeque::new(),
            admitted_at: tokio::time::Instant::now(),
            // Without a server around it, in a test, nothing stops.
            stop: request
                .data::<Stopping>()
                .map(|stopping| stopping.0.clone())
                .unwrap_or_default(),
            _place: place,
        };
        let messages = stream::unfold(open, Open::next).boxed();
        let messages = EventStream::new(messages)
            .keep_alive(HEARTBEAT)
            .to_event(|message: EventMessage| {
                poem::web::sse::Event::message(message.data)
                    .id(message.id)
                    .event_type(message.event)
            });
        Ok(Messages(messages))
    }

    /// Read an event
    ///
    /// The event and the state of its deliveries. A client ID sees those to its own endpoints.
    ///
    /// 200: The event with its body and its deliveries
    /// 404: Event not found
    #[oai(path = "/events/:eventId", method = "get", operation_id = "getEvent")]
    async fn read(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        /// Id of the event
        #[oai(name = "eventId")]
        event_id: Path<UlidText>,
    ) -> Result<Json<EventDetail>, Fail<{ s::NOT_FOUND }>> {
        let id = EventId(event_id.0.into());
        let (event, deliveries, receivers) = flows::events::list::one(&ctx, &caller, &id).await?;
        Ok(Json(EventDetail {
            event: logged(event),
            deliveries: deliveries.iter().map(|found| delivery(found, &receivers)).collect(),
        }))
    }

    /// Replay an event
    ///
    /// Queues the deliveries of the event again: the same bytes and the same `x-service-delivery`, marked with
    /// `x-service-replay: true`, with a new round of four tries.
    ///
    /// 202: How many deliveries are on their way
    /// 404: Event not found
    /// 409: The endpoint is switched off
    #[oai(path = "/events/:eventId/replay", method = "post", operation_id = "replayEvent")]
    async fn replay(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        /// Id of the event
        #[oai(name = "eventId")]
        event_id: Path<UlidText>,
        body: Body<ReplayEventBody>,
    ) -> Result<Accepted<ReplayResult>, Fail<{ s::NOT_FOUND | s::CONFLICT }>> {
        let id = EventId(event_id.0.into());
        let endpoint = body.0.endpoint_id.map(|text| EndpointId(text.into()));
        let result = flows::events::replay::one(&ctx, &caller, &id, endpoint.as_ref()).await?;
        Ok(queued(result))
    }

    /// Replay the events of a span of time
    ///
    /// Like the replay of one event, for all of them; for example after an outage of the receiver. Test events are left
    /// out.
    ///
    /// 202: How many events and deliveries are on their way, and where to go on
    /// 404: Webhook not found
    /// 409: The endpoint is switched off
    #[oai(path = "/events/replay", method = "post", operation_id = "replayEvents")]
    async fn replay_span(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        body: Body<ReplayEventsBody>,
    ) -> Result<Accepted<ReplayResult>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::CONFLICT }>> {
        let body = body.0;
        let since = body.since.instant();
        let span = Span {
            since: since.ok_or_else(|| Refusal::field("since", IsoInstantText::HINT))?,
            until: body.until.and_then(|text| text.instant()),
            endpoint: body.endpoint_id.map(|text| EndpointId(text.into())),
            failed_only: body.failed_only.unwrap_or(false),
            after: body.cursor.map(|text| EventId(text.into())),
        };
        Ok(queued(flows::events::replay::span(&ctx, &caller, &span).await?))
    }

    /// List deliveries
    ///
    /// Newest first. A client ID sees those to its own endpoints.
    ///
    /// 200: One page of deliveries, newest first
    #[oai(path = "/deliveries", method = "get", operation_id = "listDeliveries")]
    #[expect(
        clippy::too_many_arguments,
        reason = "one argument for each parameter of the contract"
    )]
    async fn deliveries(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        /// Id of the event
        #[oai(name = "eventId")]
        event_id: Query<Checked<UlidText>>,
        /// Id of the endpoint
        #[oai(name = "endpointId")]
        endpoint_id: Query<Checked<UlidText>>,
        /// State
        state: Query<Checked<DeliveryState>>,
        /// `nextCursor` of the page before
        cursor: Query<Checked<CursorText>>,
        /// Page size, 1 to 100; 20 when absent
        limit: Query<Checked<LimitText>>,
    ) -> Result<Json<DeliveryList>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let event = event_id.0.take("eventId", &mut checks);
        let endpoint = endpoint_id.0.take("endpointId", &mut checks);
        let filter = DeliveryFilter {
            event: event.map(|text| EventId(text.into())),
            endpoint: endpoint.map(|text| EndpointId(text.into())),
            state: state.0.take("state", &mut checks).map(Into::into),
            before: cursor.0.take("cursor", &mut checks).map(|text| DeliveryId(text.into())),
            limit: page_limit(limit.0, &mut checks),
        };
        checks.finish()?;
        let page = flows::events::deliveries::list(&ctx, &caller, &filter).await?;
        let found = page.deliveries.iter();
        Ok(Json(DeliveryList {
            deliveries: found.map(|found| delivery(found, &page.receivers)).collect(),
            next_cursor: OrNull(page.next.map(|id| id.to_string())),
        }))
    }

    /// Count deliveries
    ///
    /// Those that were created in a span of time, by endpoint and state. A client ID counts those to its own endpoints.
    ///
    /// 200: One count for each endpoint and state that has deliveries in the span
    #[oai(path = "/deliveries/summary", method = "get", operation_id = "getDeliverySummary")]
    async fn summary(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        /// From this time on, inclusive; UTC ending in `Z`; a day before `until` when absent
        since: Query<Checked<IsoInstantText>>,
        /// Up to this time, inclusive; UTC ending in `Z`; now when absent
        until: Query<Checked<IsoInstantText>>,
    ) -> Result<Json<DeliverySummary>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let since = since.0.take("since", &mut checks).and_then(|text| text.instant());
        let until = until.0.take("until", &mut checks).and_then(|text| text.instant());
        checks.finish()?;
        let until = until.unwrap_or_else(|| ctx.clock.now());
        let span = (since.unwrap_or(until - TimeDelta::days(1)), until);
        let counts = flows::events::deliveries::counts(&ctx, &caller, span).await?;
        let counts = counts.into_iter().map(|(endpoint, state, count)| DeliveryCount {
            endpoint_id: endpoint.to_string(),
            state: state.into(),
            count,
        });
        Ok(Json(DeliverySummary {
            counts: counts.collect(),
        }))
    }

    /// Read a delivery
    ///
    /// With each try: when, how long, what came back.
    ///
    /// 200: The delivery with every try
    /// 404: Delivery not found
    #[oai(path = "/deliveries/:deliveryId", method = "get", operation_id = "getDelivery")]
    async fn read_delivery(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        /// Id of the delivery
        #[oai(name = "deliveryId")]
        delivery_id: Path<UlidText>,
    ) -> Result<Json<DeliveryDetail>, Fail<{ s::NOT_FOUND }>> {
        let id = DeliveryId(delivery_id.0.into());
        let (found, receivers) = flows::events::deliveries::one(&ctx, &caller, &id).await?;
        Ok(Json(detail(&found, &receivers)))
    }

    /// Retry a delivery
    ///
    /// Queues a finished delivery again, whether it failed, was cancelled or arrived: the same bytes and identity,
    /// marked with `x-service-replay: true`, with a new round of four tries.
    ///
    /// 202: The delivery, which is about to be sent again
    /// 404: Delivery not found
    /// 409: The delivery waits for its next try already
    #[oai(
        path = "/deliveries/:deliveryId/retry",
        method = "post",
        operation_id = "retryDelivery"
    )]
    async fn retry(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrClient>,
        /// Id of the delivery
        #[oai(name = "deliveryId")]
        delivery_id: Path<UlidText>,
    ) -> Result<Accepted<DeliveryDetail>, Fail<{ s::NOT_FOUND | s::CONFLICT }>> {
        let id = DeliveryId(delivery_id.0.into());
        let (found, receivers) = flows::events::deliveries::retry(&ctx, &caller, &id).await?;
        Ok(Reply::new(detail(&found, &receivers)))
    }
}
