//! Events, deliveries and delivery attempts as clients see them.

use super::bodies::*;
use crate::{
    domain::{ids::EndpointId, webhook::DeliveryState},
    flows::events::{EventRecord, LoggedDelivery, PayerText, VisibleEndpoints, replay::ReplayOutcome},
    http::operation::*,
};
use serde_json::json;

pub(super) fn logged(event: EventRecord) -> LoggedEvent {
    LoggedEvent {
        id: UlidText::written(event.id),
        event: EventKindText::written(&event.kind),
        request_id: OrNull(event.request_id.map(RequestIdText::written)),
        client_id: OrNull(event.client_id),
        is_test: event.is_test,
        created_at: Instant(event.created_at),
        body: show_body(event.kind, event.body),
    }
}

/// The body of an event; after its payer is erased, a body that says so.
pub(super) fn show_body(kind: String, body: PayerText) -> String {
    body.text()
        .unwrap_or_else(|| json!({ "event": kind, "erased": true }).to_string())
}

pub(super) fn delivery(found: &LoggedDelivery, receivers: &VisibleEndpoints) -> Delivery {
    let delivery = &found.delivery;
    Delivery {
        id: UlidText::written(&delivery.id),
        event_id: UlidText::written(&found.event),
        event: EventKindText::written(&found.kind),
        endpoint_id: UlidText::written(&delivery.endpoint),
        url: OrNull(receivers.url(&delivery.endpoint).map(str::to_owned)),
        state: delivery.state,
        retry_count: delivery.retry_count,
        is_test: delivery.is_test,
        is_replay: found.is_replay,
        created_at: Instant(found.created_at),
        next_attempt_at: OrNull(delivery.next_at.map(Instant)),
        finished_at: OrNull(delivery.finished_at.map(Instant)),
        recovery_rounds: delivery.recovery_rounds,
        next_round_at: OrNull(delivery.next_round_at.map(Instant)),
    }
}

pub(super) fn detail(found: &LoggedDelivery, receivers: &VisibleEndpoints) -> DeliveryDetail {
    let mut round = 0;
    let tries = found.delivery.tries.iter().map(|tried| {
        // Attempts of a round count from 1.
        round += u32::from(tried.number == 1 || round == 0);
        let outcome = &tried.outcome;
        let duration_ms = (outcome.ended_at - outcome.started_at).num_milliseconds();
        DeliveryTry {
            round,
            number: tried.number,
            started_at: Instant(outcome.started_at),
            // The duration is 0 if the clock was set back between the start and the end of the attempt.
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

pub(super) fn queued(result: ReplayOutcome) -> Accepted<ReplayResult> {
    Reply::new(ReplayResult {
        replayed: result.replayed,
        skipped: result.skipped,
        next_cursor: OrNull(result.next.map(UlidText::written)),
    })
}

pub(super) fn summary(counts: Vec<(EndpointId, DeliveryState, u64)>) -> DeliverySummary {
    let counts = counts.into_iter().map(|(endpoint, state, count)| DeliveryCount {
        endpoint_id: UlidText::written(endpoint),
        state,
        count,
    });
    DeliverySummary {
        counts: counts.collect(),
    }
}
