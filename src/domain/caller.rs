//! Who calls: the one type that credentials of every kind end in.

use super::{
    address::Address,
    ids::{AccountId, ClientRowId, KeyId, OrchestratorId, PlatformId, SessionId},
};

/// An authenticated caller that acts for a tenant. Source: interface §5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The tenant whose objects the caller can see.
    pub platform: PlatformId,
    /// How the caller proved it.
    pub credential: Credential,
}

/// The credential that a caller showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// Server-side key of a platform.
    ApiKey {
        /// Row of the key.
        id: KeyId,
    },
    /// Public client ID, with the page that used it.
    ClientId {
        /// Row of the client ID.
        id: ClientRowId,
        /// The public text.
        client_id: String,
        /// The page, when the call came from a browser.
        origin: Option<String>,
        /// The orchestrator that makes the call on behalf of the platform, when it showed its key as well.
        orchestrator: Option<OrchestratorId>,
    },
    /// A person who signed in.
    Session {
        /// Row of the session.
        id: SessionId,
        /// Who signed in.
        holder: Holder,
    },
}

impl Credential {
    /// Row of the credential.
    pub fn row(&self) -> &str {
        match self {
            Self::ApiKey { id } => id.as_str(),
            Self::ClientId { id, .. } => id.as_str(),
            Self::Session { id, .. } => id.as_str(),
        }
    }
}

/// Who signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// The owner of a wallet.
    Wallet(Address),
    /// The owner of an e-mail account.
    Account(AccountId),
}

/// An authenticated orchestrator; it belongs to no tenant. Source: rules P.5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrchestratorCaller {
    /// The orchestrator.
    pub id: OrchestratorId,
    /// Row of the key that it showed.
    pub key: KeyId,
}

impl Caller {
    /// The client ID that the call was made with: what it creates belongs to it, what it lists is limited to it.
    pub fn client(&self) -> Option<&ClientRowId> {
        match &self.credential {
            Credential::ClientId { id, .. } => Some(id),
            Credential::ApiKey { .. } | Credential::Session { .. } => None,
        }
    }

    /// The orchestrator that calls together with the client ID.
    pub fn orchestrator(&self) -> Option<&OrchestratorId> {
        match &self.credential {
            Credential::ClientId { orchestrator, .. } => orchestrator.as_ref(),
            Credential::ApiKey { .. } | Credential::Session { .. } => None,
        }
    }

    /// The caller of a client ID, with the orchestrator that showed its key beside it.
    #[must_use]
    pub fn paired_with(mut self, partner: OrchestratorId) -> Self {
        if let Credential::ClientId { orchestrator, .. } = &mut self.credential {
            *orchestrator = Some(partner);
        }
        self
    }

    /// The page that the call came from.
    pub fn origin(&self) -> Option<&str> {
        match &self.credential {
            Credential::ClientId { origin, .. } => origin.as_deref(),
            Credential::ApiKey { .. } | Credential::Session { .. } => None,
        }
    }

    /// The wallet of the person who signed in with one.
    pub fn wallet(&self) -> Option<&Address> {
        match &self.credential {
            Credential::Session {
                holder: Holder::Wallet(wallet),
                ..
            } => Some(wallet),
            _ => None,
        }
    }
}
