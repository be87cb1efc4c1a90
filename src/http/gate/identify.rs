//! Interface for looking up the caller of a credential; the service implements it.

use crate::{
    domain::{
        caller::{Caller, OrchestratorCaller, PlatformCaller},
        client_id::{CallOrigin, EndpointManagers},
        quota::Tier,
    },
    flows::FlowResult,
};
use async_trait::async_trait;

/// Looks up the caller of a credential. Errors: unauthenticated, forbidden, or a failed lookup.
#[async_trait]
pub trait Identify: Send + Sync + 'static {
    /// The platform of an API key.
    async fn api_key(&self, key: &str) -> FlowResult<PlatformCaller>;

    /// The platform of a client ID, if it may be used from this origin.
    async fn client_id(&self, id: &str, call: CallOrigin<'_>) -> FlowResult<PlatformCaller>;

    /// Whether a client ID is valid, without a check of the calling page. Used when another credential decides.
    async fn require_client_id(&self, id: &str) -> FlowResult<()>;

    /// The owner of a session.
    async fn session(&self, token: &str) -> FlowResult<PlatformCaller>;

    /// Whether pages of this origin may use sessions.
    fn is_session_page(&self, origin: &str) -> bool;

    /// Which client IDs may manage endpoints.
    fn endpoint_managers(&self) -> EndpointManagers;

    /// The owner of an orchestrator key.
    async fn orchestrator_key(&self, key: &str) -> FlowResult<OrchestratorCaller>;

    /// The platform of a client ID that is linked to the orchestrator of a key, if it may be used from this origin.
    async fn pair(&self, key: &str, id: &str, call: CallOrigin<'_>) -> FlowResult<PlatformCaller>;

    /// Whether a credential was valid recently. Such a credential is looked up immediately, even for an address that
    /// guesses other credentials.
    fn was_good(&self, credential: &str) -> bool;

    /// Rate limit tier of the caller.
    async fn tier(&self, caller: &Caller) -> FlowResult<Tier>;
}
