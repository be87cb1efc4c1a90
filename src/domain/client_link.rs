//! Decides which client IDs an orchestrator may link, and when a link ends.

use super::{
    caller::PlatformCaller,
    client_id::{ClientId, ClientStatus},
    ids::OrchestratorId,
    orchestrator::{DirectLinks, LinkStatus},
    refusal::Refusal,
};

/// Message for a client ID that the orchestrator cannot link. An unknown client ID, and one whose platform did not
/// consent, get the same message.
const NOT_FOUND: &str = "Client ID not found: its platform must first name this orchestrator in orchestratorId of the \
                         client ID";

impl DirectLinks {
    /// The client ID, if the orchestrator may link it.
    ///
    /// Errors: orchestrators may not link client IDs on this service, or the client ID is revoked (403). The client ID
    /// is unknown, or its platform does not consent (404).
    pub fn admit(self, client: Option<ClientId>, orchestrator: &OrchestratorId) -> Result<ClientId, Refusal> {
        self.require_on()?;
        let is_open = self == Self::Open;
        let client = client.filter(|client| is_open || client.orchestrator.as_ref() == Some(orchestrator));
        let client = client.ok_or_else(|| Refusal::not_found(NOT_FOUND))?;
        match client.status {
            ClientStatus::Revoked => Err(Refusal::forbidden("Client ID has been revoked")),
            ClientStatus::Active | ClientStatus::Inactive => Ok(client),
        }
    }
}

/// The refusal for a client ID that is not linked to the orchestrator, or is unknown (404 in both cases).
pub fn unlinked_client_id() -> Refusal {
    Refusal::not_found("No client ID with this id is linked to this orchestrator")
}

/// The refusal for the key of an orchestrator with a client ID that is not linked to it (403).
fn not_linked() -> Refusal {
    Refusal::forbidden(
        "This client ID is not linked to the orchestrator of the key: GET /v2/orchestrators/client-ids lists the linked \
         ones",
    )
}

/// The refusal for a linked client ID without the key of its orchestrator, where only the orchestrator may create
/// payments (403).
pub fn linked_alone() -> Refusal {
    Refusal::forbidden(
        "This client ID is linked to an orchestrator, which creates its payments: send the orchestrator's key in \
         x-orchestrator-key with this client ID",
    )
}

impl PlatformCaller {
    /// Checks that the caller may create payment links, given the orchestrator to which the client ID of the call is
    /// linked. Errors: the call carries the key of another orchestrator, or no key although the client ID is linked
    /// (403).
    pub fn admit_link(&self, linked: Option<&OrchestratorId>) -> Result<(), Refusal> {
        match (self.orchestrator(), linked) {
            (Some(caller), Some(linked)) if caller == linked => Ok(()),
            (Some(_), _) => Err(not_linked()),
            (None, Some(_)) => Err(linked_alone()),
            (None, None) => Ok(()),
        }
    }
}

impl ClientId {
    /// The orchestrator to which the client ID is linked; `None` after the link has ended.
    pub fn linked_orchestrator(&self) -> Option<&OrchestratorId> {
        let active = self.link.as_ref().filter(|link| link.status == LinkStatus::Active);
        active.map(|link| &link.orchestrator)
    }

    /// Checks that the client ID has an active link to this orchestrator. Errors: it has none (403).
    pub fn require_link(&self, orchestrator: &OrchestratorId) -> Result<(), Refusal> {
        if self.linked_orchestrator() == Some(orchestrator) {
            return Ok(());
        }
        Err(not_linked())
    }

    /// The client ID after its platform changed which orchestrator may link it. If the linked orchestrator is no longer
    /// named, its link ends.
    #[must_use]
    pub fn consenting(self, orchestrator: Option<OrchestratorId>) -> Self {
        let is_withdrawn = self
            .linked_orchestrator()
            .is_some_and(|linked| Some(linked) != orchestrator.as_ref());
        let client = Self { orchestrator, ..self };
        if is_withdrawn { client.unlinked() } else { client }
    }

    /// The client ID without an active link: a link that it has is ended.
    #[must_use]
    pub fn unlinked(mut self) -> Self {
        if let Some(link) = &mut self.link {
            link.status = LinkStatus::Ended;
        }
        self
    }
}
