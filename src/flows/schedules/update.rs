//! Cancels a recurring payment, or resumes a paused one.

use super::{COMMITS_MAX, approved, changed_meanwhile, find};
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::ScheduleId,
        paying::PaymentTransaction,
        schedule::{Schedule, allowance::AllowanceNeed},
    },
    flows::FlowResult,
    store::{
        self,
        live_schedules::{AllowanceParties, still_taken},
    },
};
use alloy::primitives::U256;

/// A changed schedule, and the transactions that its payer should send as a result.
#[derive(Debug, Clone)]
pub struct ChangedSchedule {
    /// The schedule now.
    pub schedule: Schedule,
    /// Number of remaining payments: after a cancellation the payments that were cancelled, after a resumption the
    /// payments that will be executed.
    pub remaining: u8,
    /// Token units of the remaining payments.
    pub remaining_units: U256,
    /// Transactions that reduce the payer's allowance. Empty when there is nothing to reduce, or when too few nodes
    /// agree.
    pub steps: Vec<PaymentTransaction>,
}

/// Cancels a schedule. A payment in flight is still executed.
///
/// The call succeeds even if too few nodes agree, because the payer can lower the allowance at any time. Errors: an
/// unknown schedule (404); a schedule that has already ended (400). Source: rules P.3.6; rules S.4.
pub async fn cancel(ctx: &Ctx, caller: &PlatformCaller, id: &ScheduleId) -> FlowResult<ChangedSchedule> {
    for _ in 0..COMMITS_MAX {
        let schedule = find(ctx, caller, id).await?;
        let cancelled = schedule.cancelled()?;
        let remaining = schedule.remaining() - u8::from(schedule.has_payment_in_flight());
        let remaining_units = schedule.permit.units_per_payment() * U256::from(remaining);
        let steps = lowering(ctx, &schedule, remaining_units).await?;
        let tx = ctx.db.begin("cancel_schedule").await?;
        if store::schedules::replace(&tx, &schedule, &cancelled).await? {
            tx.commit().await?;
            return Ok(ChangedSchedule {
                schedule: cancelled,
                remaining,
                remaining_units,
                steps,
            });
        }
    }
    Err(changed_meanwhile(&find(ctx, caller, id).await?))
}

/// The steps that lower the payer's allowance by the payments that are no longer executed.
async fn lowering(ctx: &Ctx, schedule: &Schedule, own: U256) -> FlowResult<Vec<PaymentTransaction>> {
    let permit = &schedule.permit;
    let parties = AllowanceParties {
        payer: permit.subscriber,
        token: permit.token,
        contract: permit.contract,
    };
    let (conn, now) = (ctx.db.reader(), ctx.clock.now());
    let others = still_taken(conn, parties, &schedule.id, now);
    let in_flight = U256::from(u8::from(schedule.has_payment_in_flight()));
    let others = others.await?.saturating_add(permit.units_per_payment() * in_flight);
    let Some(payers) = ctx.partners.chains.standings.get(&schedule.network) else {
        return Ok(Vec::new());
    };
    // The remaining allowance is approved again.
    let allowance = payers.allowance(permit.subscriber, permit.token, permit.contract);
    match allowance.await {
        Ok(current) => {
            let need = AllowanceNeed { own, others, current };
            Ok(need.lowering(&approved(&ctx.catalogue, schedule)))
        }
        Err(error) => {
            tracing::warn!(
                schedule = %schedule.id, %error,
                "the allowance of the payer of a cancelled recurring payment could not be read"
            );
            Ok(Vec::new())
        }
    }
}

/// Resumes a paused schedule; missed payments are executed immediately, in order.
///
/// Errors: an unknown schedule (404); a schedule that is not paused, or whose permit has expired (400). Source: rules
/// P.3.6; rules S.4.
pub async fn unpause(ctx: &Ctx, caller: &PlatformCaller, id: &ScheduleId) -> FlowResult<ChangedSchedule> {
    for _ in 0..COMMITS_MAX {
        let schedule = find(ctx, caller, id).await?;
        let active = schedule.unpaused(ctx.clock.now())?;
        let tx = ctx.db.begin("unpause_schedule").await?;
        if store::schedules::replace(&tx, &schedule, &active).await? {
            tx.commit().await?;
            return Ok(ChangedSchedule {
                remaining: active.remaining(),
                remaining_units: active.remaining_units(),
                schedule: active,
                steps: Vec::new(),
            });
        }
    }
    Err(changed_meanwhile(&find(ctx, caller, id).await?))
}
