//! Operations under `{auth_url}/v1`.

pub mod accounts;
pub mod cookie;
pub mod wallet;
pub mod webhooks;

/// Groups of the authentication document.
#[derive(poem_openapi::Tags)]
pub enum Tag {
    /// Signing in with a wallet or with e-mail and password, and signing out
    Sessions,
    /// Endpoints that receive the events of a client ID
    Webhooks,
}

/// All operations of the authentication document.
pub type Api = (wallet::Wallets, accounts::Accounts, webhooks::Webhooks);

/// The operations, without state.
pub fn api() -> Api {
    (wallet::Wallets, accounts::Accounts, webhooks::Webhooks)
}
