//! Sends a signed test delivery to every active endpoint of a holder.

use crate::{
    ctx::Ctx,
    domain::{
        ids::{ClientRowId, DeliveryId, EventId, OwnerId},
        refusal::{Refusal, RefusalKind},
        webhook::DeliveryState,
    },
    flows::{FlowResult, require_room, sample_body, webhooks::Holder},
    store,
};
use std::{collections::HashMap, sync::PoisonError, time::Duration};
use tokio::time::{Instant, sleep};

/// Minimum and maximum pause between two checks. Each pause is twice as long as the previous one, so that an
/// unresponsive receiver costs about twenty checks.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(5);
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Seconds after which a waiting test may have ended.
const RETRY_AFTER_S: u32 = 5;

/// Number of endpoints that accepted the test, and number of those that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestCounts {
    /// Accepted.
    pub sent: u32,
    /// Failed.
    pub failed: u32,
}

/// Marks that a holder waits for its test; there is at most one per holder.
struct WaitingTest<'a> {
    ctx: &'a Ctx,
    holder: &'a Holder,
}

impl<'a> WaitingTest<'a> {
    /// Errors: another test of the holder is in progress (429).
    fn begin(ctx: &'a Ctx, holder: &'a Holder) -> Result<Self, Refusal> {
        let mut testing = ctx.testing.lock().unwrap_or_else(PoisonError::into_inner);
        if testing.insert(whose(holder)) {
            return Ok(Self { ctx, holder });
        }
        let message =
            "A test of these endpoints is still in progress; send the next test when the current one has completed";
        Err(Refusal::new(RefusalKind::TooMany, message).after(RETRY_AFTER_S))
    }
}

impl Drop for WaitingTest<'_> {
    fn drop(&mut self) {
        let mut testing = self.ctx.testing.lock().unwrap_or_else(PoisonError::into_inner);
        testing.remove(&whose(self.holder));
    }
}

fn whose(holder: &Holder) -> (OwnerId, Option<ClientRowId>) {
    (holder.owner.clone(), holder.client.clone())
}

/// Sends a sample event, one of `kinds`, through the delivery queue, so that a test uses no more slots than other
/// events. Failed attempts are not retried. A test of a platform excludes the endpoints of its client IDs. A holder has
/// one test at a time, so that few calls wait.
///
/// Errors: an unknown event type (400); another test in progress, or too many due deliveries (429). Source: interface
/// §4.8; interface §4.9; interface §6.1 (7); rules W.4.
pub async fn run(ctx: &Ctx, holder: Holder, kinds: &[&str], event_type: &str) -> FlowResult<TestCounts> {
    let kind = kinds.iter().find(|kind| **kind == event_type);
    let kind = kind.ok_or_else(|| Refusal::field("eventType", format!("must be one of {}", kinds.join(", "))))?;
    let body = sample_body(ctx, kind)?;
    let endpoints = store::endpoints::list(ctx.db.reader(), &holder).await?;
    let active: Vec<_> = endpoints
        .into_iter()
        .filter(|endpoint| endpoint.is_active && endpoint.client == holder.client)
        .collect();
    if active.is_empty() {
        return Ok(TestCounts { sent: 0, failed: 0 });
    }
    let _waiting = WaitingTest::begin(ctx, &holder)?;
    let now = ctx.clock.now();
    let event = EventId(ctx.ids.ulid());
    let tx = ctx.db.begin("send_test").await?;
    require_room(ctx, &tx, &holder.owner).await?;
    store::outbox::insert_event(
        &tx,
        &store::outbox::NewEvent {
            id: event.clone(),
            owner: holder.owner.clone(),
            client: holder.client.clone(),
            kind: (*kind).to_owned(),
            deduplication_key: format!("test:{event}"),
            request_id: None,
            body,
            payer: None,
            now,
        },
    )
    .await?;
    let deliveries: Vec<_> = active
        .iter()
        .map(|endpoint| store::outbox::NewDelivery {
            id: DeliveryId(ctx.ids.ulid()),
            event: event.clone(),
            endpoint: endpoint.id.clone(),
            owner: holder.owner.clone(),
            is_test: true,
            is_replay: false,
            now,
        })
        .collect();
    store::outbox::insert_deliveries(&tx, &deliveries).await?;
    tx.commit().await?;
    ctx.due.notify_one();
    let sent = taken(ctx, &holder, &event).await?;
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(TestCounts {
        sent: count(sent),
        failed: count(u64::try_from(deliveries.len()).unwrap_or(u64::MAX).saturating_sub(sent)),
    })
}

/// Waits until every endpoint had its attempt, and returns how many accepted the sample. Deliveries without an attempt
/// in time are cancelled, so that the response stays correct.
async fn taken(ctx: &Ctx, holder: &Holder, event: &EventId) -> FlowResult<u64> {
    let look = || store::outbox::states_of_event(ctx.db.reader(), &holder.owner, event);
    let is_over = |states: &HashMap<DeliveryState, u64>| !states.contains_key(&DeliveryState::Queued);
    let end = Instant::now() + ctx.waits.sample;
    let mut pause = LOOK_PAUSE_MIN;
    let mut states = look().await?;
    while !is_over(&states) && Instant::now() < end {
        sleep(pause).await;
        pause = LOOK_PAUSE_MAX.min(pause * 2);
        states = look().await?;
    }
    if !is_over(&states) {
        let tx = ctx.db.begin("end_test").await?;
        store::outbox::cancel_queued_of_event(&tx, &holder.owner, event, ctx.clock.now()).await?;
        tx.commit().await?;
        states = look().await?;
    }
    Ok(states.get(&DeliveryState::Delivered).copied().unwrap_or_default())
}
