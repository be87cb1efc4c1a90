//! Registers a payer, or updates one who is not approved yet.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::{PayerId, PlatformId},
        payer::{PERSON_FIELDS, Payer, Person, compliance},
        refusal::{FieldError, Refusal},
    },
    flows::{
        FlowError, FlowResult,
        idempotency::{self, Answer, Repeatable, Storage},
        payers::{being_erased, change, hand::hand, not_done, odd, partner, payer_key, turns::in_turn},
        publish,
    },
    ports::{
        ids::{Ids, random},
        off_ramp::{OffRampError, PayerNews},
    },
    store::{self, StoreError, Tx},
};

/// Registers a payer, or updates one: an approved one stays as it is, one who was rejected begins anew.
///
/// Errors: the partner refuses something (400), does not answer or gives the record of somebody else (502); the payer is
/// being erased (409). Source: interface §4.5; rules S.5.
pub async fn run(
    ctx: &Ctx,
    caller: &PlatformCaller,
    client_user_id: &str,
    person: &Person,
    call: Repeatable<Payer>,
) -> FlowResult<Answer<Payer>> {
    let platform = &caller.platform;
    idempotency::once(ctx, caller, call, Storage::OfPayer, async |keeper| {
        let known = store::payers::find(ctx.db.reader(), platform, client_user_id).await?;
        if known.as_ref().is_some_and(|payer| payer.is_erasing) {
            return Err(being_erased().into());
        }
        if let Some(approved) = known.as_ref().filter(|payer| !payer.standing.takes_data()) {
            let tx = ctx.db.begin("answer_for_payer").await?;
            keeper.commit_of(tx, approved, Some(&approved.id)).await?;
            return Ok(approved.clone());
        }
        let key = payer_key(ctx, platform, client_user_id);
        let registered = partner(ctx)?.register(&key, person);
        let answered = match &known {
            Some(known) => hand(ctx, caller, known, registered).await?.ok_or_else(being_erased)?,
            None => in_turn(ctx, caller, registered).await,
        };
        let news = answered.map_err(|error| refused(&error))?;
        let input = (client_user_id, person, &news);
        let (tx, payer) = match commit(ctx, platform, input).await? {
            Some(done) => done,
            // Somebody else registered it at the same moment, and is found now.
            None => commit(ctx, platform, input).await?.ok_or_else(odd)?,
        };
        keeper.commit_of(tx, &payer, Some(&payer.id)).await?;
        ctx.due.notify_one();
        Ok(payer)
    })
    .await
}

/// Writes what the partner answered; the transaction is open still. `None` when the payer, or the partner's id, was taken
/// at the same moment.
async fn commit(
    ctx: &Ctx,
    platform: &PlatformId,
    (client_user_id, person, news): (&str, &Person, &PayerNews),
) -> FlowResult<Option<(Tx, Payer)>> {
    let now = ctx.clock.now();
    let told = change::told(news);
    let tx = ctx.db.begin("register_payer").await?;
    let found = store::payers::find(&tx, platform, client_user_id).await?;
    let locked = match &found {
        Some(found) => store::payers::lock(&tx, platform, &found.id).await?,
        None => None,
    };
    let written = match &locked {
        Some(before) if before.is_erasing => return Err(being_erased().into()),
        Some(before) => {
            let after = compliance::registered_again(before, person.clone(), &told, now);
            let written = change::write(ctx, &tx, (before, &after), &news.raw).await;
            written.map(|_| after)
        }
        None => {
            let ids = (PayerId(ctx.ids.ulid()), platform.clone(), uuid(ctx.ids.as_ref()));
            let form = (client_user_id.to_owned(), person.clone());
            let new = compliance::registered(ids, form, &told, now);
            insert(ctx, &tx, &new, news).await.map(|()| new)
        }
    };
    match written {
        Ok(payer) => Ok(Some((tx, payer))),
        Err(StoreError::Conflict(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn insert(ctx: &Ctx, tx: &Tx, new: &Payer, news: &PayerNews) -> Result<(), StoreError> {
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

/// What the caller reads whose form the partner refuses.
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
    match named.is_empty() {
        true => {
            let why = reason.sentence();
            Refusal::invalid(format!("The off-ramp partner does not accept this payer: {why}")).into()
        }
        false => Refusal::fields(named).into(),
    }
}
