//! Groups of operations in the documents, in the order in which an integrator meets them.

/// Groups of the platform document, in the order in which an integrator meets them.
#[derive(poem_openapi::Tags)]
pub enum PlatformTag {
    /// Tokens, native coins and fiat currencies of the enabled networks, and what can be paid in what
    Currencies,
    /// Payment requests: create one, hand out the calldata that pays it, follow its state
    Requests,
    /// Paying somebody without a request that was created before: the request and its calldata in one call
    Payouts,
    /// Links by which whoever has the token pays: one request or several, incoming or outgoing
    #[oai(rename = "Secure payments")]
    SecurePayments,
    /// Settled payments, found by transaction, wallet, reference or request
    Payments,
    /// Who is paid out to a bank account: identity, agreement and the accounts themselves
    Payers,
    /// Public identifiers for browser pages and backends that act for a platform
    #[oai(rename = "Client ids")]
    ClientIds,
    /// Where wallets want to be paid, agreed to with their signature
    #[oai(rename = "Payee destinations")]
    PayeeDestinations,
    /// The log of what was told: events, their deliveries with every try, replays, and a stream to follow (an addition of this service)
    Events,
    /// Endpoints that receive what concerns a partner who builds on several platforms
    Orchestrators,
    /// What partners of the operator tell this service; integrators do not call it (an addition of this service)
    #[oai(rename = "Provider callbacks")]
    ProviderCallbacks,
}

/// Groups of the authentication document.
#[derive(poem_openapi::Tags)]
pub enum AuthTag {
    /// Signing in with a wallet or with e-mail and password, and signing out
    Sessions,
    /// Public identifiers for browser pages and backends, managed by a person who signed in
    #[oai(rename = "Client ids")]
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
