//! Makes and revokes API keys. A platform may have several, so that keys can be changed without a gap.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{
    ctx::Ctx,
    domain::{
        ids::{ApiKeyId, PlatformId, Secret},
        refusal::Refusal,
    },
    flows::{FlowResult, auth::identify},
    ports::ids::random,
    store,
};

/// Characters of a key that stay visible, to tell keys apart.
const HINT_LENGTH: usize = 8;

/// Makes a key; the text is shown once and only its hash is kept.
///
/// Source: contract operations §1.2 (`sk_` and 43 characters of URL-safe base 64, which hold 256 bits).
pub async fn create(ctx: &Ctx, platform: &PlatformId, label: Option<&str>) -> FlowResult<(ApiKeyId, Secret)> {
    let key = Secret::new(format!("sk_{}", URL_SAFE_NO_PAD.encode(random::<32>(ctx.ids.as_ref()))));
    let id = ApiKeyId(ctx.ids.ulid());
    let tx = ctx.db.begin("create_api_key").await?;
    if !store::platforms::exists(&tx, platform).await? {
        return Err(Refusal::not_found("Platform not found").into());
    }
    let row = store::api_keys::ApiKey {
        id: id.clone(),
        platform: platform.clone(),
        hash: identify::hash(key.reveal()),
        hint: key.reveal().chars().take(HINT_LENGTH).collect(),
        label: label.map(str::to_owned),
        created_at: ctx.clock.now(),
        revoked_at: None,
        last_used_at: None,
    };
    store::api_keys::insert(&tx, &row).await?;
    tx.commit().await?;
    Ok((id, key))
}

/// Revokes a key for good. Errors: an unknown key.
pub async fn revoke(ctx: &Ctx, platform: &PlatformId, id: &ApiKeyId) -> FlowResult<()> {
    let tx = ctx.db.begin("revoke_api_key").await?;
    let revoked = store::api_keys::revoke(&tx, platform, id, ctx.clock.now()).await?;
    tx.commit().await?;
    if revoked {
        Ok(())
    } else {
        Err(Refusal::not_found("API key not found").into())
    }
}
