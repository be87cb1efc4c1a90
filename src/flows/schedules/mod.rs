//! Recurring payments.

pub mod activate;
pub mod create;
pub mod lapse;
pub mod read;
pub mod relay;
pub mod update;

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        currency::{Catalogue, Currency},
        ids::ScheduleId,
        permit::Permit,
        refusal::Refusal,
        schedule::{Schedule, allowance::Approved},
    },
    flows::{FlowError, FlowResult},
    store,
};

/// How often a change is tried again when the schedule changed under it.
const COMMITS_MAX: usize = 3;

/// Finds a schedule of the caller. Errors: unknown, or somebody else's, which looks the same (404).
///
/// Any credential of the owning platform sees it. Source: rules P.3.6; decisions D23.
async fn find(ctx: &Ctx, caller: &PlatformCaller, id: &ScheduleId) -> FlowResult<Schedule> {
    let found = store::schedules::find(ctx.db.reader(), &caller.platform, id).await?;
    Ok(found.ok_or_else(|| Refusal::not_found("Recurring payment not found"))?)
}

/// What is approved for a permit.
fn approved(catalogue: &Catalogue, schedule: &Schedule) -> Approved {
    let Permit { token, contract, .. } = schedule.permit;
    let currency = catalogue.by_token(schedule.network, &token);
    Approved {
        token,
        spender: contract,
        resets_allowance: currency.is_some_and(Currency::resets_allowance),
    }
}

fn changed_meanwhile(schedule: &Schedule) -> FlowError {
    FlowError::NotYet(anyhow::anyhow!("recurring payment {} changed meanwhile", schedule.id))
}
