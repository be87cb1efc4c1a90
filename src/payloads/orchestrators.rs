//! Bodies of events for orchestrators.

use super::{forms::timestamp, pattern, placeholders as sample};
use crate::domain::{
    address::Address,
    event::{ClientIdLinked, ScreeningCompleted},
    screening::ScreeningStatus,
};
use schemars::JsonSchema;
use serde::Serialize;

/// A platform finished its onboarding.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientIdLinkedBody {
    /// Name of the event.
    #[schemars(extend("enum" = ["client_id.linked"], "examples" = ["client_id.linked"]))]
    pub event: &'static str,
    /// Client ID of the platform: store it.
    #[schemars(length(max = 64), regex(pattern = pattern::CLIENT_ID), extend("examples" = [sample::CLIENT_ID]))]
    pub client_id: String,
    /// Your orchestrator id.
    #[schemars(length(max = 64), regex(pattern = pattern::ULID), extend("examples" = [sample::ORCHESTRATOR]))]
    pub orchestrator_id: String,
    /// Id of the link.
    #[schemars(length(max = 64), regex(pattern = pattern::ULID), extend("examples" = ["01JZX8D4EF5G6H7J8K9MNPQRST"]))]
    pub link_id: String,
    /// Intent that the platform completed.
    #[schemars(length(max = 64), regex(pattern = pattern::ULID), extend("examples" = ["01JZX9E5FG6H7J8K9MNPQRSTVW"]))]
    pub intent_id: String,
    /// Your own id of the platform, as given with the intent; null if none was given.
    #[schemars(length(max = 255), extend("examples" = ["merchant-7"]))]
    pub external_id: Option<String>,
    /// Composite id of the destination: wallet, network and token.
    #[schemars(length(max = 255), extend("examples" = [sample::DESTINATION_ID]))]
    pub destination_id: String,
    /// Wallet that receives payments for the platform: lower case on EVM networks, the original case on Tron.
    #[schemars(length(max = 42), regex(pattern = pattern::WALLET), extend("examples" = [sample::PAYEE_LOWER]))]
    pub destination_wallet_address: String,
    /// Network of the destination.
    #[schemars(length(max = 32), regex(pattern = pattern::NETWORK), extend("examples" = ["base"]))]
    pub chain: String,
    /// Symbol of the currency of the destination.
    #[schemars(length(max = 64), regex(pattern = pattern::CURRENCY), extend("examples" = ["USDC"]))]
    pub currency: String,
    /// When it was linked.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME]))]
    pub timestamp: String,
}

/// A wallet was screened, with a result.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KytScreeningCompleted {
    /// Name of the event.
    #[schemars(extend("enum" = ["kyt.screening.completed"], "examples" = ["kyt.screening.completed"]))]
    pub event: &'static str,
    /// Token of the secure payment.
    #[schemars(length(max = 64), regex(pattern = pattern::ULID), extend("examples" = [sample::SECURE_PAYMENT_TOKEN]))]
    pub payment_token: String,
    /// Wallet that was screened.
    #[schemars(length(max = 42), regex(pattern = pattern::WALLET), extend("examples" = [sample::PAYER]))]
    pub wallet_address: String,
    /// Account of the person behind the wallet; null if unknown.
    #[schemars(length(max = 42), regex(pattern = pattern::WALLET), extend("examples" = [sample::PAYER]))]
    pub eoa_address: Option<String>,
    /// Connected smart account; null if there is none.
    #[schemars(length(max = 42), regex(pattern = pattern::WALLET), extend("examples" = [sample::PAYEE]))]
    pub smart_account_address: Option<String>,
    /// Result.
    #[schemars(with = "ScreeningStatus")]
    pub status: &'static str,
    /// Provider that produced the result; may be the backup provider.
    #[schemars(length(max = 64), extend("examples" = ["screening-provider"]))]
    pub provider: String,
    /// Policy that was used; null for the default of the account at the provider.
    #[schemars(length(max = 255), extend("examples" = ["policy-strict"]))]
    pub policy_id: Option<String>,
    /// When it was screened.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME]))]
    pub timestamp: String,
}

pub(super) fn linked(facts: &ClientIdLinked) -> ClientIdLinkedBody {
    ClientIdLinkedBody {
        event: "client_id.linked",
        client_id: facts.client_id.clone(),
        orchestrator_id: facts.orchestrator.clone(),
        link_id: facts.link.clone(),
        intent_id: facts.intent.clone(),
        external_id: facts.external_id.clone(),
        destination_id: facts.destination_id.clone(),
        destination_wallet_address: facts.wallet.canonical(),
        chain: facts.network.id().to_owned(),
        currency: facts.currency_symbol.clone(),
        timestamp: timestamp(facts.at),
    }
}

pub(super) fn screening(facts: &ScreeningCompleted) -> KytScreeningCompleted {
    KytScreeningCompleted {
        event: "kyt.screening.completed",
        payment_token: facts.secure_payment_token.clone(),
        wallet_address: facts.wallet.to_string(),
        eoa_address: facts.eoa.as_ref().map(Address::to_string),
        smart_account_address: facts.smart_account.as_ref().map(Address::to_string),
        status: facts.status.wire(),
        provider: facts.provider.clone(),
        policy_id: facts.policy_id.clone(),
        timestamp: timestamp(facts.at),
    }
}

pub(super) fn linked_sample() -> ClientIdLinkedBody {
    ClientIdLinkedBody {
        event: "client_id.linked",
        client_id: sample::CLIENT_ID.to_owned(),
        orchestrator_id: sample::ORCHESTRATOR.to_owned(),
        link_id: "01JZX8D4EF5G6H7J8K9MNPQRST".to_owned(),
        intent_id: "01JZX9E5FG6H7J8K9MNPQRSTVW".to_owned(),
        external_id: Some("merchant-7".to_owned()),
        destination_id: sample::DESTINATION_ID.to_owned(),
        destination_wallet_address: sample::PAYEE_LOWER.to_owned(),
        chain: "base".to_owned(),
        currency: "USDC".to_owned(),
        timestamp: sample::TIME.to_owned(),
    }
}

pub(super) fn screening_sample() -> KytScreeningCompleted {
    KytScreeningCompleted {
        event: "kyt.screening.completed",
        payment_token: sample::SECURE_PAYMENT_TOKEN.to_owned(),
        wallet_address: sample::PAYER.to_owned(),
        eoa_address: Some(sample::PAYER.to_owned()),
        smart_account_address: None,
        status: ScreeningStatus::Approved.wire(),
        provider: "screening-provider".to_owned(),
        policy_id: None,
        timestamp: sample::TIME.to_owned(),
    }
}
