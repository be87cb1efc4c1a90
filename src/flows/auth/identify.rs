//! Looks up the caller of a credential.

use crate::{
    ctx::Ctx,
    domain::{
        caller::{Credential, OrchestratorCaller, PlatformCaller},
        client_id::{CallOrigin, ClientId, ClientStatus},
        ids::{KeyId, OrchestratorId, Owner, Secret},
        quota::Tier,
        refusal::Refusal,
        session::SignInSession,
    },
    flows::{FlowError, FlowResult},
    ports::ids::random,
    store::{self, StoreError, keys::StoredApiKey},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest, Sha256};
use std::{
    sync::{PoisonError, atomic::Ordering},
    time::Duration,
};

/// How long after a successful lookup or its issue a credential is still accepted from an address that is blocked for
/// too many guesses. Other callers with the same address may have caused the block.
pub const TRUSTED: Duration = Duration::from_secs(3_600);

/// Minimum interval between two updates of `lastUsedAt`. Source: rules S.10.
const TOUCH_INTERVAL: TimeDelta = TimeDelta::minutes(1);

/// Maximum time that a call waits until its use is recorded.
const NOTE_WAIT: Duration = Duration::from_millis(250);

/// Message for the keys of a disabled orchestrator.
const DISABLED: &str = "This orchestrator is disabled: ask the operator of the service to enable it";

/// Number of visible characters of a key, to distinguish keys.
const HINT_LENGTH: usize = 8;

/// A key and its text, which is shown once.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The stored row.
    pub row: StoredApiKey,
    /// The key itself.
    pub key: Secret,
}

/// Generates an API key with 256 random bits, and its row. The key is 43 characters of URL-safe base64, and the row
/// contains only its hash. Source: rules P.1.2.
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
    let row = StoredApiKey {
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

/// A looked-up key of a platform or an orchestrator.
#[derive(Debug, Clone)]
pub struct KnownKey {
    /// Row.
    pub id: KeyId,
    /// Owner.
    pub owner: Owner,
    /// Time from which the key is invalid, if known.
    pub ends_at: Option<DateTime<Utc>>,
    /// Whether the owner is an orchestrator that the operator disabled.
    pub is_disabled: bool,
}

impl KnownKey {
    /// The caller of a platform key. Errors: 401 for another kind of key, or one that has expired since the lookup.
    pub fn platform_caller(self, now: DateTime<Utc>) -> FlowResult<PlatformCaller> {
        match self.owner {
            Owner::Platform(platform) if is_good(self.ends_at, now) => Ok(PlatformCaller {
                platform,
                credential: Credential::ApiKey { id: self.id },
            }),
            _ => Err(unauthorized()),
        }
    }

    /// The caller of an orchestrator key. Errors: as for [`Self::platform_caller`]; 403 for a key of a disabled
    /// orchestrator.
    pub fn orchestrator_caller(self, now: DateTime<Utc>) -> FlowResult<OrchestratorCaller> {
        match self.owner {
            Owner::Orchestrator(_) if is_good(self.ends_at, now) && self.is_disabled => {
                Err(Refusal::forbidden(DISABLED).into())
            }
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

/// The stored form of a key: keys are long and random, so a plain hash is sufficient.
pub fn hash(key: &str) -> String {
    hex::encode(Sha256::digest(key))
}

/// Looks up a key. Errors: 401 for an unknown or revoked key. Source: rules P.1.4.
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
    let is_disabled = match &found.owner {
        Owner::Orchestrator(id) => store::orchestrators::is_disabled(ctx.db.reader(), id).await?,
        Owner::Platform(_) => false,
    };
    Ok(KnownKey {
        id: found.id,
        owner: found.owner,
        ends_at: found.revoked_at,
        is_disabled,
    })
}

/// Records the hash of a credential that this instance issued. Its first lookup is then immediate, even from an address
/// that is blocked for guesses.
pub(in crate::flows) fn note_issued(ctx: &Ctx, hash: &str) {
    let until = ctx.clock.steady() + TRUSTED;
    let mut issued = ctx.issued.lock().unwrap_or_else(PoisonError::into_inner);
    issued.put(hash.to_owned(), until);
}

/// Whether this instance recently issued the credential with this hash.
pub fn was_issued(ctx: &Ctx, hash: &str) -> bool {
    let mut issued = ctx.issued.lock().unwrap_or_else(PoisonError::into_inner);
    issued.get(hash).is_some_and(|until| *until > ctx.clock.steady())
}

/// Makes this instance reload the allowed origins.
pub fn forget_origins(ctx: &Ctx) {
    ctx.origin_changes.fetch_add(1, Ordering::AcqRel);
}

/// Makes this instance look up every credential again.
pub fn forget(ctx: &Ctx) {
    ctx.credential_changes.fetch_add(1, Ordering::AcqRel);
}

/// Looks up a client ID. Errors: 401 for an unknown one. [`client_caller`] decides whether it may be used.
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

/// The caller of a client ID, if it may be used from the origin of the call.
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
            linked: client.linked_orchestrator().cloned(),
            is_paired: false,
        },
    })
}

/// The caller of a call that sends a pair of credentials: the key of an orchestrator, and a client ID that is linked to
/// this orchestrator.
///
/// Errors: 401 for a revoked client ID, like an unknown one; 403 for an inactive one, one that is not linked to the
/// orchestrator, or a page that is not listed.
pub fn paired_caller(
    ctx: &Ctx,
    orchestrator: &OrchestratorId,
    client: &ClientId,
    call: CallOrigin<'_>,
) -> FlowResult<PlatformCaller> {
    if client.status == ClientStatus::Revoked {
        return Err(unauthorized());
    }
    client.require_link(orchestrator)?;
    let origin = client.admit_with_key(call, &ctx.own_pages)?;
    Ok(PlatformCaller {
        platform: client.platform.clone(),
        credential: Credential::ClientId {
            id: client.row.clone(),
            client_id: client.client_id.clone(),
            is_public: false,
            origin,
            linked: Some(orchestrator.clone()),
            is_paired: true,
        },
    })
}

/// Looks up a session and records its use. Errors: 401 for an unknown or expired session.
///
/// Sessions are not cached: an ended session is invalid immediately on every instance.
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

fn session_caller(session: SignInSession) -> PlatformCaller {
    PlatformCaller {
        platform: session.platform,
        credential: Credential::Session {
            id: session.id,
            person: session.person,
        },
    }
}

/// Whether the credential of a caller is still valid, and has not become public. Streamed responses check this
/// repeatedly, because they can last longer than the credential.
pub async fn is_still_admitted(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<bool> {
    let (conn, now, platform) = (ctx.db.reader(), ctx.clock.now(), &caller.platform);
    Ok(match &caller.credential {
        Credential::ApiKey { id } => store::keys::is_active(conn, &platform.into(), id, now).await?,
        Credential::ClientId { id, .. } => {
            let client = store::client_ids::find(conn, platform, id).await?;
            // A client ID that got allowed pages during the call is public from then on.
            client.is_some_and(|client| client.require_active().is_ok() && !client.is_public())
        }
        Credential::Session { id, .. } => {
            let session = store::sessions::find(conn, platform, id).await?;
            let absolute = ctx.people.sessions.wallet_absolute;
            session.is_some_and(|session| session.is_active(absolute, now))
        }
    })
}

/// Rate limit tier of a caller.
pub async fn tier(ctx: &Ctx, caller: &PlatformCaller) -> FlowResult<Tier> {
    let found = store::rate_tiers::find(ctx.db.reader(), &caller.platform, caller.client()).await?;
    Ok(found.unwrap_or_default())
}

/// Records the use of a credential, one write per credential at a time.
///
/// Recording never fails a call and delays it by at most [`NOTE_WAIT`], so that reads continue while another writer is
/// active. A slower write continues in the background.
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
            tracing::warn!(%error, "the use of a credential could not be recorded");
        }
        noting.lock().unwrap_or_else(PoisonError::into_inner).remove(&row);
    });
    drop(tokio::time::timeout(NOTE_WAIT, noted).await);
}

/// Whether a use has to be recorded: the last recorded use is at least a minute old.
fn is_touch_due(last_used_at: Option<DateTime<Utc>>, now: DateTime<Utc>) -> bool {
    last_used_at.is_none_or(|last| now - last >= TOUCH_INTERVAL)
}
