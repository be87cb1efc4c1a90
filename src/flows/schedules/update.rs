//! Ends a recurring payment, or takes a paused one up again.

use super::{COMMITS_MAX, approved, changed_meanwhile, find};
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::ScheduleId,
        paying::Step,
        schedule::{Schedule, allowance::Need},
    },
    flows::FlowResult,
    store,
};
use alloy::primitives::U256;

/// What became of a schedule, and what its payer may do about it.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The schedule now.
    pub schedule: Schedule,
    /// Payments that are not executed any more, or still are.
    pub remaining: u8,
    /// Units that these take from the payer.
    pub remaining_units: U256,
    /// Transactions that take back what the payer allowed; none when there is nothing to take back, and when too few
    /// nodes answer alike.
    pub steps: Vec<Step>,
}

/// Ends a schedule; a payment in flight is still executed.
///
/// That too few nodes answer alike does not stop it: the allowance is the payer's to lower at any time. Errors: unknown (404); ended
/// already (400). Source: rules P.3.6; rules S.4.
pub async fn cancel(ctx: &Ctx, caller: &PlatformCaller, id: &ScheduleId) -> FlowResult<Changed> {
    for _ in 0..COMMITS_MAX {
        let schedule = find(ctx, caller, id).await?;
        let cancelled = schedule.cancelled()?;
        let remaining = schedule.remaining() - u8::from(schedule.has_payment_in_flight());
        let remaining_units = schedule.permit.units_per_payment() * U256::from(remaining);
        let steps = lowering(ctx, &schedule, remaining_units).await?;
        let tx = ctx.db.begin("cancel_schedule").await?;
        if store::schedules::replace(&tx, &schedule, &cancelled).await? {
            tx.commit().await?;
            return Ok(Changed {
                schedule: cancelled,
                remaining,
                remaining_units,
                steps,
            });
        }
    }
    Err(changed_meanwhile(&find(ctx, caller, id).await?))
}

/// The steps that lower the allowance of the payer by what is not executed any more.
async fn lowering(ctx: &Ctx, schedule: &Schedule, own: U256) -> FlowResult<Vec<Step>> {
    let permit = &schedule.permit;
    let parties = (permit.subscriber, permit.token, permit.contract);
    let (conn, now) = (ctx.db.reader(), ctx.clock.now());
    let others = store::live_schedules::still_taken(conn, parties, &schedule.id, now);
    let in_flight = U256::from(u8::from(schedule.has_payment_in_flight()));
    let others = others.await?.saturating_add(permit.units_per_payment() * in_flight);
    let Some(payers) = ctx.partners.chains.standings.get(&schedule.network) else {
        return Ok(Vec::new());
    };
    // What is kept of it is approved anew.
    let allowance = payers.allowance(permit.subscriber, permit.token, permit.contract);
    match allowance.await {
        Ok(current) => {
            let need = Need { own, others, current };
            Ok(need.lowering(&approved(&ctx.catalogue, schedule)))
        }
        Err(error) => {
            tracing::warn!(schedule = %schedule.id, %error, "nobody tells what the payer of a cancelled recurring payment allows");
            Ok(Vec::new())
        }
    }
}

/// Takes a paused schedule up again; what was missed is executed at once, in its order.
///
/// Errors: unknown (404); not paused, or its permit has ended (400). Source: rules P.3.6; rules S.4.
pub async fn unpause(ctx: &Ctx, caller: &PlatformCaller, id: &ScheduleId) -> FlowResult<Changed> {
    for _ in 0..COMMITS_MAX {
        let schedule = find(ctx, caller, id).await?;
        let active = schedule.unpaused(ctx.clock.now())?;
        let tx = ctx.db.begin("unpause_schedule").await?;
        if store::schedules::replace(&tx, &schedule, &active).await? {
            tx.commit().await?;
            return Ok(Changed {
                remaining: active.remaining(),
                remaining_units: active.remaining_units(),
                schedule: active,
                steps: Vec::new(),
            });
        }
    }
    Err(changed_meanwhile(&find(ctx, caller, id).await?))
}
