//! Replays events: the same deliveries with the same bytes, marked as replays.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::{DeliveryId, EndpointId, EventId, OwnerId},
        refusal::{Refusal, RefusalKind},
        webhook::DeliveryState,
    },
    flows::{
        FlowError, FlowResult,
        events::{EventRecord, VisibleEndpoints, check_span, erased, no_repeated_test, receivers, unknown_event},
        of_hidden_links, require_room,
    },
    store::{self, Scope, outbox::NewDelivery},
};
use chrono::{DateTime, Utc};
use std::collections::HashSet;

/// Events per transaction.
const PAGE_EVENTS: u64 = 100;

/// Maximum number of transactions per call; a longer log is replayed by several calls.
const PAGES_MAX: u32 = 50;

/// Which events to replay, and to which endpoints.
#[derive(Debug, Clone)]
pub struct ReplayRange {
    /// Events since this time.
    pub since: DateTime<Utc>,
    /// Events up to this time.
    pub until: Option<DateTime<Utc>>,
    /// Only to this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Only events that were not delivered.
    pub failed_only: bool,
    /// Where an earlier call stopped.
    pub after: Option<EventId>,
}

/// Result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayOutcome {
    /// Deliveries that were queued.
    pub replayed: u64,
    /// Number of deliveries that were not queued: they are already queued, or their endpoint is deleted or switched
    /// off.
    pub skipped: u64,
    /// Where the next call continues; `None` when the call reached the end of the period.
    pub next: Option<EventId>,
}

/// Replays one event.
///
/// Errors:
/// - 404: an unknown event or endpoint.
/// - 409: a test event, an event of an erased payer, or an endpoint that is switched off.
/// - 429: too many deliveries are due.
///
/// Source: decisions D19.
pub async fn one(
    ctx: &Ctx,
    caller: &PlatformCaller,
    id: &EventId,
    endpoint: Option<&EndpointId>,
) -> FlowResult<ReplayOutcome> {
    let event = store::event_log::find_event(ctx.db.reader(), &Scope::from(caller), id).await?;
    let event = event.ok_or_else(unknown_event)?;
    if event.is_test {
        return Err(no_repeated_test().into());
    }
    if event.is_erased() {
        return Err(erased().into());
    }
    let receivers = receivers(ctx, caller).await?;
    check_endpoint(&receivers, endpoint)?;
    let mut total = ReplayOutcome::default();
    queue(ctx, caller, &receivers, &[event], endpoint, false, &mut total).await?;
    ctx.due.notify_one();
    Ok(total)
}

/// Replays the events of a period. Stops early when the maximum number of due deliveries is reached, and a later call
/// continues. Events of erased payers are skipped.
///
/// Errors: an unknown endpoint (404); an endpoint that is switched off (409); times in the wrong order (400); too many
/// deliveries are due (429).
///
/// Source: decisions D19.
pub async fn span(ctx: &Ctx, caller: &PlatformCaller, span: &ReplayRange) -> FlowResult<ReplayOutcome> {
    check_span(Some(span.since), span.until)?;
    let scope = Scope::from(caller);
    let receivers = receivers(ctx, caller).await?;
    check_endpoint(&receivers, span.endpoint.as_ref())?;
    let mut total = ReplayOutcome {
        next: span.after.clone(),
        ..ReplayOutcome::default()
    };
    for page in 0..PAGES_MAX {
        let events = store::event_log::replayable(
            ctx.db.reader(),
            &scope,
            span.since,
            span.until,
            total.next.as_ref(),
            PAGE_EVENTS,
        )
        .await?;
        let is_last = u64::try_from(events.len()).unwrap_or(u64::MAX) < PAGE_EVENTS;
        let endpoint = span.endpoint.as_ref();
        let told: Vec<EventRecord> = events.iter().filter(|event| !event.is_erased()).cloned().collect();
        match queue(ctx, caller, &receivers, &told, endpoint, span.failed_only, &mut total).await {
            Err(FlowError::Refused(refusal)) if page > 0 && refusal.kind == RefusalKind::TooMany => break,
            queued => queued?,
        }
        ctx.due.notify_one();
        total.next = if is_last {
            None
        } else {
            events.last().map(|event| event.id.clone())
        };
        if total.next.is_none() {
            break;
        }
    }
    Ok(total)
}

fn check_endpoint(receivers: &VisibleEndpoints, endpoint: Option<&EndpointId>) -> FlowResult<()> {
    let Some(id) = endpoint else { return Ok(()) };
    if !receivers.contains(id) {
        return Err(Refusal::not_found("Webhook not found").into());
    }
    if !receivers.is_active(id) {
        return Err(Refusal::conflict("The endpoint is switched off").into());
    }
    Ok(())
}

/// Queues the deliveries of some events in one transaction. Errors: too many deliveries are due (429).
async fn queue(
    ctx: &Ctx,
    caller: &PlatformCaller,
    receivers: &VisibleEndpoints,
    events: &[EventRecord],
    endpoint: Option<&EndpointId>,
    failed_only: bool,
    total: &mut ReplayOutcome,
) -> FlowResult<()> {
    if events.is_empty() {
        return Ok(());
    }
    let ids: Vec<EventId> = events.iter().map(|event| event.id.clone()).collect();
    let now = ctx.clock.now();
    let tx = ctx.db.begin("replay_events").await?;
    require_room(ctx, &tx, &(&caller.platform).into()).await?;
    let held = store::event_log::hold(&tx, &Scope::from(caller), &ids).await?;
    let mut known = HashSet::new();
    let mut again: Vec<DeliveryId> = Vec::new();
    let mut asked = 0;
    for found in store::delivery_log::deliveries_of(&tx, &caller.platform, &ids).await? {
        let delivery = &found.delivery;
        let is_asked = endpoint.is_none_or(|id| *id == delivery.endpoint)
            && (caller.client().is_none() || receivers.contains(&delivery.endpoint))
            && !(failed_only && delivery.state == DeliveryState::Delivered);
        known.insert((found.event.clone(), delivery.endpoint.clone()));
        if is_asked {
            asked += 1;
            if receivers.is_active(&delivery.endpoint) {
                again.push(delivery.id.clone());
            }
        }
    }
    let asked_for = endpoint.and_then(|id| receivers.0.get(id));
    let hidden = match asked_for {
        Some(endpoint) if !endpoint.is_approved => {
            let told = events.iter();
            let told = told.map(|event| (&event.id, event.kind.as_str(), event.request_id.as_deref()));
            of_hidden_links(&tx, &endpoint.owner, told).await?
        }
        _ => HashSet::new(),
    };
    // An endpoint that was registered later has no deliveries of these events yet.
    let late: Vec<NewDelivery> = asked_for
        .into_iter()
        .flat_map(|endpoint| {
            let concerned = events
                .iter()
                .filter(|event| endpoint.client.is_none() || endpoint.client == event.client);
            concerned.map(|event| (event.id.clone(), endpoint.id.clone()))
        })
        .filter(|pair| held.contains(&pair.0) && !known.contains(pair) && !hidden.contains(&pair.0))
        .map(|(event, endpoint)| NewDelivery {
            id: DeliveryId(ctx.ids.ulid()),
            event,
            endpoint,
            owner: OwnerId::from(&caller.platform),
            is_test: false,
            is_replay: true,
            now,
        })
        .collect();
    let queued = store::delivery_log::requeue(&tx, &caller.platform, &again, now).await?;
    store::outbox::insert_deliveries(&tx, &late).await?;
    tx.commit().await?;
    total.replayed += queued + u64::try_from(late.len()).unwrap_or(u64::MAX);
    total.skipped += asked - queued;
    Ok(())
}
