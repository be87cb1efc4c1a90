//! The authenticated caller, for every kind of credential.

use super::{
    address::Address,
    ids::{AccountId, ClientRowId, KeyId, OrchestratorId, PlatformId, SessionId},
};

/// An authenticated caller.
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
    /// Credential of the caller.
    pub credential: Credential,
}

/// The credential of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// Server-side key of a platform.
    ApiKey {
        /// Row of the key.
        id: KeyId,
    },
    /// A client ID, with the page that used it.
    ClientId {
        /// Row of the client ID.
        id: ClientRowId,
        /// The client ID that callers send.
        client_id: String,
        /// Whether anyone may be calling: pages contain the client ID, and the call does not carry the key of an
        /// orchestrator.
        is_public: bool,
        /// Origin of the page, if the call came from a browser.
        origin: Option<String>,
        /// The orchestrator to which the client ID is linked.
        linked: Option<OrchestratorId>,
        /// Whether the call also carries the key of that orchestrator. This key is secret, so a call with the client ID
        /// and the key does not count as public.
        is_paired: bool,
    },
    /// A person who signed in.
    Session {
        /// Row of the session.
        id: SessionId,
        /// The signed-in person.
        person: SignedInPerson,
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

/// The signed-in person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedInPerson {
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
    /// Row of its key.
    pub key: KeyId,
}

impl PlatformCaller {
    /// The client ID of the call: created objects belong to it, and lists are limited to it.
    pub fn client(&self) -> Option<&ClientRowId> {
        match &self.credential {
            Credential::ClientId { id, .. } => Some(id),
            Credential::ApiKey { .. } | Credential::Session { .. } => None,
        }
    }

    /// Whether the credential is public, so that anyone may be calling. Source: decisions D32.
    pub fn is_public(&self) -> bool {
        matches!(self.credential, Credential::ClientId { is_public: true, .. })
    }

    /// The orchestrator that acts for the platform with its key and a linked client ID.
    pub fn orchestrator(&self) -> Option<&OrchestratorId> {
        match &self.credential {
            Credential::ClientId {
                linked,
                is_paired: true,
                ..
            } => linked.as_ref(),
            _ => None,
        }
    }

    /// Whether the client ID of the call is linked to an orchestrator, and the call does not carry the key of this
    /// orchestrator.
    pub fn is_linked_alone(&self) -> bool {
        matches!(
            self.credential,
            Credential::ClientId {
                linked: Some(_),
                is_paired: false,
                ..
            }
        )
    }

    /// Whether the caller is an outsider of the platform: anyone with a public client ID, or an orchestrator. An
    /// outsider can only make the policies of the platform stricter. It cannot name a destination or a fee receiver
    /// that the platform did not choose. Source: decisions D48; decisions D49.
    pub fn is_outsider(&self) -> bool {
        self.is_public() || self.orchestrator().is_some()
    }

    /// Origin of the calling page.
    pub fn origin(&self) -> Option<&str> {
        match &self.credential {
            Credential::ClientId { origin, .. } => origin.as_deref(),
            Credential::ApiKey { .. } | Credential::Session { .. } => None,
        }
    }

    /// The wallet of a person who signed in with a wallet.
    pub fn wallet(&self) -> Option<&Address> {
        match &self.credential {
            Credential::Session {
                person: SignedInPerson::Wallet(wallet),
                ..
            } => Some(wallet),
            _ => None,
        }
    }
}
