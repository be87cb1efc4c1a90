//! Operations under `{base_url}/v2`, declared noun by noun.

pub mod client_ids;
pub mod currencies;
pub mod destinations;
pub mod events;
pub mod orchestrators;
pub mod payments;
pub mod requests;

/// Groups of the platform document, in the order in which an integrator meets them.
#[derive(poem_openapi::Tags)]
pub enum Tag {
    /// Tokens, native coins and fiat currencies of the enabled networks, and what can be paid in what
    Currencies,
    /// Payment requests: create one, hand out the calldata that pays it, follow its state
    Requests,
    /// Settled payments, found by transaction, wallet, reference or request
    Payments,
    /// Public identifiers for browser pages and backends that act for a platform
    #[oai(rename = "Client IDs")]
    ClientIds,
    /// Where wallets want to be paid, agreed to with their signature
    #[oai(rename = "Payee destinations")]
    PayeeDestinations,
    /// The log of what was told: events, their deliveries with every try, replays, and a stream to follow (an addition of this service)
    Events,
    /// Endpoints that receive what concerns a partner who builds on several platforms
    Orchestrators,
}

/// All operations of the platform document.
pub type Api = (
    currencies::Currencies,
    requests::Requests,
    payments::Payments,
    client_ids::ClientIds,
    destinations::Destinations,
    events::Events,
    orchestrators::Orchestrators,
);

/// The operations, without state: they find their handles in the request.
pub fn api() -> Api {
    (
        currencies::Currencies,
        requests::Requests,
        payments::Payments,
        client_ids::ClientIds,
        destinations::Destinations,
        events::Events,
        orchestrators::Orchestrators,
    )
}
