//! Webhook endpoints of orchestrators.

use super::bodies::*;
use crate::{
    domain::event::ORCHESTRATOR_KINDS,
    flows::{
        self,
        webhooks::{Endpoint, create::NewEndpoint},
    },
    http::operation::*,
};

/// A new endpoint of an orchestrator.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", skip_serializing_if_is_none)]
pub struct CreateOrchestratorWebhookBody {
    /// URL that receives events: https, or http on localhost outside production. Example: `https://partner.example.com/hooks`
    pub url: HookUrlText,
    /// Header prefix for this endpoint, one of the prefixes of the service; if absent, each header is sent with every
    /// prefix. Example: `x-service`
    pub header_prefix: Option<HeaderPrefixText>,
}

/// An endpoint of an orchestrator.
#[derive(Debug, Clone, Object)]
pub struct OrchestratorWebhook {
    /// Common members
    #[oai(flatten)]
    pub facts: EndpointFacts,
}

/// A new endpoint of an orchestrator and its secret.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct OrchestratorWebhookCreated {
    /// The endpoint
    pub webhook: OrchestratorWebhook,
    /// Secrets
    #[oai(flatten)]
    pub secrets: EndpointSecrets,
}

/// One endpoint of an orchestrator.
#[derive(Debug, Clone, Object)]
pub struct OrchestratorWebhookAnswer {
    /// The endpoint
    pub webhook: OrchestratorWebhook,
}

/// The endpoints of an orchestrator.
#[derive(Debug, Clone, Object)]
pub struct OrchestratorWebhookList {
    /// Oldest first, including inactive ones
    #[oai(validator(max_items = 1000))]
    pub webhooks: Vec<OrchestratorWebhook>,
}

/// Event type for orchestrators; in this version only test deliveries send `client_id.linked` and
/// `kyt.screening.completed`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub enum OrchestratorEventType {
    /// A platform finished its onboarding; not in this version
    #[oai(rename = "client_id.linked")]
    ClientIdLinked,
    /// A wallet was screened; not in this version
    #[oai(rename = "kyt.screening.completed")]
    ScreeningCompleted,
    /// An endpoint was switched off
    #[oai(rename = "webhook.disabled")]
    WebhookDisabled,
}

impl OrchestratorEventType {
    const fn kind(self) -> &'static str {
        match self {
            Self::ClientIdLinked => "client_id.linked",
            Self::ScreeningCompleted => "kyt.screening.completed",
            Self::WebhookDisabled => "webhook.disabled",
        }
    }
}

/// A test delivery to send.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct TestOrchestratorWebhookBody {
    /// Event type
    pub event_type: OrchestratorEventType,
}

impl From<Endpoint> for OrchestratorWebhook {
    fn from(endpoint: Endpoint) -> Self {
        Self { facts: endpoint.into() }
    }
}

fn created(new: &NewEndpoint) -> OrchestratorWebhookCreated {
    OrchestratorWebhookCreated {
        webhook: new.endpoint.clone().into(),
        secrets: (&new.secret).into(),
    }
}

/// Webhook endpoints of orchestrators.
pub struct Orchestrators;

#[OpenApi(prefix_path = "/v2/orchestrators", tag = "PlatformTag::Orchestrators")]
impl Orchestrators {
    /// Register an endpoint of an orchestrator
    ///
    /// The service posts events of the orchestrator to the URL, signed with the secret from the response.
    ///
    /// When: you build on several platforms and want to receive events
    /// Needs: a URL that accepts https
    /// Next: store the secret, then send a test with `POST /v2/orchestrators/webhooks/test`
    /// Events: events of the orchestrator from now on
    /// 201: The new endpoint and its secret, which is shown only in this response
    /// 409: This URL is already registered
    /// 409: The limit is 100 webhook endpoints (caps.endpoints); delete an endpoint before you add another, or ask the operator for a higher limit
    #[oai(path = "/webhooks", method = "post", operation_id = "createOrchestratorWebhook")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
        key: Keyed,
        body: Body<CreateOrchestratorWebhookBody>,
    ) -> Result<Created<OrchestratorWebhookCreated>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let once = key.once(op::createOrchestratorWebhook, &body.0);
        let holder = (&caller.0).into();
        answer_once(once, created, async |call| {
            let prefix = body.header_prefix.as_ref().map(HeaderPrefixText::as_str);
            flows::webhooks::create::run(&ctx, &caller.0, holder, body.url.as_str(), prefix, call).await
        })
        .await
    }

    /// List endpoints of an orchestrator
    ///
    /// Lists all endpoints, including inactive ones. Secrets are never shown again.
    ///
    /// When: you check which endpoints receive events
    /// Next: switch an inactive one on with `PATCH /v2/orchestrators/webhooks/{id}`
    /// 200: Every endpoint of the orchestrator, oldest first
    #[oai(path = "/webhooks", method = "get", operation_id = "listOrchestratorWebhooks")]
    async fn list(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
    ) -> Result<Json<OrchestratorWebhookList>, Fail<0>> {
        let endpoints = flows::webhooks::list::run(&ctx, &caller.0).await?;
        Ok(Json(OrchestratorWebhookList {
            webhooks: endpoints.into_iter().map(|shown| shown.endpoint.into()).collect(),
        }))
    }

    /// Switch an endpoint of an orchestrator off
    ///
    /// The endpoint receives no further events, and its pending deliveries are cancelled. URL and secret stay the same.
    /// An inactive endpoint stays inactive.
    ///
    /// When: a receiver goes down
    /// Needs: the id of an endpoint
    /// Next: switch it on again with `PATCH /v2/orchestrators/webhooks/{id}`
    /// 200: The inactive endpoint
    /// 404: Webhook not found
    #[oai(
        path = "/webhooks/:id",
        method = "delete",
        operation_id = "deactivateOrchestratorWebhook"
    )]
    async fn deactivate(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
        /// Id of the endpoint. Example: `01JZX4T9QK3M7N8P2R5S6V0WYE`
        id: Path<UlidText>,
    ) -> Result<Json<OrchestratorWebhookAnswer>, Fail<{ s::NOT_FOUND }>> {
        switch(&ctx, &caller, &id, false).await
    }

    /// Switch an endpoint of an orchestrator on
    ///
    /// The endpoint receives new events again, with its existing secret. An active endpoint stays active.
    ///
    /// When: a receiver comes back
    /// Needs: the id of an endpoint
    /// Next: check whether it responds with `POST /v2/orchestrators/webhooks/test`
    /// Events: new events; missed events are not sent again
    /// 200: The active endpoint
    /// 404: Webhook not found
    #[oai(
        path = "/webhooks/:id",
        method = "patch",
        operation_id = "reactivateOrchestratorWebhook"
    )]
    async fn reactivate(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
        /// Id of the endpoint. Example: `01JZX4T9QK3M7N8P2R5S6V0WYE`
        id: Path<UlidText>,
    ) -> Result<Json<OrchestratorWebhookAnswer>, Fail<{ s::NOT_FOUND }>> {
        switch(&ctx, &caller, &id, true).await
    }

    /// Send a test delivery to an orchestrator
    ///
    /// Posts a signed sample event to every active endpoint of the orchestrator, with `x-service-test: true`. Test
    /// deliveries are queued like events and attempted once. The response is sent after every attempt, within 15
    /// seconds.
    ///
    /// When: a receiver is new or changed
    /// Needs: an active endpoint
    /// Next: check the result of each endpoint
    /// Events: a sample of the given event
    /// 200: How many endpoints accepted the sample and how many failed
    #[oai(path = "/webhooks/test", method = "post", operation_id = "testOrchestratorWebhooks")]
    async fn test(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
        body: Body<TestOrchestratorWebhookBody>,
    ) -> Result<Json<TestResult>, Fail<{ s::BAD_REQUEST }>> {
        let (holder, kind) = ((&caller.0).into(), body.event_type.kind());
        let result = flows::webhooks::test::run(&ctx, holder, &ORCHESTRATOR_KINDS, kind).await?;
        Ok(Json(result.into()))
    }

    /// Rotate the secret of an endpoint of an orchestrator
    ///
    /// The response contains the new secret, which is shown only once. During the overlap every delivery is signed with
    /// both secrets: `x-service-signature` uses the old one, `x-service-signature-next` the new one, and
    /// `webhook-signature` carries both. Change the secret of the receiver at any time during the overlap. The response
    /// is sent once every attempt that was signed only with the old secret has ended.
    ///
    /// When: a secret is old, or may have leaked
    /// Needs: the id of an endpoint
    /// Next: deploy the new secret to the receiver before the overlap ends
    /// 200: The new secret, which is shown only in this response, and the expiry of the old one
    /// 404: Webhook not found
    /// 409: Another call has just rotated this secret; rotate it again only if you do not have its new secret
    #[oai(
        path = "/webhooks/:id/rotate-secret",
        method = "post",
        operation_id = "rotateOrchestratorWebhookSecret"
    )]
    async fn rotate(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
        /// Id of the endpoint. Example: `01JZX4T9QK3M7N8P2R5S6V0WYE`
        id: Path<UlidText>,
        key: Keyed,
        body: Body<RotateSecretBody>,
    ) -> Result<Answered<SecretRotated>, Fail<{ s::NOT_FOUND | s::CONFLICT }>> {
        let once = key.once_for(op::rotateOrchestratorWebhookSecret, id.as_str(), &body.0);
        answer_once(once, rotated, async |call| {
            flows::webhooks::rotate::run(&ctx, &caller.0, &id.id(), body.overlap_s(), call).await
        })
        .await
    }
}

async fn switch(
    ctx: &Ctx,
    caller: &Auth<OrchestratorOnly>,
    id: &UlidText,
    is_active: bool,
) -> Result<Json<OrchestratorWebhookAnswer>, Fail<{ s::NOT_FOUND }>> {
    let shown = flows::webhooks::toggle::to(ctx, &caller.0, &id.id(), is_active).await?;
    Ok(Json(OrchestratorWebhookAnswer {
        webhook: shown.endpoint.into(),
    }))
}
