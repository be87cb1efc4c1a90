//! Client IDs, managed with an API key; [`own`] has the operations for sessions.

mod bodies;
pub mod own;
pub mod view;

use crate::{flows, http::operation::*};
pub use bodies::*;

/// Client IDs.
pub struct ClientIds;

#[OpenApi(prefix_path = "/v2", tag = "PlatformTag::ClientIds")]
impl ClientIds {
    /// Create a client ID
    ///
    /// A client ID with allowed domains is public: a browser page sends it with its `Origin`, which must be one of
    /// these domains, and anyone can copy it from the page and send the same `Origin` from a program. Set
    /// `allowedPayees`: otherwise anyone can name their own wallet as payee. Webhook endpoints and requests created
    /// with a client ID belong to this client ID.
    ///
    /// When: your page or a simple backend needs to call this service
    /// Needs: the origins of the pages that may use the client ID
    /// Next: send the client ID as `x-client-id`, and register an endpoint for its events with `POST /v1/webhook`
    /// 201: The new client ID
    /// 409: The limit is 1000 client IDs (caps.client_ids); revoke a client ID before you create another, or ask the operator for a higher limit
    #[oai(path = "/client-ids", method = "post", operation_id = "createClientId")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOnly>,
        key: Keyed,
        body: Body<CreateClientIdBody>,
    ) -> Result<Created<ClientIdCreated>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let once = key.once(op::createClientId, &body.0);
        let input = body.0.read()?;
        answer_once(once, view::created, async |call| {
            flows::client_ids::create::run(&ctx, &caller, &input, call).await
        })
        .await
    }

    /// List client IDs
    ///
    /// Lists the client IDs of the platform, newest first, including the last 1000 revoked ones.
    ///
    /// When: you want an overview of your client IDs
    /// Next: read one of them with `GET /v2/client-ids/{id}`
    /// 200: Every client ID that is not revoked and the last 1000 revoked ones, newest first
    #[oai(path = "/client-ids", method = "get", operation_id = "listClientIds")]
    async fn list(&self, ctx: Data<&Ctx>, caller: Auth<KeyOnly>) -> Result<Json<Vec<ClientIdSummary>>, Fail<0>> {
        let clients = flows::client_ids::list::run(&ctx, &caller).await?;
        Ok(Json(clients.iter().map(view::summary).collect()))
    }

    /// Read a client ID
    ///
    /// Returns the client ID with its fee and expiries, even if it is revoked.
    ///
    /// When: you show the settings of a client ID
    /// Needs: the `id` from the creation response
    /// Next: change the settings with `PUT /v2/client-ids/{id}`
    /// 200: The client ID
    /// 404: Client ID not found
    #[oai(path = "/client-ids/:id", method = "get", operation_id = "getClientId")]
    async fn read(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOnly>,
        /// Row id of the client ID
        id: Path<ClientRowText>,
    ) -> Result<Json<ClientIdDetail>, Fail<{ s::NOT_FOUND }>> {
        let client = flows::client_ids::read::run(&ctx, &caller, &id.id()).await?;
        Ok(Json(view::detail(&client)))
    }

    /// Change a client ID
    ///
    /// An absent member stays unchanged; null unsets a value. An inactive or revoked client ID is rejected from the next call on.
    ///
    /// When: the pages, limits or fee of a client ID change
    /// Needs: the `id` from the creation response
    /// Next: nothing; the change applies to every later call
    /// 200: The changed client ID
    /// 404: Client ID not found
    #[oai(path = "/client-ids/:id", method = "put", operation_id = "updateClientId")]
    async fn update(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOnly>,
        /// Row id of the client ID
        id: Path<ClientRowText>,
        body: Body<UpdateClientIdBody>,
    ) -> Result<Json<ClientIdUpdated>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let change = body.0.read()?;
        let client = flows::client_ids::update::run(&ctx, &caller, &id.id(), &change).await?;
        Ok(Json(view::updated(&client)))
    }

    /// Revoke a client ID
    ///
    /// Revokes the client ID permanently: it is rejected from the next call on. Revoking it again changes nothing.
    ///
    /// When: a client ID is misused or no longer needed
    /// Needs: the `id` from the creation response
    /// Next: create a new client ID with `POST /v2/client-ids`
    /// 200: The client ID is permanently revoked
    /// 404: Client ID not found
    #[oai(path = "/client-ids/:id", method = "delete", operation_id = "revokeClientId")]
    async fn revoke(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<KeyOnly>,
        /// Row id of the client ID
        id: Path<ClientRowText>,
    ) -> Result<Json<ClientIdRevoked>, Fail<{ s::NOT_FOUND }>> {
        flows::client_ids::revoke::run(&ctx, &caller, &id.id()).await?;
        Ok(Json(ClientIdRevoked { success: true }))
    }
}
