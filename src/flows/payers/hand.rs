//! Calls that hand the partner something of a payer. Each is noted before it is made, so that an erasure asks the partner to
//! forget the payer after it: also when whoever made it is gone before it is answered. Source: ADR-0021.

use crate::{
    ctx::Ctx,
    domain::{caller::PlatformCaller, payer::Payer},
    flows::{FlowResult, payers::turns::in_turn},
    ports::off_ramp::OffRampError,
    store,
};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};

/// For how long such a call may be in flight: longer than its turn and the call take, since the partner may still work on one
/// whose answer nobody waits for.
const IN_FLIGHT: TimeDelta = TimeDelta::seconds(10);

/// A call that was noted.
struct Noted {
    until: DateTime<Utc>,
    is_alone: bool,
}

/// Makes a call that hands the partner something of a payer, once it is the caller's turn. `None` when the payer is erased or
/// about to be: nothing is handed to the partner then.
pub(super) async fn hand<T>(
    ctx: &Ctx,
    caller: &PlatformCaller,
    payer: &Payer,
    call: impl Future<Output = Result<T, OffRampError>>,
) -> FlowResult<Option<Result<T, OffRampError>>> {
    let Some(noted) = note(ctx, payer).await? else {
        return Ok(None);
    };
    let answered = in_turn(ctx, caller, call).await;
    // One that was not answered may still be in flight, and where there are several, who ends last is not known.
    if noted.is_alone && !matches!(answered, Err(OffRampError::NoAnswer(_))) {
        store::payers::clear_in_flight(ctx.db.writer(), &payer.platform, &payer.id, noted.until).await?;
    }
    Ok(Some(answered))
}

async fn note(ctx: &Ctx, payer: &Payer) -> FlowResult<Option<Noted>> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("hand_to_partner").await?;
    let locked = store::payers::lock(&tx, &payer.platform, &payer.id).await?;
    let Some(locked) = locked.filter(|locked| !locked.is_erasing) else {
        return Ok(None);
    };
    let before = locked.in_flight_until.filter(|until| *until > now);
    // As both databases keep it, and later than that of any other call.
    let until = (now + IN_FLIGHT).trunc_subsecs(3);
    let until = before.map_or(until, |before| until.max(before + TimeDelta::milliseconds(1)));
    store::payers::set_in_flight(&tx, &payer.platform, &payer.id, until).await?;
    tx.commit().await?;
    let is_alone = before.is_none();
    Ok(Some(Noted { until, is_alone }))
}
