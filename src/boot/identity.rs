//! Credentials of a call, looked up through a short cache.

use crate::{
    ctx::Ctx,
    domain::{
        caller::Caller,
        client_id::{CallOrigin, ClientId},
    },
    flows::{
        FlowResult,
        auth::identify::{self, KnownKey},
    },
    http::{
        caller::{self, Identify},
        cors::AllowedOrigins,
    },
    store,
};
use async_trait::async_trait;
use moka::future::Cache;
use std::{collections::HashSet, sync::Arc, time::Duration};

/// How long a looked-up credential is believed. A revoked one is refused everywhere after this time.
const BELIEVED: Duration = Duration::from_secs(5);

/// Credentials that are remembered at most.
const REMEMBERED_MAX: u64 = 10_000;

/// Looks credentials up.
pub struct Identity {
    ctx: Ctx,
    keys: Cache<String, KnownKey>,
    clients: Cache<String, Arc<ClientId>>,
    origins: Cache<(), Arc<HashSet<String>>>,
}

impl Identity {
    /// Starts with an empty memory.
    pub fn new(ctx: Ctx) -> Self {
        let believed = |capacity| Cache::builder().max_capacity(capacity).time_to_live(BELIEVED).build();
        Self {
            ctx,
            keys: believed(REMEMBERED_MAX),
            clients: Cache::builder()
                .max_capacity(REMEMBERED_MAX)
                .time_to_live(BELIEVED)
                .build(),
            origins: Cache::builder().max_capacity(1).time_to_live(BELIEVED).build(),
        }
    }
}

#[async_trait]
impl Identify for Identity {
    async fn api_key(&self, key: &str) -> FlowResult<Caller> {
        // The memory is keyed with the hash, so that it holds no key.
        let hash = identify::hash(key);
        if let Some(known) = self.keys.get(&hash).await {
            return Ok(identify::key_caller(known));
        }
        let known = identify::api_key(&self.ctx, key).await?;
        self.keys.insert(hash, known.clone()).await;
        Ok(identify::key_caller(known))
    }

    async fn client_id(&self, id: &str, call: caller::CallOrigin<'_>) -> FlowResult<Caller> {
        let call = CallOrigin {
            origin: call.origin,
            is_same_origin: call.is_same_origin,
            own: &self.ctx.rules.own_origin,
            trusts_own: self.ctx.rules.trusts_own_origin,
        };
        if let Some(client) = self.clients.get(id).await {
            return identify::client_caller(&client, &call);
        }
        let client = Arc::new(identify::client_id(&self.ctx, id).await?);
        self.clients.insert(id.to_owned(), client.clone()).await;
        identify::client_caller(&client, &call)
    }

    async fn session(&self, token: &str) -> FlowResult<Caller> {
        identify::session(&self.ctx, token).await
    }

    fn is_session_page(&self, origin: &str) -> bool {
        self.ctx.rules.sessions.pages.contains(origin)
    }
}

#[async_trait]
impl AllowedOrigins for Identity {
    async fn contains(&self, origin: &str) -> bool {
        if self.ctx.rules.trusts_own_origin && origin == self.ctx.rules.own_origin {
            return true;
        }
        let origins = match self.origins.get(&()).await {
            Some(origins) => origins,
            None => {
                let Ok(listed) = store::client_ids::list_active_domains(self.ctx.db.reader()).await else {
                    return false;
                };
                let origins: Arc<HashSet<String>> = Arc::new(listed.into_iter().collect());
                self.origins.insert((), origins.clone()).await;
                origins
            }
        };
        origins.contains(origin)
    }

    fn carries_sessions(&self, origin: &str) -> bool {
        self.ctx.rules.sessions.pages.contains(origin)
    }
}
