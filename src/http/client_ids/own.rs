//! Client IDs, managed with a session.

use super::{bodies::*, view};
use crate::{flows, http::operation::*};

/// Client IDs of the signed-in person's platform.
pub struct OwnClientIds;

#[OpenApi(prefix_path = "/v1", tag = "AuthTag::ClientIds")]
impl OwnClientIds {
    /// Create a client ID
    ///
    /// A client ID with domains is for browser pages, and public: anyone can copy it from a page, and programs can send
    /// any `Origin`. Bind it to a payee destination or set `allowedPayees`; otherwise anyone can name their own wallet
    /// as payee. A client ID without domains is for a backend, works without `Origin`, and is a secret.
    ///
    /// When: your page or a simple backend needs to call this service
    /// Needs: the origins of the pages that may use the client ID; for links also a destination
    /// Next: send the client ID as `x-client-id`, and register an endpoint for its events with `POST /v1/webhook`
    /// 201: The new client ID
    /// 409: The limit is 1000 client IDs (caps.client_ids); revoke a client ID before you create another, or ask the operator for a higher limit
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
    /// Lists the client IDs of the platform, newest first, including the last 1000 revoked ones.
    ///
    /// When: you want an overview of your client IDs
    /// Next: read one of them with `GET /v1/client-ids/{id}`
    /// 200: Every client ID that is not revoked and the last 1000 revoked ones, newest first
    #[oai(path = "/client-ids", method = "get", operation_id = "listOwnClientIds")]
    async fn list(&self, ctx: Data<&Ctx>, caller: Auth<SessionOnly>) -> Result<Json<Vec<OwnClientId>>, Fail<0>> {
        let clients = flows::client_ids::list::run(&ctx, &caller).await?;
        Ok(Json(clients.iter().map(view::own).collect()))
    }

    /// Read a client ID
    ///
    /// Returns revoked client IDs too.
    ///
    /// When: you show the settings of a client ID
    /// Needs: the `id` from the creation response
    /// Next: change the settings with `PUT /v1/client-ids/{id}`
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
    /// An absent member stays unchanged; null unsets a value. An inactive or revoked client ID is rejected from the next call on.
    ///
    /// When: the pages, limits, fee or destination of a client ID change
    /// Needs: the `id` from the creation response
    /// Next: nothing; the change applies to every later call
    /// 200: The changed client ID
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
    /// Revokes the client ID permanently: it is rejected from the next call on. Revoking it again changes nothing.
    ///
    /// When: a client ID is misused or no longer needed
    /// Needs: the `id` from the creation response
    /// Next: create a new client ID with `POST /v1/client-ids`
    /// 200: The client ID is permanently revoked
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
