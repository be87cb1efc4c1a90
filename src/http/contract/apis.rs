//! All operations of each document, in the order in which an integrator uses them; the tags have the same order. The
//! structs of the operations hold no state: each call gets the database and settings from its request.

use crate::http::{
    accounts, api_keys, client_ids, currencies, destinations, events, orchestrators, payers, payments, payouts,
    provider_callbacks, requests, secure_payments, wallets, webhooks,
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
        orchestrators::client_ids::LinkedClientIds,
        orchestrators::fee_configs::FeeConfigs,
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
