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
        schedule::{Schedule, allowance::ApprovalTarget},
    },
    flows::{FlowError, FlowResult},
    store,
};

/// Maximum attempts of a change when the schedule changes concurrently.
const COMMITS_MAX: usize = 3;

/// Finds a recurring payment of the caller. Errors: an unknown one, or one of another platform, with the same response
/// (404).
///
/// Any credential of the owning platform can read it. Source: rules P.3.6; decisions D23.
async fn find(ctx: &Ctx, caller: &PlatformCaller, id: &ScheduleId) -> FlowResult<Schedule> {
    let found = store::schedules::find(ctx.db.reader(), &caller.platform, id).await?;
    Ok(found.ok_or_else(|| Refusal::not_found("Recurring payment not found"))?)
}

/// The token approval that the signed permit of a schedule needs: token and spender.
fn approved(catalogue: &Catalogue, schedule: &Schedule) -> ApprovalTarget {
    let Permit { token, contract, .. } = schedule.permit;
    let currency = catalogue.by_token(schedule.network, &token);
    ApprovalTarget {
        token,
        spender: contract,
        resets_allowance: currency.is_some_and(Currency::resets_allowance),
    }
}

fn changed_meanwhile(schedule: &Schedule) -> FlowError {
    FlowError::NotYet(anyhow::anyhow!(
        "recurring payment {} changed concurrently",
        schedule.id
    ))
}
