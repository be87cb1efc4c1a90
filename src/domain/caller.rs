//! Who calls: the one type that credentials of every kind end in.

use super::{
    address::Address,
    ids::{AccountId, ClientRowId, KeyId, OrchestratorId, PlatformId, SessionId},
};

/// Whoever is authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Acts for a tenant.
    Platform(PlatformCaller),
    /// Belongs to no tenant.
    Orchestrator(OrchestratorCaller),
}

impl Caller {
    /// Row of the credential.
    pub fn credential_row(&self) -> &str {
        match self {
            Self::Platform(caller) => caller.credential.row(),
            Self::Orchestrator(caller) => caller.key.as_str(),
        }
    }
}

impl TryFrom<Caller> for PlatformCaller {
    type Error = Caller;

    fn try_from(caller: Caller) -> Result<Self, Caller> {
        match caller {
            Caller::Platform(caller) => Ok(caller),
            other @ Caller::Orchestrator(_) => Err(other),
        }
    }
}

impl TryFrom<Caller> for OrchestratorCaller {
    type Error = Caller;

    fn try_from(caller: Caller) -> Result<Self, Caller> {
        match caller {
            Caller::Orchestrator(caller) => Ok(caller),
            other @ Caller::Platform(_) => Err(other),
        }
    }
}

/// A caller that acts for a tenant. Source: interface §5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformCaller {
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
    /// Client ID, with the page that used it.
    ClientId {
        /// Row of the client ID.
        id: ClientRowId,
        /// The text that callers send.
        client_id: String,
        /// Whether pages use it, so that everybody can read it there.
        is_public: bool,
        /// The page, when the call came from a browser.
        origin: Option<String>,
    },
    /// A person who signed in.
    Session {
        /// Row of the session.
        id: SessionId,
        /// Who signed in.
        person: Person,
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
pub enum Person {
    /// The owner of a wallet.
    Wallet(Address),
    /// The owner of an e-mail account.
    Account(AccountId),
}

/// A caller that is an orchestrator. Source: rules P.5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrchestratorCaller {
    /// The orchestrator.
    pub id: OrchestratorId,
    /// Row of the key that it showed.
    pub key: KeyId,
}

impl PlatformCaller {
    /// The client ID that the call was made with: what it creates belongs to it, what it lists is limited to it.
    pub fn client(&self) -> Option<&ClientRowId> {
        match &self.credential {
            Credential::ClientId { id, .. } => Some(id),
            Credential::ApiKey { .. } | Credential::Session { .. } => None,
        }
    }

    /// Whether the credential is no secret, so that anybody may be calling. Source: decisions D32.
    pub fn is_public(&self) -> bool {
        matches!(self.credential, Credential::ClientId { is_public: true, .. })
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
                person: Person::Wallet(wallet),
                ..
            } => Some(wallet),
            _ => None,
        }
    }
}
