//! Bodies of events about actions on the payment page.

use super::{
    forms::{foreign, timestamp},
    pattern, placeholders as sample,
};
use crate::domain::{
    event::{AccessRejected, PayerStep},
    secure_payment::step::PayerStepKind,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A payer took a step on the payment page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurePaymentUserEvent {
    /// Name of the event.
    #[schemars(extend("enum" = ["secure_payment.user_event"], "examples" = ["secure_payment.user_event"]))]
    pub event: &'static str,
    /// The step.
    #[schemars(with = "PayerStepKind")]
    pub user_event: &'static str,
    /// Token of the secure payment; null for an endpoint that is not approved.
    #[schemars(length(max = 64), regex(pattern = pattern::ULID), extend("examples" = [sample::SECURE_PAYMENT_TOKEN]))]
    pub secure_payment_token: Option<String>,
    /// Id of the request. Present only if the secure payment has exactly one request, and never for an endpoint that is not approved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 66), regex(pattern = pattern::REQUEST_ID), extend("examples" = [sample::REQUEST_ID]))]
    pub request_id: Option<String>,
    /// All requests of the secure payment. Empty for an endpoint that is not approved.
    #[schemars(
        length(max = 1000),
        inner(length(max = 66), regex(pattern = pattern::REQUEST_ID)),
        extend("examples" = [[sample::REQUEST_ID]])
    )]
    pub request_ids: Vec<String>,
    /// Orchestrator of the secure payment; null if it has none.
    #[schemars(length(max = 64), regex(pattern = pattern::ULID), extend("examples" = [sample::ORCHESTRATOR]))]
    pub orchestrator_id: Option<String>,
    /// When the step happened, by the clock of the browser.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME_OF_BROWSER]))]
    pub occurred_at: String,
    /// When the browser reported the step to the service.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME]))]
    pub timestamp: String,
    /// Data from the browser; unverified. A wallet appears only as wallet_address_hashed. Empty for an endpoint that is not approved.
    #[schemars(extend("examples" = [{ "wallet_provider": "metamask", "selected_source_chain": "base" }]))]
    pub properties: Map<String, Value>,
}

/// A wallet that may not pay attempted to pay.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecurePaymentAccessRejected {
    /// Name of the event.
    #[schemars(extend(
        "enum" = ["secure_payment.access_rejected"],
        "examples" = ["secure_payment.access_rejected"]
    ))]
    pub event: &'static str,
    /// Id of the request. If the secure payment has several requests, this is the first request, or the request that was paid.
    #[schemars(length(max = 66), regex(pattern = pattern::REQUEST_ID), extend("examples" = [sample::REQUEST_ID]))]
    pub request_id: String,
    /// Wallet that attempted to pay: lower case on EVM networks, the original case on Tron; null for an endpoint that is not approved.
    #[schemars(length(max = 42), regex(pattern = pattern::WALLET), extend("examples" = [sample::PAYER_LOWER]))]
    pub attempted_payer_wallet_address: Option<String>,
    /// Time of the attempt, or of the block that holds its payment.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME]))]
    pub timestamp: String,
    /// True if the wallet paid anyway: the money is credited. Absent otherwise. Added by this service.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool", extend("examples" = [true]))]
    pub paid: Option<bool>,
}

pub(super) fn user_event(facts: &PayerStep) -> SecurePaymentUserEvent {
    SecurePaymentUserEvent {
        event: "secure_payment.user_event",
        user_event: facts.step.wire(),
        secure_payment_token: Some(facts.secure_payment_token.clone()),
        request_id: facts.sole_request().map(ToString::to_string),
        request_ids: facts.requests.iter().map(ToString::to_string).collect(),
        orchestrator_id: facts.orchestrator.clone(),
        occurred_at: timestamp(facts.occurred_at),
        timestamp: timestamp(facts.received_at),
        properties: foreign(&facts.properties),
    }
}

pub(super) fn access_rejected(facts: &AccessRejected) -> SecurePaymentAccessRejected {
    SecurePaymentAccessRejected {
        event: "secure_payment.access_rejected",
        request_id: facts.request.to_string(),
        attempted_payer_wallet_address: Some(facts.wallet.canonical()),
        timestamp: timestamp(facts.at),
        paid: facts.paid.is_some().then_some(true),
    }
}

pub(super) fn user_event_sample() -> SecurePaymentUserEvent {
    let properties = [
        ("wallet_provider", json!("metamask")),
        ("selected_source_chain", json!("base")),
        ("payment_type", json!("direct")),
        (
            "wallet_address_hashed",
            json!("5f2b7c1d9e3a40618293a4b5c6d7e8f90a1b2c3d4e5f60718f4e1b2a7c6d5e9f"),
        ),
    ];
    SecurePaymentUserEvent {
        event: "secure_payment.user_event",
        user_event: PayerStepKind::WalletConnected.wire(),
        secure_payment_token: Some(sample::SECURE_PAYMENT_TOKEN.to_owned()),
        request_id: Some(sample::REQUEST_ID.to_owned()),
        request_ids: vec![sample::REQUEST_ID.to_owned()],
        orchestrator_id: Some(sample::ORCHESTRATOR.to_owned()),
        occurred_at: sample::TIME_OF_BROWSER.to_owned(),
        timestamp: sample::TIME.to_owned(),
        properties: properties
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}

pub(super) fn access_rejected_sample() -> SecurePaymentAccessRejected {
    SecurePaymentAccessRejected {
        event: "secure_payment.access_rejected",
        request_id: sample::REQUEST_ID.to_owned(),
        attempted_payer_wallet_address: Some(sample::PAYER_LOWER.to_owned()),
        timestamp: sample::TIME.to_owned(),
        paid: None,
    }
}
