//! Webhook endpoints of a platform and its client IDs; [`orchestrators`] has those of orchestrators.

mod bodies;
pub mod orchestrators;

use crate::{domain::event::CLIENT_KINDS, flows, http::operation::*};
pub use bodies::*;

/// Webhook endpoints of a platform and its client IDs.
pub struct Webhooks;

#[OpenApi(prefix_path = "/v1", tag = "AuthTag::Webhooks")]
impl Webhooks {
    /// Register an endpoint
    ///
    /// Events are posted to the URL, signed with the secret of the answer: those of requests that are made with the
    /// client ID of the call or of the body, and without one those of the whole platform.
    ///
    /// Whoever holds a public client ID may create requests with your `reference`: compare `requestId`, amount, currency
    /// and `payee` of a delivery with your order, never `reference` alone. An endpoint that a public client ID (one with
    /// allowed domains) registers is told nothing about persons until `POST /v1/webhook/{webhookId}/approve`.
    ///
    /// When: your backend is to be told instead of asking
    /// Needs: an address that answers https
    /// Next: keep the secret, then `POST /v1/webhook/test`
    /// Events: those of its requests from now on
    /// 201: The new endpoint and its secret, which is shown only here
    /// 409: This URL is already registered
    /// 409: There may be 100 webhook endpoints at most (caps.endpoints); delete one before you register another, or ask the operator for more
    /// 409: A call with this Idempotency-Key was answered before, and the answer holds a secret, which a public client ID is shown once: use a new key, or look up what was made with an API key or a session
    #[oai(path = "/webhook", method = "post", operation_id = "createWebhook")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<EndpointOwner>,
        key: Keyed,
        body: Body<CreateWebhookBody>,
    ) -> Result<Created<WebhookCreated>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let once = key.once(op::createWebhook, &body.0);
        let holder = flows::webhooks::holder(&ctx, &caller, body.client_id.as_deref()).await?;
        answer_once(once, created, async |call| {
            let prefix = body.header_prefix.as_ref().map(HeaderPrefixText::as_str);
            flows::webhooks::create::run(&ctx, &caller.0, holder, body.url.as_str(), prefix, call).await
        })
        .await
    }

    /// List endpoints
    ///
    /// With a client ID its own, with a public one of these what nobody approved; otherwise all of the platform, those of
    /// its client IDs too.
    ///
    /// When: you look where you are told
    /// Next: `PUT /v1/webhook/{webhookId}` for one that is off
    /// 200: The endpoints, oldest first, inactive ones included
    #[oai(path = "/webhook", method = "get", operation_id = "listWebhooks")]
    async fn list(&self, ctx: Data<&Ctx>, caller: Auth<EndpointOwner>) -> Result<Json<WebhookList>, Fail<0>> {
        let endpoints = flows::webhooks::list::run(&ctx, &caller.0).await?;
        Ok(Json(WebhookList {
            webhooks: endpoints.into_iter().map(Webhook::from).collect(),
        }))
    }

    /// Switch an endpoint on or off
    ///
    /// Toggles the endpoint. Switched off, it receives nothing and what waited for it is cancelled.
    ///
    /// When: a receiver is taken down, or is back
    /// Needs: the id of an endpoint
    /// Next: after it is on again, `POST /v2/events/replay` for what it missed
    /// Events: what happens from now on, once it is on
    /// 200: The endpoint as it is now
    /// 404: Webhook not found
    #[oai(path = "/webhook/:webhookId", method = "put", operation_id = "toggleWebhook")]
    async fn toggle(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<EndpointOwner>,
        /// Id of the endpoint
        #[oai(name = "webhookId")]
        webhook_id: Path<UlidText>,
    ) -> Result<Json<Webhook>, Fail<{ s::NOT_FOUND }>> {
        Ok(Json(
            flows::webhooks::toggle::run(&ctx, &caller.0, &webhook_id.id())
                .await?
                .into(),
        ))
    }

    /// Delete an endpoint
    ///
    /// It receives nothing any more, and what waited for it is cancelled.
    ///
    /// When: an endpoint is gone for good
    /// Needs: the id of an endpoint
    /// Next: `POST /v1/webhook` for another one
    /// 200: The endpoint is gone
    /// 404: Webhook not found
    #[oai(path = "/webhook/:webhookId", method = "delete", operation_id = "deleteWebhook")]
    async fn delete(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<EndpointOwner>,
        /// Id of the endpoint
        #[oai(name = "webhookId")]
        webhook_id: Path<UlidText>,
    ) -> Result<Json<Success>, Fail<{ s::NOT_FOUND }>> {
        flows::webhooks::delete::run(&ctx, &caller.0, &webhook_id.id()).await?;
        Ok(Success::done())
    }

    /// Approve an endpoint
    ///
    /// For an endpoint that a public client ID registered: from now on it receives everything, customer and payer too,
    /// and only API keys, sessions and client IDs without domains may see, switch, test or delete it. Look at its URL
    /// first, and rotate its secret afterwards: whoever registered it knows that one. A second time changes nothing.
    ///
    /// When: a page registered an endpoint that is yours
    /// Needs: the id of an endpoint
    /// Next: `POST /v1/webhook/{webhookId}/rotate-secret`
    /// Events: the same ones as before, now with customer and payer
    /// 200: The endpoint as it is now
    /// 404: Webhook not found
    /// 409: The platform has as many approved endpoints as `caps.endpoints` allows
    #[oai(
        path = "/webhook/:webhookId/approve",
        method = "post",
        operation_id = "approveWebhook"
    )]
    async fn approve(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOrSession>,
        /// Id of the endpoint
        #[oai(name = "webhookId")]
        webhook_id: Path<UlidText>,
    ) -> Result<Json<Webhook>, Fail<{ s::NOT_FOUND | s::CONFLICT }>> {
        Ok(Json(
            flows::webhooks::approve::run(&ctx, &caller.0, &webhook_id.id())
                .await?
                .into(),
        ))
    }

    /// Send a test delivery
    ///
    /// Posts a signed sample of the event, with `x-service-test: true`, to every active endpoint of the client ID that the
    /// call may see; to those of the whole platform when there is none. They are queued like events and tried once; the
    /// answer comes when each one had its try, after 15 seconds at the latest.
    ///
    /// When: a receiver is new or changed
    /// Needs: an active endpoint
    /// Next: look at the result of each endpoint
    /// Events: a sample of the named event
    /// 200: How many endpoints took the sample and how many did not
    /// 429: As many deliveries wait for their turn as caps.due_deliveries allows, 10000; replays and tests are taken again once some were sent
    #[oai(path = "/webhook/test", method = "post", operation_id = "testWebhooks")]
    async fn test(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<EndpointOwner>,
        body: Body<TestWebhookBody>,
    ) -> Result<Json<TestResult>, Fail<{ s::BAD_REQUEST }>> {
        let holder = flows::webhooks::holder(&ctx, &caller, body.client_id.as_deref()).await?;
        let result = flows::webhooks::test::run(&ctx, holder, &CLIENT_KINDS, &body.event_type).await?;
        Ok(Json(result.into()))
    }

    /// Rotate the secret of an endpoint
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
        path = "/webhook/:webhookId/rotate-secret",
        method = "post",
        operation_id = "rotateWebhookSecret"
    )]
    async fn rotate(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SecretHolder>,
        /// Id of the endpoint
        #[oai(name = "webhookId")]
        webhook_id: Path<UlidText>,
        key: Keyed,
        body: Body<RotateSecretBody>,
    ) -> Result<Answered<SecretRotated>, Fail<{ s::NOT_FOUND | s::CONFLICT }>> {
        let once = key.once_for(op::rotateWebhookSecret, webhook_id.as_str(), &body.0);
        answer_once(once, rotated, async |call| {
            flows::webhooks::rotate::run(&ctx, &caller.0, &webhook_id.id(), body.overlap_s(), call).await
        })
        .await
    }
}
