//! Creates, lists, rotates and revokes keys of platforms and orchestrators. An owner may have several keys, so that
//! keys can be replaced without downtime.

use crate::{
    ctx::Ctx,
    domain::{
        caller::PlatformCaller,
        ids::{KeyId, Owner},
        refusal::Refusal,
    },
    flows::{
        FlowError, FlowResult,
        auth::identify::{self, draw_key},
        idempotency::{self, KeyedResult, RepeatableCall, ResponseStorage},
    },
    store::{self, Tx},
};
use chrono::TimeDelta;

pub use crate::{flows::auth::identify::NewKey, store::keys::StoredApiKey};

/// Maximum overlap of a rotated key: a week.
pub const OVERLAP_MAX_S: u32 = 604_800;

/// Creates a key for the operator; the key is shown once and only its hash is stored.
///
/// Errors: an unknown owner; a label that is empty or longer than 100 characters.
pub async fn create(ctx: &Ctx, owner: impl Into<Owner>, label: Option<&str>) -> FlowResult<NewKey> {
    let new = draw_key(ctx, owner.into(), label)?;
    let tx = ctx.db.begin("create_key").await?;
    insert(ctx, &tx, &new).await?;
    tx.commit().await?;
    Ok(new)
}

/// Creates a key for a signed-in person.
///
/// Errors: a label that is empty or longer than 100 characters; more valid keys than the cap (409).
pub async fn issue(
    ctx: &Ctx,
    caller: &PlatformCaller,
    label: Option<&str>,
    call: RepeatableCall<NewKey>,
) -> FlowResult<KeyedResult<NewKey>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Secret, async |keeper| {
        let new = draw_key(ctx, Owner::from(&caller.platform), label)?;
        let tx = ctx.db.begin("issue_key").await?;
        store::owners::lock(&tx, &(&caller.platform).into()).await?;
        insert(ctx, &tx, &new).await?;
        require_room(ctx, &tx, &new.row.owner).await?;
        keeper.commit(tx, &new).await?;
        Ok(new)
    })
    .await
}

/// Keys of an owner, newest first: all valid ones, and the last thousand revoked ones.
pub async fn list(ctx: &Ctx, owner: impl Into<Owner>) -> FlowResult<Vec<StoredApiKey>> {
    Ok(store::keys::list(ctx.db.reader(), &owner.into(), ctx.clock.now()).await?)
}

/// Replaces a key, for the operator. Errors: as for [`replace`].
pub async fn rotate(ctx: &Ctx, owner: impl Into<Owner>, id: &KeyId, overlap_s: u32) -> FlowResult<NewKey> {
    let tx = ctx.db.begin("rotate_key").await?;
    let new = succeed(ctx, &tx, owner.into(), id, overlap_s).await?;
    tx.commit().await?;
    identify::forget(ctx);
    Ok(new)
}

/// Replaces a key, for a signed-in person.
///
/// The old key stays valid for the overlap. Errors: an overlap of more than a week (400); an unknown or revoked key, or
/// a key of another owner (404). With an overlap, also more valid keys than the cap (409).
pub async fn replace(
    ctx: &Ctx,
    caller: &PlatformCaller,
    id: &KeyId,
    overlap_s: u32,
    call: RepeatableCall<NewKey>,
) -> FlowResult<KeyedResult<NewKey>> {
    idempotency::once(ctx, caller, call, ResponseStorage::Secret, async |keeper| {
        let tx = ctx.db.begin("replace_key").await?;
        store::owners::lock(&tx, &(&caller.platform).into()).await?;
        let new = succeed(ctx, &tx, Owner::from(&caller.platform), id, overlap_s).await?;
        // Without an overlap the number of keys does not increase, so an owner above the cap may also replace a key.
        if overlap_s > 0 {
            require_room(ctx, &tx, &new.row.owner).await?;
        }
        keeper.commit(tx, &new).await?;
        identify::forget(ctx);
        Ok(new)
    })
    .await
}

/// Revokes a key permanently, immediately on this instance, and returns whether it was valid until now. Errors: an
/// unknown key.
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

/// Error for a key that the owner does not have.
pub fn unknown(owner: &Owner) -> FlowError {
    let message = match owner {
        Owner::Platform(_) => "API key not found",
        Owner::Orchestrator(_) => "Orchestrator key not found",
    };
    Refusal::not_found(message).into()
}

async fn insert(ctx: &Ctx, tx: &Tx, new: &NewKey) -> FlowResult<()> {
    let (exists, unknown) = match &new.row.owner {
        Owner::Platform(id) => (store::platforms::exists(tx, id).await?, "Platform not found"),
        Owner::Orchestrator(id) => (store::orchestrators::exists(tx, id).await?, "Orchestrator not found"),
    };
    if !exists {
        return Err(Refusal::not_found(unknown).into());
    }
    store::keys::insert(tx, &new.row).await?;
    identify::note_issued(ctx, &new.row.hash);
    Ok(())
}

/// Errors: the owner now has more valid keys than the cap (409).
async fn require_room(ctx: &Ctx, tx: &Tx, owner: &Owner) -> FlowResult<()> {
    let count = store::keys::count_good(tx, owner, ctx.clock.now()).await?;
    Ok(ctx.caps.admit_api_keys(count)?)
}

async fn succeed(ctx: &Ctx, tx: &Tx, owner: Owner, id: &KeyId, overlap_s: u32) -> FlowResult<NewKey> {
    if overlap_s > OVERLAP_MAX_S {
        return Err(Refusal::field(
            "overlapSeconds",
            format!("must be a number of seconds from 0 to {OVERLAP_MAX_S}"),
        )
        .into());
    }
    let now = ctx.clock.now();
    let former = store::keys::lock_active(tx, &owner, id, now)
        .await?
        .ok_or_else(|| unknown(&owner))?;
    let new = draw_key(ctx, owner, former.label.as_deref())?;
    insert(ctx, tx, &new).await?;
    store::keys::end_at(tx, &former.owner, id, now + TimeDelta::seconds(overlap_s.into())).await?;
    Ok(new)
}
