//! Events: what is told, to whom, and the key under which it is told once.

use super::{
    ids::{ClientRowId, PlatformId},
    payment::Settled,
    request::{Request, Settlement},
};

/// Who receives an event. Source: contract events §2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// The platform-wide endpoints, and those of the client ID that created the object.
    Platform {
        /// Tenant.
        platform: PlatformId,
        /// Client ID.
        client: Option<ClientRowId>,
    },
}

/// Something that happened and is told to receivers.
#[derive(Debug, Clone)]
pub enum Event {
    /// A final payment arrived: the whole amount with it, or a part.
    PaymentReceived(Box<PaymentReceived>),
}

/// Facts of `payment.confirmed` and `payment.partial`.
#[derive(Debug, Clone)]
pub struct PaymentReceived {
    /// Whether the total has been reached.
    pub settlement: Settlement,
    /// The request after the payment.
    pub request: Request,
    /// The payment.
    pub payment: Settled,
}

impl Event {
    /// Name on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PaymentReceived(received) => match received.settlement {
                Settlement::Confirmed => "payment.confirmed",
                Settlement::Partial => "payment.partial",
            },
        }
    }

    /// Who is told.
    pub fn audience(&self) -> Audience {
        match self {
            Self::PaymentReceived(received) => Audience::Platform {
                platform: received.request.platform.clone(),
                client: received.request.client.clone(),
            },
        }
    }

    /// The key that makes the event unique: the same fact is never told as two events.
    ///
    /// Source: reliability rules A.5.
    pub fn deduplication_key(&self) -> String {
        match self {
            Self::PaymentReceived(received) => {
                let observed = &received.payment.observed;
                format!(
                    "{}:{}:{}:{}",
                    self.kind(),
                    observed.network,
                    observed.tx_hash,
                    observed.ordinal
                )
            }
        }
    }

    /// The request that the event is about.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Self::PaymentReceived(received) => Some(received.request.id.as_str()),
        }
    }
}

/// Kinds that a client endpoint can receive, in the order of the documentation; the test operation accepts them.
///
/// Source: contract events §2, §4. Kinds whose cause is not built yet are added together with their payload.
pub const CLIENT_KINDS: [&str; 2] = ["payment.confirmed", "payment.partial"];
