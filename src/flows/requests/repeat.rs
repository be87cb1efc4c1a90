//! Creates the requests of periods that have begun.

use crate::{
    ctx::Ctx,
    domain::{
        client_id::ClientStatus,
        event::{Event, RequestRecurring},
        ids::{PlatformId, RequestRowId},
        request::{Request, plan::FreshRequest},
    },
    flows::{
        Fault, FlowError, FlowResult, publish,
        requests::{
            create::{DRAWS_MAX, collided, fresh},
            room,
        },
    },
    store::{self, StoreError, Tx},
};
use anyhow::anyhow;
use chrono::TimeDelta;

/// Maximum number of requests that one call repeats, each in its own transaction.
const BATCH_REQUESTS: u64 = 50;

/// Time by which a request is postponed when its next period could not be created.
const PUT_OFF: TimeDelta = TimeDelta::minutes(10);

/// Creates the request of one period for each due recurring request, up to a batch. Returns whether any request was
/// created, so that more may be due.
///
/// Platforms and their public client IDs take turns. A request that missed several periods gets one per call, oldest
/// first. A request that cannot be repeated is logged and postponed. When the cap of open requests is reached, all
/// requests under that cap are postponed together. Source: interface §6.2; rules P.3.3; ADR-0016.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let due = store::repeats::due(ctx.db.reader(), ctx.clock.now(), BATCH_REQUESTS).await?;
    let mut made = 0_u32;
    for (owner, row) in &due {
        match repeat(ctx, owner, row).await {
            Ok(is_made) => made += u32::from(is_made),
            Err(error @ (FlowError::Unavailable(_) | FlowError::Full(_))) => return Err(error),
            Err(error) => {
                let now = ctx.clock.now();
                let until = now + PUT_OFF;
                if let FlowError::Refused(refusal) = &error {
                    let requests = store::repeats::put_off_alike(ctx.db.writer(), owner, row, now, until).await?;
                    tracing::warn!(
                        request_row = %row, requests, %refusal,
                        "the requests for the next periods of recurring requests are postponed"
                    );
                } else {
                    tracing::error!(request_row = %row, %error, "a recurring request could not be repeated");
                    store::repeats::put_off(ctx.db.writer(), owner, row, now, until).await?;
                }
            }
        }
    }
    if made > 0 {
        ctx.due.notify_one();
        tracing::info!(made, "created the requests for the next periods of recurring requests");
    }
    Ok(made > 0)
}

/// Creates the next period of a request, its event and its next time in one commit. `false` when another instance
/// created it, or the recurrence was stopped. Errors: the cap of open requests is reached.
async fn repeat(ctx: &Ctx, owner: &PlatformId, row: &RequestRowId) -> FlowResult<bool> {
    for _ in 0..DRAWS_MAX {
        let now = ctx.clock.now();
        let tx = ctx.db.begin("repeat_request").await?;
        let Some((parent, period)) = store::repeats::take_due(&tx, owner, row, now).await? else {
            return Ok(false);
        };
        if parent.is_by_public_client && is_revoked(&tx, &parent).await? {
            store::repeats::set_stopped(&tx, &parent, true, None).await?;
            tx.commit().await?;
            tracing::info!(request_row = %row, "a recurring request of a revoked public client ID was stopped");
            return Ok(false);
        }
        let recurrence = parent.terms.recurrence.as_ref();
        let recurrence = recurrence.ok_or_else(|| Fault(anyhow!("request {} has no recurrence", parent.id)))?;
        let request = parent.repeated(&FreshRequest { now, ..fresh(ctx) });
        match store::repeats::insert(&tx, &parent, period, &request).await {
            // Another request of the payee has the same reference: draw a new salt.
            Err(StoreError::Conflict(store::REQUEST_REFERENCE)) => continue,
            other => other?,
        }
        crate::fail_at("repeat_request", "inserted");
        let next = period + 1;
        store::repeats::plan(&tx, &parent, recurrence.begin_of(next).map(|at| (next, at))).await?;
        crate::fail_at("repeat_request", "planned");
        let _room = room::check_made(ctx, &tx, &request).await?;
        publish(ctx, &tx, &recurring_event(request, parent)).await?;
        tx.commit().await?;
        return Ok(true);
    }
    Err(collided())
}

async fn is_revoked(tx: &Tx, request: &Request) -> Result<bool, StoreError> {
    let origin = &request.origin;
    let Some(client) = &origin.client else {
        return Ok(false);
    };
    let client = store::client_ids::find(tx, &origin.platform, client).await?;
    Ok(client.is_none_or(|client| client.status == ClientStatus::Revoked))
}

/// The event about the next period of a request.
fn recurring_event(request: Request, parent: Request) -> Event {
    Event::RequestRecurring(Box::new(RequestRecurring {
        request,
        original_request_id: parent.id.to_string(),
        original_request_reference: parent.reference.to_string(),
    }))
}
