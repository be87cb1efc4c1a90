//! Operations under `{auth_url}/v1`.

pub mod webhooks;

/// Groups of the authentication document.
#[derive(poem_openapi::Tags)]
pub enum Tag {
    /// Endpoints that receive the events of a client ID
    Webhooks,
}

/// All operations of the authentication document.
pub type Api = webhooks::Webhooks;

/// The operations, without state.
pub fn api() -> Api {
    webhooks::Webhooks
}
