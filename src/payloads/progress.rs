//! Bodies of events about a request, without those about received payments: failed payment, refund, payout, recurrence.

use super::{
    forms::{ProcessorNames, clipped, processor, symbol, timestamp},
    pattern,
    payments::EventRecurringPayment,
    placeholders as sample,
};
use crate::domain::{
    currency::Catalogue,
    event::{ChainTransaction, PaymentFailed, PaymentProcessing, PaymentRefunded, RequestRecurring},
    network::Network,
    off_ramp::OffRampStatus,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The execution of a payment failed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentFailedBody {
    /// Name of the event.
    #[schemars(extend("enum" = ["payment.failed"], "examples" = ["payment.failed"]))]
    pub event: &'static str,
    /// The request whose payment failed.
    #[schemars(length(max = 66), regex(pattern = pattern::REQUEST_ID), extend("examples" = [sample::REQUEST_ID]))]
    pub request_id: String,
    /// The same value as requestId, under the older name.
    #[serde(rename = "requestID")]
    #[schemars(length(max = 66), regex(pattern = pattern::REQUEST_ID), extend("examples" = [sample::REQUEST_ID]))]
    pub request_id_upper: String,
    /// Reference of the payment.
    #[schemars(length(max = 18), regex(pattern = pattern::REFERENCE), extend("examples" = [sample::REFERENCE]))]
    pub payment_reference: String,
    /// Reason as a code, for example insufficient_funds, failed, bounced or safe_execution_failed. Further codes may
    /// follow.
    #[schemars(length(max = 64), extend("examples" = ["insufficient_funds"]))]
    pub sub_status: String,
    /// Part of the service that tried to execute the payment.
    #[schemars(length(max = 64), extend("examples" = ["service-network"]))]
    pub payment_processor: String,
    /// When it failed.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME]))]
    pub timestamp: String,
    /// The reason in words, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "String",
        length(max = 1024),
        extend("examples" = ["The wallet holds less than the payment needs"])
    )]
    pub failure_reason: Option<String>,
    /// The recurring payment whose execution failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EventRecurringPayment")]
    pub recurring_payment: Option<EventRecurringPayment>,
    /// Page of a public explorer that shows the transaction; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "String",
        length(max = 2048),
        extend("format" = "uri", "examples" = [Network::Base.explorer_url(sample::TX_HASH)])
    )]
    pub explorer: Option<String>,
}

/// A payment was refunded to the payer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentRefundedBody {
    /// Name of the event.
    #[schemars(extend("enum" = ["payment.refunded"], "examples" = ["payment.refunded"]))]
    pub event: &'static str,
    /// The request whose payment was refunded.
    #[schemars(length(max = 66), regex(pattern = pattern::REQUEST_ID), extend("examples" = [sample::REQUEST_ID]))]
    pub request_id: String,
    /// The same value as requestId, under the older name.
    #[serde(rename = "requestID")]
    #[schemars(length(max = 66), regex(pattern = pattern::REQUEST_ID), extend("examples" = [sample::REQUEST_ID]))]
    pub request_id_upper: String,
    /// Reference of the payment.
    #[schemars(length(max = 18), regex(pattern = pattern::REFERENCE), extend("examples" = [sample::REFERENCE]))]
    pub payment_reference: String,
    /// Wallet that received the refund; null for an endpoint that is not approved.
    #[schemars(length(max = 42), regex(pattern = pattern::WALLET), extend("examples" = [sample::PAYER]))]
    pub refunded_to: Option<String>,
    /// Refunded amount, in the currency that the member currency names.
    #[schemars(length(max = 108), regex(pattern = pattern::AMOUNT), extend("examples" = ["100.5"]))]
    pub refund_amount: String,
    /// Symbol of the refunded currency.
    #[schemars(length(max = 64), regex(pattern = pattern::CURRENCY), extend("examples" = ["USDC"]))]
    pub currency: String,
    /// Time of the refund.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME]))]
    pub timestamp: String,
    /// Part of the service that recognised the refund.
    #[schemars(length(max = 64), extend("examples" = ["service-network"]))]
    pub payment_processor: String,
    /// Transaction of the refund; null if unknown.
    #[schemars(length(max = 66), regex(pattern = pattern::TX_HASH), extend("examples" = [sample::TX_HASH]))]
    pub tx_hash: Option<String>,
    /// Network of the refund.
    #[schemars(length(max = 32), regex(pattern = pattern::NETWORK), extend("examples" = ["base"]))]
    pub network: String,
    /// Page of a public explorer that shows the refund; absent while its transaction is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "String",
        length(max = 2048),
        extend("format" = "uri", "examples" = [Network::Base.explorer_url(sample::TX_HASH)])
    )]
    pub explorer: Option<String>,
}

/// The status of a payout to a bank account changed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaymentProcessingBody {
    /// Name of the event.
    #[schemars(extend("enum" = ["payment.processing"], "examples" = ["payment.processing"]))]
    pub event: &'static str,
    /// Id of the request that is paid out.
    #[schemars(length(max = 66), regex(pattern = pattern::REQUEST_ID), extend("examples" = [sample::REQUEST_ID]))]
    pub request_id: String,
    /// The same value as requestId, under the older name.
    #[serde(rename = "requestID")]
    #[schemars(length(max = 66), regex(pattern = pattern::REQUEST_ID), extend("examples" = [sample::REQUEST_ID]))]
    pub request_id_upper: String,
    /// Reference of the payment.
    #[schemars(length(max = 18), regex(pattern = pattern::REFERENCE), extend("examples" = [sample::REFERENCE]))]
    pub payment_reference: String,
    /// Id of the payout.
    #[schemars(length(max = 255), extend("examples" = ["01JZX7C3DE4F5G6H7J8K9MNPQR"]))]
    pub offramp_id: String,
    /// When the status changed.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME]))]
    pub timestamp: String,
    /// Status of the payout.
    #[schemars(with = "OffRampStatus")]
    pub sub_status: &'static str,
    /// Part of the service that pays out.
    #[schemars(length(max = 64), extend("examples" = ["service-tech"]))]
    pub payment_processor: String,
    /// Data of the payout provider.
    pub raw_payload: EventPayout,
    /// Page of a public explorer that shows the payment; absent while its transaction is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "String",
        length(max = 2048),
        extend("format" = "uri", "examples" = [Network::Base.explorer_url(sample::TX_HASH)])
    )]
    pub explorer: Option<String>,
}

/// A payout as its provider describes it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventPayout {
    /// The provider's own status word.
    #[schemars(length(max = 255), extend("examples" = ["sending_fiat"]))]
    pub status: String,
    /// The provider's id of the payout.
    #[schemars(length(max = 255), extend("examples" = ["payout-7731"]))]
    pub provider_id: String,
}

/// A recurring request generated the next one.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestRecurringBody {
    /// Name of the event.
    #[schemars(extend("enum" = ["request.recurring"], "examples" = ["request.recurring"]))]
    pub event: &'static str,
    /// Id of the new request.
    #[schemars(length(max = 66), regex(pattern = pattern::REQUEST_ID), extend("examples" = [sample::REQUEST_ID]))]
    pub request_id: String,
    /// The same value as requestId, under the older name.
    #[serde(rename = "requestID")]
    #[schemars(length(max = 66), regex(pattern = pattern::REQUEST_ID), extend("examples" = [sample::REQUEST_ID]))]
    pub request_id_upper: String,
    /// Id of the recurring request.
    #[schemars(length(max = 66), regex(pattern = pattern::REQUEST_ID), extend("examples" = [sample::ORIGINAL_REQUEST_ID]))]
    pub original_request_id: String,
    /// Reference of payments of the new request.
    #[schemars(length(max = 18), regex(pattern = pattern::REFERENCE), extend("examples" = [sample::REFERENCE]))]
    pub payment_reference: String,
    /// Reference of payments of the recurring request.
    #[schemars(length(max = 18), regex(pattern = pattern::REFERENCE), extend("examples" = [sample::ORIGINAL_REFERENCE]))]
    pub original_request_payment_reference: String,
    /// When the new request was generated.
    #[schemars(length(max = 24), extend("format" = "date-time", "examples" = [sample::TIME]))]
    pub timestamp: String,
    /// Part of the service that will recognise payments of the new request.
    #[schemars(length(max = 64), extend("examples" = ["service-network"]))]
    pub payment_processor: String,
}

pub(super) fn failed(facts: &PaymentFailed, names: &ProcessorNames) -> PaymentFailedBody {
    PaymentFailedBody {
        event: "payment.failed",
        request_id: facts.request.id.to_string(),
        request_id_upper: facts.request.id.to_string(),
        payment_reference: facts.request.reference.to_string(),
        sub_status: clipped(&facts.reason, 64),
        payment_processor: processor(&facts.request, names),
        timestamp: timestamp(facts.at),
        failure_reason: facts.message.as_deref().map(|message| clipped(message, 1024)),
        recurring_payment: facts.recurring_payment.clone().map(|id| EventRecurringPayment { id }),
        explorer: facts.transaction.as_ref().map(ChainTransaction::explorer_url),
    }
}

pub(super) fn refunded(facts: &PaymentRefunded, catalogue: &Catalogue, names: &ProcessorNames) -> PaymentRefundedBody {
    let transaction = facts.tx_hash.clone().map(|hash| ChainTransaction {
        network: facts.network,
        hash,
    });
    PaymentRefundedBody {
        event: "payment.refunded",
        request_id: facts.request.id.to_string(),
        request_id_upper: facts.request.id.to_string(),
        payment_reference: facts.request.reference.to_string(),
        refunded_to: Some(facts.refunded_to.to_string()),
        refund_amount: facts.amount.to_string(),
        currency: symbol(catalogue.find(&facts.currency), &facts.currency),
        timestamp: timestamp(facts.at),
        payment_processor: processor(&facts.request, names),
        tx_hash: facts.tx_hash.clone(),
        network: facts.network.id().to_owned(),
        explorer: transaction.as_ref().map(ChainTransaction::explorer_url),
    }
}

pub(super) fn processing(facts: &PaymentProcessing, names: &ProcessorNames) -> PaymentProcessingBody {
    PaymentProcessingBody {
        event: "payment.processing",
        request_id: facts.request.id.to_string(),
        request_id_upper: facts.request.id.to_string(),
        payment_reference: facts.request.reference.to_string(),
        offramp_id: facts.off_ramp_id.clone(),
        timestamp: timestamp(facts.at),
        sub_status: facts.status.wire(),
        payment_processor: names.processor_fiat.clone(),
        raw_payload: EventPayout {
            status: clipped(&facts.provider_status, 255),
            provider_id: clipped(&facts.provider_id, 255),
        },
        explorer: facts.transaction.as_ref().map(ChainTransaction::explorer_url),
    }
}

pub(super) fn recurring(facts: &RequestRecurring, names: &ProcessorNames) -> RequestRecurringBody {
    RequestRecurringBody {
        event: "request.recurring",
        request_id: facts.request.id.to_string(),
        request_id_upper: facts.request.id.to_string(),
        original_request_id: facts.original_request_id.clone(),
        payment_reference: facts.request.reference.to_string(),
        original_request_payment_reference: facts.original_request_reference.clone(),
        timestamp: timestamp(facts.request.created_at),
        payment_processor: processor(&facts.request, names),
    }
}

pub(super) fn failed_sample(names: &ProcessorNames) -> PaymentFailedBody {
    PaymentFailedBody {
        event: "payment.failed",
        request_id: sample::REQUEST_ID.to_owned(),
        request_id_upper: sample::REQUEST_ID.to_owned(),
        payment_reference: sample::REFERENCE.to_owned(),
        sub_status: "insufficient_funds".to_owned(),
        payment_processor: names.processor_crypto.clone(),
        timestamp: sample::TIME.to_owned(),
        failure_reason: Some("The wallet holds less than the payment needs".to_owned()),
        recurring_payment: Some(EventRecurringPayment {
            id: "01JZX6B2CD3E4F5G6H7J8K9MNP".to_owned(),
        }),
        explorer: None,
    }
}

pub(super) fn refunded_sample(names: &ProcessorNames) -> PaymentRefundedBody {
    PaymentRefundedBody {
        event: "payment.refunded",
        request_id: sample::REQUEST_ID.to_owned(),
        request_id_upper: sample::REQUEST_ID.to_owned(),
        payment_reference: sample::REFERENCE.to_owned(),
        refunded_to: Some(sample::PAYER.to_owned()),
        refund_amount: "100.5".to_owned(),
        currency: "USDC".to_owned(),
        timestamp: sample::TIME.to_owned(),
        payment_processor: names.processor_crypto.clone(),
        tx_hash: Some(sample::TX_HASH.to_owned()),
        network: "base".to_owned(),
        explorer: Some(Network::Base.explorer_url(sample::TX_HASH)),
    }
}

pub(super) fn processing_sample(names: &ProcessorNames) -> PaymentProcessingBody {
    let status = OffRampStatus::SendingFiat.wire();
    PaymentProcessingBody {
        event: "payment.processing",
        request_id: sample::REQUEST_ID.to_owned(),
        request_id_upper: sample::REQUEST_ID.to_owned(),
        payment_reference: sample::REFERENCE.to_owned(),
        offramp_id: "01JZX7C3DE4F5G6H7J8K9MNPQR".to_owned(),
        timestamp: sample::TIME.to_owned(),
        sub_status: status,
        payment_processor: names.processor_fiat.clone(),
        raw_payload: EventPayout {
            status: status.to_owned(),
            provider_id: "payout-7731".to_owned(),
        },
        explorer: Some(Network::Base.explorer_url(sample::TX_HASH)),
    }
}

pub(super) fn recurring_sample(names: &ProcessorNames) -> RequestRecurringBody {
    RequestRecurringBody {
        event: "request.recurring",
        request_id: sample::REQUEST_ID.to_owned(),
        request_id_upper: sample::REQUEST_ID.to_owned(),
        original_request_id: sample::ORIGINAL_REQUEST_ID.to_owned(),
        payment_reference: sample::REFERENCE.to_owned(),
        original_request_payment_reference: sample::ORIGINAL_REFERENCE.to_owned(),
        timestamp: sample::TIME.to_owned(),
        payment_processor: names.processor_crypto.clone(),
    }
}
