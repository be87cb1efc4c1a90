//! Events: what is told, to whom, and the key under which it is told once.

use super::{
    address::Address,
    amount::Amount,
    ids::{ClientRowId, PlatformId, RequestId},
    ledger::Settlement,
    network::{Family, Network},
    payment::Settled,
    request::Request,
    wire_text::wire_text,
};
use chrono::{DateTime, Utc};

/// Who receives an event. Source: rules W.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// The platform-wide endpoints, and those of the client ID that created the object.
    Platform {
        /// Tenant.
        platform: PlatformId,
        /// Client ID.
        client: Option<ClientRowId>,
    },
    /// The platform-wide endpoints alone: the object was made with an API key and belongs to no client ID.
    PlatformOnly {
        /// Tenant.
        platform: PlatformId,
    },
    /// The endpoints of an orchestrator.
    Orchestrator {
        /// Orchestrator.
        orchestrator: String,
    },
}

/// Something that happened and is told to receivers.
#[derive(Debug, Clone)]
pub enum Event {
    /// A final payment arrived: the whole amount with it, or a part.
    PaymentReceived(Box<PaymentReceived>),
    /// A payment could not be executed.
    PaymentFailed(Box<PaymentFailed>),
    /// Money went back to the payer.
    PaymentRefunded(Box<PaymentRefunded>),
    /// A payout to a bank account moved on.
    PaymentProcessing(Box<PaymentProcessing>),
    /// A recurring request generated the next one.
    RequestRecurring(Box<RequestRecurring>),
    /// What is known about a payer changed.
    ComplianceUpdated(Box<ComplianceUpdated>),
    /// The verification of a bank account moved on.
    PaymentDetailUpdated(Box<PaymentDetailUpdated>),
    /// A payer took a step on the payment page.
    PayerStep(Box<PayerStep>),
    /// A wallet that may not pay tried to.
    AccessRejected(Box<AccessRejected>),
    /// A platform finished its onboarding with an orchestrator.
    ClientIdLinked(Box<ClientIdLinked>),
    /// A wallet was screened for an orchestrator.
    ScreeningCompleted(Box<ScreeningCompleted>),
}

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
}

impl PaymentReceived {
    /// The plain event of a payment that was made on chain, by the payer's own hand.
    pub fn new(settlement: Settlement, request: Request, payment: Settled) -> Self {
        Self {
            variant: Variant::Plain,
            settlement,
            request,
            payment,
            secure_payment_token: None,
            recurring_payment: None,
            off_ramp_status: None,
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
    /// The same in words, when the one who failed gave any.
    pub message: Option<String>,
    /// Number of the execution, from 1.
    pub attempt: u32,
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

wire_text! {
    /// How far a payout to a bank account is. Source: interface §3; rules S.7.
    pub enum OffRampStatus {
        /// Begun.
        Initiated = "initiated",
        /// Waits for the provider.
        PendingInternalAssessment = "pending_internal_assessment",
        /// Being checked.
        OngoingChecks = "ongoing_checks",
        /// On its way to the bank.
        SendingFiat = "sending_fiat",
        /// Handed to the bank.
        FiatSent = "fiat_sent",
        /// Came back from the bank.
        Bounced = "bounced",
    }
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

wire_text! {
    /// A step of a payer on the payment page. Source: interface §6.3.
    pub enum PayerStepKind {
        /// The wallet is connected.
        WalletConnected = "wallet_connected",
        /// The wallet was asked to sign.
        PaymentSentToWallet = "payment_sent_to_wallet",
        /// The wallet signed.
        PaymentApprovedInWallet = "payment_approved_in_wallet",
    }
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
    /// When the service heard of it.
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
    /// The request; of several, the first.
    pub request: RequestId,
    /// Wallet that tried.
    pub wallet: Address,
    /// How often this wallet was told about at this payment, from 1.
    ///
    /// Attempts that are suppressed do not count, so two instances that both decide to tell mean the same event.
    pub occasion: u64,
    /// When it tried.
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

wire_text! {
    /// Result of a screening that came to one. Source: rules S.8.
    pub enum ScreeningStatus {
        /// The wallet may pay.
        Approved = "approved",
        /// The wallet may not pay.
        Rejected = "rejected",
    }
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

impl Event {
    /// Name on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PaymentReceived(received) => received.kind(),
            Self::PaymentFailed(_) => "payment.failed",
            Self::PaymentRefunded(_) => "payment.refunded",
            Self::PaymentProcessing(_) => "payment.processing",
            Self::RequestRecurring(_) => "request.recurring",
            Self::ComplianceUpdated(_) => "compliance.updated",
            Self::PaymentDetailUpdated(_) => "payment_detail.updated",
            Self::PayerStep(_) => "secure_payment.user_event",
            Self::AccessRejected(_) => "secure_payment.access_rejected",
            Self::ClientIdLinked(_) => "client_id.linked",
            Self::ScreeningCompleted(_) => "kyt.screening.completed",
        }
    }

    /// Who is told.
    pub fn audience(&self) -> Audience {
        let of_request = |request: &Request| Audience::Platform {
            platform: request.origin.platform.clone(),
            client: request.origin.client.clone(),
        };
        match self {
            Self::PaymentReceived(facts) => of_request(&facts.request),
            Self::PaymentFailed(facts) => of_request(&facts.request),
            Self::PaymentRefunded(facts) => of_request(&facts.request),
            Self::PaymentProcessing(facts) => of_request(&facts.request),
            Self::RequestRecurring(facts) => of_request(&facts.request),
            Self::ComplianceUpdated(facts) => Audience::PlatformOnly {
                platform: facts.platform.clone(),
            },
            Self::PaymentDetailUpdated(facts) => Audience::PlatformOnly {
                platform: facts.platform.clone(),
            },
            Self::PayerStep(facts) => Audience::Platform {
                platform: facts.platform.clone(),
                client: facts.client.clone(),
            },
            Self::AccessRejected(facts) => Audience::Platform {
                platform: facts.platform.clone(),
                client: facts.client.clone(),
            },
            Self::ClientIdLinked(facts) => Audience::Orchestrator {
                orchestrator: facts.orchestrator.clone(),
            },
            Self::ScreeningCompleted(facts) => Audience::Orchestrator {
                orchestrator: facts.orchestrator.clone(),
            },
        }
    }

    /// The key that makes the event unique: the same fact is never told as two events.
    ///
    /// Each is the kind and what identifies the fact in its own world:
    ///
    /// - a payment by its place on chain, each twin by its own kind;
    /// - a failure by request, reason and execution; a refund by the payment that it undoes;
    /// - a payout by its id and status, since a status is never reached twice; a generated request by its id;
    /// - a change of a payer or bank account by its version;
    /// - a step of a payer by the time that the browser gives it; a rejected wallet by how often it was told about;
    /// - a link by its id; a screening by payment, wallet and result.
    ///
    /// Ids that tenants choose come last, so that no colon in them can make two keys alike.
    /// Source: rules A.5.
    pub fn deduplication_key(&self) -> String {
        let kind = self.kind();
        match self {
            Self::PaymentReceived(facts) => {
                let observed = &facts.payment.observed;
                format!("{kind}:{}:{}:{}", observed.network, observed.tx_hash, observed.ordinal)
            }
            Self::PaymentFailed(facts) => format!("{kind}:{}:{}:{}", facts.request.id, facts.reason, facts.attempt),
            Self::PaymentRefunded(facts) => format!("{kind}:{}:{}", facts.request.id, facts.paid_tx_hash),
            Self::PaymentProcessing(facts) => {
                format!(
                    "{kind}:{}:{}:{}",
                    facts.request.id,
                    facts.status.wire(),
                    facts.off_ramp_id
                )
            }
            Self::RequestRecurring(facts) => format!("{kind}:{}", facts.request.id),
            Self::ComplianceUpdated(facts) => {
                format!("{kind}:{}:{}:{}", facts.platform, facts.version, facts.client_user_id)
            }
            Self::PaymentDetailUpdated(facts) => {
                format!("{kind}:{}:{}:{}", facts.platform, facts.version, facts.payment_detail)
            }
            Self::PayerStep(facts) => format!(
                "{kind}:{}:{}:{}",
                facts.secure_payment_token,
                facts.step.wire(),
                facts.occurred_at.timestamp_millis()
            ),
            Self::AccessRejected(facts) => {
                format!(
                    "{kind}:{}:{}:{}",
                    facts.request,
                    facts.wallet.canonical(),
                    facts.occasion
                )
            }
            Self::ClientIdLinked(facts) => format!("{kind}:{}", facts.link),
            Self::ScreeningCompleted(facts) => format!(
                "{kind}:{}:{}:{}",
                facts.secure_payment_token,
                facts.wallet.canonical(),
                facts.status.wire()
            ),
        }
    }

    /// The request that the event is about.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::PaymentReceived(facts) => Some(facts.request.id.as_str()),
            Self::PaymentFailed(facts) => Some(facts.request.id.as_str()),
            Self::PaymentRefunded(facts) => Some(facts.request.id.as_str()),
            Self::PaymentProcessing(facts) => Some(facts.request.id.as_str()),
            Self::RequestRecurring(facts) => Some(facts.request.id.as_str()),
            Self::PayerStep(facts) => facts.sole_request().map(RequestId::as_str),
            Self::AccessRejected(facts) => Some(facts.request.as_str()),
            Self::ComplianceUpdated(_)
            | Self::PaymentDetailUpdated(_)
            | Self::ClientIdLinked(_)
            | Self::ScreeningCompleted(_) => None,
        }
    }

    /// The events that are told besides this one when scoped variants are switched on.
    ///
    /// Only a plain payment has any: one when a client ID created the request, one when a secure payment did.
    /// Source: decisions D6.
    pub fn twins(&self, scoped_variants: bool) -> Vec<Self> {
        let Self::PaymentReceived(received) = self else {
            return Vec::new();
        };
        if !scoped_variants || received.variant != Variant::Plain {
            return Vec::new();
        }
        let scopes = [
            (Variant::ClientId, received.request.origin.client_id.is_some()),
            (Variant::Checkout, received.secure_payment_token.is_some()),
        ];
        scopes
            .into_iter()
            .filter(|(_, applies)| *applies)
            .map(|(variant, _)| {
                Self::PaymentReceived(Box::new(PaymentReceived {
                    variant,
                    ..received.as_ref().clone()
                }))
            })
            .collect()
    }
}

/// Kinds that a platform or client endpoint can receive, in the order of the documentation; the test operation
/// accepts them.
///
/// Source: interface §6.2; rules W.2; rules W.4.
pub const CLIENT_KINDS: [&str; 14] = [
    "payment.confirmed",
    "payment.partial",
    "payment.failed",
    "payment.refunded",
    "payment.processing",
    "request.recurring",
    "compliance.updated",
    "payment_detail.updated",
    "secure_payment.user_event",
    "secure_payment.access_rejected",
    "payment.confirmed.client_id",
    "payment.partial.client_id",
    "payment.confirmed.checkout",
    "payment.partial.checkout",
];

/// Kinds that an orchestrator endpoint can receive; its test operation accepts them.
///
/// Source: interface §6.2; rules W.2; rules W.4.
pub const ORCHESTRATOR_KINDS: [&str; 2] = ["client_id.linked", "kyt.screening.completed"];
