//! Bodies of events, deliveries and tries.

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
    /// Where a page begins: `nextCursor` of the page before.
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

/// Something that happened and was told.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct LoggedEvent {
    /// Id of the event
    pub id: UlidText,
    /// Name
    pub event: EventKindText,
    /// Request that it is about, or null
    pub request_id: OrNull<RequestIdText>,
    /// Client ID that the object belongs to, or null. Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(max_length = 34, pattern = "^cli_[0-9A-Za-z]{30}$"))]
    pub client_id: OrNull<String>,
    /// Whether it is the sample of a test. Example: `false`
    pub is_test: bool,
    /// Time of creation
    pub created_at: Instant,
    /// The body as it is signed and sent, byte for byte; of a payer who is erased, the name of the event and `"erased":true` alone. Example: `{"event":"payment.confirmed"}`
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
    /// `cursor` of the next page; null after the last one
    pub next_cursor: OrNull<UlidText>,
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

/// What one endpoint is sent of one event.
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
    /// Where it is posted; null when the endpoint is gone. Example: `https://shop.example.com/hooks`
    #[oai(validator(max_length = 2048))]
    pub url: OrNull<String>,
    /// State
    pub state: DeliveryState,
    /// Tries that failed in the current round, 0 to 3. Example: `0`
    pub retry_count: u32,
    /// Whether it is a test. Example: `false`
    pub is_test: bool,
    /// Whether it is sent again, because it was asked for or in a recovery round. Example: `false`
    pub is_replay: bool,
    /// Time of creation
    pub created_at: Instant,
    /// Not before this time; null unless it is queued
    pub next_attempt_at: OrNull<Instant>,
    /// When it was delivered, failed or cancelled; null while it is queued. A try that is in flight when it is cancelled is not recorded, even if the receiver took it
    pub finished_at: OrNull<Instant>,
    /// Recovery rounds that were begun since its four tries failed. Example: `0`
    pub recovery_rounds: u32,
    /// When the next recovery round comes; earlier once the endpoint answers again. Null unless it failed and there is one
    pub next_round_at: OrNull<Instant>,
}

/// One page of deliveries, newest first.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct DeliveryList {
    /// The deliveries
    #[oai(validator(max_items = 100))]
    pub deliveries: Vec<Delivery>,
    /// `cursor` of the next page; null after the last one
    pub next_cursor: OrNull<UlidText>,
}

/// How many deliveries of an endpoint are in a state.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct DeliveryCount {
    /// Id of the endpoint
    pub endpoint_id: UlidText,
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
    /// Round, from 1; a replay and a recovery begin new ones. Example: `1`
    pub round: u32,
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
    /// Its tries in the order in which they were made; a replay and a recovery begin new rounds
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
    /// Events from this time on, inclusive. Example: `2026-01-31T12:00:00.000Z`
    pub since: IsoInstantText,
    /// Events up to this time, inclusive; absent, until now. Example: `2026-02-28T12:00:00.000Z`
    pub until: Option<IsoInstantText>,
    /// Only this endpoint, even if it was registered after the events; absent, every endpoint that was told. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    pub endpoint_id: Option<UlidText>,
    /// Leave out what was delivered. With `endpointId` what the endpoint missed while it was switched off is among the rest. Example: `true`
    pub failed_only: Option<bool>,
    /// `nextCursor` of an earlier call with the same members. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
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

/// What was queued.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ReplayResult {
    /// Deliveries that were queued. Example: `3`
    pub replayed: u64,
    /// Deliveries that were left alone: they wait already, or their endpoint is gone or switched off. Example: `0`
    pub skipped: u64,
    /// More than 5000 events are replayed by several calls: `cursor` of the next one; null when this was the last
    pub next_cursor: OrNull<UlidText>,
}

/// One message of the stream.
#[derive(Debug, Clone, Object)]
pub struct EventMessage {
    /// Id of the event, to resume after
    pub id: UlidText,
    /// Name of the event
    pub event: EventKindText,
    /// The body as it is signed and sent, byte for byte; of a payer who is erased, the name of the event and `"erased":true` alone. Example: `{"event":"payment.confirmed"}`
    #[oai(validator(max_length = 65536))]
    pub data: String,
}
