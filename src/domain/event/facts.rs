//! Facts of each event, as the domain knows them.

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

/// Which of the three variants of a payment event. Source: decisions D6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PaymentEventVariant {
    /// The variant for every receiver.
    Plain,
    /// The variant for payments of a client ID.
    ClientId,
    /// The variant for payments through a secure payment.
    Checkout,
}

/// Facts of `payment.confirmed` and `payment.partial`, and of their variants.
#[derive(Debug, Clone)]
pub struct PaymentReceived {
    /// Variant of the event.
    pub variant: PaymentEventVariant,
    /// Whether the request is now paid in full or in part.
    pub settlement: Settlement,
    /// The request after the payment.
    pub request: Request,
    /// The payment.
    pub payment: Settled,
    /// Token of the secure payment that created the request.
    pub secure_payment_token: Option<String>,
    /// Recurring payment that executed it.
    pub recurring_payment: Option<String>,
    /// Status of the payout to a bank account.
    pub off_ramp_status: Option<OffRampStatus>,
    /// Amount that the payout partner kept, in units of the payment currency.
    pub off_ramp_fee: Option<U256>,
}

impl PaymentReceived {
    /// The plain event of a payment on chain, made by the payer or by a recurring payment.
    pub fn new(settlement: Settlement, request: Request, payment: Settled) -> Self {
        let schedule = request.terms.schedule.as_ref().filter(|_| payment.is_execution);
        Self {
            variant: PaymentEventVariant::Plain,
            settlement,
            recurring_payment: schedule.map(|schedule| schedule.0.clone()),
            request,
            payment,
            secure_payment_token: None,
            off_ramp_status: None,
            off_ramp_fee: None,
        }
    }

    /// Name in the API.
    pub fn kind(&self) -> &'static str {
        match (self.settlement, self.variant) {
            (Settlement::Confirmed, PaymentEventVariant::Plain) => "payment.confirmed",
            (Settlement::Confirmed, PaymentEventVariant::ClientId) => "payment.confirmed.client_id",
            (Settlement::Confirmed, PaymentEventVariant::Checkout) => "payment.confirmed.checkout",
            (Settlement::Partial, PaymentEventVariant::Plain) => "payment.partial",
            (Settlement::Partial, PaymentEventVariant::ClientId) => "payment.partial.client_id",
            (Settlement::Partial, PaymentEventVariant::Checkout) => "payment.partial.checkout",
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
    /// Id of the payment.
    pub id: PaymentId,
    /// Why it was reversed.
    pub reason: ReversalReason,
}

/// A transaction that an event refers to.
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

/// A JSON object of a partner or a browser, as text: the domain never parses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignJson(pub String);

/// Facts of `payment.failed`.
#[derive(Debug, Clone)]
pub struct PaymentFailed {
    /// The request.
    pub request: Request,
    /// Reason as a code, for example `insufficient_funds`, `failed`, `bounced`.
    pub reason: String,
    /// The reason as a sentence, if one was given.
    pub message: Option<String>,
    /// Number of the execution, from 1.
    pub execution: u32,
    /// Recurring payment that was executed.
    pub recurring_payment: Option<String>,
    /// Transaction that failed, if there was one.
    pub transaction: Option<ChainTransaction>,
    /// When it failed.
    pub at: DateTime<Utc>,
}

/// Facts of `payment.refunded`.
#[derive(Debug, Clone)]
pub struct PaymentRefunded {
    /// The request.
    pub request: Request,
    /// Hash of the payment that was refunded.
    pub paid_tx_hash: String,
    /// Network of the refund.
    pub network: Network,
    /// Wallet that received the refund.
    pub refunded_to: Address,
    /// Refunded amount.
    pub amount: Amount,
    /// Canonical id of its currency.
    pub currency: String,
    /// Hash of the refund, if known.
    pub tx_hash: Option<String>,
    /// Time of the refund.
    pub at: DateTime<Utc>,
}

/// Facts of `payment.processing`.
#[derive(Debug, Clone)]
pub struct PaymentProcessing {
    /// The request.
    pub request: Request,
    /// Id of the payout.
    pub off_ramp_id: String,
    /// Status.
    pub status: OffRampStatus,
    /// The provider's own status word.
    pub provider_status: String,
    /// The provider's own id of the payout.
    pub provider_id: String,
    /// Transaction of the payment, if known.
    pub transaction: Option<ChainTransaction>,
    /// When the status changed.
    pub at: DateTime<Utc>,
}

/// Facts of `request.recurring`.
#[derive(Debug, Clone)]
pub struct RequestRecurring {
    /// The new request.
    pub request: Request,
    /// Id of the recurring request.
    pub original_request_id: String,
    /// Reference of the recurring request.
    pub original_request_reference: String,
}

wire_text! {
    /// Identity status of a payer. Source: interface §3; rules S.5.
    pub enum KycStatus {
        /// Nothing was submitted.
        NotStarted = "not_started",
        /// Being checked.
        Pending = "pending",
        /// Verified.
        Approved = "approved",
        /// Rejected permanently.
        Rejected = "rejected",
        /// The payer has to submit data again.
        RetryRequired = "retry_required",
    }
}

wire_text! {
    /// Agreement status of a payer. Source: interface §3; rules S.5.
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
    /// Row of the payer, whose key encrypts the data.
    pub payer: PayerId,
    /// The tenant's own id of the payer.
    pub client_user_id: String,
    /// Identity status.
    pub kyc: KycStatus,
    /// Agreement status.
    pub agreement: AgreementStatus,
    /// Number of the change, from 1; every change of the payer has a number of its own.
    pub version: u64,
    /// Original data of the provider.
    pub raw: ForeignJson,
    /// When it changed.
    pub at: DateTime<Utc>,
}

impl ComplianceUpdated {
    /// Whether the payer may use features that need an identity. Source: rules S.5.
    pub fn is_compliant(&self) -> bool {
        self.kyc == KycStatus::Approved && self.agreement == AgreementStatus::Completed
    }
}

wire_text! {
    /// State of a bank account. Source: rules S.6.
    pub enum PaymentDetailStatus {
        /// Usable.
        Approved = "approved",
        /// Rejected.
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
    /// Row of the payer, whose key encrypts the data.
    pub payer: PayerId,
    /// Id of the bank account.
    pub payment_detail: String,
    /// The tenant's own id of the payer.
    pub client_user_id: String,
    /// State.
    pub status: PaymentDetailStatus,
    /// Why it was rejected.
    pub rejection_message: Option<String>,
    /// Number of the change, from 1; every change of the account has a number of its own.
    pub version: u64,
    /// Original data of the provider.
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
    /// When the step happened, by the browser's clock.
    pub occurred_at: DateTime<Utc>,
    /// When the service received it.
    pub received_at: DateTime<Utc>,
    /// Data from the browser.
    pub properties: ForeignJson,
}

impl PayerStep {
    /// The request, if the secure payment has exactly one.
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
    /// The request. For a secure payment with several requests, the first one, or the one that was paid.
    pub request: RequestId,
    /// Wallet that attempted to pay.
    pub wallet: Address,
    /// The payment, if the rejected wallet paid; `None` if it only attempted to pay.
    pub paid: Option<PaymentId>,
    /// Number of the event about this wallet and this secure payment, from 1.
    ///
    /// Attempts that send no event do not count. So two instances that both report the same attempt give it the same
    /// number, and only one event is stored.
    pub occasion: u64,
    /// Time of the attempt.
    pub at: DateTime<Utc>,
}

/// Facts of `webhook.disabled`.
#[derive(Debug, Clone)]
pub struct WebhookDisabled {
    /// Platform or orchestrator.
    pub owner: OwnerId,
    /// Client ID that the endpoint belongs to.
    pub client: Option<ClientRowId>,
    /// Public text of the client ID.
    pub client_id: Option<String>,
    /// Id of the endpoint.
    pub endpoint: EndpointId,
    /// Whether the endpoint was approved.
    pub is_approved: bool,
    /// Host of the endpoint's URL; the rest of the URL may contain a token.
    pub host: String,
    /// Start of the period in which every delivery failed.
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
    /// Id of the link.
    pub link: String,
    /// The link intent that the platform completed.
    pub intent: String,
    /// The orchestrator's own id of the platform, if the intent had one.
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
    /// Account of the person that controls the wallet, if known.
    pub eoa: Option<Address>,
    /// Smart account, if one is connected.
    pub smart_account: Option<Address>,
    /// Result.
    pub status: ScreeningStatus,
    /// Screening provider.
    pub provider: String,
    /// Policy; `None` is the default of the account at the provider.
    pub policy_id: Option<String>,
    /// When it was screened.
    pub at: DateTime<Utc>,
}
