//! Orchestrators: their links to client IDs of platforms.

use super::{ids::OrchestratorId, refusal::Refusal, wire_text::wire_text};
use chrono::{DateTime, Utc};

wire_text! {
    /// State of a link.
    pub enum LinkStatus {
        /// The orchestrator creates payments for the client ID.
        Active = "active",
        /// Ended for ever.
        Ended = "ended",
    }
}

/// A partner that builds on several platforms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orchestrator {
    /// Id.
    pub id: OrchestratorId,
    /// Display name.
    pub name: String,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// When the operator disabled it; `None` while it is enabled.
    pub disabled_at: Option<DateTime<Utc>>,
}

/// The link of a client ID to an orchestrator. A client ID can be linked only once; it cannot be linked again after its
/// link ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrchestratorLink {
    /// The orchestrator.
    pub orchestrator: OrchestratorId,
    /// State.
    pub status: LinkStatus,
    /// When it began.
    pub linked_at: DateTime<Utc>,
}

/// Which client IDs an orchestrator may link itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectLinks {
    /// Client IDs that name this orchestrator as the one that may link them.
    Consent,
    /// Every client ID. Client IDs are public, so an orchestrator can also link one without the consent of its
    /// platform.
    Open,
    /// None.
    Off,
}

impl DirectLinks {
    /// Checks that orchestrators may link client IDs on this service. Errors: they may not (403).
    pub(super) fn require_on(self) -> Result<(), Refusal> {
        match self {
            Self::Off => Err(Refusal::forbidden(
                "Orchestrators may not link client IDs on this service: ask its operator to change orchestrators.direct_links",
            )),
            Self::Consent | Self::Open => Ok(()),
        }
    }
}
