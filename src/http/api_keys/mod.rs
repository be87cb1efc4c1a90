//! API keys of the signed-in person's platform.

use crate::{
    flows::{
        idempotency::IdempotentCall,
        keys::{self, NewKey, StoredApiKey},
    },
    http::operation::*,
};

/// A new key.
#[derive(Debug, Clone, Object)]
#[oai(skip_serializing_if_is_none)]
pub struct CreateApiKeyBody {
    /// Display name
    pub label: Option<NameText>,
}

/// Options for replacing a key.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct RotateApiKeyBody {
    /// Seconds for which the old key stays valid, at most 604800 (a week). Default: 0. Example: `3600`
    #[oai(validator(maximum(value = "604800")))]
    pub overlap_seconds: Option<u32>,
}

/// Data that identifies a key.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ApiKeyFacts {
    /// Id of the key
    pub id: UlidText,
    /// Display name, or null
    pub label: OrNull<NameText>,
    /// First characters of the key. Example: `sk_kX2mV`
    #[oai(validator(max_length = 16, pattern = "^sk_[0-9A-Za-z_-]*$"))]
    pub hint: String,
    /// Time of creation
    pub created_at: Instant,
}

impl From<&StoredApiKey> for ApiKeyFacts {
    fn from(key: &StoredApiKey) -> Self {
        Self {
            id: UlidText::written(key.id.as_str()),
            label: OrNull(key.label.as_deref().map(NameText::written)),
            hint: key.hint.clone(),
            created_at: Instant(key.created_at),
        }
    }
}

/// A newly created key.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ApiKeyCreated {
    /// The key for `x-api-key`; it is shown only once. Example: `sk_kX2mV9cB1nQ8wE7rT6yU5iO4pA3sD2fG1hJ0kL9zX8c`
    #[oai(validator(max_length = 64, pattern = "^sk_[0-9A-Za-z_-]+$"))]
    pub api_key: String,
    /// Common members
    #[oai(flatten)]
    pub facts: ApiKeyFacts,
}

/// A key.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ApiKey {
    /// Common members
    #[oai(flatten)]
    pub facts: ApiKeyFacts,
    /// Last use, updated at most once a minute; null before the first use
    pub last_used_at: OrNull<Instant>,
    /// When the key stops working, or when it stopped; null for a key that has no end. The time is in the future while
    /// a rotated key stays valid beside its replacement
    pub revoked_at: OrNull<Instant>,
}

/// The keys of a platform.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ApiKeyList {
    /// The keys, newest first: every valid key and the last 1000 revoked ones
    #[oai(validator(max_items = 10000))]
    pub api_keys: Vec<ApiKey>,
}

fn created(new: &NewKey) -> ApiKeyCreated {
    ApiKeyCreated {
        facts: (&new.row).into(),
        api_key: new.key.reveal().to_owned(),
    }
}

impl From<StoredApiKey> for ApiKey {
    fn from(key: StoredApiKey) -> Self {
        Self {
            facts: (&key).into(),
            last_used_at: OrNull(key.last_used_at.map(Instant)),
            revoked_at: OrNull(key.revoked_at.map(Instant)),
        }
    }
}

/// API keys.
pub struct ApiKeys;

#[OpenApi(prefix_path = "/v1", tag = "AuthTag::ApiKeys")]
impl ApiKeys {
    /// List API keys
    ///
    /// Lists metadata of the platform's keys, never the keys themselves.
    ///
    /// When: you check which keys are valid and when each was last used
    /// Next: rotate an old key with `POST /v1/api-keys/{id}/rotate`
    /// 200: Every valid key and the last 1000 revoked ones, newest first
    #[oai(path = "/api-keys", method = "get", operation_id = "listApiKeys")]
    async fn list(&self, ctx: Data<&Ctx>, caller: Auth<SessionOnly>) -> Result<Json<ApiKeyList>, Fail<0>> {
        let listed = keys::list(&ctx, &caller.platform).await?;
        Ok(Json(ApiKeyList {
            api_keys: listed.into_iter().map(ApiKey::from).collect(),
        }))
    }

    /// Create an API key
    ///
    /// A key gives access to the whole platform and is for servers only. It is shown once.
    ///
    /// When: your server needs to call this service
    /// Next: store the key with your server's secrets and send it as `x-api-key`
    /// 201: The new key; it is shown only in this response
    /// 409: The limit is 50 API keys (caps.api_keys); revoke a key first (a rotated key counts until its overlap ends), or ask the operator for a higher limit
    #[oai(path = "/api-keys", method = "post", operation_id = "createApiKey")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        key: Keyed,
        body: Body<CreateApiKeyBody>,
    ) -> Result<Created<ApiKeyCreated>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let once = key.once(op::createApiKey, &body.0);
        answer_once(once, created, async |call| {
            keys::issue(&ctx, &caller, body.label.as_ref().map(NameText::as_str), call).await
        })
        .await
    }

    /// Rotate an API key
    ///
    /// Replaces a key. The new key is shown once. The old key stops working immediately, or after `overlapSeconds`.
    ///
    /// When: a key is old, or may have leaked
    /// Needs: the id of a key
    /// Next: deploy the new key to your server before the overlap ends
    /// 201: The new key; it is shown only in this response
    /// 404: API key not found
    /// 409: The limit is 50 API keys (caps.api_keys); revoke a key first (a rotated key counts until its overlap ends), or ask the operator for a higher limit
    #[oai(path = "/api-keys/:id/rotate", method = "post", operation_id = "rotateApiKey")]
    async fn rotate(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        /// Id of the key
        id: Path<UlidText>,
        key: Keyed,
        body: Body<RotateApiKeyBody>,
    ) -> Result<Created<ApiKeyCreated>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND | s::CONFLICT }>> {
        // The stored hashes of this operation have this form; `once_for` would compute a different hash.
        let once = key.once(op::rotateApiKey, &body.0).map(|once| IdempotentCall {
            body_hash: format!("{}:{}", once.body_hash, id.as_str()),
            ..once
        });
        let overlap_s = body.overlap_seconds.unwrap_or(0);
        answer_once(once, created, async |call| {
            keys::replace(&ctx, &caller, &id.id(), overlap_s, call).await
        })
        .await
    }

    /// Revoke an API key
    ///
    /// Revokes the key permanently. Revoking a revoked key changes nothing.
    ///
    /// When: a key is lost or no longer needed
    /// Needs: the id of a key
    /// Next: create a new key with `POST /v1/api-keys`
    /// 200: The key no longer works
    /// 404: API key not found
    #[oai(path = "/api-keys/:id", method = "delete", operation_id = "revokeApiKey")]
    async fn revoke(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        /// Id of the key
        id: Path<UlidText>,
    ) -> Result<Json<Success>, Fail<{ s::NOT_FOUND }>> {
        keys::revoke(&ctx, &caller.platform, &id.id()).await?;
        Ok(Success::done())
    }
}
