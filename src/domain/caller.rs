//! Who calls: the one type that credentials of every kind end in.

use super::ids::{ApiKeyId, ClientRowId, PlatformId};

/// An authenticated caller.
///
/// Source: seed §5. Sessions and orchestrator keys become further variants of [`Credential`].
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
        id: ApiKeyId,
    },
    /// Public client ID, with the page that used it.
    ClientId {
        /// Row of the client ID.
        id: ClientRowId,
        /// The public text.
        client_id: String,
        /// The page, when the call came from a browser.
        origin: Option<String>,
    },
}

impl Caller {
    /// The client ID that the call was made with: what it creates belongs to it, what it lists is limited to it.
    pub fn client(&self) -> Option<&ClientRowId> {
        match &self.credential {
            Credential::ClientId { id, .. } => Some(id),
            Credential::ApiKey { .. } => None,
        }
    }

    /// The page that the call came from.
    pub fn origin(&self) -> Option<&str> {
        match &self.credential {
            Credential::ClientId { origin, .. } => origin.as_deref(),
            Credential::ApiKey { .. } => None,
        }
    }
}
