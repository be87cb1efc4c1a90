//! Erases a payer. First the partner erases the payer, then the service deletes the key that encrypts all personal data
//! of the payer.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::{PayerId, PlatformId},
        payer::{CompliancePayer, PayerRegistration},
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

/// Pause after which the worker retries an erasure that a call did not finish.
const AGAIN: TimeDelta = TimeDelta::minutes(1);

/// Maximum number of lookups of the id: a recorded registration can become a payer between two lookups.
const TRIES_MAX: usize = 3;

/// Subject of an erasure.
pub(super) enum ErasureSubject {
    /// A payer.
    Payer(Box<CompliancePayer>),
    /// A person whose first registration was sent to the partner and recorded here, but created no payer here.
    Registered(PayerRegistration),
}

/// Erases the payer with this id of the caller.
///
/// Errors:
/// - 404: an unknown payer.
/// - 409: a payout of the payer is or may be in progress, or a call about the payer may be in flight.
/// - 502: the partner does not respond, and the erasure continues in the background.
///
/// Source: ADR-0021.
pub async fn run(ctx: &Ctx, caller: &PlatformCaller, client_user_id: &str) -> FlowResult<()> {
    for _ in 0..TRIES_MAX {
        let whom = whom(ctx, &caller.platform, client_user_id).await?;
        let whom = whom.ok_or_else(|| unknown(client_user_id))?;
        let partner = partner(ctx)?;
        let forgotten = async |whom: &ErasureSubject| in_turn(ctx, caller, forget(partner, whom)).await;
        if through(ctx, &whom, forgotten).await? {
            return Ok(());
        }
    }
    Err(unknown(client_user_id).into())
}

/// Finds the payer or the recorded registration with the platform's id. The registration is read first, because the
/// commit that deletes it also writes the payer.
async fn whom(ctx: &Ctx, platform: &PlatformId, client_user_id: &str) -> FlowResult<Option<ErasureSubject>> {
    let reader = ctx.db.reader();
    let key = payer_key(ctx, platform, client_user_id);
    let registered = store::payer_registrations::find(reader, platform, &key.0).await?;
    let payer = store::payers::find(reader, platform, client_user_id).await?;
    let payer = payer.map(|payer| ErasureSubject::Payer(Box::new(payer)));
    Ok(payer.or(registered.map(ErasureSubject::Registered)))
}

/// Calls the partner to erase the subject, then deletes the key. Returns whether there was a subject. Errors: as
/// [`run`].
pub(super) async fn through(
    ctx: &Ctx,
    whom: &ErasureSubject,
    forgotten: impl AsyncFnOnce(&ErasureSubject) -> Result<(), OffRampError>,
) -> FlowResult<bool> {
    let Some((whom, until)) = begin(ctx, whom).await? else {
        return Ok(false);
    };
    let whom = &whom;
    match forgotten(whom).await {
        Ok(()) => finish(ctx, whom).await?,
        Err(error) => {
            // After a call without a response, the erasure mark stays, so that a new registration has to wait. The call
            // may still be in flight, and would otherwise erase the next person with the same id.
            if !matches!(error, OffRampError::NoAnswer(_)) {
                whom.clear_in_flight(ctx, until).await?;
            }
            return Err(not_forgotten(&error).into());
        }
    }
    Ok(true)
}

/// Calls the partner to erase the subject.
pub(super) async fn forget(partner: &dyn OffRamp, whom: &ErasureSubject) -> Result<(), OffRampError> {
    match whom {
        ErasureSubject::Payer(payer) => partner.erase(&payer.details.partner).await,
        ErasureSubject::Registered(registered) => {
            let key = PartnerKey(registered.partner_key.clone());
            partner.erase_registered(&key).await
        }
    }
}

/// Progress of an erasure.
struct ErasureState {
    /// The current subject: the partner may have given the payer another id since the first read.
    whom: ErasureSubject,
    is_erasing: bool,
    in_flight_until: Option<DateTime<Utc>>,
}

impl ErasureSubject {
    /// Reads the progress of the erasure and locks it until the transaction ends; `None` when there is no subject.
    async fn lock(&self, tx: &Tx) -> Result<Option<ErasureState>, StoreError> {
        Ok(match self {
            Self::Payer(payer) => {
                let locked = store::payers::lock(tx, &payer.platform, &payer.id).await?;
                locked.map(|payer| ErasureState {
                    is_erasing: payer.is_erasing,
                    in_flight_until: payer.in_flight_until,
                    whom: Self::Payer(Box::new(payer)),
                })
            }
            Self::Registered(registered) => {
                let (platform, key) = (&registered.platform, &registered.partner_key);
                let locked = store::payer_registrations::lock(tx, platform, key).await?;
                locked.map(|registered| ErasureState {
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
            Self::Payer(payer) => store::off_ramp_bindings::is_awaited(tx, &payer.platform, &payer.id, now).await,
            Self::Registered(_) => Ok(false),
        }
    }
}

/// Marks the subject as being erased, once no other call about it can be in flight. From then on the service does
/// nothing else for the payer, and calls the partner next. Returns the current subject, and until when this call may be
/// in flight; `None` when there is no subject. Errors: as [`run`].
async fn begin(ctx: &Ctx, whom: &ErasureSubject) -> FlowResult<Option<(ErasureSubject, DateTime<Utc>)>> {
    let tx = ctx.db.begin("begin_erasure").await?;
    let Some(standing) = whom.lock(&tx).await? else {
        return Ok(None);
    };
    let now = ctx.clock.now();
    if !standing.is_erasing && whom.is_awaited(&tx, now).await? {
        if let ErasureSubject::Payer(payer) = whom {
            store::payers::want_erased(&tx, &payer.platform, &payer.id, Some(now)).await?;
            tx.commit().await?;
        }
        let message = "A payout of this payer to a bank account is in progress; erase the payer once the payout has \
                       arrived or come back. Until then the payer gets no new quotes, unless the payer is registered \
                       again";
        return Err(Refusal::conflict(message).into());
    }
    if let Some(until) = standing.in_flight_until.filter(|until| is_in_flight(*until, now)) {
        whom.mark_erasing(&tx, now, until).await?;
        tx.commit().await?;
        let message = "A call to the off-ramp partner about this payer may be in flight; the payer is erased automatically \
                       within seconds";
        return Err(Refusal::conflict(message).into());
    }
    let until = in_flight_until(now, None);
    whom.set_in_flight(&tx, until).await?;
    whom.mark_erasing(&tx, now, now + AGAIN).await?;
    tx.commit().await?;
    Ok(Some((standing.whom, until)))
}

/// Deletes the key of a payer, or the recorded registration, after the partner erased the person.
async fn finish(ctx: &Ctx, whom: &ErasureSubject) -> FlowResult<()> {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("erase_payer").await?;
    // Another call may have finished the erasure, and a recorded registration may be newer than this erasure.
    let is_there = whom.lock(&tx).await?.is_some_and(|standing| standing.is_erasing);
    match whom {
        ErasureSubject::Payer(payer) => {
            if is_there {
                store::payers::erase(&tx, &payer.platform, &payer.id, now, now + AGAIN).await?;
            }
            tx.commit().await?;
            // The key is already deleted. If another process blocks this step now, the worker repeats it.
            if let Err(error) = wipe(ctx, &payer.platform, &payer.id).await {
                tracing::info!(
                    %error,
                    "the payer is erased, but SQLite could not yet overwrite the deleted key of the payer; the worker \
                     retries"
                );
            }
            Ok(())
        }
        ErasureSubject::Registered(registered) => {
            if is_there {
                store::payer_registrations::remove(&tx, registered).await?;
            }
            Ok(tx.commit().await?)
        }
    }
}

/// Message when the partner has not erased the payer yet.
fn not_forgotten(error: &OffRampError) -> Refusal {
    let message = match error {
        OffRampError::Refused { reason, .. } => format!(
            "The off-ramp partner refuses to erase this payer: {}; the payer is erased automatically once the partner \
             agrees",
            reason.sentence()
        ),
        _ => "The off-ramp partner is not responding; the payer is erased automatically once it responds".to_owned(),
    };
    Refusal::new(RefusalKind::Upstream, message)
}

/// Removes the row that held the key from the SQLite files. Another process can block this only for a short time, and
/// the worker retries.
async fn wipe(ctx: &Ctx, platform: &PlatformId, payer: &PayerId) -> FlowResult<()> {
    if ctx.db.checkpoint().await? {
        store::payers::wiped(ctx.db.writer(), platform, payer).await?;
    }
    Ok(())
}
