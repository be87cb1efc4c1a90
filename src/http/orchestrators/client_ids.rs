//! Links of orchestrators to client IDs of platforms.

use crate::{
    domain::orchestrator::LinkStatus,
    flows::{self, orchestrators::link::LinkedClientId},
    http::{forms::paging::page_limit, operation::*},
};

/// A client ID to link.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct LinkClientIdBody {
    /// Client ID to link, which its platform gave you
    pub client_id: ClientIdText,
}

/// A client ID with an active link.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ActiveLink {
    /// Client ID that is linked, for the header `x-client-id`
    pub client_id: ClientIdText,
    /// State, always active
    pub status: LinkStatus,
}

/// A new link.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ClientIdLinkCreated {
    /// The link
    pub link: ActiveLink,
    /// Always false: a client ID can be linked only once, so the link in this response is new. Example: `false`
    pub already_linked: bool,
}

/// A page of links.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct ActiveLinkList {
    /// The active links, oldest first
    #[oai(validator(max_items = 100))]
    pub links: Vec<ActiveLink>,
    /// Number of active links. Example: `1`
    pub total: u64,
    /// Number of this page, from 1. Example: `1`
    pub page: u64,
    /// Maximum number of links on a page. Example: `20`
    pub limit: u64,
}

impl From<&LinkedClientId> for ActiveLink {
    fn from(linked: &LinkedClientId) -> Self {
        Self {
            client_id: ClientIdText::written(&linked.client_id),
            status: LinkStatus::Active,
        }
    }
}

fn linked(linked: &LinkedClientId) -> ClientIdLinkCreated {
    ClientIdLinkCreated {
        link: linked.into(),
        already_linked: false,
    }
}

/// Links of orchestrators.
pub struct LinkedClientIds;

#[OpenApi(prefix_path = "/v2/orchestrators", tag = "PlatformTag::Orchestrators")]
impl LinkedClientIds {
    /// List linked client IDs
    ///
    /// Lists the client IDs with an active link to the orchestrator, oldest link first.
    ///
    /// When: you check for which client IDs you can create payments
    /// Next: create a payment with `POST /v2/secure-payments` and both headers, `x-orchestrator-key` and `x-client-id`
    /// 200: A page of active links
    #[oai(path = "/client-ids", method = "get", operation_id = "listLinkedClientIds")]
    async fn list(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
        /// Number of the page, 1 to 9999; 1 when absent
        page: Checked<PageText>,
        /// Page size, 1 to 100; 20 when absent
        limit: Checked<LimitText>,
    ) -> Result<Json<ActiveLinkList>, Fail<{ s::BAD_REQUEST }>> {
        let mut checks = Checks::new();
        let page = page.take(&mut checks).map_or(1, |text| text.number());
        let limit = page_limit(limit, &mut checks);
        checks.finish()?;
        let offset = page.saturating_sub(1).saturating_mul(limit);
        let found = flows::orchestrators::list_links::run(&ctx, &caller, limit, offset).await?;
        Ok(Json(ActiveLinkList {
            links: found.links.iter().map(ActiveLink::from).collect(),
            total: found.total,
            page,
            limit,
        }))
    }

    /// Link a client ID
    ///
    /// Links a client ID of a platform to the orchestrator. From then on, only the orchestrator creates payment links
    /// for this client ID, with both headers, `x-orchestrator-key` and `x-client-id`. A client ID can be linked only
    /// once: a second link is a 409, even after the first one ended. Unless the operator decided otherwise
    /// (`orchestrators.direct_links`), the platform must first name the orchestrator in `orchestratorId` of the client
    /// ID. Without this consent, the response is the same as for an unknown client ID.
    ///
    /// When: a platform lets you create its payments
    /// Needs: a client ID whose platform set `orchestratorId` with `PUT /v1/client-ids/{id}` or `PUT /v2/client-ids/{id}`
    /// Next: create a payment with `POST /v2/secure-payments` and both headers
    /// 201: The link
    /// 403: Client ID has been revoked
    /// 404: Client ID not found: its platform must first name this orchestrator in orchestratorId of the client ID
    /// 409: This client ID already has a link, and a client ID can be linked only once: ask its platform for another client ID
    #[oai(path = "/client-ids", method = "post", operation_id = "linkClientId")]
    async fn link(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
        key: Keyed,
        body: Body<LinkClientIdBody>,
    ) -> Result<Created<ClientIdLinkCreated>, Fail<{ s::BAD_REQUEST | s::FORBIDDEN | s::NOT_FOUND | s::CONFLICT }>>
    {
        let once = key.once(op::linkClientId, &body.0);
        answer_once(once, linked, async |call| {
            flows::orchestrators::link::run(&ctx, &caller, body.client_id.as_str(), call).await
        })
        .await
    }

    /// End the link of a client ID
    ///
    /// Ends the link permanently. The client ID remains valid and can create payments without the key of the
    /// orchestrator again. Payments that the orchestrator created can still be paid. A repeated call returns the same
    /// response.
    ///
    /// When: you no longer create payments for a platform
    /// Needs: a linked client ID
    /// Next: nothing; the client ID can never be linked again
    /// 200: The link has ended
    /// 404: No client ID with this id is linked to this orchestrator
    #[oai(path = "/client-ids/:clientId", method = "delete", operation_id = "unlinkClientId")]
    async fn unlink(
        &self,
        ctx: Data<&Ctx>,
        caller: Auth<OrchestratorOnly>,
        /// Client ID whose link ends
        #[oai(name = "clientId")]
        client_id: Path<ClientIdText>,
    ) -> Result<Json<Success>, Fail<{ s::NOT_FOUND }>> {
        flows::orchestrators::unlink::run(&ctx, &caller, client_id.as_str()).await?;
        Ok(Success::done())
    }
}
