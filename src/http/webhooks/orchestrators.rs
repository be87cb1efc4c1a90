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
    /// Where events are posted: https, or http on localhost outside production. Example: `https://partner.example.com/hooks`
    pub url: HookUrlText,
    /// Prefix of the headers that the receiver reads, one of those of the service; absent, each header comes under all of them. Example: `x-service`
    pub header_prefix: Option<HeaderPrefixText>,
}

/// An endpoint of an orchestrator.
#[derive(Debug, Clone, Object)]
pub struct OrchestratorWebhook {
    /// Facts
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
    /// Oldest first, inactive ones included
    #[oai(validator(max_items = 1000))]
    pub webhooks: Vec<OrchestratorWebhook>,
}

/// Kind of an event that orchestrators receive; in this version nothing but a test delivery raises `client_id.linked` and `kyt.screening.completed`
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

/// A test delivery to ask for.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct TestOrchestratorWebhookBody {
    /// Kind of the event
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
    /// What concerns the orchestrator is posted to the URL, signed with the secret of the answer.
    ///
    /// When: you build on several platforms and want to be told
    /// Needs: an address that answers https
    /// Next: keep the secret, then `POST /v2/orchestrators/webhooks/test`
    /// Events: what concerns you from now on
    /// 201: The new endpoint and its secret, which is shown only here
    /// 409: This URL is already registered
    /// 409: There may be 100 webhook endpoints at most (caps.endpoints); delete one before you register another, or ask the operator for more
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
    /// Deactivated ones too; secrets are never shown again.
    ///
    /// When: you look where you are told
    /// Next: `PATCH /v2/orchestrators/webhooks/{id}` for one that is off
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
    /// It receives nothing and what waited for it is cancelled; URL and secret stay. Off already, it stays off.
    ///
    /// When: a receiver is taken down
    /// Needs: the id of an endpoint
    /// Next: `PATCH /v2/orchestrators/webhooks/{id}` brings it back
    /// 200: The endpoint, which receives nothing any more
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
    /// It receives new events again, with the secret that it has. On already, it stays on.
    ///
    /// When: a receiver is back
    /// Needs: the id of an endpoint
    /// Next: `POST /v2/orchestrators/webhooks/test` shows whether it answers
    /// Events: what happens from now on; what it missed is not sent again
    /// 200: The endpoint, which receives events again
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
    /// Posts a signed sample of the event to every active endpoint of the orchestrator, with `x-service-test: true`. They
    /// are queued like events and tried once; the answer comes when each one had its try, after 15 seconds at the latest.
    ///
    /// When: a receiver is new or changed
    /// Needs: an active endpoint
    /// Next: look at the result of each endpoint
    /// Events: a sample of the named event
    /// 200: How many endpoints took the sample and how many did not
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
    /// The new secret is in the answer, this once. For the time of the overlap every delivery is signed with both:
    /// `x-service-signature` stays with the old one, `x-service-signature-next` carries the new one, and
    /// `webhook-signature` carries both. Change the secret of the receiver at any moment of it. The answer comes when
    /// no try is in flight any more that was signed without the new secret.
    ///
    /// When: a secret may be known to others, or is old
    /// Needs: the id of an endpoint
    /// Next: change the secret of the receiver before the overlap ends
    /// 200: The new secret, which is shown only here, and the end of the old one
    /// 404: Webhook not found
    /// 409: The secret is being rotated by another call at this moment
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
