//! Makes, lists, rotates and revokes keys of platforms and of orchestrators. An owner may have several, so that keys can
//! be changed without a gap.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::{KeyId, Owner, Secret},
        refusal::Refusal,
    },
    flows::{
        FlowError, FlowResult,
        auth::identify,
        idempotency::{self, Answer, Repeatable, Storage},
    },
    ports::ids::random,
    store::{self, Tx},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::TimeDelta;

pub use crate::store::keys::Key;

/// Longest time that a rotated key stays good beside its successor: a week.
pub const OVERLAP_MAX_S: u32 = 604_800;

/// Characters of a key that stay visible, to tell keys apart.
const HINT_LENGTH: usize = 8;

/// A key and its text, which is shown once.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// What is kept.
    pub row: Key,
    /// The key itself.
    pub key: Secret,
}

/// Makes a key for the operator; the text is shown once and only its hash is kept.
///
/// Errors: an unknown owner; a label of 0 or more than 100 characters.
pub async fn create(ctx: &Ctx, owner: impl Into<Owner>, label: Option<&str>) -> FlowResult<NewKey> {
    let new = draw(ctx, owner.into(), label)?;
    let tx = ctx.db.begin("create_key").await?;
    insert(&tx, &new).await?;
    tx.commit().await?;
    Ok(new)
}

/// Makes a key for a person who signed in.
///
/// Errors: a label of 0 or more than 100 characters.
pub async fn issue(
    ctx: &Ctx,
    caller: &PlatformCaller,
    label: Option<&str>,
    call: Repeatable<NewKey>,
) -> FlowResult<Answer<NewKey>> {
    idempotency::once(ctx, caller, call, Storage::Sealed, async |keeper| {
        let new = draw(ctx, Owner::from(&caller.platform), label)?;
        let tx = ctx.db.begin("issue_key").await?;
        insert(&tx, &new).await?;
        keeper.commit(tx, &new).await?;
        Ok(new)
    })
    .await
}

/// Keys of an owner, newest first, the revoked ones too.
pub async fn list(ctx: &Ctx, owner: impl Into<Owner>) -> FlowResult<Vec<Key>> {
    Ok(store::keys::list(ctx.db.reader(), &owner.into()).await?)
}

/// Makes the successor of a key, for the operator. Errors: those of [`replace`].
pub async fn rotate(ctx: &Ctx, owner: impl Into<Owner>, id: &KeyId, overlap_s: u32) -> FlowResult<NewKey> {
    let tx = ctx.db.begin("rotate_key").await?;
    let new = succeed(ctx, &tx, owner.into(), id, overlap_s).await?;
    tx.commit().await?;
    identify::forget(ctx);
    Ok(new)
}

/// Makes the successor of a key, for a person who signed in.
///
/// The key before stays good for the overlap. Errors: an overlap of more than a week (400); an unknown or revoked key,
/// or another owner's (404).
pub async fn replace(
    ctx: &Ctx,
    caller: &PlatformCaller,
    id: &KeyId,
    overlap_s: u32,
    call: Repeatable<NewKey>,
) -> FlowResult<Answer<NewKey>> {
    idempotency::once(ctx, caller, call, Storage::Sealed, async |keeper| {
        let tx = ctx.db.begin("replace_key").await?;
        let new = succeed(ctx, &tx, Owner::from(&caller.platform), id, overlap_s).await?;
        keeper.commit(tx, &new).await?;
        identify::forget(ctx);
        Ok(new)
    })
    .await
}

/// Revokes a key for good, at once on this instance, and tells whether it was good until now. Errors: an unknown key.
pub async fn revoke(ctx: &Ctx, owner: impl Into<Owner>, id: &KeyId) -> FlowResult<bool> {
    let owner = owner.into();
    let tx = ctx.db.begin("revoke_key").await?;
    let was_good = store::keys::end_at(&tx, &owner, id, ctx.clock.now()).await?;
    if !store::keys::exists(&tx, &owner, id).await? {
        return Err(unknown(&owner));
    }
    tx.commit().await?;
    identify::forget(ctx);
    Ok(was_good)
}

/// The refusal of a key that the owner does not have.
pub fn unknown(owner: &Owner) -> FlowError {
    let message = match owner {
        Owner::Platform(_) => "API key not found",
        Owner::Orchestrator(_) => "Orchestrator key not found",
    };
    Refusal::not_found(message).into()
}

/// Draws a key and the row that knows its hash: 43 characters of URL-safe base 64 hold 256 bits. Source: rules P.1.2.
pub(super) fn draw(ctx: &Ctx, owner: Owner, label: Option<&str>) -> FlowResult<NewKey> {
    if label.is_some_and(|label| label.trim().is_empty() || label.chars().count() > 100) {
        return Err(Refusal::field("label", "must have 1 to 100 characters").into());
    }
    let prefix = match owner {
        Owner::Platform(_) => "sk_",
        Owner::Orchestrator(_) => "orc_",
    };
    let secret = URL_SAFE_NO_PAD.encode(random::<32>(ctx.ids.as_ref()));
    let key = Secret::new(format!("{prefix}{secret}"));
    let row = Key {
        id: KeyId(ctx.ids.ulid()),
        owner,
        hash: identify::hash(key.reveal()),
        hint: key.reveal().chars().take(HINT_LENGTH).collect(),
        label: label.map(str::to_owned),
        created_at: ctx.clock.now(),
        revoked_at: None,
        last_used_at: None,
    };
    Ok(NewKey { row, key })
}

async fn insert(tx: &Tx, new: &NewKey) -> FlowResult<()> {
    let (exists, unknown) = match &new.row.owner {
        Owner::Platform(id) => (store::platforms::exists(tx, id).await?, "Platform not found"),
        Owner::Orchestrator(id) => (store::orchestrators::exists(tx, id).await?, "Orchestrator not found"),
    };
    if !exists {
        return Err(Refusal::not_found(unknown).into());
    }
    Ok(store::keys::insert(tx, &new.row).await?)
}

async fn succeed(ctx: &Ctx, tx: &Tx, owner: Owner, id: &KeyId, overlap_s: u32) -> FlowResult<NewKey> {
    if overlap_s > OVERLAP_MAX_S {
        return Err(Refusal::field("overlapSeconds", format!("must be 0 to {OVERLAP_MAX_S}")).into());
    }
    let now = ctx.clock.now();
    let former = store::keys::lock_active(tx, &owner, id, now)
        .await?
        .ok_or_else(|| unknown(&owner))?;
    let new = draw(ctx, owner, former.label.as_deref())?;
    insert(tx, &new).await?;
    store::keys::end_at(tx, &former.owner, id, now + TimeDelta::seconds(overlap_s.into())).await?;
    Ok(new)
}
