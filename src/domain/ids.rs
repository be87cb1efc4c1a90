//! Identifiers and key material. Text forms are fixed by the contract; secrets do not print.

use chrono::{DateTime, Utc};
use std::fmt;
use ulid::Ulid;
use zeroize::Zeroize;

macro_rules! ulid_ids {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub String);

        impl $name {
            /// The text form: 26 characters of Crockford base 32.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }
    )+};
}

ulid_ids! {
    /// A tenant: every object belongs to exactly one platform.
    PlatformId;
    /// Row of a key of a platform or of an orchestrator.
    KeyId;
    /// Row of a client ID. It differs from the public text `cli_…`.
    ClientRowId;
    /// Row of a payment request.
    RequestRowId;
    /// A settled payment.
    PaymentId;
    /// A quarantined payment.
    QuarantineId;
    /// A webhook endpoint.
    EndpointId;
    /// An event.
    EventId;
    /// A delivery of one event to one endpoint.
    DeliveryId;
    /// A challenge for a wallet to sign.
    ChallengeId;
    /// A session of a person.
    SessionId;
    /// An invite to register.
    InviteId;
    /// An account that signs in with e-mail and password.
    AccountId;
    /// A partner that builds on several platforms.
    OrchestratorId;
    /// A fee config of an orchestrator.
    FeeConfigId;
    /// A platform or an orchestrator: the owner of endpoints, events and deliveries.
    OwnerId;
    /// Row of a payee destination.
    DestinationId;
    /// A recurring payment: a schedule that its payer signed.
    ScheduleId;
    /// Row of a secure payment. It differs from the token of the secure payment.
    SecurePaymentId;
    /// A payment attempt that a payer reports for a secure payment.
    IntentId;
    /// Row of a payer. It differs from the tenant's own id of the payer.
    PayerId;
    /// Row of a bank account. It differs from `paymentDetailsId` in the API.
    BankAccountId;
    /// An issued quote of the off-ramp partner.
    OffRampQuoteId;
    /// An order that pays out to a bank account.
    OffRampOrderId;
}

impl AccountId {
    /// Name of the account's platform; it contains no personal data.
    pub fn platform_name(&self) -> String {
        format!("Account {self}")
    }
}

/// The smallest ULID with this time.
pub fn first_at(time: DateTime<Utc>) -> String {
    // The time part has 48 bits and no sign bit.
    let at_ms = u64::try_from(time.timestamp_millis()).unwrap_or(0).min((1 << 48) - 1);
    Ulid::from_parts(at_ms, 0).to_string()
}

/// Time of a ULID; `None` if the text is not a ULID.
pub fn drawn_at(text: &str) -> Option<DateTime<Utc>> {
    let drawn: Ulid = text.parse().ok()?;
    DateTime::from_timestamp_millis(i64::try_from(drawn.timestamp_ms()).ok()?)
}

impl EventId {
    /// The smallest id with this time.
    pub fn first_at(time: DateTime<Utc>) -> Self {
        Self(first_at(time))
    }
}

impl DeliveryId {
    /// The smallest id with this time.
    pub fn first_at(time: DateTime<Utc>) -> Self {
        Self(first_at(time))
    }
}

impl From<&PlatformId> for OwnerId {
    fn from(platform: &PlatformId) -> Self {
        Self(platform.0.clone())
    }
}

impl From<&OrchestratorId> for OwnerId {
    fn from(orchestrator: &OrchestratorId) -> Self {
        Self(orchestrator.0.clone())
    }
}

/// An owner, typed as platform or orchestrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A platform.
    Platform(PlatformId),
    /// An orchestrator.
    Orchestrator(OrchestratorId),
}

impl Owner {
    /// The text form of the id of the owner.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Platform(id) => id.as_str(),
            Self::Orchestrator(id) => id.as_str(),
        }
    }
}

impl From<&PlatformId> for Owner {
    fn from(platform: &PlatformId) -> Self {
        Self::Platform(platform.clone())
    }
}

impl From<&OrchestratorId> for Owner {
    fn from(orchestrator: &OrchestratorId) -> Self {
        Self::Orchestrator(orchestrator.clone())
    }
}

/// Public identifier of a payment request: `01` and 64 lowercase hexadecimal digits.
///
/// Source: rules P.1.2; rules G.4.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(pub String);

impl RequestId {
    /// The id with a 32-byte digest.
    pub fn from_digest(digest: &[u8; 32]) -> Self {
        Self(format!("01{}", hex::encode(digest)))
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Token of a secure payment: anyone with it may read and pay the payment. `Debug` shows only its end, so that a log
/// line cannot leak it. Source: interface §2.10.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecurePaymentToken(pub String);

impl SecurePaymentToken {
    /// The text form: 26 characters of Crockford base 32, 16 of them random.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for SecurePaymentToken {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for SecurePaymentToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.len().checked_sub(4).and_then(|start| self.0.get(start..));
        write!(out, "SecurePaymentToken(…{})", end.unwrap_or_default())
    }
}

/// Key material. `Debug` hides it, so that a log line cannot leak it, and its memory is wiped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret value: call this only where it is shown once, hashed or used as a key.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(…)")
    }
}
