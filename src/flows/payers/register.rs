//! Registers a payer, or updates one who is not approved yet.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::{PayerId, PlatformId},
        payer::{CompliancePayer, DescribedPayer, PERSON_FIELDS, compliance},
        refusal::{FieldError, Refusal},
    },
    flows::{
        FlowError, FlowResult,
        idempotency::{self, KeyedResult, RepeatableCall, ResponseStorage},
        payers::{
            being_erased, change,
            hand::{FirstRegistration, StartedRegistration, hand},
            not_done, partner, payer_key, report_other_record,
            turns::turn,
        },
        publish,
    },
    ports::{
        ids::{Ids, random},
        off_ramp::{OffRampError, PayerNews},
    },
    store::{self, StoreError, Tx},
};

/// Registers or updates a payer. An approved payer is unchanged, and the verification of a rejected payer starts again.
///
/// Errors: the partner refuses the data (400), does not respond or returns the record of another payer (502); the payer
/// is being erased (409). Source: interface §4.5; rules S.5.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    client_user_id: &str,
    person: &DescribedPayer,
    call: RepeatableCall<CompliancePayer>,
) -> FlowResult<KeyedResult<CompliancePayer>> {
    let platform = &caller.platform;
    idempotency::once(ctx, caller, call, ResponseStorage::OfPayer, async |keeper| {
        let known = store::payers::find(ctx.db.reader(), platform, client_user_id).await?;
        if known.as_ref().is_some_and(|payer| payer.is_erasing) {
            return Err(being_erased().into());
        }
        if let Some(approved) = known.as_ref().filter(|payer| !payer.standing.takes_data()) {
            let tx = ctx.db.begin("answer_for_payer").await?;
            let locked = store::payers::lock(&tx, platform, &approved.id).await?;
            let locked = locked.filter(|payer| !payer.is_erasing).ok_or_else(being_erased)?;
            stay(&tx, &locked).await?;
            keeper.commit_of(tx, approved, Some(&approved.id)).await?;
            return Ok(approved.clone());
        }
        let key = payer_key(ctx, platform, client_user_id);
        let registered = partner(ctx)?.register(&key, person);
        // The slot is taken before any record is written: a call that waits for an unresponsive partner uses no
        // database connection.
        let turn = turn(ctx, caller).await.map_err(|error| refused(&error))?;
        let begun = match known {
            Some(known) => StartedRegistration::Again(Box::new(known)),
            None => FirstRegistration::begin(ctx, platform, client_user_id, &key).await?,
        };
        let answered = match &begun {
            StartedRegistration::Again(known) => hand(ctx, turn, known, registered).await?.ok_or_else(being_erased)?,
            StartedRegistration::First(first) => first.hand(ctx, turn, registered).await?,
        };
        let news = answered.map_err(|error| refused(&error))?;
        let (tx, payer) = commit(ctx, platform, client_user_id, &begun, person, &news).await?;
        keeper.commit_of(tx, &payer, Some(&payer.id)).await?;
        ctx.due.notify_one();
        Ok(payer)
    })
    .await
}

/// Stores the partner's response; the transaction remains open.
///
/// Errors: the payer is being erased, or was erased in the meantime (409); the partner returned the id of another payer
/// (502).
async fn commit(
    ctx: &Ctx,
    platform: &PlatformId,
    client_user_id: &str,
    begun: &StartedRegistration,
    person: &DescribedPayer,
    news: &PayerNews,
) -> FlowResult<(Tx, CompliancePayer)> {
    let now = ctx.clock.now();
    let told = change::convert_payer_news(news);
    let tx = ctx.db.begin("register_payer").await?;
    let (known, in_flight_until) = match begun {
        StartedRegistration::Again(known) => (Some(known.id.clone()), None),
        StartedRegistration::First(first) => match first.end(ctx, &tx).await? {
            Some(in_flight_until) => (None, in_flight_until),
            // A concurrent call registered it.
            None => {
                let found = store::payers::find(&tx, platform, client_user_id).await?;
                (Some(found.ok_or_else(being_erased)?.id), None)
            }
        },
    };
    let written = match known {
        Some(known) => {
            let locked = store::payers::lock(&tx, platform, &known).await?;
            let before = locked.filter(|payer| !payer.is_erasing).ok_or_else(being_erased)?;
            let after = compliance::registered_again(&before, person.clone(), &told, now);
            stay(&tx, &before).await?;
            let written = change::write(ctx, &tx, &before, &after, &news.raw).await;
            written.map(|_| after)
        }
        None => {
            let registered = compliance::registered(
                PayerId(ctx.ids.ulid()),
                platform.clone(),
                uuid(ctx.ids.as_ref()),
                client_user_id.to_owned(),
                person.clone(),
                &told,
                now,
            );
            let new = CompliancePayer {
                in_flight_until,
                ..registered
            };
            insert(ctx, &tx, &new, news).await.map(|()| new)
        }
    };
    match written {
        Ok(payer) => Ok((tx, payer)),
        Err(StoreError::Conflict(_)) => Err(report_other_record("register")),
        Err(error) => Err(error.into()),
    }
}

/// Cancels a requested erasure: a payer who is registered again stays stored.
async fn stay(tx: &Tx, payer: &CompliancePayer) -> Result<(), StoreError> {
    if payer.is_leaving {
        store::payers::want_erased(tx, &payer.platform, &payer.id, None).await
    } else {
        Ok(())
    }
}

async fn insert(ctx: &Ctx, tx: &Tx, new: &CompliancePayer, news: &PayerNews) -> Result<(), StoreError> {
    store::payers::insert(tx, new).await?;
    match new.version {
        0 => Ok(()),
        _ => publish(ctx, tx, &change::compliance_event(new, &news.raw)).await,
    }
}

/// A random UUID.
pub(super) fn uuid(ids: &dyn Ids) -> String {
    let mut bytes: [u8; 16] = random(ids);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = hex::encode(bytes);
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    let parts: Vec<&str> = parts
        .iter()
        .filter_map(|(from, until)| digits.get(*from..*until))
        .collect();
    parts.join("-")
}

/// Message when the partner refuses the data of a payer.
fn refused(error: &OffRampError) -> FlowError {
    let OffRampError::Refused { reason, fields } = error else {
        return not_done(error);
    };
    let named = PERSON_FIELDS
        .iter()
        .filter(|name| fields.iter().any(|field| field == *name));
    let named: Vec<FieldError> = named
        .map(|name| FieldError::new(*name, "is not accepted by the off-ramp partner"))
        .collect();
    if named.is_empty() {
        let why = reason.sentence();
        Refusal::invalid(format!("The off-ramp partner does not accept this payer: {why}")).into()
    } else {
        Refusal::fields(named).into()
    }
}
