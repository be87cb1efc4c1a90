//! Events: what is told, to whom, and the key under which it is told once.

mod facts;

pub use facts::{
    AccessRejected, AgreementStatus, ChainTransaction, ClientIdLinked, ComplianceUpdated, ForeignJson, KycStatus,
    PayerStep, PaymentDetailStatus, PaymentDetailUpdated, PaymentFailed, PaymentProcessing, PaymentReceived,
    PaymentRefunded, PaymentReversed, RequestRecurring, ScreeningCompleted, Variant, WebhookDisabled,
};

use super::{
    ids::{ClientRowId, OwnerId, PayerId, PlatformId, RequestId},
    request::Request,
};

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
    /// The endpoints of an owner, whichever it is: those for all of it, and those of the client ID.
    Owner {
        /// Platform or orchestrator.
        owner: OwnerId,
        /// Client ID.
        client: Option<ClientRowId>,
        /// Whether those that wait for approval are left out.
        only_approved: bool,
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
    /// A credited payment left the chain.
    PaymentReversed(Box<PaymentReversed>),
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
    /// An endpoint took nothing for days and was switched off.
    WebhookDisabled(Box<WebhookDisabled>),
    /// A platform finished its onboarding with an orchestrator.
    ClientIdLinked(Box<ClientIdLinked>),
    /// A wallet was screened for an orchestrator.
    ScreeningCompleted(Box<ScreeningCompleted>),
}

/// Whether the bodies of a kind tell what was paid to whom, by its name on the wire.
pub fn tells_of_payment(kind: &str) -> bool {
    kind.starts_with("payment.")
}

impl Event {
    /// Name on the wire.
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

    /// The payer with whose key its body is kept sealed.
    pub fn payer(&self) -> Option<&PayerId> {
        match self {
            Self::ComplianceUpdated(facts) => Some(&facts.payer),
            Self::PaymentDetailUpdated(facts) => Some(&facts.payer),
            _ => None,
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
            Self::PaymentReversed(facts) => of_request(&facts.request),
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
            Self::WebhookDisabled(facts) => Audience::Owner {
                owner: facts.owner.clone(),
                client: facts.client.clone(),
                only_approved: facts.is_approved,
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
    /// - a payment by its place on chain, each twin by its own kind, and a reversal by its payment; both also by how
    ///   often something of the request was taken back until then;
    /// - a failure by request, reason and execution; a refund by the payment that it undoes;
    /// - a payout by its id and status, since a status is never reached twice; a generated request by its id;
    /// - a change of a payer or bank account by its version;
    /// - a step of a payer by the time that the browser gives it; a rejected wallet by how often it was told about,
    ///   or by what it paid all the same;
    /// - an endpoint that was switched off by its id and since when it took nothing;
    /// - a link by its id; a screening by payment, wallet and result.
    ///
    /// Ids that tenants choose come last, so that no colon in them can make two keys alike.
    /// Source: rules A.5.
    pub fn deduplication_key(&self) -> String {
        let kind = self.kind();
        match self {
            Self::PaymentReceived(facts) => {
                let observed = &facts.payment.observed;
                // The sign tells the position from the number of reversals behind it.
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
