//! Operations under `{auth_url}/v1`.

pub mod accounts;
pub mod api_keys;
pub mod client_ids;
pub mod cookie;
pub mod destinations;
pub mod wallet;
pub mod webhooks;

/// Groups of the authentication document.
#[derive(poem_openapi::Tags)]
pub enum Tag {
    /// Signing in with a wallet or with e-mail and password, and signing out
    Sessions,
    /// Public identifiers for browser pages and backends, managed by a person who signed in
    #[oai(rename = "Client IDs")]
    ClientIds,
    /// Where the wallet that signed in wants to be paid
    #[oai(rename = "Payee destinations")]
    PayeeDestinations,
    /// Keys for servers of the platform (an addition of this service)
    #[oai(rename = "API keys")]
    ApiKeys,
    /// Endpoints that receive the events of a client ID
    Webhooks,
}

/// All operations of the authentication document.
pub type Api = (
    wallet::Wallets,
    accounts::Accounts,
    client_ids::ClientIds,
    destinations::Destinations,
    api_keys::ApiKeys,
    webhooks::Webhooks,
);

/// The operations, without state.
pub fn api() -> Api {
    (
        wallet::Wallets,
        accounts::Accounts,
        client_ids::ClientIds,
        destinations::Destinations,
        api_keys::ApiKeys,
        webhooks::Webhooks,
    )
}
