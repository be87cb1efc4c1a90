//! API keys of the platform of a person who signed in.

use crate::{
    flows::{
        idempotency::Once,
        keys::{self, Key, NewKey},
    },
    http::operation::*,
};

/// A new key.
#[derive(Debug, Clone, Object)]
#[oai(skip_serializing_if_is_none)]
pub struct CreateApiKeyBody {
    /// Name for people
    pub label: Option<NameText>,
}

/// How a key is replaced.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct RotateApiKeyBody {
    /// Seconds that the key before stays good, up to a week; 0 when absent. Example: `3600`
    #[oai(validator(maximum(value = "604800")))]
    pub overlap_seconds: Option<u32>,
}

/// What tells keys apart.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ApiKeyFacts {
    /// Id of the key
    pub id: UlidText,
    /// Name for people, or null
    pub label: OrNull<NameText>,
    /// First characters of the key. Example: `sk_kX2mV`
    #[oai(validator(max_length = 16, pattern = "^sk_[0-9A-Za-z_-]*$"))]
    pub hint: String,
    /// Time of creation
    pub created_at: Instant,
}

impl From<&Key> for ApiKeyFacts {
    fn from(key: &Key) -> Self {
        Self {
            id: UlidText::written(key.id.as_str()),
            label: OrNull(key.label.as_deref().map(NameText::written)),
            hint: key.hint.clone(),
            created_at: Instant(key.created_at),
        }
    }
}

/// A key right after its creation.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ApiKeyCreated {
    /// The key for `x-api-key`, shown only this once. Example: `sk_kX2mV9cB1nQ8wE7rT6yU5iO4pA3sD2fG1hJ0kL9zX8c`
    #[oai(validator(max_length = 64, pattern = "^sk_[0-9A-Za-z_-]+$"))]
    pub api_key: String,
    /// Facts
    #[oai(flatten)]
    pub facts: ApiKeyFacts,
}

/// A key.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ApiKey {
    /// Facts
    #[oai(flatten)]
    pub facts: ApiKeyFacts,
    /// Last use, written at most once a minute; null before the first
    pub last_used_at: OrNull<Instant>,
    /// From when on it is refused, ahead of now while a rotated key overlaps; null for a key without end
    pub revoked_at: OrNull<Instant>,
}

/// The keys of a platform.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ApiKeyList {
    /// Newest first, with the last 1000 revoked ones
    #[oai(validator(max_items = 10000))]
    pub api_keys: Vec<ApiKey>,
}

fn created(new: &NewKey) -> ApiKeyCreated {
    ApiKeyCreated {
        facts: (&new.row).into(),
        api_key: new.key.reveal().to_owned(),
    }
}

impl From<Key> for ApiKey {
    fn from(key: Key) -> Self {
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
    /// What is known about the keys of the platform; never the keys themselves.
    ///
    /// When: you look which keys are good, and when each was used
    /// Next: `POST /v1/api-keys/{id}/rotate` for an old one
    /// 200: What is known about every good key and the last 1000 revoked ones, newest first
    #[oai(path = "/api-keys", method = "get", operation_id = "listApiKeys")]
    async fn list(&self, ctx: Data<&Ctx>, caller: Auth<SessionOnly>) -> Result<Json<ApiKeyList>, Fail<0>> {
        let listed = keys::list(&ctx, &caller.platform).await?;
        Ok(Json(ApiKeyList {
            api_keys: listed.into_iter().map(ApiKey::from).collect(),
        }))
    }

    /// Create an API key
    ///
    /// A key opens everything of the platform and is for servers only. It is shown once.
    ///
    /// When: a server of yours is to call this service
    /// Next: keep it where your server reads secrets, and send it as `x-api-key`
    /// 201: The new key, which is shown only here
    /// 409: There may be 50 API keys at most (caps.api_keys); revoke one first; a rotated key counts until its overlap ends, or ask the operator for more
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
    /// Creates the successor of a key, shown once. The key before is refused at once, or after the overlap.
    ///
    /// When: a key is old, or may be known to others
    /// Needs: the id of a key
    /// Next: change the key of your server before the overlap ends
    /// 201: The successor, which is shown only here
    /// 404: API key not found
    /// 409: There may be 50 API keys at most (caps.api_keys); revoke one first; a rotated key counts until its overlap ends, or ask the operator for more
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
        // `once_for` has another formula than the hashes of this operation that are stored.
        let once = key.once(op::rotateApiKey, &body.0).map(|once| Once {
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
    /// For good; a second time changes nothing.
    ///
    /// When: a key is lost or no longer needed
    /// Needs: the id of a key
    /// Next: `POST /v1/api-keys` for a new one
    /// 200: The key is refused from now on
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
