//! Turns a credential into a caller.

use crate::{
    ctx::Ctx,
    domain::{
        caller::{Credential, OrchestratorCaller, PlatformCaller},
        client_id::{CallOrigin, ClientId},
        ids::{KeyId, Owner, Secret},
        quota::Tier,
        refusal::Refusal,
        session::Session,
    },
    flows::{FlowError, FlowResult},
    ports::ids::random,
    store::{self, StoreError, keys::Key},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest, Sha256};
use std::{
    sync::{PoisonError, atomic::Ordering},
    time::Duration,
};

/// How long a credential that was good is looked up at once, also while its address is blocked for guesses of others.
pub const TRUSTED: Duration = Duration::from_secs(3_600);

/// How often `lastUsedAt` is written at most. Source: rules S.10.
const TOUCH_INTERVAL: TimeDelta = TimeDelta::minutes(1);

/// Longest wait of a call until its use is noted.
const NOTE_WAIT: Duration = Duration::from_millis(250);

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

/// Draws a key and the row that knows its hash: 43 characters of URL-safe base 64 hold 256 bits. Source: rules P.1.2.
pub fn draw_key(ctx: &Ctx, owner: Owner, label: Option<&str>) -> FlowResult<NewKey> {
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
        hash: hash(key.reveal()),
        hint: key.reveal().chars().take(HINT_LENGTH).collect(),
        label: label.map(str::to_owned),
        created_at: ctx.clock.now(),
        revoked_at: None,
        last_used_at: None,
    };
    Ok(NewKey { row, key })
}

/// A key of a platform or of an orchestrator that was looked up.
#[derive(Debug, Clone)]
pub struct KnownKey {
    /// Row.
    pub id: KeyId,
    /// Whose it is.
    pub owner: Owner,
    /// When it stops being good, if that is known.
    pub ends_at: Option<DateTime<Utc>>,
}

impl KnownKey {
    /// The caller behind a key of a platform. Errors: 401 for another key or one that ended since it was looked up.
    pub fn platform_caller(self, now: DateTime<Utc>) -> FlowResult<PlatformCaller> {
        match self.owner {
            Owner::Platform(platform) if is_good(self.ends_at, now) => Ok(PlatformCaller {
                platform,
                credential: Credential::ApiKey { id: self.id },
            }),
            _ => Err(unauthorized()),
        }
    }

    /// The caller behind a key of an orchestrator. Errors: like [`Self::platform_caller`].
    pub fn orchestrator_caller(self, now: DateTime<Utc>) -> FlowResult<OrchestratorCaller> {
        match self.owner {
            Owner::Orchestrator(id) if is_good(self.ends_at, now) => Ok(OrchestratorCaller { id, key: self.id }),
            _ => Err(unauthorized()),
        }
    }
}

fn is_good(ends_at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
    ends_at.is_none_or(|ends_at| ends_at > now)
}

fn unauthorized() -> FlowError {
    Refusal::unauthenticated("Unauthorized").into()
}

/// The stored form of a key: keys are long and random, so a plain hash is enough.
pub fn hash(key: &str) -> String {
    hex::encode(Sha256::digest(key))
}

/// Looks a key up. Errors: 401 for an unknown or revoked one. Source: rules P.1.4.
pub async fn key(ctx: &Ctx, key: &str) -> FlowResult<KnownKey> {
    let now = ctx.clock.now();
    let found = store::keys::find_active_by_hash(ctx.db.reader(), &hash(key), now).await?;
    let found = found.ok_or_else(unauthorized)?;
    if is_touch_due(found.last_used_at, now) {
        let (db, id) = (ctx.db.clone(), found.id.clone());
        note(ctx, found.id.as_str(), async move {
            store::keys::touch(db.writer(), &id, now).await
        })
        .await;
    }
    Ok(KnownKey {
        id: found.id,
        owner: found.owner,
        ends_at: found.revoked_at,
    })
}

/// Notes that this instance issued a credential, by its hash: it is looked up at once, whatever is guessed there.
pub(in crate::flows) fn note_issued(ctx: &Ctx, hash: &str) {
    let until = ctx.clock.steady() + TRUSTED;
    let mut issued = ctx.issued.lock().unwrap_or_else(PoisonError::into_inner);
    issued.put(hash.to_owned(), until);
}

/// Whether this instance issued the credential with this hash not long ago.
pub fn was_issued(ctx: &Ctx, hash: &str) -> bool {
    let mut issued = ctx.issued.lock().unwrap_or_else(PoisonError::into_inner);
    issued.get(hash).is_some_and(|until| *until > ctx.clock.steady())
}

/// Makes this instance read again from which pages it may be called.
pub fn forget_origins(ctx: &Ctx) {
    ctx.origin_changes.fetch_add(1, Ordering::AcqRel);
}

/// Makes this instance look every credential up again.
pub fn forget(ctx: &Ctx) {
    ctx.credential_changes.fetch_add(1, Ordering::AcqRel);
}

/// Looks a client ID up. Errors: 401 for an unknown one. Whether it may be used is decided by [`client_caller`].
pub async fn client_id(ctx: &Ctx, text: &str) -> FlowResult<ClientId> {
    let found = store::client_ids::find_by_client_id(ctx.db.reader(), text).await?;
    let found = found.ok_or_else(unauthorized)?;
    let now = ctx.clock.now();
    if is_touch_due(found.last_used_at, now) {
        let (db, row) = (ctx.db.clone(), found.row.clone());
        note(ctx, found.row.as_str(), async move {
            store::client_ids::touch(db.writer(), &row, now).await
        })
        .await;
    }
    Ok(found)
}

/// The caller that a client ID stands for, if it may be used from where the call comes.
///
/// Errors: 403 for a client ID that is not active or a page that is not listed, 401 for a missing `Origin`.
pub fn client_caller(ctx: &Ctx, client: &ClientId, call: CallOrigin<'_>) -> FlowResult<PlatformCaller> {
    let origin = client.admit(call, &ctx.own_pages)?;
    Ok(PlatformCaller {
        platform: client.platform.clone(),
        credential: Credential::ClientId {
            id: client.row.clone(),
            client_id: client.client_id.clone(),
            is_public: client.is_public(),
            origin,
        },
    })
}

/// Looks a session up and notes its use. Errors: 401 for one that is unknown or over.
///
/// Nothing is remembered between calls: a session that was ended is over at once, on every instance.
pub async fn session(ctx: &Ctx, token: &str) -> FlowResult<PlatformCaller> {
    let found = store::sessions::find_by_hash(ctx.db.reader(), &hash(token)).await?;
    let now = ctx.clock.now();
    let absolute = ctx.people.sessions.wallet_absolute;
    let session = found
        .filter(|session| session.is_active(absolute, now))
        .ok_or_else(unauthorized)?;
    if let Some(expires_at) = session.end_after_use(absolute, now) {
        let (db, id) = (ctx.db.clone(), session.id.clone());
        note(ctx, session.id.as_str(), async move {
            store::sessions::touch(db.writer(), &id, now, expires_at).await
        })
        .await;
    }
    Ok(session_caller(session))
}

fn session_caller(session: Session) -> PlatformCaller {
    PlatformCaller {
        platform: session.platform,
        credential: Credential::Session {
            id: session.id,
            person: session.person,
        },
    }
}

/// Whether the credential of a caller is still good, and still a secret, for answers that would outlive it otherwise.
pub async fn is_still_admitted(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<bool> {
    let (conn, now, platform) = (ctx.db.reader(), ctx.clock.now(), &caller.platform);
    Ok(match &caller.credential {
        Credential::ApiKey { id } => store::keys::is_active(conn, &platform.into(), id, now).await?,
        Credential::ClientId { id, .. } => {
            let client = store::client_ids::find(conn, platform, id).await?;
            // One that was given pages since is no secret any more.
            client.is_some_and(|client| client.require_active().is_ok() && !client.is_public())
        }
        Credential::Session { id, .. } => {
            let session = store::sessions::find(conn, platform, id).await?;
            let absolute = ctx.people.sessions.wallet_absolute;
            session.is_some_and(|session| session.is_active(absolute, now))
        }
    })
}

/// How often a caller may call.
pub async fn tier(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Tier> {
    let found = store::rate_tiers::find(ctx.db.reader(), &caller.platform, caller.client()).await?;
    Ok(found.unwrap_or_default())
}

/// Notes the use of a credential, one note of each at a time.
///
/// No call fails for it or waits longer than [`NOTE_WAIT`]: while somebody else writes, reads are answered. A note that
/// takes longer goes on by itself.
async fn note(ctx: &Ctx, row: &str, touch: impl Future<Output = Result<(), StoreError>> + Send + 'static) {
    let (noting, row) = (ctx.noting.clone(), row.to_owned());
    let is_first = noting
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(row.clone());
    if !is_first {
        return;
    }
    let noted = tokio::spawn(async move {
        if let Err(error) = touch.await {
            tracing::warn!(%error, "the use of a credential could not be noted");
        }
        noting.lock().unwrap_or_else(PoisonError::into_inner).remove(&row);
    });
    drop(tokio::time::timeout(NOTE_WAIT, noted).await);
}

/// Whether a use is to be noted: at most once a minute.
fn is_touch_due(last_used_at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
    last_used_at.is_none_or(|last| now - last >= TOUCH_INTERVAL)
}
