//! Webhook endpoints of a client ID.

use super::Tag;
use crate::{
    ctx::Ctx,
    domain::ids::EndpointId,
    flows::{
        self,
        idempotency::Answer,
        webhooks::{Endpoint, create::NewEndpoint},
    },
    http::{
        access::ClientOnly,
        body::Body,
        caller::Auth,
        error::{Fail, s},
        idempotency::{IdempotencyKey, once, replayed},
        reply::{Created, Reply},
        wire::{Instant, UlidText},
    },
};
use poem::web::Data;
use poem_openapi::{
    Object, OpenApi,
    param::{Header, Path},
    payload::Json,
    types::ToJSON,
};

/// A new endpoint.
#[derive(Debug, Clone, Object)]
pub struct CreateWebhookBody {
    /// Where events are posted: https, or http on localhost outside production. Example: `https://shop.example.com/hooks`
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub url: String,
}

/// A new endpoint and its secret.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct WebhookCreated {
    /// Id of the endpoint. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub id: String,
    /// Key of the signatures, shown only this once: HMAC-SHA-256 is keyed with these characters. Example: `f3c189a4b5e6d7f8a9b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b8c9d0e1f2`
    #[oai(validator(max_length = 64))]
    pub secret: String,
}

/// An endpoint.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct Webhook {
    /// Id of the endpoint. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub id: String,
    /// Where events are posted. Example: `https://shop.example.com/hooks`
    #[oai(validator(max_length = 2048))]
    pub url: String,
    /// Whether events are delivered. Example: `true`
    pub is_active: bool,
    /// Time of creation
    pub created_at: Instant,
}

/// The endpoints of a client ID.
#[derive(Debug, Clone, Object)]
pub struct WebhookList {
    /// Oldest first, inactive ones included
    #[oai(validator(max_items = 1000))]
    pub webhooks: Vec<Webhook>,
}

/// Confirmation.
#[derive(Debug, Clone, Object)]
pub struct Success {
    /// Always true. Example: `true`
    pub success: bool,
}

/// A test delivery to ask for.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct TestWebhookBody {
    /// Kind of the event. Example: `payment.confirmed`
    #[oai(validator(min_length = 1, max_length = 64))]
    pub event_type: String,
}

/// What came of a test.
#[derive(Debug, Clone, Object)]
pub struct TestResult {
    /// Endpoints that answered with 2xx. Example: `1`
    pub sent: u32,
    /// Endpoints that did not. Example: `0`
    pub failed: u32,
}

impl From<Endpoint> for Webhook {
    fn from(endpoint: Endpoint) -> Self {
        Self {
            id: endpoint.id.to_string(),
            url: endpoint.url,
            is_active: endpoint.is_active,
            created_at: Instant(endpoint.created_at),
        }
    }
}

fn created(new: &NewEndpoint) -> WebhookCreated {
    WebhookCreated {
        id: new.endpoint.id.to_string(),
        secret: new.secret.reveal().to_owned(),
    }
}

/// Webhook endpoints of a client ID.
pub struct Webhooks;

#[OpenApi(prefix_path = "/v1", tag = "Tag::Webhooks")]
impl Webhooks {
    /// Register an endpoint
    ///
    /// Events of requests that are made with this client ID are posted to the URL, signed with the secret of the
    /// answer.
    #[oai(path = "/webhook", method = "post", operation_id = "createWebhook")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<ClientOnly>,
        /// Makes the call repeatable: the same key and body get the stored answer for 24 hours
        #[oai(name = "Idempotency-Key")]
        key: Header<Option<IdempotencyKey>>,
        body: Body<CreateWebhookBody>,
    ) -> Result<Created<WebhookCreated>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let once = once(key.0, "createWebhook", &body.0);
        let render = |new: &NewEndpoint| created(new).to_json_string();
        let answer = flows::webhooks::create::run(&ctx, &caller, &body.url, once.as_ref(), render).await?;
        Ok(Reply(match answer {
            Answer::Fresh(new) => created(&new),
            Answer::Replayed(stored) => replayed(&stored)?,
        }))
    }

    /// List endpoints
    #[oai(path = "/webhook", method = "get", operation_id = "listWebhooks")]
    async fn list(&self, ctx: Data<&Ctx>, caller: Auth<ClientOnly>) -> Result<Json<WebhookList>, Fail<0>> {
        let endpoints = flows::webhooks::list::run(&ctx, &caller).await?;
        Ok(Json(WebhookList {
            webhooks: endpoints.into_iter().map(Webhook::from).collect(),
        }))
    }

    /// Switch an endpoint on or off
    ///
    /// Toggles the endpoint. Switched off, it receives nothing and what waited for it is cancelled.
    #[oai(path = "/webhook/:webhookId", method = "put", operation_id = "toggleWebhook")]
    async fn toggle(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<ClientOnly>,
        /// Id of the endpoint
        #[oai(name = "webhookId")]
        webhook_id: Path<UlidText>,
    ) -> Result<Json<Webhook>, Fail<{ s::NOT_FOUND }>> {
        let id = EndpointId(webhook_id.as_str().to_owned());
        Ok(Json(flows::webhooks::toggle::run(&ctx, &caller, &id).await?.into()))
    }

    /// Delete an endpoint
    #[oai(path = "/webhook/:webhookId", method = "delete", operation_id = "deleteWebhook")]
    async fn delete(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<ClientOnly>,
        /// Id of the endpoint
        #[oai(name = "webhookId")]
        webhook_id: Path<UlidText>,
    ) -> Result<Json<Success>, Fail<{ s::NOT_FOUND }>> {
        let id = EndpointId(webhook_id.as_str().to_owned());
        flows::webhooks::delete::run(&ctx, &caller, &id).await?;
        Ok(Json(Success { success: true }))
    }

    /// Send a test delivery
    ///
    /// Posts a signed sample of the event to every active endpoint of the client ID, with `x-service-test: true`.
    #[oai(path = "/webhook/test", method = "post", operation_id = "testWebhooks")]
    async fn test(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<ClientOnly>,
        body: Body<TestWebhookBody>,
    ) -> Result<Json<TestResult>, Fail<{ s::BAD_REQUEST }>> {
        let result = flows::webhooks::test::run(&ctx, &caller, &body.event_type).await?;
        Ok(Json(TestResult {
            sent: result.sent,
            failed: result.failed,
        }))
    }
}
