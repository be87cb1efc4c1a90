//! Makes the requests of the periods that have begun since.

use crate::{
    ctx::Ctx,
    domain::{
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
    store::{self, StoreError},
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
/// Owners take turns. A request that missed several periods gets one with each call, the oldest first. What cannot be
/// repeated, also because as many requests as a cap allows await payment, is told to the operator and put off, and the
/// others go on. Source: interface §6.2; rules P.3.3; ADR-0016.
pub async fn run(ctx: &Ctx) -> FlowResult<bool> {
    let due = store::repeats::due(ctx.db.reader(), ctx.clock.now(), BATCH_REQUESTS).await?;
    let mut made = 0_u32;
    for (owner, row) in &due {
        match repeat(ctx, owner, row).await {
            Ok(is_made) => made += u32::from(is_made),
            Err(error @ (FlowError::Unavailable(_) | FlowError::Full(_))) => return Err(error),
            Err(error) => {
                match &error {
                    FlowError::Refused(refusal) => {
                        tracing::warn!(request_row = %row, %refusal, "the next period of a recurring request is put off");
                    }
                    _ => tracing::error!(request_row = %row, %error, "a recurring request could not be repeated"),
                }
                let now = ctx.clock.now();
                store::repeats::put_off(ctx.db.writer(), owner, row, now, now + PUT_OFF).await?;
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
        let recurrence = parent.terms.recurrence.as_ref();
        let recurrence = recurrence.ok_or_else(|| Fault(anyhow!("request {} has no recurrence", parent.id)))?;
        if period == 0 {
            // It was made before periods were counted: those that went by without a request stay without one.
            store::repeats::plan(&tx, &parent, recurrence.next_after(0, now)).await?;
            tx.commit().await?;
            return Ok(false);
        }
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

fn told(request: Request, parent: Request) -> Event {
    Event::RequestRecurring(Box::new(RequestRecurring {
        request,
        original_request_id: parent.id.to_string(),
        original_request_reference: parent.reference.to_string(),
    }))
}
