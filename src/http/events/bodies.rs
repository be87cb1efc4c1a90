//! Bodies of events, deliveries and delivery attempts.

use crate::{domain::webhook::DeliveryState, http::operation::*};

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
    /// Where a page begins: `nextCursor` of the previous page.
    CursorText {
        pattern: "^[0-7][0-9A-HJKMNP-TV-Z]{25}$",
        length_max: 26,
        example: "01JZX4T9QK3M7N8P2R5S6V0WYB",
        hint: "must be the nextCursor of an earlier page",
    }
}

words! {
    /// State of a delivery
    DeliveryState as "DeliveryState";
}

/// A recorded event.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct LoggedEvent {
    /// Id of the event
    pub id: UlidText,
    /// Name
    pub event: EventKindText,
    /// Request that the event is about, or null
    pub request_id: OrNull<RequestIdText>,
    /// Client ID that the object of the event belongs to, or null. Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(max_length = 34, pattern = "^cli_[0-9A-Za-z]{30}$"))]
    pub client_id: OrNull<String>,
    /// Whether this is a test event. Example: `false`
    pub is_test: bool,
    /// Time of creation
    pub created_at: Instant,
    /// The body exactly as it is signed and sent. After the payer is erased, it contains only the name of the event and
    /// `"erased":true`. Example: `{"event":"payment.confirmed"}`
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
    /// `cursor` of the next page; null on the last page
    pub next_cursor: OrNull<UlidText>,
}

/// An event with its deliveries.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct EventDetail {
    /// The event
    pub event: LoggedEvent,
    /// Its deliveries, one per endpoint
    #[oai(validator(max_items = 1000))]
    pub deliveries: Vec<Delivery>,
}

/// The delivery of one event to one endpoint.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct Delivery {
    /// Id of the delivery, as in `x-service-delivery`
    pub id: UlidText,
    /// Id of the event
    pub event_id: UlidText,
    /// Name of the event
    pub event: EventKindText,
    /// Id of the endpoint
    pub endpoint_id: UlidText,
    /// URL of the endpoint; null when the endpoint is deleted. Example: `https://shop.example.com/hooks`
    #[oai(validator(max_length = 2048))]
    pub url: OrNull<String>,
    /// State
    pub state: DeliveryState,
    /// Failed attempts in the current round, 0 to 3. Example: `0`
    pub retry_count: u32,
    /// Whether this is a test delivery. Example: `false`
    pub is_test: bool,
    /// Whether this delivery is sent again, after a replay or in a recovery round. Example: `false`
    pub is_replay: bool,
    /// Time of creation
    pub created_at: Instant,
    /// Earliest time of the next attempt; null unless the delivery is queued
    pub next_attempt_at: OrNull<Instant>,
    /// When the delivery succeeded, failed or was cancelled; null while it is queued. If the delivery is cancelled
    /// while an attempt is in flight, that attempt is not recorded, even if the receiver accepted it
    pub finished_at: OrNull<Instant>,
    /// Number of recovery rounds so far, which start automatically after all four attempts of the delivery failed; a
    /// replay sets it to 0. Example: `0`
    pub recovery_rounds: u32,
    /// When the next recovery round starts; the round starts earlier if the endpoint responds again. Null unless the
    /// delivery failed and another round follows
    pub next_round_at: OrNull<Instant>,
}

/// One page of deliveries, newest first.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct DeliveryList {
    /// The deliveries
    #[oai(validator(max_items = 100))]
    pub deliveries: Vec<Delivery>,
    /// `cursor` of the next page; null on the last page
    pub next_cursor: OrNull<UlidText>,
}

/// Number of deliveries of an endpoint in one state.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct DeliveryCount {
    /// Id of the endpoint
    pub endpoint_id: UlidText,
    /// State
    pub state: DeliveryState,
    /// Number of deliveries. Example: `118`
    pub count: u64,
}

/// Number of deliveries in a period.
#[derive(Debug, Clone, Object)]
pub struct DeliverySummary {
    /// One entry for each endpoint and state that occurs
    #[oai(validator(max_items = 10000))]
    pub counts: Vec<DeliveryCount>,
}

/// One POST of a delivery: an attempt.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct DeliveryTry {
    /// Round, from 1; a replay and a recovery start new rounds. Example: `1`
    pub round: u32,
    /// Number of the attempt within its round, from 1. Example: `1`
    pub number: u32,
    /// When it started
    pub started_at: Instant,
    /// Duration in milliseconds. Example: `42`
    pub duration_ms: u64,
    /// Status of the response; null when there was none. Example: `200`
    pub status: OrNull<u16>,
    /// Why there was no usable response; null when there was one. Example: `the connection could not be opened`
    #[oai(validator(max_length = 1024))]
    pub error: OrNull<String>,
    /// First bytes of the response; null when there was none. Example: `ok`
    #[oai(validator(max_length = 4096))]
    pub response: OrNull<String>,
}

/// A delivery with its attempts.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct DeliveryDetail {
    /// The delivery
    pub delivery: Delivery,
    /// Attempts of the delivery in order; a replay and a recovery start new rounds
    #[oai(validator(max_items = 10000))]
    pub tries: Vec<DeliveryTry>,
}

/// Endpoint to which one event is replayed.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct ReplayEventBody {
    /// Endpoint to which the event is replayed, even if it was registered after the event; if absent, the event is
    /// replayed to every endpoint that it was sent to. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    pub endpoint_id: Option<UlidText>,
}

impl Example for ReplayEventBody {
    fn example() -> Self {
        Self { endpoint_id: None }
    }
}

/// Which events are replayed, and to which endpoint.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct ReplayEventsBody {
    /// Events since this time, inclusive. Example: `2026-01-31T12:00:00.000Z`
    pub since: IsoInstantText,
    /// Events up to this time, inclusive; up to now if absent. Example: `2026-02-28T12:00:00.000Z`
    pub until: Option<IsoInstantText>,
    /// Endpoint to which the events are replayed, even if it was registered after them; if absent, each event is
    /// replayed to every endpoint that it was sent to. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    pub endpoint_id: Option<UlidText>,
    /// Whether to leave out events that were delivered. With `endpointId`, the replay includes events that the endpoint
    /// missed while it was switched off. Example: `true`
    pub failed_only: Option<bool>,
    /// `nextCursor` of the previous call, which had the same other fields. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    pub cursor: Option<CursorText>,
}

impl Example for ReplayEventsBody {
    fn example() -> Self {
        Self {
            since: IsoInstantText::written("2026-01-31T12:00:00.000Z"),
            until: None,
            endpoint_id: None,
            failed_only: Some(true),
            cursor: None,
        }
    }
}

/// Result of a replay.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ReplayResult {
    /// Deliveries that were queued. Example: `3`
    pub replayed: u64,
    /// Deliveries that were not queued: they are already queued, or their endpoint is deleted or switched off. Example: `0`
    pub skipped: u64,
    /// `cursor` for the next call; null when all events are replayed. One call replays at most 5000 events
    pub next_cursor: OrNull<UlidText>,
}

/// One message of the stream.
#[derive(Debug, Clone, Object)]
pub struct EventMessage {
    /// Id of the event. Send it to resume the stream after this event
    pub id: UlidText,
    /// Name of the event
    pub event: EventKindText,
    /// The body exactly as it is signed and sent. After the payer is erased, it contains only the name of the event and
    /// `"erased":true`. Example: `{"event":"payment.confirmed"}`
    #[oai(validator(max_length = 65536))]
    pub data: String,
}
