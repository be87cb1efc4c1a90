//! Bodies of events about payers and their bank accounts.

use super::{
    forms::{clipped, foreign, timestamp},
    placeholders as sample,
};
use crate::domain::event::{AgreementStatus, ComplianceUpdated, KycStatus, PaymentDetailStatus, PaymentDetailUpdated};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The identity or agreement status of a payer changed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComplianceUpdatedBody {
    /// Name of the event.
    #[schemars(extend("enum" = ["compliance.updated"], "examples" = ["compliance.updated"]))]
    pub event: &'static str,
    /// Your own id of the payer.
    #[schemars(length(max = 255), extend("examples" = [sample::CLIENT_USER_ID]))]
    pub client_user_id: String,
    /// Identity status of the payer.
    #[schemars(with = "KycStatus")]
    pub kyc_status: &'static str,
    /// Agreement status of the payer.
    #[schemars(with = "AgreementStatus")]
    pub agreement_status: &'static str,
    /// Whether the identity is approved and the agreement completed.
    #[schemars(extend("examples" = [true]))]
    pub is_compliant: bool,
    /// When it changed.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME]))]
    pub timestamp: String,
    /// Original data of the provider.
    #[schemars(extend("examples" = [{ "verificationLevel": "standard", "documents": "accepted" }]))]
    pub raw_payload: Map<String, Value>,
}

/// The verification status of a bank account changed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentDetailUpdatedBody {
    /// Name of the event.
    #[schemars(extend("enum" = ["payment_detail.updated"], "examples" = ["payment_detail.updated"]))]
    pub event: &'static str,
    /// Id of the bank account.
    #[schemars(length(max = 64), extend("examples" = [sample::PAYMENT_DETAIL]))]
    pub payment_details_id: String,
    /// The same value as paymentDetailsId, under the older name.
    #[schemars(length(max = 64), extend("examples" = [sample::PAYMENT_DETAIL]))]
    pub payment_account_id: String,
    /// Your own id of the payer.
    #[schemars(length(max = 255), extend("examples" = [sample::CLIENT_USER_ID]))]
    pub client_user_id: String,
    /// Whether the account can be used.
    #[schemars(with = "PaymentDetailStatus")]
    pub status: &'static str,
    /// Why the account was rejected; only with status failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "String",
        length(max = 1024),
        extend("examples" = ["The account belongs to another person"])
    )]
    pub rejection_message: Option<String>,
    /// When it changed.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME]))]
    pub timestamp: String,
    /// Original data of the provider.
    #[schemars(extend("examples" = [{ "reason": "account_holder_mismatch" }]))]
    pub raw_payload: Map<String, Value>,
}

pub(super) fn compliance(facts: &ComplianceUpdated) -> ComplianceUpdatedBody {
    ComplianceUpdatedBody {
        event: "compliance.updated",
        client_user_id: facts.client_user_id.clone(),
        kyc_status: facts.kyc.wire(),
        agreement_status: facts.agreement.wire(),
        is_compliant: facts.is_compliant(),
        timestamp: timestamp(facts.at),
        raw_payload: foreign(&facts.raw),
    }
}

pub(super) fn payment_detail(facts: &PaymentDetailUpdated) -> PaymentDetailUpdatedBody {
    let is_failed = facts.status == PaymentDetailStatus::Failed;
    let reason = facts.rejection_message.as_deref().filter(|_| is_failed);
    PaymentDetailUpdatedBody {
        event: "payment_detail.updated",
        payment_details_id: facts.payment_detail.clone(),
        payment_account_id: facts.payment_detail.clone(),
        client_user_id: facts.client_user_id.clone(),
        status: facts.status.wire(),
        rejection_message: reason.map(|reason| clipped(reason, 1024)),
        timestamp: timestamp(facts.at),
        raw_payload: foreign(&facts.raw),
    }
}

pub(super) fn compliance_sample() -> ComplianceUpdatedBody {
    ComplianceUpdatedBody {
        event: "compliance.updated",
        client_user_id: sample::CLIENT_USER_ID.to_owned(),
        kyc_status: KycStatus::Approved.wire(),
        agreement_status: AgreementStatus::Completed.wire(),
        is_compliant: true,
        timestamp: sample::TIME.to_owned(),
        raw_payload: object(&[("verificationLevel", "standard"), ("documents", "accepted")]),
    }
}

pub(super) fn payment_detail_sample() -> PaymentDetailUpdatedBody {
    PaymentDetailUpdatedBody {
        event: "payment_detail.updated",
        payment_details_id: sample::PAYMENT_DETAIL.to_owned(),
        payment_account_id: sample::PAYMENT_DETAIL.to_owned(),
        client_user_id: sample::CLIENT_USER_ID.to_owned(),
        status: PaymentDetailStatus::Failed.wire(),
        rejection_message: Some("The account belongs to another person".to_owned()),
        timestamp: sample::TIME.to_owned(),
        raw_payload: object(&[("reason", "account_holder_mismatch")]),
    }
}

fn object(members: &[(&str, &str)]) -> Map<String, Value> {
    members
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect()
}
