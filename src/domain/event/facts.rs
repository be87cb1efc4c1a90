//! What each event tells, as the rules know it.

use crate::domain::{
    address::Address,
    amount::Amount,
    ids::{ClientRowId, EndpointId, OwnerId, PayerId, PaymentId, PlatformId, RequestId},
    ledger::Settlement,
    network::{Family, Network},
    off_ramp::OffRampStatus,
    payment::{ReversalReason, Settled},
    request::Request,
    screening::ScreeningStatus,
    secure_payment::step::PayerStepKind,
    wire_text::wire_text,
};
use alloy::primitives::U256;
use chrono::{DateTime, Utc};

/// Which of the three forms of a payment event is told. Source: decisions D6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// The form that every receiver knows.
    Plain,
    /// The twin for payments of a client ID.
    ClientId,
    /// The twin for payments through a secure payment.
    Checkout,
}

/// Facts of `payment.confirmed` and `payment.partial`, and of their twins.
#[derive(Debug, Clone)]
pub struct PaymentReceived {
    /// Which form is told.
    pub variant: Variant,
    /// Whether the total has been reached.
    pub settlement: Settlement,
    /// The request after the payment.
    pub request: Request,
    /// The payment.
    pub payment: Settled,
    /// Token of the secure payment that the request was created through.
    pub secure_payment_token: Option<String>,
    /// Recurring payment that executed it.
    pub recurring_payment: Option<String>,
    /// How far the payout to a bank account is.
    pub off_ramp_status: Option<OffRampStatus>,
    /// What the partner of the payout kept, in units of the payment currency.
    pub off_ramp_fee: Option<U256>,
}

impl PaymentReceived {
    /// The plain event of a payment that was made on chain, by the payer's own hand or by a recurring payment.
    pub fn new(settlement: Settlement, request: Request, payment: Settled) -> Self {
        let schedule = request.terms.schedule.as_ref().filter(|_| payment.is_execution);
        Self {
            variant: Variant::Plain,
            settlement,
            recurring_payment: schedule.map(|schedule| schedule.0.clone()),
            request,
            payment,
            secure_payment_token: None,
            off_ramp_status: None,
            off_ramp_fee: None,
        }
    }

    /// Name on the wire.
    pub fn kind(&self) -> &'static str {
        match (self.settlement, self.variant) {
            (Settlement::Confirmed, Variant::Plain) => "payment.confirmed",
            (Settlement::Confirmed, Variant::ClientId) => "payment.confirmed.client_id",
            (Settlement::Confirmed, Variant::Checkout) => "payment.confirmed.checkout",
            (Settlement::Partial, Variant::Plain) => "payment.partial",
            (Settlement::Partial, Variant::ClientId) => "payment.partial.client_id",
            (Settlement::Partial, Variant::Checkout) => "payment.partial.checkout",
        }
    }
}

/// Facts of `payment.reversed`. Source: decisions D37.
#[derive(Debug, Clone)]
pub struct PaymentReversed {
    /// The request without the payment.
    pub request: Request,
    /// The payment as it was settled.
    pub payment: Settled,
    /// Its id.
    pub id: PaymentId,
    /// Why it was taken back.
    pub reason: ReversalReason,
}

/// A transaction that an event points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainTransaction {
    /// Network.
    pub network: Network,
    /// Hash as the network writes it: with `0x` on EVM networks, without on Tron.
    pub hash: String,
}

impl ChainTransaction {
    /// Page of a public explorer.
    pub fn explorer_url(&self) -> String {
        let hash = match self.network.family() {
            Family::Evm => self.hash.as_str(),
            Family::Tron => self.hash.trim_start_matches("0x"),
        };
        self.network.explorer_url(hash)
    }
}

/// A JSON object of a partner or a browser, as text: the rules here never look inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignJson(pub String);

/// Facts of `payment.failed`.
#[derive(Debug, Clone)]
pub struct PaymentFailed {
    /// The request.
    pub request: Request,
    /// Reason as a code, for example `insufficient_funds`, `failed`, `bounced`.
    pub reason: String,
    /// The same as a sentence, when whoever failed gave one.
    pub message: Option<String>,
    /// Number of the execution, from 1.
    pub execution: u32,
    /// Recurring payment that was executed.
    pub recurring_payment: Option<String>,
    /// Transaction that failed, when there was one.
    pub transaction: Option<ChainTransaction>,
    /// When it failed.
    pub at: DateTime<Utc>,
}

/// Facts of `payment.refunded`.
#[derive(Debug, Clone)]
pub struct PaymentRefunded {
    /// The request.
    pub request: Request,
    /// Hash of the payment that was undone.
    pub paid_tx_hash: String,
    /// Network on which the money went back.
    pub network: Network,
    /// Wallet that has the money again.
    pub refunded_to: Address,
    /// How much.
    pub amount: Amount,
    /// Canonical id of its currency.
    pub currency: String,
    /// Hash of the refund, when it is known.
    pub tx_hash: Option<String>,
    /// When it went back.
    pub at: DateTime<Utc>,
}

/// Facts of `payment.processing`.
#[derive(Debug, Clone)]
pub struct PaymentProcessing {
    /// The request.
    pub request: Request,
    /// The payout.
    pub off_ramp_id: String,
    /// How far it is.
    pub status: OffRampStatus,
    /// The provider's own word for it.
    pub provider_status: String,
    /// The provider's own id of the payout.
    pub provider_id: String,
    /// Transaction of the payment, when it is known.
    pub transaction: Option<ChainTransaction>,
    /// When it moved on.
    pub at: DateTime<Utc>,
}

/// Facts of `request.recurring`.
#[derive(Debug, Clone)]
pub struct RequestRecurring {
    /// The new request.
    pub request: Request,
    /// The request that repeats.
    pub original_request_id: String,
    /// Its reference.
    pub original_request_reference: String,
}

wire_text! {
    /// What is known about the identity of a payer. Source: interface §3; rules S.5.
    pub enum KycStatus {
        /// Nothing was handed in.
        NotStarted = "not_started",
        /// Being checked.
        Pending = "pending",
        /// Proven.
        Approved = "approved",
        /// Refused for good.
        Rejected = "rejected",
        /// Something has to be handed in again.
        RetryRequired = "retry_required",
    }
}

wire_text! {
    /// Whether a payer agreed to the terms. Source: interface §3; rules S.5.
    pub enum AgreementStatus {
        /// Never shown.
        NotStarted = "not_started",
        /// Shown.
        Pending = "pending",
        /// Agreed.
        Completed = "completed",
        /// Declined.
        Rejected = "rejected",
        /// Could not be recorded.
        Failed = "failed",
    }
}

/// Facts of `compliance.updated`.
#[derive(Debug, Clone)]
pub struct ComplianceUpdated {
    /// Tenant.
    pub platform: PlatformId,
    /// Row of the payer, whose key seals what is told.
    pub payer: PayerId,
    /// The tenant's own id of the payer.
    pub client_user_id: String,
    /// Identity.
    pub kyc: KycStatus,
    /// Terms.
    pub agreement: AgreementStatus,
    /// Number of the change, from 1; every change of the payer has its own.
    pub version: u64,
    /// What the provider told.
    pub raw: ForeignJson,
    /// When it changed.
    pub at: DateTime<Utc>,
}

impl ComplianceUpdated {
    /// Whether the payer may use what needs an identity. Source: rules S.5.
    pub fn is_compliant(&self) -> bool {
        self.kyc == KycStatus::Approved && self.agreement == AgreementStatus::Completed
    }
}

wire_text! {
    /// State of a bank account. Source: rules S.6.
    pub enum PaymentDetailStatus {
        /// Usable.
        Approved = "approved",
        /// Refused.
        Failed = "failed",
        /// Being checked.
        Pending = "pending",
    }
}

/// Facts of `payment_detail.updated`.
#[derive(Debug, Clone)]
pub struct PaymentDetailUpdated {
    /// Tenant.
    pub platform: PlatformId,
    /// Row of the payer, whose key seals what is told.
    pub payer: PayerId,
    /// The bank account.
    pub payment_detail: String,
    /// The tenant's own id of the payer.
    pub client_user_id: String,
    /// State.
    pub status: PaymentDetailStatus,
    /// Why it was refused.
    pub rejection_message: Option<String>,
    /// Number of the change, from 1; every change of the account has its own.
    pub version: u64,
    /// What the provider told.
    pub raw: ForeignJson,
    /// When it changed.
    pub at: DateTime<Utc>,
}

/// Facts of `secure_payment.user_event`.
#[derive(Debug, Clone)]
pub struct PayerStep {
    /// Tenant.
    pub platform: PlatformId,
    /// Client ID that created the secure payment.
    pub client: Option<ClientRowId>,
    /// Token of the secure payment.
    pub secure_payment_token: String,
    /// The step.
    pub step: PayerStepKind,
    /// Requests of the secure payment.
    pub requests: Vec<RequestId>,
    /// Orchestrator of the secure payment.
    pub orchestrator: Option<String>,
    /// When the browser says that it happened.
    pub occurred_at: DateTime<Utc>,
    /// When the service learned of it.
    pub received_at: DateTime<Utc>,
    /// What the browser told.
    pub properties: ForeignJson,
}

impl PayerStep {
    /// The request, when the secure payment has exactly one.
    pub fn sole_request(&self) -> Option<&RequestId> {
        match self.requests.as_slice() {
            [sole] => Some(sole),
            _ => None,
        }
    }
}

/// Facts of `secure_payment.access_rejected`.
#[derive(Debug, Clone)]
pub struct AccessRejected {
    /// Tenant.
    pub platform: PlatformId,
    /// Client ID that created the secure payment.
    pub client: Option<ClientRowId>,
    /// The request; of several, the first, or the one that was paid.
    pub request: RequestId,
    /// Wallet that tried.
    pub wallet: Address,
    /// The payment that the wallet made all the same; `None` of one that was refused.
    pub paid: Option<PaymentId>,
    /// How often this wallet was told about at this payment, from 1.
    ///
    /// Attempts that are suppressed do not count, so two instances that both decide to tell mean the same event.
    pub occasion: u64,
    /// When it tried.
    pub at: DateTime<Utc>,
}

/// Facts of `webhook.disabled`.
#[derive(Debug, Clone)]
pub struct WebhookDisabled {
    /// Platform or orchestrator.
    pub owner: OwnerId,
    /// Client ID that the endpoint belongs to.
    pub client: Option<ClientRowId>,
    /// Its public text.
    pub client_id: Option<String>,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Whether it was one that may be told everything.
    pub is_approved: bool,
    /// Host of its URL; the rest of it may hold a token.
    pub host: String,
    /// Since when it took nothing.
    pub failing_since: DateTime<Utc>,
    /// When it was switched off.
    pub at: DateTime<Utc>,
}

/// Facts of `client_id.linked`.
#[derive(Debug, Clone)]
pub struct ClientIdLinked {
    /// Orchestrator.
    pub orchestrator: String,
    /// Public text of the client ID.
    pub client_id: String,
    /// The link.
    pub link: String,
    /// The intent that led to it.
    pub intent: String,
    /// The orchestrator's own id, when it gave one.
    pub external_id: Option<String>,
    /// Composite id of the destination.
    pub destination_id: String,
    /// Wallet of the destination.
    pub wallet: Address,
    /// Network of the destination.
    pub network: Network,
    /// Symbol of the currency of the destination.
    pub currency_symbol: String,
    /// When it was linked.
    pub at: DateTime<Utc>,
}

/// Facts of `kyt.screening.completed`.
#[derive(Debug, Clone)]
pub struct ScreeningCompleted {
    /// Orchestrator.
    pub orchestrator: String,
    /// Token of the secure payment.
    pub secure_payment_token: String,
    /// Wallet that was screened.
    pub wallet: Address,
    /// Account of the person behind it, when it is known.
    pub eoa: Option<Address>,
    /// Smart account, when one is connected.
    pub smart_account: Option<Address>,
    /// Result.
    pub status: ScreeningStatus,
    /// Who screened.
    pub provider: String,
    /// Policy; `None` is the default of the account with the provider.
    pub policy_id: Option<String>,
    /// When it was screened.
    pub at: DateTime<Utc>,
}
