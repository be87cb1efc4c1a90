//! All operations, document by document, in the order of work: the tags of a document stand in it too. They are without
//! state: they find their handles in the request.

use crate::http::{
    accounts, api_keys, client_ids, currencies, destinations, events, payers, payments, payouts, provider_callbacks,
    requests, secure_payments, wallets, webhooks,
};
use poem_openapi::OpenApi;

/// Operations under `{base_url}/v2`.
pub fn platform() -> impl OpenApi {
    (
        requests::Requests,
        payments::Payments,
        payouts::Payouts,
        payouts::BatchPayouts,
        payouts::recurring::RecurringPayouts,
        secure_payments::SecurePayments,
        payers::Payers,
        currencies::Currencies,
        client_ids::ClientIds,
        destinations::Destinations,
        events::Events,
        webhooks::orchestrators::Orchestrators,
        provider_callbacks::ProviderCallbacks,
    )
}

/// Operations under `{auth_url}/v1`.
pub fn auth() -> impl OpenApi {
    (
        wallets::Wallets,
        accounts::Accounts,
        client_ids::own::OwnClientIds,
        destinations::own::OwnDestinations,
        api_keys::ApiKeys,
        webhooks::Webhooks,
    )
}
