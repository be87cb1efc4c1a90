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
    /// The service posts events to the URL, signed with the secret from the response. With a client ID in the call or
    /// the body, the endpoint receives events of requests created with that client ID; without one, it receives events
    /// of the whole platform.
    ///
    /// Anyone with a public client ID can create requests with your `reference`: compare `requestId`, amount, currency
    /// and `payee` of a delivery with your order, never `reference` alone. An endpoint registered with a public client
    /// ID (one with allowed domains) receives no personal data until `POST /v1/webhook/{webhookId}/approve`.
    ///
    /// When: your backend should receive events instead of polling
    /// Needs: a URL that accepts https
    /// Next: store the secret, then send a test with `POST /v1/webhook/test`
    /// Events: events of its requests from now on
    /// 201: The new endpoint and its secret, which is shown only in this response
    /// 409: This URL is already registered
    /// 409: The limit is 100 webhook endpoints (caps.endpoints); delete an endpoint before you add another, or ask the operator for a higher limit
    /// 409: A call with this Idempotency-Key has already completed, and the response contains a secret, which is shown to a public client ID only once: use a new key, or look up the created object with an API key or a session
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
    /// A client ID lists its own endpoints, a public client ID only its unapproved ones. An API key or a session lists
    /// all endpoints of the platform and its client IDs.
    ///
    /// When: you check which endpoints receive events
    /// Next: switch an inactive one on with `PUT /v1/webhook/{webhookId}`
    /// 200: The endpoints, oldest first, including inactive ones
    #[oai(path = "/webhook", method = "get", operation_id = "listWebhooks")]
    async fn list(&self, ctx: Data<&Ctx>, caller: Auth<EndpointOwner>) -> Result<Json<WebhookList>, Fail<0>> {
        let endpoints = flows::webhooks::list::run(&ctx, &caller.0).await?;
        Ok(Json(WebhookList {
            webhooks: endpoints.into_iter().map(Webhook::from).collect(),
        }))
    }

    /// Switch an endpoint on or off
    ///
    /// Toggles the endpoint. An inactive endpoint receives nothing, and its pending deliveries are cancelled.
    ///
    /// When: a receiver goes down or comes back
    /// Needs: the id of an endpoint
    /// Next: after switching it on, send missed events again with `POST /v2/events/replay`
    /// Events: new events, while it is active
    /// 200: The changed endpoint
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
    /// The endpoint receives no further events, and its pending deliveries are cancelled.
    ///
    /// When: an endpoint is no longer needed
    /// Needs: the id of an endpoint
    /// Next: register another one with `POST /v1/webhook`
    /// 200: The endpoint is deleted
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
    /// Approves an endpoint that was registered with a public client ID. From now on it receives full events, including
    /// customer and payer. Only API keys, sessions and client IDs without domains may then see, switch, test or delete
    /// it. Check its URL before the approval, and rotate its secret afterwards, because the registrant knows the old
    /// one. Approving it again changes nothing.
    ///
    /// When: your page registered the endpoint
    /// Needs: the id of an endpoint
    /// Next: rotate the secret with `POST /v1/webhook/{webhookId}/rotate-secret`
    /// Events: the same events, now with customer and payer
    /// 200: The changed endpoint
    /// 404: Webhook not found
    /// 409: The limit is 100 webhook endpoints (caps.endpoints); delete an endpoint before you add another, or ask the operator for a higher limit
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
    /// Posts a signed sample event, with `x-service-test: true`. With a client ID in the call or the body, every active
    /// endpoint of the client ID that the call may see receives the sample. Without one, every active endpoint for the
    /// whole platform receives it, but not the endpoints of client IDs. Test deliveries are queued like events and
    /// attempted once. The response is sent after every attempt, within 15 seconds.
    ///
    /// When: a receiver is new or changed
    /// Needs: an active endpoint
    /// Next: check the result of each endpoint
    /// Events: a sample of the given event
    /// 200: How many endpoints accepted the sample and how many failed
    /// 429: The limit of 10000 due deliveries (caps.due_deliveries) is reached; retry replays and tests after some have been sent
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
