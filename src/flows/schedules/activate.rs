//! Activates a recurring payment with the signature of its payer.

use super::{COMMITS_MAX, changed_meanwhile, find};
use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        client_id::ClientId,
        ids::ScheduleId,
        permit::{PermitSignature, SignatureFlaw},
        refusal::{FieldError, Refusal},
        schedule::{Schedule, maker::require_may_make},
    },
    flows::{
        Fault, FlowResult,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseStorage},
        requests::of_client::of_client,
    },
    store,
};
use anyhow::anyhow;

const NOT_ITS_OWN: &str = "A public client ID can only activate recurring payments that it created; for other \
                           recurring payments, use an API key or a client ID without domains";

/// Activates a schedule.
///
/// Errors:
/// - 404: an unknown recurring payment.
/// - 403: the public client ID of the call did not create it, or the client ID that created it is no longer allowed to.
/// - 400: it does not wait for a signature, the signature is not the payer's, or the payment exceeds the limits of the
///   client ID that created it.
/// - 409: the cap of live recurring payments is reached.
///
/// Source: rules P.3.6; rules S.4; decisions D24; decisions D33.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    id: &ScheduleId,
    signature: &[u8],
    call: RepeatableCall<Schedule>,
) -> FlowResult<KeyedResult<Schedule>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Shared, async |keeper| {
        for _ in 0..COMMITS_MAX {
            let schedule = find(ctx, caller, id).await?;
            require_own(caller, &schedule)?;
            let parsed = PermitSignature::parse(signature).map_err(refused);
            let now = ctx.clock.now();
            let signed = match parsed {
                Ok(signature) => {
                    let active = schedule.activated(signature, now, ctx.schedules.lapse_after)?;
                    schedule.permit.check(&signature).map_err(refused)?;
                    active
                }
                Err(refusal) => return Err(refusal.into()),
            };
            let maker = permitted_maker(ctx, caller, &schedule).await?;
            let public_maker = maker.filter(ClientId::is_public).map(|maker| maker.row);
            let tx = ctx.db.begin("activate_schedule").await?;
            store::owners::lock(&tx, &(&caller.platform).into()).await?;
            let live = store::live_schedules::count(&tx, &caller.platform, public_maker.as_ref()).await?;
            ctx.caps.admit_another_schedule(live)?;
            if store::schedules::replace(&tx, &schedule, &signed).await? {
                keeper.commit(tx, &signed).await?;
                return Ok(signed);
            }
        }
        Err(changed_meanwhile(&find(ctx, caller, id).await?))
    })
    .await
}

/// Errors: a public client ID that did not create the recurring payment (403), because any visitor of a page can use
/// such an ID.
fn require_own(caller: &PlatformCaller, schedule: &Schedule) -> Result<(), Refusal> {
    if caller.is_public() && schedule.origin.client.as_ref() != caller.client() {
        return Err(Refusal::forbidden(NOT_ITS_OWN));
    }
    Ok(())
}

/// The client ID that created a recurring payment, if it may still create one. Errors: it may not (403, 400).
async fn permitted_maker(ctx: &Ctx, caller: &PlatformCaller, schedule: &Schedule) -> FlowResult<Option<ClientId>> {
    let Some(row) = &schedule.origin.client else {
        return Ok(None);
    };
    let maker = store::client_ids::find(ctx.db.reader(), &caller.platform, row).await?;
    let missing = || {
        Fault(anyhow!(
            "the client ID that created recurring payment {} is missing",
            schedule.id
        ))
    };
    let maker = maker.ok_or_else(missing)?;
    require_may_make(maker.is_public(), ctx.schedules.may_public_make)?;
    let of_maker = of_client(ctx, caller, Some(&maker)).await?;
    schedule.require_permitted(&maker, &of_maker.for_payouts(), &ctx.catalogue)?;
    Ok(Some(maker))
}

/// The message text of the API contract, with the detail of the flaw. Source: decisions D39.
fn refused(flaw: SignatureFlaw) -> Refusal {
    let field = FieldError::new("permitSignature", flaw.to_string());
    Refusal {
        message: "Invalid signature provided".to_owned(),
        ..Refusal::fields(vec![field])
    }
}
