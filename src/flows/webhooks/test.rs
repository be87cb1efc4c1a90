//! Sends a signed test delivery to every active endpoint of a holder.

use crate::{
    ctx::Ctx,
    domain::{
        ids::{DeliveryId, EventId},
        refusal::Refusal,
    },
    flows::{
        FlowResult, sample_body,
        webhooks::{Holder, deliver},
    },
    store,
};
use chrono::TimeDelta;
use futures_util::future::join_all;

/// How many endpoints took the test and how many did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestResult {
    /// Taken.
    pub sent: u32,
    /// Not taken.
    pub failed: u32,
}

/// Sends a sample of an event, one of `kinds`: the first try is made at once, failed ones are not tried again. The test
/// of a platform leaves the endpoints of its client IDs alone.
///
/// Errors: an unknown event type (400). Source: interface §4.8; interface §4.9; interface §6.1 (7); rules W.4.
pub async fn run(ctx: &Ctx, holder: Holder, kinds: &[&str], event_type: &str) -> FlowResult<TestResult> {
    let kind = kinds.iter().find(|kind| **kind == event_type);
    let kind = kind.ok_or_else(|| Refusal::field("eventType", format!("must be one of {}", kinds.join(", "))))?;
    let body = sample_body(ctx, kind)?;
    let endpoints = store::endpoints::list(ctx.db.reader(), &holder).await?;
    let active: Vec<_> = endpoints
        .into_iter()
        .filter(|endpoint| endpoint.is_active && endpoint.client == holder.client)
        .collect();
    if active.is_empty() {
        return Ok(TestResult { sent: 0, failed: 0 });
    }
    let now = ctx.clock.now();
    let event = EventId(ctx.ids.ulid());
    // The rows are inserted as claimed by this call, so that the worker leaves them alone.
    let lease_token = ctx.ids.ulid();
    let tx = ctx.db.begin("send_test").await?;
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
            // Samples look like what they stand for.
            is_personal: true,
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
            now,
        })
        .collect();
    store::outbox::insert_deliveries(&tx, &deliveries).await?;
    let lease_until = now + TimeDelta::milliseconds(crate::domain::webhook::LEASE_MS);
    let claimed = store::outbox::claim_event(&tx, &event, lease_until, &lease_token).await?;
    tx.commit().await?;
    let claims = claimed.len();
    let sent = join_all(claimed.into_iter().map(|delivery| deliver::send(ctx, delivery))).await;
    let mut tried: Vec<_> = sent.into_iter().flatten().collect();
    for one in &mut tried {
        if !one.outcome.is_success() {
            one.after = crate::domain::webhook::AfterTry::Exhausted;
        }
    }
    deliver::record(ctx, &tried).await?;
    let sent = tried.iter().filter(|tried| tried.outcome.is_success()).count();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(TestResult {
        sent: count(sent),
        failed: count(claims - sent),
    })
}
