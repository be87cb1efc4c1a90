//! Groups of operations in the documents, in the order of work.

/// Groups of the platform document, in the order of work.
#[derive(poem_openapi::Tags)]
pub enum PlatformTag {
    /// Begin here. A request says who is paid, how much and in what; `/pay` hands out what the payer's wallet signs, and the state follows the chain. `payment.confirmed` tells that it is paid
    Requests,
    /// What has arrived and is final: look it up by transaction, wallet, reference or request, page through it, or export it for bookkeeping
    Payments,
    /// Pay somebody yourself: the request and its calldata in one call, many at once, or again and again with one signature
    Payouts,
    /// Payment links, for payers without your page: whoever has the token sees what is due and pays it, one request or several, incoming or outgoing
    #[oai(rename = "Secure payments")]
    SecurePayments,
    /// Who is paid out to a bank account: first the identity, then the agreement and the account; then requests with `isCryptoToFiatAvailable`
    Payers,
    /// What can be asked for and paid in: tokens, native coins and fiat currencies of the enabled networks, and the routes between them
    Currencies,
    /// Public identifiers for pages of browsers and for backends that act for a platform. Make one before a page may call this service
    #[oai(rename = "Client IDs")]
    ClientIds,
    /// Where a wallet wants to be paid, agreed to with its signature: needed before links pay to it and client IDs are bound to it
    Destinations,
    /// The log of what was told: events, their deliveries with every try, replays, and a stream to follow when there is no public address (an addition of this service)
    Events,
    /// Endpoints of a partner who builds on several platforms, and their secrets
    Orchestrators,
    /// What partners of the operator tell this service; integrators do not call it (an addition of this service)
    #[oai(rename = "Provider callbacks")]
    ProviderCallbacks,
}

/// Groups of the authentication document, in the order of work.
#[derive(poem_openapi::Tags)]
pub enum AuthTag {
    /// Sign in with a wallet or with e-mail and password before you manage anything, and sign out
    Sessions,
    /// Public identifiers for pages of browsers and for backends, managed by a person who signed in
    #[oai(rename = "Client IDs")]
    ClientIds,
    /// Where the wallet that signed in wants to be paid: needed before links pay to it and client IDs are bound to it
    Destinations,
    /// Keys for servers of the platform, made and taken back by a person who signed in (an addition of this service)
    #[oai(rename = "API keys")]
    ApiKeys,
    /// Endpoints that receive events: register one, test it, and change its secret without a gap
    Webhooks,
}
