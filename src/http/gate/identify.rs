//! Finding the caller behind a credential: the gate asks, the service knows.

use crate::{
    domain::{
        caller::{Caller, OrchestratorCaller, PlatformCaller},
        client_id::{CallOrigin, EndpointManagers},
        quota::Tier,
    },
    flows::FlowResult,
};
use async_trait::async_trait;

/// Finds the caller behind a credential. Errors: unauthenticated, forbidden, or the faults of a lookup.
#[async_trait]
pub trait Identify: Send + Sync + 'static {
    /// The platform of an API key.
    async fn api_key(&self, key: &str) -> FlowResult<PlatformCaller>;

    /// The platform of a client ID, when it may be used from there.
    async fn client_id(&self, id: &str, call: CallOrigin<'_>) -> FlowResult<PlatformCaller>;

    /// Whether a client ID is good, wherever the call comes from: another credential decides.
    async fn require_client_id(&self, id: &str) -> FlowResult<()>;

    /// The owner of a session.
    async fn session(&self, token: &str) -> FlowResult<PlatformCaller>;

    /// Whether pages of this origin may use sessions.
    fn is_session_page(&self, origin: &str) -> bool;

    /// Which client IDs may manage endpoints.
    fn endpoint_managers(&self) -> EndpointManagers;

    /// The owner of an orchestrator key.
    async fn orchestrator_key(&self, key: &str) -> FlowResult<OrchestratorCaller>;

    /// Whether a credential was good not long ago: then it is looked up at once, also for an address that guesses others.
    fn was_good(&self, credential: &str) -> bool;

    /// How often the caller may call.
    async fn tier(&self, caller: &Caller) -> FlowResult<Tier>;
}
