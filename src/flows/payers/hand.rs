//! Calls that hand the partner something of a payer. Each is noted before it is made, so that an erasure asks the partner to
//! forget the payer after it: also when whoever made it is gone before it is answered. Source: ADR-0021.

use crate::{
    ctx::Ctx,
    domain::{
        ids::PlatformId,
        payer::{Payer, PayerRegistration},
    },
    flows::{
        FlowResult,
        payers::{being_erased, not_done, turns::Turn},
    },
    ports::off_ramp::{OffRampError, PartnerKey},
    store::{self, Tx},
};
use chrono::{DateTime, SubsecRound, TimeDelta, Utc};

/// For how long such a call may be in flight: longer than its turn and the call take, since the partner may still work on one
/// whose answer nobody waits for.
const IN_FLIGHT: TimeDelta = TimeDelta::seconds(10);

/// When the partner is asked by itself to forget whoever it took by a first registration that came to nothing here.
const KEPT_FOR: TimeDelta = TimeDelta::days(2);

/// Whether a call that was noted so may be in flight. One that was noted by a clock that was ahead is over.
pub(super) fn is_in_flight(until: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    now < until && until <= now + IN_FLIGHT + TimeDelta::seconds(1)
}

/// Until when a call that is made now may be in flight: later than any other one. As both databases keep it.
pub(super) fn in_flight_until(now: DateTime<Utc>, others: Option<DateTime<Utc>>) -> DateTime<Utc> {
    let until = (now + IN_FLIGHT).trunc_subsecs(3);
    others.map_or(until, |others| until.max(others + TimeDelta::milliseconds(1)))
}

/// A call that was noted.
struct Noted {
    until: DateTime<Utc>,
    is_alone: bool,
}

/// Makes a call that hands the partner something of a payer, in the caller's turn. `None` when the payer is erased or about to
/// be: nothing is handed to the partner then.
pub(super) async fn hand<T>(
    ctx: &Ctx,
    turn: Turn,
    payer: &Payer,
    call: impl Future<Output = Result<T, OffRampError>>,
) -> FlowResult<Option<Result<T, OffRampError>>> {
    let Some(noted) = note(ctx, payer).await? else {
        return Ok(None);
    };
    let answered = turn.make(call).await;
    // One that was not answered may still be in flight, and where there are several, who ends last is not known.
    if noted.is_alone && !matches!(answered, Err(OffRampError::NoAnswer(_))) {
        store::payers::clear_in_flight(ctx.db.writer(), &payer.platform, &payer.id, noted.until).await?;
    }
    Ok(Some(answered))
}

async fn note(ctx: &Ctx, payer: &Payer) -> FlowResult<Option<Noted>> {
    let tx = ctx.db.begin("hand_to_partner").await?;
    let locked = store::payers::lock(&tx, &payer.platform, &payer.id).await?;
    // The call is made from now on, however long the lock was waited for.
    let now = ctx.clock.now();
    let Some(locked) = locked.filter(|locked| !locked.is_erasing) else {
        return Ok(None);
    };
    let before = locked.in_flight_until.filter(|until| is_in_flight(*until, now));
    let until = in_flight_until(now, before);
    store::payers::set_in_flight(&tx, &payer.platform, &payer.id, until).await?;
    tx.commit().await?;
    let is_alone = before.is_none();
    Ok(Some(Noted { until, is_alone }))
}

/// A registration of a payer that was noted, or is one of a payer who is known.
pub(super) enum Begun {
    /// Of a payer who is known.
    Again(Box<Payer>),
    /// The first one, as far as anybody knows.
    First(First),
}

/// A first registration that was noted.
pub(super) struct First {
    platform: PlatformId,
    key: PartnerKey,
    noted: Noted,
}

impl First {
    /// Notes that the partner is about to be asked for the first time, unless somebody was faster.
    ///
    /// Errors: the payer is being erased (409).
    pub(super) async fn begin(
        ctx: &Ctx,
        platform: &PlatformId,
        client_user_id: &str,
        key: &PartnerKey,
    ) -> FlowResult<Begun> {
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
            return Ok(Begun::Again(Box::new(payer)));
        }
        let locked = locked.filter(|locked| !locked.is_erasing);
        let before = locked.ok_or_else(being_erased)?.in_flight_until;
        // The call is made from now on, however long the lock was waited for.
        let now = ctx.clock.now();
        let until = in_flight_until(now, (!is_alone && is_in_flight(before, now)).then_some(before));
        store::payer_registrations::set_in_flight(&tx, &new, until).await?;
        tx.commit().await?;
        Ok(Begun::First(Self {
            platform: platform.clone(),
            key: key.clone(),
            noted: Noted { until, is_alone },
        }))
    }

    /// Makes the call in the caller's turn. What the partner certainly did not take is noted no more.
    pub(super) async fn hand<T>(
        &self,
        ctx: &Ctx,
        turn: Turn,
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

    /// Takes the note away, for the transaction that writes the payer; tells until when other calls may be in flight. `None`
    /// when somebody else was faster.
    ///
    /// Errors: the payer is being erased (409); the answer comes so late that the payer may have been erased since (502).
    pub(super) async fn end(&self, ctx: &Ctx, tx: &Tx) -> FlowResult<Option<Option<DateTime<Utc>>>> {
        let locked = store::payer_registrations::lock(tx, &self.platform, &self.key.0).await?;
        // The clock is read under the lock: whoever waited for it may be late now.
        if ctx.clock.now() > self.noted.until {
            let late = OffRampError::NoAnswer("answers after its call was given up".to_owned());
            tracing::warn!(%late, "a registration is not kept");
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
