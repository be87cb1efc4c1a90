//! Calls that send data of a payer to the partner. Each call is recorded before it is made, so an erasure knows of it
//! and calls the partner only afterwards. This holds even if the caller disconnects. Source: ADR-0021.

use crate::{
    ctx::Ctx,
    domain::{
        ids::PlatformId,
        payer::{CompliancePayer, PayerRegistration},
    },
    flows::{
        FlowResult,
        payers::{being_erased, not_done, turns::PartnerCallTurn},
    },
    ports::off_ramp::{OffRampError, PartnerKey},
    store::{self, Tx},
};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};

/// How long a call with data of a payer may be in flight. It is longer than the wait for a slot and the call, because
/// the partner may still process a call after its timeout.
const IN_FLIGHT: TimeDelta = TimeDelta::seconds(10);

/// Time after which the service calls the partner to erase a person: the first registration of the person was sent to
/// the partner, but created no payer here.
const KEPT_FOR: TimeDelta = TimeDelta::days(2);

/// Whether a recorded call may still be in flight. An end time in the far future was written by an instance with a fast
/// clock, and such a call counts as ended.
pub(super) fn is_in_flight(until: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    now < until && until <= now + IN_FLIGHT + TimeDelta::seconds(1)
}

/// Until when a call that is made now may be in flight: later than the end times of all other calls. The time has whole
/// milliseconds, which both databases store exactly.
pub(super) fn in_flight_until(now: DateTime<Utc>, others: Option<DateTime<Utc>>) -> DateTime<Utc> {
    let until = (now + IN_FLIGHT).trunc_subsecs(3);
    others.map_or(until, |others| until.max(others + TimeDelta::milliseconds(1)))
}

/// A recorded call.
struct RecordedCall {
    until: DateTime<Utc>,
    is_alone: bool,
}

/// Makes a call that sends data of a payer to the partner, in the slot of the caller. `None` when the payer is erased
/// or is being erased: then nothing is sent.
pub(super) async fn hand<T>(
    ctx: &Ctx,
    turn: PartnerCallTurn,
    payer: &CompliancePayer,
    call: impl Future<Output = Result<T, OffRampError>>,
) -> FlowResult<Option<Result<T, OffRampError>>> {
    let Some(noted) = note(ctx, payer).await? else {
        return Ok(None);
    };
    let answered = turn.make(call).await;
    // The record that a call is in flight stays in two cases: this call got no response and may still be in flight; or
    // several calls were in flight, and it is unknown which one ends last.
    if noted.is_alone && !matches!(answered, Err(OffRampError::NoAnswer(_))) {
        store::payers::clear_in_flight(ctx.db.writer(), &payer.platform, &payer.id, noted.until).await?;
    }
    Ok(Some(answered))
}

async fn note(ctx: &Ctx, payer: &CompliancePayer) -> FlowResult<Option<RecordedCall>> {
    let tx = ctx.db.begin("hand_to_partner").await?;
    let locked = store::payers::lock(&tx, &payer.platform, &payer.id).await?;
    // The call starts now, however long the wait for the lock was.
    let now = ctx.clock.now();
    let Some(locked) = locked.filter(|locked| !locked.is_erasing) else {
        return Ok(None);
    };
    let before = locked.in_flight_until.filter(|until| is_in_flight(*until, now));
    let until = in_flight_until(now, before);
    store::payers::set_in_flight(&tx, &payer.platform, &payer.id, until).await?;
    tx.commit().await?;
    let is_alone = before.is_none();
    Ok(Some(RecordedCall { until, is_alone }))
}

/// A registration that has started.
pub(super) enum StartedRegistration {
    /// A repeated registration of a known payer.
    Again(Box<CompliancePayer>),
    /// The first registration of this person, as far as the service knows.
    First(FirstRegistration),
}

/// A recorded first registration.
pub(super) struct FirstRegistration {
    platform: PlatformId,
    key: PartnerKey,
    noted: RecordedCall,
}

impl FirstRegistration {
    /// Records that a first registration is about to be sent to the partner, unless a concurrent call created the
    /// payer.
    ///
    /// Errors: the payer is being erased (409).
    pub(super) async fn begin(
        ctx: &Ctx,
        platform: &PlatformId,
        client_user_id: &str,
        key: &PartnerKey,
    ) -> FlowResult<StartedRegistration> {
        let tx = ctx.db.begin("note_registration").await?;
        let now = ctx.clock.now();
        let new = PayerRegistration {
            partner_key: key.0.clone(),
            platform: platform.clone(),
            in_flight_until: in_flight_until(now, None),
            is_erasing: false,
        };
        let is_alone = store::payer_registrations::note(&tx, &new, now + KEPT_FOR).await?;
        let locked = store::payer_registrations::lock(&tx, platform, &key.0).await?;
        if let Some(payer) = store::payers::find(&tx, platform, client_user_id).await? {
            return Ok(StartedRegistration::Again(Box::new(payer)));
        }
        let locked = locked.filter(|locked| !locked.is_erasing);
        let before = locked.ok_or_else(being_erased)?.in_flight_until;
        // The call starts now, however long the wait for the lock was.
        let now = ctx.clock.now();
        let until = in_flight_until(now, (!is_alone && is_in_flight(before, now)).then_some(before));
        store::payer_registrations::set_in_flight(&tx, &new, until).await?;
        tx.commit().await?;
        Ok(StartedRegistration::First(Self {
            platform: platform.clone(),
            key: key.clone(),
            noted: RecordedCall { until, is_alone },
        }))
    }

    /// Makes the call in the caller's slot. The record is deleted if the partner certainly did not accept the call.
    pub(super) async fn hand<T>(
        &self,
        ctx: &Ctx,
        turn: PartnerCallTurn,
        call: impl Future<Output = Result<T, OffRampError>>,
    ) -> FlowResult<Result<T, OffRampError>> {
        use OffRampError::{Busy, NotSent, Refused};
        let answered = turn.make(call).await;
        if self.noted.is_alone && matches!(answered, Err(Refused { .. } | NotSent(_) | Busy)) {
            let (writer, until) = (ctx.db.writer(), self.noted.until);
            store::payer_registrations::remove_alone(writer, &self.platform, &self.key.0, until).await?;
        }
        Ok(answered)
    }

    /// Deletes the record in the transaction that writes the payer; returns until when other calls may be in flight.
    /// `None` when a concurrent call deleted the record first.
    ///
    /// Errors: the payer is being erased (409); the response is so late that the payer may have been erased since
    /// (502).
    pub(super) async fn end(&self, ctx: &Ctx, tx: &Tx) -> FlowResult<Option<Option<DateTime<Utc>>>> {
        let locked = store::payer_registrations::lock(tx, &self.platform, &self.key.0).await?;
        // The clock is read while the lock is held, because the wait for the lock may have been long.
        if ctx.clock.now() > self.noted.until {
            let late = OffRampError::NoAnswer("responded after the call had timed out".to_owned());
            tracing::warn!(%late, "a registration was not stored");
            return Err(not_done(&late));
        }
        let Some(locked) = locked else {
            return Ok(None);
        };
        if locked.is_erasing {
            return Err(being_erased().into());
        }
        store::payer_registrations::remove(tx, &locked).await?;
        let is_last = self.noted.is_alone && locked.in_flight_until == self.noted.until;
        Ok(Some((!is_last).then_some(locked.in_flight_until)))
    }
}
