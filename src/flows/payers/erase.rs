//! Erases a payer: the partner forgets first, then the key goes with which all that names the payer is sealed.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::{PayerId, PlatformId},
        payer::{Payer, PayerRegistration},
        refusal::{Refusal, RefusalKind},
    },
    flows::{
        FlowResult,
        payers::{
            hand::{in_flight_until, is_in_flight},
            partner, payer_key,
            turns::in_turn,
            unknown,
        },
    },
    ports::off_ramp::{OffRamp, OffRampError, PartnerKey},
    store::{self, StoreError, Tx},
};
use chrono::{DateTime, TimeDelta, Utc};

/// When the worker tries again what a call did not finish.
const AGAIN: TimeDelta = TimeDelta::minutes(1);

/// How often whoever is called so is looked up: a note becomes a payer between two looks.
const TRIES_MAX: usize = 3;

/// Who is to be forgotten.
pub(super) enum Whom {
    /// A payer.
    Payer(Box<Payer>),
    /// Whoever the partner may have taken by a first registration that came to no payer here.
    Registered(PayerRegistration),
}

/// Errors: unknown (404); money of the payer is on its way, or may be (409); a call about the payer may be in flight (409), or
/// the partner does not answer (502), and the erasure goes on by itself. Source: ADR-0021.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, client_user_id: &str) -> FlowResult<()> {
    for _ in 0..TRIES_MAX {
        let whom = whom(ctx, &caller.platform, client_user_id).await?;
        let whom = whom.ok_or_else(|| unknown(client_user_id))?;
        let partner = partner(ctx)?;
        let forgotten = async |whom: &Whom| in_turn(ctx, caller, forget(partner, whom)).await;
        if through(ctx, &whom, forgotten).await? {
            return Ok(());
        }
    }
    Err(unknown(client_user_id).into())
}

/// Reads whom the tenant calls so. The note first: the commit that takes it away is the one that writes the payer.
async fn whom(ctx: &Ctx, platform: &PlatformId, client_user_id: &str) -> FlowResult<Option<Whom>> {
    let reader = ctx.db.reader();
    let key = payer_key(ctx, platform, client_user_id);
    let registered = store::payer_registrations::find(reader, platform, &key.0).await?;
    let payer = store::payers::find(reader, platform, client_user_id).await?;
    let payer = payer.map(|payer| Whom::Payer(Box::new(payer)));
    Ok(payer.or(registered.map(Whom::Registered)))
}

/// Has the partner forget somebody, and forgets the key after that; tells whether there was anybody. Errors: as [`run`].
pub(super) async fn through(
    ctx: &Ctx,
    whom: &Whom,
    forgotten: impl AsyncFnOnce(&Whom) -> Result<(), OffRampError>,
) -> FlowResult<bool> {
    let Some((whom, until)) = begin(ctx, whom).await? else {
        return Ok(false);
    };
    let whom = &whom;
    match forgotten(whom).await {
        Ok(()) => finish(ctx, whom).await?,
        Err(error) => {
            // One that was not answered may reach whoever registers under the same id next, so that waits.
            if !matches!(error, OffRampError::NoAnswer(_)) {
                whom.clear_in_flight(ctx, until).await?;
            }
            return Err(not_forgotten(&error).into());
        }
    }
    Ok(true)
}

/// Asks the partner to forget somebody.
pub(super) async fn forget(partner: &dyn OffRamp, whom: &Whom) -> Result<(), OffRampError> {
    match whom {
        Whom::Payer(payer) => partner.erase(&payer.details.partner).await,
        Whom::Registered(registered) => {
            let key = PartnerKey(registered.partner_key.clone());
            partner.erase_registered(&key).await
        }
    }
}

/// Where an erasure is.
struct Standing {
    /// As it is now: the partner may have given the payer another id since it was read.
    whom: Whom,
    is_erasing: bool,
    in_flight_until: Option<DateTime<Utc>>,
}

impl Whom {
    /// Reads where the erasure is, and keeps others from changing it until the transaction ends; `None` when nobody is there.
    async fn lock(&self, tx: &Tx) -> Result<Option<Standing>, StoreError> {
        Ok(match self {
            Self::Payer(payer) => {
                let locked = store::payers::lock(tx, &payer.platform, &payer.id).await?;
                locked.map(|payer| Standing {
                    is_erasing: payer.is_erasing,
                    in_flight_until: payer.in_flight_until,
                    whom: Self::Payer(Box::new(payer)),
                })
            }
            Self::Registered(registered) => {
                let (platform, key) = (&registered.platform, &registered.partner_key);
                let locked = store::payer_registrations::lock(tx, platform, key).await?;
                locked.map(|registered| Standing {
                    is_erasing: registered.is_erasing,
                    in_flight_until: Some(registered.in_flight_until),
                    whom: Self::Registered(registered),
                })
            }
        })
    }

    async fn mark_erasing(&self, tx: &Tx, now: DateTime<Utc>, ask_at: DateTime<Utc>) -> Result<(), StoreError> {
        match self {
            Self::Payer(payer) => store::payers::mark_erasing(tx, &payer.platform, &payer.id, now, ask_at).await,
            Self::Registered(registered) => store::payer_registrations::mark_erasing(tx, registered, now, ask_at).await,
        }
    }

    async fn set_in_flight(&self, tx: &Tx, until: DateTime<Utc>) -> Result<(), StoreError> {
        match self {
            Self::Payer(payer) => store::payers::set_in_flight(tx, &payer.platform, &payer.id, until).await,
            Self::Registered(registered) => store::payer_registrations::set_in_flight(tx, registered, until).await,
        }
    }

    async fn clear_in_flight(&self, ctx: &Ctx, until: DateTime<Utc>) -> Result<(), StoreError> {
        let writer = ctx.db.writer();
        match self {
            Self::Payer(payer) => store::payers::clear_in_flight(writer, &payer.platform, &payer.id, until).await,
            Self::Registered(registered) => {
                store::payer_registrations::clear_in_flight(writer, registered, until, ctx.clock.now()).await
            }
        }
    }

    async fn is_awaited(&self, tx: &Tx, now: DateTime<Utc>) -> Result<bool, StoreError> {
        match self {
            Self::Payer(payer) => store::off_ramp_bindings::is_awaited(tx, (&payer.platform, &payer.id), now).await,
            Self::Registered(_) => Ok(false),
        }
    }
}

/// From here on nothing is done for the payer any more, and the partner is about to be asked to forget it: once no other call
/// about it can be in flight. Tells who that is now, and until when this call may be in flight; `None` when nobody is there.
/// Errors: as [`run`].
async fn begin(ctx: &Ctx, whom: &Whom) -> FlowResult<Option<(Whom, DateTime<Utc>)>> {
    let tx = ctx.db.begin("begin_erasure").await?;
    let Some(standing) = whom.lock(&tx).await? else {
        return Ok(None);
    };
    let now = ctx.clock.now();
    if !standing.is_erasing && whom.is_awaited(&tx, now).await? {
        if let Whom::Payer(payer) = whom {
            store::payers::want_erased(&tx, &payer.platform, &payer.id, Some(now)).await?;
            tx.commit().await?;
        }
        let message = "Money of this payer is on its way to a bank account; erase the payer once it has arrived or come \
                       back. Until then no new quote is handed out for the payer, unless it is registered again";
        return Err(Refusal::conflict(message).into());
    }
    if let Some(until) = standing.in_flight_until.filter(|until| is_in_flight(*until, now)) {
        whom.mark_erasing(&tx, now, until).await?;
        tx.commit().await?;
        let message = "A call to the off-ramp partner about this payer may be in flight; the payer is erased by itself \
                       within seconds";
        return Err(Refusal::conflict(message).into());
    }
    let until = in_flight_until(now, None);
    whom.set_in_flight(&tx, until).await?;
    whom.mark_erasing(&tx, now, now + AGAIN).await?;
    tx.commit().await?;
    Ok(Some((standing.whom, until)))
}

/// Forgets the key of a payer, or the note of a registration, once the partner forgot the payer.
async fn finish(ctx: &Ctx, whom: &Whom) -> FlowResult<()> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("erase_payer").await?;
    // Somebody else may have ended it, and the note may be one that was made since.
    let is_there = whom.lock(&tx).await?.is_some_and(|standing| standing.is_erasing);
    match whom {
        Whom::Payer(payer) => {
            if is_there {
                store::payers::erase(&tx, &payer.platform, &payer.id, now, now + AGAIN).await?;
            }
            tx.commit().await?;
            // Forgotten is forgotten: where another process is in the way just now, the worker empties the log.
            if let Err(error) = wipe(ctx, &payer.platform, &payer.id).await {
                tracing::info!(%error, "what SQLite keeps of an erased payer is emptied later");
            }
            Ok(())
        }
        Whom::Registered(registered) => {
            if is_there {
                store::payer_registrations::remove(&tx, registered).await?;
            }
            Ok(tx.commit().await?)
        }
    }
}

/// What the caller is told whose payer the partner did not forget yet.
fn not_forgotten(error: &OffRampError) -> Refusal {
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
