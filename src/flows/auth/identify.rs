//! Turns a credential into a caller.

use crate::{
    ctx::Ctx,
    domain::{
        caller::{Caller, Credential},
        client_id::{CallOrigin, ClientId},
        ids::{ApiKeyId, PlatformId, Secret},
        quota::Tier,
        refusal::Refusal,
        session::Session,
    },
    flows::FlowResult,
    ports::ids::random,
    store,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest, Sha256};
use std::sync::atomic::Ordering;

/// How often `lastUsedAt` is written at most. Source: rules S.10.
const TOUCH_INTERVAL: TimeDelta = TimeDelta::minutes(1);

/// An API key that was looked up.
#[derive(Debug, Clone)]
pub struct KnownKey {
    /// Row.
    pub id: ApiKeyId,
    /// Tenant.
    pub platform: PlatformId,
    /// When it stops being good, if that is known.
    pub ends_at: Option<DateTime<Utc>>,
}

/// Characters of a key that stay visible, to tell keys apart.
const HINT_LENGTH: usize = 8;

/// A key right after it was drawn: what its owner sees once, and what is kept of it.
#[derive(Debug, Clone)]
pub struct DrawnKey {
    /// The key.
    pub key: Secret,
    /// Its stored form.
    pub hash: String,
    /// Its first characters.
    pub hint: String,
}

/// Draws a key: the prefix and 43 characters of URL-safe base 64, which hold 256 bits.
///
/// Source: rules P.1.2.
pub fn draw_key(ctx: &Ctx, prefix: &str) -> DrawnKey {
    let secret = URL_SAFE_NO_PAD.encode(random::<32>(ctx.ids.as_ref()));
    let key = Secret::new(format!("{prefix}{secret}"));
    DrawnKey {
        hash: hash(key.reveal()),
        hint: key.reveal().chars().take(HINT_LENGTH).collect(),
        key,
    }
}

/// The stored form of a key: keys are long and random, so a plain hash is enough.
pub fn hash(key: &str) -> String {
    hex::encode(Sha256::digest(key))
}

/// Looks an API key up. Errors: 401 for an unknown or revoked one.
pub async fn api_key(ctx: &Ctx, key: &str) -> FlowResult<KnownKey> {
    let now = ctx.clock.now();
    let found = store::api_keys::find_active_by_hash(ctx.db.reader(), &hash(key), now).await?;
    let found = found.ok_or_else(|| Refusal::unauthenticated("Unauthorized"))?;
    if is_touch_due(found.last_used_at, now) {
        let tx = ctx.db.begin("touch_api_key").await?;
        store::api_keys::touch(&tx, &found.id, now).await?;
        tx.commit().await?;
    }
    Ok(KnownKey {
        id: found.id,
        platform: found.platform,
        ends_at: found.revoked_at,
    })
}

/// The caller that an API key stands for. Errors: 401 for a key that ended since it was looked up.
pub fn key_caller(key: KnownKey, now: DateTime<Utc>) -> FlowResult<Caller> {
    if key.ends_at.is_some_and(|ends_at| ends_at <= now) {
        return Err(Refusal::unauthenticated("Unauthorized").into());
    }
    Ok(Caller {
        platform: key.platform,
        credential: Credential::ApiKey { id: key.id },
    })
}

/// Makes this instance look every credential up again.
pub fn forget(ctx: &Ctx) {
    ctx.credential_changes.fetch_add(1, Ordering::AcqRel);
}

/// Looks a client ID up. Errors: 401 for an unknown one. Whether it may be used is decided by [`client_caller`].
pub async fn client_id(ctx: &Ctx, text: &str) -> FlowResult<ClientId> {
    let found = store::client_ids::find_by_client_id(ctx.db.reader(), text).await?;
    let found = found.ok_or_else(|| Refusal::unauthenticated("Unauthorized"))?;
    if is_touch_due(found.last_used_at, ctx.clock.now()) {
        let tx = ctx.db.begin("touch_client_id").await?;
        store::client_ids::touch(&tx, &found.row, ctx.clock.now()).await?;
        tx.commit().await?;
    }
    Ok(found)
}

/// The caller that a client ID stands for, if it may be used from where the call comes.
///
/// Errors: 403 for a client ID that is not active or a page that is not listed, 401 for a missing `Origin`.
pub fn client_caller(client: &ClientId, call: &CallOrigin<'_>) -> FlowResult<Caller> {
    let origin = client.admit(call)?;
    Ok(Caller {
        platform: client.platform.clone(),
        credential: Credential::ClientId {
            id: client.row.clone(),
            client_id: client.client_id.clone(),
            origin,
            orchestrator: None,
        },
    })
}

/// Looks a session up and notes its use. Errors: 401 for one that is unknown or over.
///
/// Nothing is remembered between calls: a session that was ended is over at once, on every instance.
pub async fn session(ctx: &Ctx, token: &str) -> FlowResult<Caller> {
    let found = store::sessions::find_by_hash(ctx.db.reader(), &hash(token)).await?;
    let now = ctx.clock.now();
    let session = found
        .filter(|session| session.is_active(now))
        .ok_or_else(|| Refusal::unauthenticated("Unauthorized"))?;
    if let Some(expires_at) = session.end_after_use(now) {
        let tx = ctx.db.begin("touch_session").await?;
        store::sessions::touch(&tx, &session.id, now, expires_at).await?;
        tx.commit().await?;
    }
    Ok(session_caller(session))
}

fn session_caller(session: Session) -> Caller {
    Caller {
        platform: session.platform,
        credential: Credential::Session {
            id: session.id,
            holder: session.holder,
        },
    }
}

/// How often a caller may call.
pub async fn tier(ctx: &Ctx, caller: &Caller) -> FlowResult<Tier> {
    let found = store::rate_tiers::find(ctx.db.reader(), &caller.platform, caller.client()).await?;
    Ok(found.unwrap_or_default())
}

/// Whether a use is to be noted: at most once a minute.
pub(crate) fn is_touch_due(last_used_at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
    last_used_at.is_none_or(|last| now - last >= TOUCH_INTERVAL)
}
