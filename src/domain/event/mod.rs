//! Events: their facts, their receivers, and the key that makes each event unique.

mod facts;

pub use facts::{
    AccessRejected, AgreementStatus, ChainTransaction, ClientIdLinked, ComplianceUpdated, ForeignJson, KycStatus,
    PayerStep, PaymentDetailStatus, PaymentDetailUpdated, PaymentEventVariant, PaymentFailed, PaymentProcessing,
    PaymentReceived, PaymentRefunded, PaymentReversed, RequestRecurring, ScreeningCompleted, WebhookDisabled,
};

use super::{
    ids::{ClientRowId, OwnerId, PayerId, PlatformId, RequestId},
    request::Request,
};

/// Who receives an event. Source: rules W.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventAudience {
    /// The endpoints of the whole platform, and the endpoints of the client ID that created the object.
    Platform {
        /// Tenant.
        platform: PlatformId,
        /// Client ID.
        client: Option<ClientRowId>,
    },
    /// Only the endpoints of the whole platform: the object was created with an API key and belongs to no client ID.
    PlatformOnly {
        /// Tenant.
        platform: PlatformId,
    },
    /// The endpoints that belong to the owner as a whole, and the endpoints of this client ID.
    Owner {
        /// Platform or orchestrator.
        owner: OwnerId,
        /// Client ID.
        client: Option<ClientRowId>,
        /// Whether endpoints that wait for approval are left out.
        only_approved: bool,
    },
    /// The endpoints of an orchestrator.
    Orchestrator {
        /// Orchestrator.
        orchestrator: String,
    },
}

/// A fact that is reported to receivers.
#[derive(Debug, Clone)]
pub enum Event {
    /// A final payment arrived, in full or in part.
    PaymentReceived(Box<PaymentReceived>),
    /// A payment could not be executed.
    PaymentFailed(Box<PaymentFailed>),
    /// A payment was refunded to the payer.
    PaymentRefunded(Box<PaymentRefunded>),
    /// A credited payment left the chain.
    PaymentReversed(Box<PaymentReversed>),
    /// The status of a payout to a bank account changed.
    PaymentProcessing(Box<PaymentProcessing>),
    /// A recurring request generated the next one.
    RequestRecurring(Box<RequestRecurring>),
    /// The identity or agreement status of a payer changed.
    ComplianceUpdated(Box<ComplianceUpdated>),
    /// The verification status of a bank account changed.
    PaymentDetailUpdated(Box<PaymentDetailUpdated>),
    /// A payer took a step on the payment page.
    PayerStep(Box<PayerStep>),
    /// A wallet that may not pay attempted to pay.
    AccessRejected(Box<AccessRejected>),
    /// All deliveries to an endpoint failed for days, and it was switched off.
    WebhookDisabled(Box<WebhookDisabled>),
    /// A platform finished its onboarding with an orchestrator.
    ClientIdLinked(Box<ClientIdLinked>),
    /// A wallet was screened for an orchestrator.
    ScreeningCompleted(Box<ScreeningCompleted>),
}

/// Whether the event bodies of a kind contain payments and payees. `kind` is the name of this kind in the API.
pub fn tells_of_payment(kind: &str) -> bool {
    kind.starts_with("payment.")
}

impl Event {
    /// Name in the API.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PaymentReceived(received) => received.kind(),
            Self::PaymentFailed(_) => "payment.failed",
            Self::PaymentRefunded(_) => "payment.refunded",
            Self::PaymentReversed(_) => "payment.reversed",
            Self::PaymentProcessing(_) => "payment.processing",
            Self::RequestRecurring(_) => "request.recurring",
            Self::ComplianceUpdated(_) => "compliance.updated",
            Self::PaymentDetailUpdated(_) => "payment_detail.updated",
            Self::PayerStep(_) => "secure_payment.user_event",
            Self::AccessRejected(_) => "secure_payment.access_rejected",
            Self::WebhookDisabled(_) => "webhook.disabled",
            Self::ClientIdLinked(_) => "client_id.linked",
            Self::ScreeningCompleted(_) => "kyt.screening.completed",
        }
    }

    /// The payer whose key encrypts the stored body.
    pub fn payer(&self) -> Option<&PayerId> {
        match self {
            Self::ComplianceUpdated(facts) => Some(&facts.payer),
            Self::PaymentDetailUpdated(facts) => Some(&facts.payer),
            _ => None,
        }
    }

    /// Receivers of the event.
    pub fn audience(&self) -> EventAudience {
        let of_request = |request: &Request| EventAudience::Platform {
            platform: request.origin.platform.clone(),
            client: request.origin.client.clone(),
        };
        match self {
            Self::PaymentReceived(facts) => of_request(&facts.request),
            Self::PaymentFailed(facts) => of_request(&facts.request),
            Self::PaymentRefunded(facts) => of_request(&facts.request),
            Self::PaymentReversed(facts) => of_request(&facts.request),
            Self::PaymentProcessing(facts) => of_request(&facts.request),
            Self::RequestRecurring(facts) => of_request(&facts.request),
            Self::ComplianceUpdated(facts) => EventAudience::PlatformOnly {
                platform: facts.platform.clone(),
            },
            Self::PaymentDetailUpdated(facts) => EventAudience::PlatformOnly {
                platform: facts.platform.clone(),
            },
            Self::PayerStep(facts) => EventAudience::Platform {
                platform: facts.platform.clone(),
                client: facts.client.clone(),
            },
            Self::AccessRejected(facts) => EventAudience::Platform {
                platform: facts.platform.clone(),
                client: facts.client.clone(),
            },
            Self::WebhookDisabled(facts) => EventAudience::Owner {
                owner: facts.owner.clone(),
                client: facts.client.clone(),
                only_approved: facts.is_approved,
            },
            Self::ClientIdLinked(facts) => EventAudience::Orchestrator {
                orchestrator: facts.orchestrator.clone(),
            },
            Self::ScreeningCompleted(facts) => EventAudience::Orchestrator {
                orchestrator: facts.orchestrator.clone(),
            },
        }
    }

    /// The key that makes the event unique: the same fact never creates two events.
    ///
    /// The key consists of the kind of the event and of what identifies the fact:
    ///
    /// - payment: its position on the chain; each variant has its own kind;
    /// - reversal: the reversed payment;
    /// - failure: request, reason and number of the execution;
    /// - refund: the request and the refunded payment;
    /// - payout: request, status and the partner's id, because a payout never reaches a status twice;
    /// - generated request: its id;
    /// - change of a payer or bank account: the number of the change;
    /// - step of a payer: the step and the browser's time;
    /// - rejected wallet: the wallet and the number of its event, or the payment, if the wallet paid;
    /// - endpoint that was switched off: its id and the start of its failures;
    /// - completed link: its id;
    /// - screening: secure payment, wallet and result.
    ///
    /// The key of a payment or reversal also contains the number of reversals of its request so far.
    ///
    /// Ids that tenants choose come last, so that a colon in them cannot make two keys equal.
    /// Source: rules A.5.
    pub fn deduplication_key(&self) -> String {
        let kind = self.kind();
        match self {
            Self::PaymentReceived(facts) => {
                let observed = &facts.payment.observed;
                // The sign separates the position from the number of reversals after it.
                let place = format!(
                    "{kind}:{}:{}:@{}",
                    observed.network, observed.tx_hash, observed.position
                );
                match facts.request.ledger.reversals {
                    0 => place,
                    reversals => format!("{place}:{reversals}"),
                }
            }
            Self::PaymentFailed(facts) => format!("{kind}:{}:{}:{}", facts.request.id, facts.reason, facts.execution),
            Self::PaymentRefunded(facts) => format!("{kind}:{}:{}", facts.request.id, facts.paid_tx_hash),
            Self::PaymentReversed(facts) => format!("{kind}:{}:{}", facts.id, facts.request.ledger.reversals),
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
                format!("{kind}:{}:{}:{}", facts.platform, facts.version, facts.payer)
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
            Self::AccessRejected(facts) => match &facts.paid {
                Some(payment) => format!("{kind}:paid:{payment}"),
                None => format!(
                    "{kind}:{}:{}:{}",
                    facts.request,
                    facts.wallet.canonical(),
                    facts.occasion
                ),
            },
            Self::WebhookDisabled(facts) => {
                format!("{kind}:{}:{}", facts.endpoint, facts.failing_since.timestamp_millis())
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
            Self::PaymentReversed(facts) => Some(facts.request.id.as_str()),
            Self::PaymentProcessing(facts) => Some(facts.request.id.as_str()),
            Self::RequestRecurring(facts) => Some(facts.request.id.as_str()),
            Self::PayerStep(facts) => facts.sole_request().map(RequestId::as_str),
            Self::AccessRejected(facts) => Some(facts.request.as_str()),
            Self::ComplianceUpdated(_)
            | Self::PaymentDetailUpdated(_)
            | Self::WebhookDisabled(_)
            | Self::ClientIdLinked(_)
            | Self::ScreeningCompleted(_) => None,
        }
    }

    /// The variants that are sent in addition to this event when scoped variants are switched on.
    ///
    /// Only a plain payment event has variants: one if a client ID created the request, and one if a secure payment
    /// did. Source: decisions D6.
    pub fn twins(&self, scoped_variants: bool) -> Vec<Self> {
        let Self::PaymentReceived(received) = self else {
            return Vec::new();
        };
        if !scoped_variants || received.variant != PaymentEventVariant::Plain {
            return Vec::new();
        }
        let scopes = [
            (
                PaymentEventVariant::ClientId,
                received.request.origin.client_id.is_some(),
            ),
            (PaymentEventVariant::Checkout, received.secure_payment_token.is_some()),
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
pub const CLIENT_KINDS: [&str; 16] = [
    "payment.confirmed",
    "payment.partial",
    "payment.failed",
    "payment.refunded",
    "payment.reversed",
    "payment.processing",
    "request.recurring",
    "compliance.updated",
    "payment_detail.updated",
    "secure_payment.user_event",
    "secure_payment.access_rejected",
    "webhook.disabled",
    "payment.confirmed.client_id",
    "payment.partial.client_id",
    "payment.confirmed.checkout",
    "payment.partial.checkout",
];

/// Kinds that an orchestrator endpoint can receive; its test operation accepts them.
///
/// Source: interface §6.2; rules W.2; rules W.4.
pub const ORCHESTRATOR_KINDS: [&str; 3] = ["client_id.linked", "kyt.screening.completed", "webhook.disabled"];
