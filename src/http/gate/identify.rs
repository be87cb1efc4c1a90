//! Finding the caller behind a credential: the gate asks, the service knows.

use crate::{
    domain::{
        caller::{Caller, OrchestratorCaller, PlatformCaller},
        quota::Tier,
        refusal::Refusal,
    },
    flows::FlowResult,
};
use async_trait::async_trait;

/// Where a call with a client ID comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallOrigin<'a> {
    /// The page, as the browser names it.
    pub origin: Option<&'a str>,
    /// Whether the browser says that the page belongs to this service; it sends no `Origin` on such reads.
    pub is_same_origin: bool,
    /// The host that the call was sent to.
    pub host: Option<&'a str>,
}

/// Finds the caller behind a credential. Errors: unauthenticated, forbidden, or the faults of a lookup.
#[async_trait]
pub trait Identify: Send + Sync + 'static {
    /// The platform of an API key.
    async fn api_key(&self, key: &str) -> FlowResult<PlatformCaller>;

    /// The platform of a client ID, when it may be used from there.
    async fn client_id(&self, id: &str, call: CallOrigin<'_>) -> FlowResult<PlatformCaller>;

    /// The owner of a session. A service without sessions knows none.
    async fn session(&self, _token: &str) -> FlowResult<PlatformCaller> {
        Err(unauthorized().into())
    }

    /// Whether pages of this origin may use sessions.
    fn is_session_page(&self, _origin: &str) -> bool {
        false
    }

    /// The owner of an orchestrator key. A service without orchestrators knows none.
    async fn orchestrator_key(&self, _key: &str) -> FlowResult<OrchestratorCaller> {
        Err(unauthorized().into())
    }

    /// How often the caller may call.
    async fn tier(&self, _caller: &Caller) -> FlowResult<Tier> {
        Ok(Tier::default())
    }
}

/// The refusal of a credential that is missing, unknown or no longer good.
pub fn unauthorized() -> Refusal {
    Refusal::unauthenticated("Unauthorized")
}
