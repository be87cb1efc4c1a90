//! Looks up credentials through a short-lived cache.

use crate::{
    ctx::Ctx,
    domain::{
        caller::{Caller, OrchestratorCaller, PlatformCaller},
        client_id::{CallOrigin, ClientId, EndpointManagers},
        quota::Tier,
        refusal::{Refusal, RefusalKind},
    },
    flows::{
        FlowError, FlowResult,
        auth::identify::{self, KnownKey, TRUSTED},
    },
    http::{edge::cors::AllowedOrigins, gate::identify::Identify},
    store,
};
use async_trait::async_trait;
use lru::LruCache;
use moka::future::Cache;
use std::{
    collections::HashSet,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};
use tokio::sync::RwLock;

/// How long a looked-up credential is cached. After this time, every instance rejects a revoked credential.
const BELIEVED: Duration = Duration::from_secs(5);

/// Maximum number of cached credentials.
const REMEMBERED_MAX: u64 = 10_000;

/// Maximum number of entries of a cache whose key is the hash of a credential.
const HASHES_MAX: usize = 50_000;

/// Maximum wait for the list of allowed origins. The credential check after it also waits for the database, and a
/// caller must get the error of an unresponsive database within two seconds. Source: rules D.4.
const ORIGINS_TIMEOUT: Duration = Duration::from_millis(300);

/// A cached value and its expiry on the monotonic clock.
struct ShortMemory<T>(Mutex<LruCache<String, (T, Duration)>>);

impl<T: Copy> ShortMemory<T> {
    fn new() -> Self {
        Self(Mutex::new(LruCache::new(
            NonZeroUsize::new(HASHES_MAX).unwrap_or(NonZeroUsize::MIN),
        )))
    }

    fn entries(&self) -> MutexGuard<'_, LruCache<String, (T, Duration)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, name: &str, now: Duration) -> Option<T> {
        let (value, until) = *self.entries().get(name)?;
        (until > now).then_some(value)
    }

    fn keep(&self, name: &str, value: T, until: Duration) {
        self.entries().put(name.to_owned(), (value, until));
    }
}

/// Looks up credentials.
///
/// Cache keys contain the number of credential changes before the lookup. A lookup during which a credential changed is
/// therefore never used again. Allowed origins have a separate counter, because few changes affect them and all callers
/// share the list.
pub struct Identity {
    ctx: Ctx,
    keys: Cache<(u64, String), KnownKey>,
    clients: Cache<(u64, String), Arc<ClientId>>,
    origins: Cache<u64, Arc<HashSet<String>>>,
    /// Tiers by row.
    tiers: ShortMemory<Tier>,
    /// Unknown credentials, by kind and hash, with the number of changes at that time. The kind is part of the key
    /// because everyone knows a public client ID. A caller who sends a public client ID as an API key must not make the
    /// service reject it as a client ID.
    unknown: ShortMemory<u64>,
    /// Recently valid credentials, by hash.
    good: ShortMemory<()>,
    /// The last list of allowed origins. It is used when the database is unavailable, so that a page can still read the
    /// error.
    last_origins: RwLock<Arc<HashSet<String>>>,
}

impl Identity {
    /// Starts with an empty cache.
    pub fn new(ctx: Ctx) -> Self {
        Self {
            ctx,
            keys: Cache::builder()
                .max_capacity(REMEMBERED_MAX)
                .time_to_live(BELIEVED)
                .build(),
            clients: Cache::builder()
                .max_capacity(REMEMBERED_MAX)
                .time_to_live(BELIEVED)
                .build(),
            tiers: ShortMemory::new(),
            unknown: ShortMemory::new(),
            good: ShortMemory::new(),
            origins: Cache::builder().max_capacity(1).time_to_live(BELIEVED).build(),
            last_origins: RwLock::default(),
        }
    }

    fn changes(&self) -> u64 {
        self.ctx.credential_changes.load(Ordering::Acquire)
    }

    async fn key(&self, key: &str) -> FlowResult<KnownKey> {
        // The cache key is the hash, so that the cache contains no credential.
        let entry = (self.changes(), identify::hash(key));
        if let Some(known) = self.keys.get(&entry).await {
            return Ok(known);
        }
        let known = self.look_up("key", &entry.1, identify::key(&self.ctx, key)).await?;
        self.keys.insert(entry, known.clone()).await;
        Ok(known)
    }

    async fn client(&self, id: &str) -> FlowResult<Arc<ClientId>> {
        let entry = (self.changes(), id.to_owned());
        if let Some(client) = self.clients.get(&entry).await {
            return Ok(client);
        }
        let hash = identify::hash(id);
        let lookup = identify::client_id(&self.ctx, id);
        let client = Arc::new(self.look_up("client ID", &hash, lookup).await?);
        self.clients.insert(entry, client.clone()).await;
        Ok(client)
    }
}

impl Identity {
    /// Looks up a credential. If it was unknown at a lookup within [`BELIEVED`], it is rejected without another lookup,
    /// unless a credential has changed on this instance since.
    async fn look_up<T>(
        &self,
        kind: &'static str,
        hash: &str,
        lookup: impl Future<Output = FlowResult<T>>,
    ) -> FlowResult<T> {
        let (now, changes) = (self.ctx.clock.steady(), self.changes());
        let name = format!("{kind} {hash}");
        if self.unknown.get(&name, now) == Some(changes) {
            return Err(Refusal::unauthenticated("Unauthorized").into());
        }
        let found = lookup.await;
        match &found {
            Ok(_) => self.good.keep(hash, (), now + TRUSTED),
            Err(FlowError::Refused(refusal)) if refusal.kind == RefusalKind::Unauthenticated => {
                self.unknown.keep(&name, changes, now + BELIEVED);
            }
            Err(_) => {}
        }
        found
    }
}

#[async_trait]
impl Identify for Identity {
    async fn api_key(&self, key: &str) -> FlowResult<PlatformCaller> {
        self.key(key).await?.platform_caller(self.ctx.clock.now())
    }

    async fn client_id(&self, id: &str, call: CallOrigin<'_>) -> FlowResult<PlatformCaller> {
        identify::client_caller(&self.ctx, self.client(id).await?.as_ref(), call)
    }

    async fn require_client_id(&self, id: &str) -> FlowResult<()> {
        Ok(self.client(id).await?.require_active()?)
    }

    async fn tier(&self, caller: &Caller) -> FlowResult<Tier> {
        let Caller::Platform(caller) = caller else {
            return Ok(Tier::default());
        };
        let (row, now) = (caller.credential.row(), self.ctx.clock.steady());
        if let Some(tier) = self.tiers.get(row, now) {
            return Ok(tier);
        }
        let tier = identify::tier(&self.ctx, caller).await?;
        self.tiers.keep(row, tier, now + BELIEVED);
        Ok(tier)
    }

    async fn orchestrator_key(&self, key: &str) -> FlowResult<OrchestratorCaller> {
        self.key(key).await?.orchestrator_caller(self.ctx.clock.now())
    }

    async fn pair(&self, key: &str, id: &str, call: CallOrigin<'_>) -> FlowResult<PlatformCaller> {
        let orchestrator = self.orchestrator_key(key).await?;
        identify::paired_caller(&self.ctx, &orchestrator.id, self.client(id).await?.as_ref(), call)
    }

    async fn session(&self, token: &str) -> FlowResult<PlatformCaller> {
        let hash = identify::hash(token);
        self.look_up("session", &hash, identify::session(&self.ctx, token))
            .await
    }

    fn was_good(&self, credential: &str) -> bool {
        let (now, hash) = (self.ctx.clock.steady(), identify::hash(credential));
        self.good.get(&hash, now).is_some() || identify::was_issued(&self.ctx, &hash)
    }

    fn endpoint_managers(&self) -> EndpointManagers {
        self.ctx.webhooks.client_id_management
    }

    fn is_session_page(&self, origin: &str) -> bool {
        self.ctx.people.sessions.pages.contains(origin)
    }
}

impl Identity {
    /// Reads the list of allowed origins, or returns the previous list when the database does not respond in time.
    async fn read_origins(&self) -> Arc<HashSet<String>> {
        let db = self.ctx.db.answering_within(ORIGINS_TIMEOUT);
        let listed = store::client_ids::list_active_domains(db.reader()).await;
        let mut last = self.last_origins.write().await;
        if let Ok(listed) = listed {
            *last = Arc::new(listed.into_iter().collect());
        }
        last.clone()
    }
}

#[async_trait]
impl AllowedOrigins for Identity {
    async fn contains(&self, origin: &str) -> bool {
        if self.ctx.own_pages.are_trusted && origin == self.ctx.own_pages.origin {
            return true;
        }
        let changes = self.ctx.origin_changes.load(Ordering::Acquire);
        // Concurrent callers share one read.
        let origins = self.origins.get_with(changes, self.read_origins()).await;
        origins.contains(origin)
    }

    fn carries_sessions(&self, origin: &str) -> bool {
        self.ctx.people.sessions.pages.contains(origin)
    }
}
