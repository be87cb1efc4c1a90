//! Webhook endpoints of a platform and its client IDs.

use crate::{
    ctx::Ctx,
    domain::{
        event::CLIENT_KINDS,
        ids::EndpointId,
        webhook::{OVERLAP_S_DEFAULT, standard_form},
    },
    flows::{
        self,
        webhooks::{ShownEndpoint, create::NewEndpoint, rotate::Rotated},
    },
    http::{
        contract::tags::AuthTag,
        error::{Fail, s},
        forms::{
            body::Body,
            idempotency::{IdempotencyKey, answer_once, once, once_for},
            reply::{Answered, Created},
            wire::{Instant, UlidText},
        },
        gate::{
            access::{KeyClientOrSession, op},
            extractor::Auth,
        },
    },
};
use poem::web::Data;
use poem_openapi::{
    Object, OpenApi,
    param::{Header, Path},
    payload::Json,
    types::Example,
};

/// A new endpoint.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct CreateWebhookBody {
    /// Where events are posted: https, or http on localhost outside production. Example: `https://shop.example.com/hooks`
    #[oai(validator(min_length = 1, max_length = 2048))]
    pub url: String,
    /// For calls with an API key or a session: the client ID whose events the endpoint receives; absent, those of the whole platform. A call with a client ID always means its own. Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(min_length = 1, max_length = 64))]
    pub client_id: Option<String>,
}

impl Example for CreateWebhookBody {
    fn example() -> Self {
        Self {
            url: "https://shop.example.com/hooks".to_owned(),
            client_id: None,
        }
    }
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
    /// The same key in the form that verifiers of Standard Webhooks read. Example: `whsec_ZjNjMTg5YTRiNWU2ZDdmOGE5YjBjMWQyZTNmNGE1YjZjN2Q4ZTlmMGExYjJjM2Q0ZTVmNmE3YjhjOWQwZTFmMg==`
    #[oai(validator(max_length = 94))]
    pub standard_secret: String,
}

/// An endpoint.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
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
    /// Client ID whose events it receives; absent when it receives those of the whole platform. Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(max_length = 64))]
    pub client_id: Option<String>,
}

/// Endpoints.
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
#[oai(rename_all = "camelCase", skip_serializing_if_is_none, example)]
pub struct TestWebhookBody {
    /// Kind of the event. Example: `payment.confirmed`
    #[oai(validator(min_length = 1, max_length = 64))]
    pub event_type: String,
    /// For calls with an API key or a session: the client ID whose endpoints are tested; absent, those of the whole platform. Example: `cli_8Jd2kLmN0pQrStUvWxYz1234567890`
    #[oai(validator(min_length = 1, max_length = 64))]
    pub client_id: Option<String>,
}

impl Example for TestWebhookBody {
    fn example() -> Self {
        Self {
            event_type: "payment.confirmed".to_owned(),
            client_id: None,
        }
    }
}

/// A rotation to make.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct RotateSecretBody {
    /// Seconds for which the old secret stays good, at most 7 days; absent, a day. 0 ends it, and every earlier one, at once. Example: `86400`
    #[oai(validator(minimum(value = "0"), maximum(value = "604800")))]
    pub overlap_seconds: Option<u32>,
}

/// The new secret of an endpoint.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct SecretRotated {
    /// Id of the endpoint. Example: `01K9Z0T3G9R5M1N2P3Q4R5S6T7`
    #[oai(validator(max_length = 26))]
    pub id: String,
    /// The new key of the signatures, shown only this once. Example: `f3c189a4b5e6d7f8a9b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a7b8c9d0e1f2`
    #[oai(validator(max_length = 64))]
    pub secret: String,
    /// The same key in the form that verifiers of Standard Webhooks read. Example: `whsec_ZjNjMTg5YTRiNWU2ZDdmOGE5YjBjMWQyZTNmNGE1YjZjN2Q4ZTlmMGExYjJjM2Q0ZTVmNmE3YjhjOWQwZTFmMg==`
    #[oai(validator(max_length = 94))]
    pub standard_secret: String,
    /// Until when the old secret stays good
    pub previous_valid_until: Instant,
}

impl From<&Rotated> for SecretRotated {
    fn from(rotated: &Rotated) -> Self {
        Self {
            id: rotated.id.to_string(),
            secret: rotated.secret.reveal().to_owned(),
            standard_secret: standard_form(&rotated.secret).reveal().to_owned(),
            previous_valid_until: Instant(rotated.former_until),
        }
    }
}

/// The asked overlap, or the usual one.
pub(in crate::http) fn overlap_s(body: &RotateSecretBody) -> u32 {
    body.overlap_seconds.unwrap_or(OVERLAP_S_DEFAULT)
}

/// What came of a test.
#[derive(Debug, Clone, Object)]
pub struct TestResult {
    /// Endpoints that answered with 2xx. Example: `1`
    pub sent: u32,
    /// Endpoints that did not. Example: `0`
    pub failed: u32,
}

impl From<ShownEndpoint> for Webhook {
    fn from(shown: ShownEndpoint) -> Self {
        let endpoint = shown.endpoint;
        Self {
            id: endpoint.id.to_string(),
            url: endpoint.url,
            is_active: endpoint.is_active,
            created_at: Instant(endpoint.created_at),
            client_id: shown.client_id,
        }
    }
}

fn created(new: &NewEndpoint) -> WebhookCreated {
    WebhookCreated {
        id: new.endpoint.id.to_string(),
        secret: new.secret.reveal().to_owned(),
        standard_secret: standard_form(&new.secret).reveal().to_owned(),
    }
}

/// Webhook endpoints of a platform and its client IDs.
pub struct Webhooks;

#[OpenApi(prefix_path = "/v1", tag = "AuthTag::Webhooks")]
impl Webhooks {
    /// Register an endpoint
    ///
    /// Events are posted to the URL, signed with the secret of the answer: those of requests that are made with the
    /// client ID of the call or of the body, and without one those of the whole platform.
    #[oai(path = "/webhook", method = "post", operation_id = "createWebhook")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyClientOrSession>,
        /// Makes the call repeatable: the same key and body get the stored answer for 24 hours
        #[oai(name = "Idempotency-Key")]
        key: Header<Option<IdempotencyKey>>,
        body: Body<CreateWebhookBody>,
    ) -> Result<Created<WebhookCreated>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let once = once(key.0, op::createWebhook, &body.0);
        let holder = flows::webhooks::holder(&ctx, &caller, body.client_id.as_deref()).await?;
        Ok(answer_once(once, created, async |call| {
            flows::webhooks::create::run(&ctx, &caller.0, holder, &body.url, call).await
        })
        .await?)
    }

    /// List endpoints
    ///
    /// With a client ID its own; otherwise all of the platform, those of its client IDs too.
    #[oai(path = "/webhook", method = "get", operation_id = "listWebhooks")]
    async fn list(&self, ctx: Data<&Ctx>, caller: Auth<KeyClientOrSession>) -> Result<Json<WebhookList>, Fail<0>> {
        let endpoints = flows::webhooks::list::run(&ctx, &caller.0).await?;
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
        caller: Auth<KeyClientOrSession>,
        /// Id of the endpoint
        #[oai(name = "webhookId")]
        webhook_id: Path<UlidText>,
    ) -> Result<Json<Webhook>, Fail<{ s::NOT_FOUND }>> {
        let id = EndpointId(webhook_id.as_str().to_owned());
        Ok(Json(flows::webhooks::toggle::run(&ctx, &caller.0, &id).await?.into()))
    }

    /// Delete an endpoint
    #[oai(path = "/webhook/:webhookId", method = "delete", operation_id = "deleteWebhook")]
    async fn delete(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyClientOrSession>,
        /// Id of the endpoint
        #[oai(name = "webhookId")]
        webhook_id: Path<UlidText>,
    ) -> Result<Json<Success>, Fail<{ s::NOT_FOUND }>> {
        let id = EndpointId(webhook_id.as_str().to_owned());
        flows::webhooks::delete::run(&ctx, &caller.0, &id).await?;
        Ok(Json(Success { success: true }))
    }

    /// Send a test delivery
    ///
    /// Posts a signed sample of the event, with `x-service-test: true`, to every active endpoint of the client ID; to
    /// those of the whole platform when there is none.
    #[oai(path = "/webhook/test", method = "post", operation_id = "testWebhooks")]
    async fn test(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyClientOrSession>,
        body: Body<TestWebhookBody>,
    ) -> Result<Json<TestResult>, Fail<{ s::BAD_REQUEST }>> {
        let holder = flows::webhooks::holder(&ctx, &caller, body.client_id.as_deref()).await?;
        let result = flows::webhooks::test::run(&ctx, holder, &CLIENT_KINDS, &body.event_type).await?;
        Ok(Json(TestResult {
            sent: result.sent,
            failed: result.failed,
        }))
    }

    /// Rotate the secret of an endpoint
    ///
    /// The new secret is in the answer, this once. For the time of the overlap every delivery is signed with both:
    /// `x-service-signature` stays with the old one, `x-service-signature-next` carries the new one, and
    /// `webhook-signature` carries both. Change the secret of the receiver at any moment of it. The answer comes when
    /// nothing is on its way any more that was signed without the new secret.
    #[oai(
        path = "/webhook/:webhookId/rotate-secret",
        method = "post",
        operation_id = "rotateWebhookSecret"
    )]
    async fn rotate(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyClientOrSession>,
        /// Id of the endpoint
        #[oai(name = "webhookId")]
        webhook_id: Path<UlidText>,
        /// Makes the call repeatable: the same key and body get the stored answer for 24 hours
        #[oai(name = "Idempotency-Key")]
        key: Header<Option<IdempotencyKey>>,
        body: Body<RotateSecretBody>,
    ) -> Result<Answered<SecretRotated>, Fail<{ s::NOT_FOUND | s::CONFLICT }>> {
        let id = EndpointId(webhook_id.as_str().to_owned());
        let once = once_for(key.0, op::rotateWebhookSecret, id.as_str(), &body.0);
        let overlap = overlap_s(&body);
        Ok(answer_once(
            once,
            |rotated: &Rotated| rotated.into(),
            async |call| flows::webhooks::rotate::run(&ctx, &caller.0, &id, overlap, call).await,
        )
        .await?)
    }
}
