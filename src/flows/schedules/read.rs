//! Reads a recurring payment.

use super::find;
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller, ids::ScheduleId, payment_record::PaymentRecord, request::Request, schedule::Schedule,
    },
    flows::FlowResult,
    store,
};

/// Maximum number of payments of a schedule in a response: anyone can send dust payments for one of its requests.
const SHOWN_MAX: u64 = 10_000;

/// A schedule with its executed payments.
#[derive(Debug, Clone)]
pub struct ScheduleDetail {
    /// The schedule.
    pub schedule: Schedule,
    /// Requests of the payments of the schedule, in order.
    pub requests: Vec<Request>,
    /// Its largest payments, oldest first.
    pub payments: Vec<PaymentRecord>,
}

/// Reads a schedule. Errors: an unknown schedule (404). Source: rules P.3.6.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, id: &ScheduleId) -> FlowResult<ScheduleDetail> {
    let schedule = find(ctx, caller, id).await?;
    let conn = ctx.db.reader();
    let executions = store::schedules::executions(conn, &schedule).await?;
    let rows = executions
        .iter()
        .map(|execution| (&caller.platform, &execution.request));
    let mut found = store::requests::of_rows(conn, rows).await?;
    let requests = executions
        .iter()
        .filter_map(|execution| found.remove(&execution.request));
    Ok(ScheduleDetail {
        requests: requests.collect(),
        payments: store::payments::largest_of_schedule(conn, &caller.platform, &schedule.id, SHOWN_MAX).await?,
        schedule,
    })
}
