//! Erases a payer: the partner forgets first, then the key goes with which all that names the payer is sealed.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::{PayerId, PlatformId},
        payer::Payer,
        refusal::{Refusal, RefusalKind},
    },
    flows::{
        FlowResult,
        payers::{partner, turns::in_turn, unknown},
    },
    ports::off_ramp::OffRampError,
    store,
};
use chrono::{DateTime, TimeDelta, Utc};

/// When the worker tries again what a call did not finish.
const AGAIN: TimeDelta = TimeDelta::minutes(1);

/// Errors: unknown (404); money of the payer is on its way, or may be (409); a call that hands something of the payer to the
/// partner may be in flight (409), or the partner does not answer (502), and the erasure goes on by itself. Source: ADR-0021.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, client_user_id: &str) -> FlowResult<()> {
    let found = store::payers::find(ctx.db.reader(), &caller.platform, client_user_id).await?;
    let found = found.ok_or_else(|| unknown(client_user_id))?;
    partner(ctx)?;
    begin(ctx, &found).await?;
    let erased = in_turn(ctx, caller, partner(ctx)?.erase(&found.details.partner)).await;
    finish(ctx, &found, erased).await
}

/// From here on nothing is done for the payer any more. The partner is asked to forget it once nothing of it is handed to the
/// partner any more. Errors: as [`run`].
async fn begin(ctx: &Ctx, found: &Payer) -> FlowResult<()> {
    let tx = ctx.db.begin("begin_erasure").await?;
    let locked = store::payers::lock(&tx, &found.platform, &found.id).await?;
    let locked = locked.ok_or_else(|| unknown(&found.details.client_user_id))?;
    let now = ctx.clock.now();
    let in_flight = locked.in_flight_until.filter(|until| *until > now);
    if locked.is_erasing {
        return waits_for(in_flight);
    }
    if store::off_ramp_bindings::is_awaited(&tx, (&locked.platform, &locked.id), now).await? {
        let message =
            "Money of this payer is on its way to a bank account; erase the payer once it has arrived or come back";
        return Err(Refusal::conflict(message).into());
    }
    let ask_at = in_flight.unwrap_or(now + AGAIN);
    store::payers::mark_erasing(&tx, &locked.platform, &locked.id, now, ask_at).await?;
    tx.commit().await?;
    waits_for(in_flight)
}

fn waits_for(in_flight: Option<DateTime<Utc>>) -> FlowResult<()> {
    let message = "Something of this payer is just being handed to the off-ramp partner; the payer is erased by itself within \
                   seconds";
    match in_flight {
        Some(_) => Err(Refusal::conflict(message).into()),
        None => Ok(()),
    }
}

/// Forgets the key of a payer who is being erased, once the partner forgot the payer. Errors: it did not (502).
pub(super) async fn finish(ctx: &Ctx, payer: &Payer, at_partner: Result<(), OffRampError>) -> FlowResult<()> {
    at_partner.map_err(|error| not_forgotten(&error))?;
    let now = ctx.clock.now();
    let tx = ctx.db.begin("erase_payer").await?;
    if store::payers::lock(&tx, &payer.platform, &payer.id).await?.is_some() {
        store::payers::erase(&tx, &payer.platform, &payer.id, now, now + AGAIN).await?;
    }
    tx.commit().await?;
    wipe(ctx, &payer.platform, &payer.id).await
}

/// What the caller is told whose payer the partner did not forget yet.
fn not_forgotten(error: &OffRampError) -> Refusal {
    tracing::warn!(%error, "the off-ramp partner did not forget a payer");
    let message = match error {
        OffRampError::Refused { reason, .. } => format!(
            "The off-ramp partner refuses to forget this payer: {}; the payer is erased by itself once it does",
            reason.sentence()
        ),
        _ => {
            "The off-ramp partner does not answer at the moment; the payer is erased by itself once it does".to_owned()
        }
    };
    Refusal::new(RefusalKind::Upstream, message)
}

/// Empties what SQLite keeps of the row that held the key. What stands in the way ends soon, and the worker tries again.
async fn wipe(ctx: &Ctx, platform: &PlatformId, payer: &PayerId) -> FlowResult<()> {
    if ctx.db.checkpoint().await? {
        store::payers::wiped(ctx.db.writer(), platform, payer).await?;
    }
    Ok(())
}
