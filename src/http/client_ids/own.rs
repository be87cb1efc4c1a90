//! Client IDs, managed by a person who signed in.

use super::{bodies::*, view};
use crate::{flows, http::operation::*};

/// Client IDs of the platform of a person who signed in.
pub struct OwnClientIds;

#[OpenApi(prefix_path = "/v1", tag = "AuthTag::ClientIds")]
impl OwnClientIds {
    /// Create a client ID
    ///
    /// With domains it is for pages of browsers, and public: everybody can read it off a page, and programs write any
    /// `Origin`. Bind it to a payee destination or give it `allowedPayees`; otherwise a stranger can name a wallet of
    /// the stranger's own as payee. Without domains it is for a backend, works without `Origin`, and is a secret.
    ///
    /// When: a page or a simple backend of yours is to call this service
    /// Needs: the pages that may use it; for links also a destination
    /// Next: send it as `x-client-id`, and register an endpoint for it with `POST /v1/webhook`
    /// 201: The new client ID
    /// 409: There may be 1000 client IDs at most (caps.client_ids); revoke one before you create another, or ask the operator for more
    #[oai(path = "/client-ids", method = "post", operation_id = "createOwnClientId")]
    async fn create(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        key: Keyed,
        body: Body<CreateOwnClientIdBody>,
    ) -> Result<Created<OwnClientId>, Fail<{ s::BAD_REQUEST | s::CONFLICT }>> {
        let once = key.once(op::createOwnClientId, &body.0);
        let input = body.0.read()?;
        answer_once(once, view::own, async |call| {
            flows::client_ids::create::run(&ctx, &caller, &input, call).await
        })
        .await
    }

    /// List client IDs
    ///
    /// Client IDs of the platform, newest first, with the last 1000 of those that were revoked.
    ///
    /// When: you look which client IDs there are
    /// Next: `GET /v1/client-ids/{id}` for one of them
    /// 200: Every client ID that is not revoked and the last 1000 that are, newest first
    #[oai(path = "/client-ids", method = "get", operation_id = "listOwnClientIds")]
    async fn list(&self, ctx: Data<&Ctx>, caller: Auth<SessionOnly>) -> Result<Json<Vec<OwnClientId>>, Fail<0>> {
        let clients = flows::client_ids::list::run(&ctx, &caller).await?;
        Ok(Json(clients.iter().map(view::own).collect()))
    }

    /// Read a client ID
    ///
    /// Revoked ones too.
    ///
    /// When: you show the settings of one
    /// Needs: the `id` that its creation answered
    /// Next: `PUT /v1/client-ids/{id}`
    /// 200: The client ID
    /// 404: Client ID not found
    #[oai(path = "/client-ids/:id", method = "get", operation_id = "getOwnClientId")]
    async fn read(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        /// Row id of the client ID
        id: Path<ClientRowText>,
    ) -> Result<Json<OwnClientId>, Fail<{ s::NOT_FOUND }>> {
        let client = flows::client_ids::read::run(&ctx, &caller, &id.id()).await?;
        Ok(Json(view::own(&client)))
    }

    /// Change a client ID
    ///
    /// What is absent stays, null unsets. Switched off or revoked, it is refused from the next call on.
    ///
    /// When: its pages, limits, fee or destination change
    /// Needs: the `id` that its creation answered
    /// Next: nothing; the next call is judged by what is set
    /// 200: The client ID as it is now
    /// 404: Client ID not found
    #[oai(path = "/client-ids/:id", method = "put", operation_id = "updateOwnClientId")]
    async fn update(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        /// Row id of the client ID
        id: Path<ClientRowText>,
        body: Body<UpdateOwnClientIdBody>,
    ) -> Result<Json<OwnClientId>, Fail<{ s::BAD_REQUEST | s::NOT_FOUND }>> {
        let change = body.0.read()?;
        let client = flows::client_ids::update::run(&ctx, &caller, &id.id(), &change).await?;
        Ok(Json(view::own(&client)))
    }

    /// Revoke a client ID
    ///
    /// For good: it is refused from the next call on. A second time changes nothing.
    ///
    /// When: a client ID is misused or no longer needed
    /// Needs: the `id` that its creation answered
    /// Next: `POST /v1/client-ids` for a new one
    /// 200: The client ID is revoked, for good
    /// 404: Client ID not found
    #[oai(path = "/client-ids/:id", method = "delete", operation_id = "revokeOwnClientId")]
    async fn revoke(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<SessionOnly>,
        /// Row id of the client ID
        id: Path<ClientRowText>,
    ) -> Result<Json<ClientIdRevoked>, Fail<{ s::NOT_FOUND }>> {
        flows::client_ids::revoke::run(&ctx, &caller, &id.id()).await?;
        Ok(Json(ClientIdRevoked { success: true }))
    }
}
