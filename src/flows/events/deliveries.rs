//! Reads and counts deliveries, and queues one again.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, ids::DeliveryId, refusal::Refusal},
    flows::{
        FlowResult,
        admission::{HeldPermit, holder_of, require},
        events::{
            EndpointStateCount, LoggedDelivery, VisibleEndpoints, check_span, erased, no_repeated_test, receivers,
            unknown_delivery,
        },
        require_room,
    },
    store::{self, Scope, delivery_log::DeliveryFilter},
};
use chrono::{DateTime, TimeDelta, Utc};

/// One page of deliveries, newest first.
#[derive(Debug, Clone)]
pub struct DeliveryPage {
    /// The deliveries.
    pub deliveries: Vec<LoggedDelivery>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<DeliveryId>,
    /// The endpoints of the deliveries.
    pub receivers: VisibleEndpoints,
}

/// Lists deliveries. A client ID gets the deliveries to its own endpoints, an API key gets all deliveries of its
/// platform.
pub async fn list(ctx: &Ctx, caller: &PlatformCaller, filter: &DeliveryFilter) -> FlowResult<DeliveryPage> {
    let receivers = receivers(ctx, caller).await?;
    let more = DeliveryFilter {
        limit: filter.limit + 1,
        ..filter.clone()
    };
    let limit = receivers.limit(caller);
    let _permit = permit(ctx, caller).await?;
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

/// Counts deliveries by endpoint and state, by default over the last day. Errors: a period that ends before it begins,
/// or that is longer than the retention of the log (400).
pub async fn counts(
    ctx: &Ctx,
    caller: &PlatformCaller,
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
) -> FlowResult<Vec<EndpointStateCount>> {
    let until = until.unwrap_or_else(|| ctx.clock.now());
    let since = since.unwrap_or(until - TimeDelta::days(1));
    check_span(Some(since), Some(until))?;
    let days = ctx.webhooks.retention_days;
    if until - since > TimeDelta::days(i64::from(days)) {
        return Err(Refusal::field("since", format!("must be at most {days} days before until")).into());
    }
    let limit = receivers(ctx, caller).await?.limit(caller);
    let _permit = permit(ctx, caller).await?;
    Ok(store::delivery_log::counts(ctx.db.reader(), &caller.platform, limit.as_deref(), since, until).await?)
}

/// Waits for a permit to search the delivery log. Errors: the other searches of the platform take too long (429).
async fn permit(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<HeldPermit> {
    let sentence = "Too many searches of deliveries are in progress; retry shortly";
    let (permits, wait) = (&ctx.delivery_searches, ctx.waits.permit);
    Ok(require(permits, &holder_of(caller), wait, sentence).await?)
}

/// Reads one delivery with its attempts. Errors: an unknown delivery (404).
pub async fn one(
    ctx: &Ctx,
    caller: &PlatformCaller,
    id: &DeliveryId,
) -> FlowResult<(LoggedDelivery, VisibleEndpoints)> {
    let receivers = receivers(ctx, caller).await?;
    let limit = receivers.limit(caller);
    let found = store::delivery_log::find_delivery(ctx.db.reader(), &caller.platform, limit.as_deref(), id).await?;
    Ok((found.ok_or_else(unknown_delivery)?, receivers))
}

/// Queues a finished delivery again: the same id and bytes, a new round of attempts.
///
/// Errors:
/// - 404: an unknown delivery.
/// - 409: the delivery is already waiting, is a test, or is about an erased payer; or its endpoint is deleted or
///   switched off.
/// - 429: too many deliveries are due.
///
/// Source: decisions D19.
pub async fn retry(
    ctx: &Ctx,
    caller: &PlatformCaller,
    id: &DeliveryId,
) -> FlowResult<(LoggedDelivery, VisibleEndpoints)> {
    let (found, receivers) = one(ctx, caller, id).await?;
    if found.delivery.is_test {
        return Err(no_repeated_test().into());
    }
    let event = store::event_log::find_event(ctx.db.reader(), &Scope::from(caller), &found.event).await?;
    if event.is_some_and(|event| event.is_erased()) {
        return Err(erased().into());
    }
    if !receivers.is_active(&found.delivery.endpoint) {
        return Err(Refusal::conflict("The endpoint is deleted or switched off").into());
    }
    let tx = ctx.db.begin("retry_delivery").await?;
    require_room(ctx, &tx, &(&caller.platform).into()).await?;
    let queued = store::delivery_log::requeue(&tx, &caller.platform, std::slice::from_ref(id), ctx.clock.now()).await?;
    if queued == 0 {
        return Err(Refusal::conflict("The delivery is already waiting for its next attempt").into());
    }
    tx.commit().await?;
    ctx.due.notify_one();
    one(ctx, caller, id).await
}
