//! Credentials of a call, looked up through a short cache.

use crate::{
    ctx::Ctx,
    domain::{
        caller::{Caller, OrchestratorCaller, PlatformCaller},
        client_id::{CallOrigin, ClientId},
        quota::Tier,
    },
    flows::{
        FlowResult,
        auth::identify::{self, KnownKey},
    },
    http::{edge::cors::AllowedOrigins, gate::identify::Identify},
    store,
};
use async_trait::async_trait;
use moka::future::Cache;
use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::sync::RwLock;

/// How long a looked-up credential is believed. A revoked one is refused everywhere after this time.
const BELIEVED: Duration = Duration::from_secs(5);

/// Credentials that are remembered at most.
const REMEMBERED_MAX: u64 = 10_000;

/// Longest wait for the list of origins: the credential behind it waits for the database as well, and a caller has to
/// learn of a silent database within two seconds. Source: rules D.4.
const ORIGINS_TIMEOUT: Duration = Duration::from_millis(300);

/// Looks credentials up.
///
/// What is remembered is keyed with the count of changes before the lookup, so that a lookup that a change overtook is
/// never read again.
pub struct Identity {
    ctx: Ctx,
    keys: Cache<(u64, String), KnownKey>,
    clients: Cache<(u64, String), Arc<ClientId>>,
    origins: Cache<u64, Arc<HashSet<String>>>,
    tiers: Cache<String, Tier>,
    /// The list as it was read last: a page has to be able to read that the database is gone.
    last_origins: RwLock<Arc<HashSet<String>>>,
}

impl Identity {
    /// Starts with an empty memory.
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
            tiers: Cache::builder()
                .max_capacity(REMEMBERED_MAX)
                .time_to_live(BELIEVED)
                .build(),
            origins: Cache::builder().max_capacity(1).time_to_live(BELIEVED).build(),
            last_origins: RwLock::default(),
        }
    }

    fn changes(&self) -> u64 {
        self.ctx.credential_changes.load(Ordering::Acquire)
    }

    async fn key(&self, key: &str) -> FlowResult<KnownKey> {
        // The memory is keyed with the hash, so that it holds no key.
        let entry = (self.changes(), identify::hash(key));
        if let Some(known) = self.keys.get(&entry).await {
            return Ok(known);
        }
        let known = identify::key(&self.ctx, key).await?;
        self.keys.insert(entry, known.clone()).await;
        Ok(known)
    }

    async fn client(&self, id: &str) -> FlowResult<Arc<ClientId>> {
        let entry = (self.changes(), id.to_owned());
        if let Some(client) = self.clients.get(&entry).await {
            return Ok(client);
        }
        let client = Arc::new(identify::client_id(&self.ctx, id).await?);
        self.clients.insert(entry, client.clone()).await;
        Ok(client)
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
        let row = caller.credential.row();
        if let Some(tier) = self.tiers.get(row).await {
            return Ok(tier);
        }
        let tier = identify::tier(&self.ctx, caller).await?;
        self.tiers.insert(row.to_owned(), tier).await;
        Ok(tier)
    }

    async fn orchestrator_key(&self, key: &str) -> FlowResult<OrchestratorCaller> {
        self.key(key).await?.orchestrator_caller(self.ctx.clock.now())
    }

    async fn session(&self, token: &str) -> FlowResult<PlatformCaller> {
        identify::session(&self.ctx, token).await
    }

    fn is_session_page(&self, origin: &str) -> bool {
        self.ctx.people.sessions.pages.contains(origin)
    }
}

#[async_trait]
impl AllowedOrigins for Identity {
    async fn contains(&self, origin: &str) -> bool {
        if self.ctx.own_pages.are_trusted && origin == self.ctx.own_pages.origin {
            return true;
        }
        let changes = self.changes();
        let origins = match self.origins.get(&changes).await {
            Some(origins) => origins,
            None => {
                let db = self.ctx.db.answering_within(ORIGINS_TIMEOUT);
                let listed = store::client_ids::list_active_domains(db.reader()).await;
                let mut last = self.last_origins.write().await;
                if let Ok(listed) = listed {
                    *last = Arc::new(listed.into_iter().collect());
                }
                let origins = last.clone();
                drop(last);
                self.origins.insert(changes, origins.clone()).await;
                origins
            }
        };
        origins.contains(origin)
    }

    fn carries_sessions(&self, origin: &str) -> bool {
        self.ctx.people.sessions.pages.contains(origin)
    }
}
