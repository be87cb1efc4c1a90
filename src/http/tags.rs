//! Groups of operations in the documents, in the order of use.

/// Groups of the platform document, in the order of use.
#[derive(poem_openapi::Tags)]
pub enum PlatformTag {
    /// Start here. A request says who is paid, how much and in which currency; `/pay` returns the calldata for the
    /// payer's wallet, and the status follows the chain. The event `payment.confirmed` reports that the request is paid
    Requests,
    /// Final payments: search them by transaction, wallet, reference or request, page through them, or export them for
    /// bookkeeping
    Payments,
    /// Pay others: a request and its calldata in one call, many payouts at once, or recurring payouts with one
    /// signature
    Payouts,
    /// Payment links, if you have no payment page of your own: anyone with the token can view and pay the link, for one
    /// request or several, incoming or outgoing
    #[oai(rename = "Secure payments")]
    SecurePayments,
    /// People or companies whose payouts go to their bank account: first the identity, then the agreement and the
    /// account; then requests with `isCryptoToFiatAvailable`
    Payers,
    /// Currencies for amounts and payments: tokens, native coins and fiat currencies of the enabled networks, and the
    /// conversion routes between them
    Currencies,
    /// Public identifiers for browser pages, and identifiers for backends that act for a platform. A page needs a
    /// client ID to call this service
    #[oai(rename = "Client IDs")]
    ClientIds,
    /// The token and address in which a wallet is paid, confirmed by a signature of this wallet. A wallet needs a
    /// destination before a link can pay it or a client ID can be bound to it
    Destinations,
    /// The event log: events, their deliveries with every attempt, replays, and a stream for clients without a public
    /// URL (added by this service)
    Events,
    /// Webhook endpoints of a partner that builds on several platforms, and their secrets
    Orchestrators,
    /// Callbacks from partners of the operator; integrators do not call them (added by this service)
    #[oai(rename = "Provider callbacks")]
    ProviderCallbacks,
}

/// Groups of the authentication document, in the order of use.
#[derive(poem_openapi::Tags)]
pub enum AuthTag {
    /// Sign in with a wallet or with e-mail and password, and sign out
    Sessions,
    /// Public identifiers for browser pages, and identifiers for backends, managed with a session
    #[oai(rename = "Client IDs")]
    ClientIds,
    /// The token and address in which the signed-in wallet is paid. The wallet needs a destination before a link can
    /// pay it or a client ID can be bound to it
    Destinations,
    /// Keys for servers of the platform, created and revoked with a session (added by this service)
    #[oai(rename = "API keys")]
    ApiKeys,
    /// Endpoints that receive events: register one, test it, and rotate its secret without downtime
    Webhooks,
}
