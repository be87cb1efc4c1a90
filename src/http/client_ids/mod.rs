//! Client IDs, managed with an API key; [`own`] has the operations of people who signed in.

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
    /// A client ID with allowed domains is public: a browser page sends it together with its `Origin`, which has to be
    /// among them, and everybody can read it off that page and write the same `Origin` in a program. Give it
    /// `allowedPayees`: otherwise a stranger can name a wallet of the stranger's own as payee. Webhooks and requests that
    /// are made with it belong to it.
    ///
    /// When: a page or a simple backend of yours is to call this service
    /// Needs: the pages that may use it
    /// Next: send it as `x-client-id`, and register an endpoint for it with `POST /v1/webhook`
    /// 201: The new client ID
    /// 409: There may be 1000 client IDs at most (caps.client_ids); revoke one before you create another, or ask the operator for more
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
    /// Client IDs of the platform, newest first, with the last 1000 of those that were revoked.
    ///
    /// When: you look which client IDs there are
    /// Next: `GET /v2/client-ids/{id}` for one of them
    /// 200: Every client ID that is not revoked and the last 1000 that are, newest first
    #[oai(path = "/client-ids", method = "get", operation_id = "listClientIds")]
    async fn list(&self, ctx: Data<&Ctx>, caller: Auth<KeyOnly>) -> Result<Json<Vec<ClientIdSummary>>, Fail<0>> {
        let clients = flows::client_ids::list::run(&ctx, &caller).await?;
        Ok(Json(clients.iter().map(view::summary).collect()))
    }

    /// Read a client ID
    ///
    /// With its fee and expiries, revoked or not.
    ///
    /// When: you show the settings of one
    /// Needs: the `id` that its creation answered
    /// Next: `PUT /v2/client-ids/{id}`
    /// 200: Everything about the client ID
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
    /// What is absent stays, null unsets. Switched off or revoked, it is refused from the next call on.
    ///
    /// When: its pages, limits or fee change
    /// Needs: the `id` that its creation answered
    /// Next: nothing; the next call is judged by what is set
    /// 200: The client ID as it is now
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
    /// For good: it is refused from the next call on. A second time changes nothing.
    ///
    /// When: a client ID is misused or no longer needed
    /// Needs: the `id` that its creation answered
    /// Next: `POST /v2/client-ids` for a new one
    /// 200: The client ID is revoked, for good
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
