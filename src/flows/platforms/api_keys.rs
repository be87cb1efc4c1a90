//! Makes, lists, rotates and revokes API keys. A platform may have several, so that keys can be changed without a gap.

use crate::{
    ctx::Ctx,
    domain::{
        caller::Caller,
        ids::{ApiKeyId, PlatformId, Secret},
        refusal::Refusal,
    },
    flows::{
        FlowError, FlowResult,
        auth::identify,
        idempotency::{self, Answer, Repeatable, Storage},
    },
    store::{self, Tx},
};
use chrono::TimeDelta;

pub use crate::store::api_keys::ApiKey;

/// Longest time that a rotated key stays good beside its successor: a week.
pub const OVERLAP_MAX_S: u32 = 604_800;

/// A key and its text, which is shown once.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// What is kept.
    pub row: ApiKey,
    /// The key itself.
    pub key: Secret,
}

/// Makes a key for the operator; the text is shown once and only its hash is kept. Errors: an unknown platform.
pub async fn create(ctx: &Ctx, platform: &PlatformId, label: Option<&str>) -> FlowResult<(ApiKeyId, Secret)> {
    let new = draw(ctx, platform, label)?;
    let tx = ctx.db.begin("create_api_key").await?;
    insert(&tx, &new).await?;
    tx.commit().await?;
    Ok((new.row.id, new.key))
}

/// Makes a key for a person who signed in.
///
/// Errors: a label of 0 or more than 100 characters.
pub async fn issue(
    ctx: &Ctx,
    caller: &Caller,
    label: Option<&str>,
    call: Repeatable<NewApiKey>,
) -> FlowResult<Answer<NewApiKey>> {
    idempotency::once(ctx, caller, call, Storage::Sealed, async |keeper| {
        let new = draw(ctx, &caller.platform, label)?;
        let tx = ctx.db.begin("issue_api_key").await?;
        insert(&tx, &new).await?;
        keeper.commit(tx, &new).await?;
        Ok(new)
    })
    .await
}

/// Keys of a platform, newest first, the revoked ones too.
pub async fn list(ctx: &Ctx, platform: &PlatformId) -> FlowResult<Vec<ApiKey>> {
    Ok(store::api_keys::list(ctx.db.reader(), platform).await?)
}

/// Makes the successor of a key, for the operator. Errors: those of [`replace`].
pub async fn rotate(ctx: &Ctx, platform: &PlatformId, id: &ApiKeyId, overlap_s: u32) -> FlowResult<NewApiKey> {
    let tx = ctx.db.begin("rotate_api_key").await?;
    let new = succeed(ctx, &tx, platform, id, overlap_s).await?;
    tx.commit().await?;
    identify::forget(ctx);
    Ok(new)
}

/// Makes the successor of a key, for a person who signed in.
///
/// The key before stays good for the overlap. Errors: an overlap of more than a week (400); an unknown or revoked key,
/// or another platform's (404).
pub async fn replace(
    ctx: &Ctx,
    caller: &Caller,
    id: &ApiKeyId,
    overlap_s: u32,
    call: Repeatable<NewApiKey>,
) -> FlowResult<Answer<NewApiKey>> {
    idempotency::once(ctx, caller, call, Storage::Sealed, async |keeper| {
        let tx = ctx.db.begin("replace_api_key").await?;
        let new = succeed(ctx, &tx, &caller.platform, id, overlap_s).await?;
        keeper.commit(tx, &new).await?;
        identify::forget(ctx);
        Ok(new)
    })
    .await
}

/// Revokes a key for good, at once on this instance; a second time changes nothing. Errors: an unknown key.
pub async fn revoke(ctx: &Ctx, platform: &PlatformId, id: &ApiKeyId) -> FlowResult<()> {
    let tx = ctx.db.begin("revoke_api_key").await?;
    store::api_keys::revoke(&tx, platform, id, ctx.clock.now()).await?;
    if !store::api_keys::exists(&tx, platform, id).await? {
        return Err(unknown());
    }
    tx.commit().await?;
    identify::forget(ctx);
    Ok(())
}

fn unknown() -> FlowError {
    Refusal::not_found("API key not found").into()
}

/// Draws a key and the row that knows its hash. Source: rules P.1.2 (`sk_` and the secret).
fn draw(ctx: &Ctx, platform: &PlatformId, label: Option<&str>) -> FlowResult<NewApiKey> {
    if label.is_some_and(|label| label.trim().is_empty() || label.chars().count() > 100) {
        return Err(Refusal::field("label", "must have 1 to 100 characters").into());
    }
    let drawn = identify::draw_key(ctx, "sk_");
    let row = ApiKey {
        id: ApiKeyId(ctx.ids.ulid()),
        platform: platform.clone(),
        hash: drawn.hash,
        hint: drawn.hint,
        label: label.map(str::to_owned),
        created_at: ctx.clock.now(),
        revoked_at: None,
        last_used_at: None,
    };
    Ok(NewApiKey { row, key: drawn.key })
}

async fn insert(tx: &Tx, new: &NewApiKey) -> FlowResult<()> {
    if !store::platforms::exists(tx, &new.row.platform).await? {
        return Err(Refusal::not_found("Platform not found").into());
    }
    Ok(store::api_keys::insert(tx, &new.row).await?)
}

async fn succeed(ctx: &Ctx, tx: &Tx, platform: &PlatformId, id: &ApiKeyId, overlap_s: u32) -> FlowResult<NewApiKey> {
    if overlap_s > OVERLAP_MAX_S {
        return Err(Refusal::field("overlapSeconds", format!("must be 0 to {OVERLAP_MAX_S}")).into());
    }
    let now = ctx.clock.now();
    let former = store::api_keys::lock_active(tx, platform, id, now)
        .await?
        .ok_or_else(unknown)?;
    let new = draw(ctx, platform, former.label.as_deref())?;
    insert(tx, &new).await?;
    store::api_keys::end_at(tx, platform, id, now + TimeDelta::seconds(overlap_s.into())).await?;
    Ok(new)
}
