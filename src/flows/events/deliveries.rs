//! Reads and counts deliveries, and queues one again.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, ids::DeliveryId, refusal::Refusal},
    flows::{
        FlowResult,
        events::{
            DeliveryCount, LoggedDelivery, Receivers, check_span, erased, no_repeated_test, receivers, unknown_delivery,
        },
        require_room,
    },
    store::{self, Scope, delivery_log::DeliveryFilter},
};
use chrono::{DateTime, TimeDelta, Utc};

/// One page of deliveries, the newest first.
#[derive(Debug, Clone)]
pub struct DeliveryPage {
    /// The deliveries.
    pub deliveries: Vec<LoggedDelivery>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<DeliveryId>,
    /// Where they went.
    pub receivers: Receivers,
}

/// Lists deliveries: a client ID sees those to its own endpoints, an API key all of its platform.
pub async fn list(ctx: &Ctx, caller: &PlatformCaller, filter: &DeliveryFilter) -> FlowResult<DeliveryPage> {
    let receivers = receivers(ctx, caller).await?;
    let more = DeliveryFilter {
        limit: filter.limit + 1,
        ..filter.clone()
    };
    let limit = receivers.limit(caller);
    let mut deliveries =
        store::delivery_log::deliveries(ctx.db.reader(), &caller.platform, limit.as_deref(), &more).await?;
    let has_more = deliveries.len() > usize::try_from(filter.limit).unwrap_or(usize::MAX);
    if has_more {
        deliveries.pop();
    }
    let next = has_more
        .then(|| deliveries.last().map(|one| one.delivery.id.clone()))
        .flatten();
    Ok(DeliveryPage {
        deliveries,
        next,
        receivers,
    })
}

/// Counts deliveries by endpoint and state, those of the last day unless a span is given. Errors: a span that ends before
/// it begins, or is longer than the log (400).
pub async fn counts(
    ctx: &Ctx,
    caller: &PlatformCaller,
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
) -> FlowResult<Vec<DeliveryCount>> {
    let until = until.unwrap_or_else(|| ctx.clock.now());
    let since = since.unwrap_or(until - TimeDelta::days(1));
    check_span(Some(since), Some(until))?;
    let days = ctx.webhooks.retention_days;
    if until - since > TimeDelta::days(i64::from(days)) {
        return Err(Refusal::field("since", format!("must be at most {days} days before until")).into());
    }
    let limit = receivers(ctx, caller).await?.limit(caller);
    Ok(store::delivery_log::counts(ctx.db.reader(), &caller.platform, limit.as_deref(), (since, until)).await?)
}

/// Reads one delivery with its tries. Errors: unknown (404).
pub async fn one(ctx: &Ctx, caller: &PlatformCaller, id: &DeliveryId) -> FlowResult<(LoggedDelivery, Receivers)> {
    let receivers = receivers(ctx, caller).await?;
    let limit = receivers.limit(caller);
    let found = store::delivery_log::find_delivery(ctx.db.reader(), &caller.platform, limit.as_deref(), id).await?;
    Ok((found.ok_or_else(unknown_delivery)?, receivers))
}

/// Queues a finished delivery again: the same identity and bytes, a new round of tries.
///
/// Errors: unknown (404); waiting already, a test, of a payer who is erased, or an endpoint that is gone or switched off (409); too much is due
/// already (429).
/// Source: decisions D19.
pub async fn retry(ctx: &Ctx, caller: &PlatformCaller, id: &DeliveryId) -> FlowResult<(LoggedDelivery, Receivers)> {
    let (found, receivers) = one(ctx, caller, id).await?;
    if found.delivery.is_test {
        return Err(no_repeated_test().into());
    }
    let event = store::event_log::find_event(ctx.db.reader(), &Scope::from(caller), &found.event).await?;
    if event.is_some_and(|event| event.is_erased()) {
        return Err(erased().into());
    }
    if !receivers.is_active(&found.delivery.endpoint) {
        return Err(Refusal::conflict("The endpoint is gone or switched off").into());
    }
    let tx = ctx.db.begin("retry_delivery").await?;
    require_room(ctx, &tx, &(&caller.platform).into()).await?;
    let queued = store::delivery_log::requeue(&tx, &caller.platform, std::slice::from_ref(id), ctx.clock.now()).await?;
    if queued == 0 {
        return Err(Refusal::conflict("The delivery waits for its next try already").into());
    }
    tx.commit().await?;
    ctx.due.notify_one();
    one(ctx, caller, id).await
}
