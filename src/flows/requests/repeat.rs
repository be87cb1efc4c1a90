//! Makes the requests of the periods that have begun since.

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

/// Requests that one call repeats, each in a transaction of its own.
const BATCH_REQUESTS: u64 = 50;

/// How long a request waits whose next period could not be made.
const PUT_OFF: TimeDelta = TimeDelta::minutes(10);

/// Makes the request of one period for each recurring request that is due, up to a batch; tells whether any was made, so
/// that more may be due.
///
/// Platforms and their public client IDs take turns. A request that missed several periods gets one with each call, the
/// oldest first. A request that cannot be repeated is logged and put off. Where as many requests as a cap allows await
/// payment, all that the cap holds up are put off at once. Source: interface §6.2; rules P.3.3; ADR-0016.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let due = store::repeats::due(ctx.db.reader(), ctx.clock.now(), BATCH_REQUESTS).await?;
    let mut made = 0_u32;
    for (owner, row) in &due {
        match repeat(ctx, owner, row).await {
            Ok(is_made) => made += u32::from(is_made),
            Err(error @ (FlowError::Unavailable(_) | FlowError::Full(_))) => return Err(error),
            Err(error) => {
                let now = ctx.clock.now();
                let times = (now, now + PUT_OFF);
                if let FlowError::Refused(refusal) = &error {
                    let requests = store::repeats::put_off_alike(ctx.db.writer(), owner, row, times).await?;
                    tracing::warn!(request_row = %row, requests, %refusal, "the next periods of recurring requests are put off");
                } else {
                    tracing::error!(request_row = %row, %error, "a recurring request could not be repeated");
                    store::repeats::put_off(ctx.db.writer(), owner, row, times).await?;
                }
            }
        }
    }
    if made > 0 {
        ctx.due.notify_one();
        tracing::info!(made, "repeated recurring requests");
    }
    Ok(made > 0)
}

/// Makes the next period of a request, its event and its next time in one commit. `false` when nothing had to be made:
/// somebody else did, or it was stopped meanwhile. Errors: as many requests as a cap allows await payment.
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
            tracing::info!(request_row = %row, "a recurring request of a revoked public client ID is stopped");
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
        publish(ctx, &tx, &told(request, parent)).await?;
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

fn told(request: Request, parent: Request) -> Event {
    Event::RequestRecurring(Box::new(RequestRecurring {
        request,
        original_request_id: parent.id.to_string(),
        original_request_reference: parent.reference.to_string(),
    }))
}
