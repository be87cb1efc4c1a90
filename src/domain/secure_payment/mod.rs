//! Secure payments: links that anyone with their token can pay, from creation to end.

pub mod access;
pub mod attempt;
pub mod broadcast;
pub mod fee_plan;
mod flow;
pub mod intent;
pub mod lock;
pub mod multicall;
pub mod options;
pub mod plan;
pub mod redirect;
pub mod safe_lock;
pub mod step;

use super::{
    elapsed::is_within,
    ids::{RequestId, RequestRowId, SecurePaymentId, SecurePaymentToken},
    interop_address::DestinationKey,
    network::Network,
    paying::charge::Charges,
    refusal::Refusal,
    request::Origin,
    wire_text::wire_text,
};
use access::AccessPolicy;
use attempt::WalletAttempts;
use chrono::{DateTime, TimeDelta, Utc};
pub use flow::PaymentFlow;
use lock::SafeLock;
use redirect::RedirectButton;

/// How long a reported payment counts as in flight. Source: interface §4.7 (an intent is a hint).
const HINT_LASTS: TimeDelta = TimeDelta::minutes(2);

wire_text! {
    /// State of a secure payment. Source: rules S.2.
    pub enum SecurePaymentStatus {
        /// The secure payment can be paid until it expires.
        Pending = "pending",
        /// All its requests are paid.
        Completed = "completed",
        /// The link has expired. Money that still arrives completes it.
        Expired = "expired",
        /// Withdrawn by its owner, or combined with others. Money that still arrives is credited to its request.
        Invalidated = "invalidated",
        /// The recipient of the secure payment may not be paid.
        ComplianceFailed = "compliance_failed",
    }
}

wire_text! {
    /// How many requests a secure payment has.
    pub enum SecurePaymentKind {
        /// One.
        Single = "single",
        /// Several, paid in one transaction.
        Batch = "batch",
    }
}

/// Data from the creator of a secure payment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkDetails {
    /// Reference of the merchant.
    pub reference: Option<String>,
    /// Where the payer can go after the payment.
    pub redirect: Option<RedirectButton>,
}

/// A merchant's own identifiers of people. They are not part of [`SecurePayment`], and opening a secure payment by its
/// token does not read them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MerchantNames {
    /// The payer.
    pub payer: Option<String>,
    /// The recipient.
    pub recipient: Option<String>,
}

impl std::fmt::Debug for MerchantNames {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Names(…)")
    }
}

/// A request of a secure payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentItem {
    /// Row of the request.
    pub request: RequestRowId,
    /// Public id of the request.
    pub request_id: RequestId,
    /// Fees on top of the amount, as fixed when the secure payment was created.
    pub charges: Charges,
    /// The link that pays the same request alone; `None` unless the secure payment is a multicall.
    pub child: Option<SecurePaymentToken>,
}

/// A secure payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurePayment {
    /// Row.
    pub id: SecurePaymentId,
    /// The token that payers have.
    pub token: SecurePaymentToken,
    /// Creator.
    pub origin: Origin,
    /// Direction of the payment.
    pub flow: PaymentFlow,
    /// Stored state.
    pub status: SecurePaymentStatus,
    /// Network of its payments.
    pub network: Network,
    /// Destination, as it was at creation; `None` for a batch of payouts and for a native coin.
    pub destination: Option<DestinationKey>,
    /// Wallet that is expected to pay a payout, as text. Any other wallet may pay too.
    pub creator: Option<String>,
    /// Who may pay, and what a payer sees.
    pub policy: AccessPolicy,
    /// Data from its creator.
    pub about: LinkDetails,
    /// When a payment was last reported as in flight.
    pub hinted_at: Option<DateTime<Utc>>,
    /// Attempts that payment pages recorded.
    pub attempts: WalletAttempts,
    /// The last lock by a Safe that was about to pay.
    pub lock: Option<SafeLock>,
    /// When the owner released the link. From then on, only secret credentials lock it.
    pub locks_released_at: Option<DateTime<Utc>>,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Time of expiry.
    pub expires_at: DateTime<Utc>,
    /// When the last of the requests was paid.
    pub completed_at: Option<DateTime<Utc>>,
    /// Requests of the secure payment, in the order of the call.
    pub items: Vec<PaymentItem>,
}

/// Why a secure payment can no longer be paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnpayableLink {
    /// It is paid.
    Completed,
    /// Its time is over.
    Expired,
    /// The secure payment was withdrawn or combined with others.
    Invalidated,
    /// The recipient of the secure payment may not be paid.
    ComplianceFailed,
}

impl UnpayableLink {
    /// Message for the caller. Source: rules P.3.7.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Completed => "Secure payment has already been completed",
            Self::Expired => "Secure payment has expired",
            Self::Invalidated => "Secure payment has been withdrawn",
            Self::ComplianceFailed => "Secure payment cannot be paid",
        }
    }
}

impl From<UnpayableLink> for Refusal {
    fn from(why: UnpayableLink) -> Self {
        match why {
            UnpayableLink::Completed => Self::conflict(why.sentence()),
            UnpayableLink::Expired | UnpayableLink::Invalidated | UnpayableLink::ComplianceFailed => {
                Self::forbidden(why.sentence())
            }
        }
    }
}

/// Signs that a payment of a link is in flight, besides the reports of its payers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PaymentSigns {
    /// Whether the chain shows a payment that is not final.
    pub is_seen: bool,
    /// When the last payment expires that this service broadcast, if it may still arrive.
    pub broadcast_until: Option<DateTime<Utc>>,
}

impl SecurePayment {
    /// Whether the secure payment has one request or several.
    pub fn kind(&self) -> SecurePaymentKind {
        match self.items.as_slice() {
            [] | [_] => SecurePaymentKind::Single,
            _ => SecurePaymentKind::Batch,
        }
    }

    /// Whether the secure payment is a multicall: it pays the requests of other links, which stay payable.
    pub fn is_multicall(&self) -> bool {
        self.items.iter().any(|item| item.child.is_some())
    }

    /// State at a time. An unpaid link expires by itself. At the moment of expiry it can still be paid.
    ///
    /// The current time decides, not the stored state. If a fast clock expired a link too early, the link is open again
    /// once the clock is right.
    pub fn status_at(&self, now: DateTime<Utc>) -> SecurePaymentStatus {
        match self.status {
            SecurePaymentStatus::Pending | SecurePaymentStatus::Expired if now > self.expires_at => {
                SecurePaymentStatus::Expired
            }
            SecurePaymentStatus::Pending | SecurePaymentStatus::Expired => SecurePaymentStatus::Pending,
            status => status,
        }
    }

    /// Checks whether the secure payment can be paid. Errors: the reason why not.
    pub fn payable_at(&self, now: DateTime<Utc>) -> Result<(), UnpayableLink> {
        match self.status_at(now) {
            SecurePaymentStatus::Pending => Ok(()),
            SecurePaymentStatus::Completed => Err(UnpayableLink::Completed),
            SecurePaymentStatus::Expired => Err(UnpayableLink::Expired),
            SecurePaymentStatus::Invalidated => Err(UnpayableLink::Invalidated),
            SecurePaymentStatus::ComplianceFailed => Err(UnpayableLink::ComplianceFailed),
        }
    }

    /// Until when a payment counts as in flight. `None` when neither an intent, nor a page, nor the chain shows a
    /// payment. An unconfirmed payment on the chain, and a broadcast that may still arrive, extend this time at each
    /// lookup, however long they take.
    pub fn in_flight_until(&self, signs: PaymentSigns, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let since = if signs.is_seen { Some(now) } else { self.hinted_at };
        // No stored time may make a link unreadable.
        let end = |at: DateTime<Utc>| at.checked_add_signed(HINT_LASTS).unwrap_or(at);
        let hinted = since.filter(|at| is_within(*at, HINT_LASTS, now)).map(end);
        let after_lock = self.lock.as_ref().and_then(|lock| lock.warn_until(now));
        let broadcast = signs.broadcast_until.map(|at| now.max(end(at)));
        hinted
            .max(broadcast)
            .max(self.attempts.warn_until(&[], now))
            .max(after_lock)
    }

    /// The state after its owner withdraws the secure payment. A withdrawn link stays withdrawn.
    ///
    /// Errors: the secure payment is paid, or its recipient may not be paid (409). Source: rules S.2.
    pub fn withdrawn(&self) -> Result<SecurePaymentStatus, Refusal> {
        match self.status {
            SecurePaymentStatus::Pending | SecurePaymentStatus::Expired | SecurePaymentStatus::Invalidated => {
                Ok(SecurePaymentStatus::Invalidated)
            }
            SecurePaymentStatus::Completed => Err(UnpayableLink::Completed.into()),
            SecurePaymentStatus::ComplianceFailed => Err(Refusal::conflict(UnpayableLink::ComplianceFailed.sentence())),
        }
    }

    /// The state after payments. The link is completed when all requests are paid, even after expiry. When a request is
    /// no longer paid, the link awaits payments again. A withdrawn or rejected link keeps its state. Source: rules S.2.
    #[must_use]
    pub fn after_payments(&self, are_all_paid: bool, now: DateTime<Utc>) -> Self {
        let status = match (self.status, are_all_paid) {
            (SecurePaymentStatus::Pending | SecurePaymentStatus::Expired, true) => SecurePaymentStatus::Completed,
            (SecurePaymentStatus::Completed, false) if now > self.expires_at => SecurePaymentStatus::Expired,
            (SecurePaymentStatus::Completed, false) => SecurePaymentStatus::Pending,
            (status, _) => status,
        };
        let completed_at = match status {
            SecurePaymentStatus::Completed => self.completed_at.or(Some(now)),
            _ => None,
        };
        Self {
            status,
            completed_at,
            ..self.clone()
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::domain::ids::PlatformId;

    pub(crate) fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    /// A link that ends at second 100.
    pub(crate) fn link(status: SecurePaymentStatus) -> SecurePayment {
        SecurePayment {
            id: SecurePaymentId("id".into()),
            token: SecurePaymentToken("01K9Z0T3G9R5M1N2P3Q4R5S6T7".into()),
            origin: Origin {
                platform: PlatformId("p".into()),
                client: None,
                client_id: None,
                page: None,
                orchestrator: None,
            },
            flow: PaymentFlow::GetPaid,
            status,
            network: Network::Sepolia,
            destination: None,
            creator: None,
            policy: AccessPolicy::OPEN,
            about: LinkDetails::default(),
            hinted_at: None,
            attempts: WalletAttempts::default(),
            lock: None,
            locks_released_at: None,
            created_at: at(0),
            expires_at: at(100),
            completed_at: None,
            items: Vec::new(),
        }
    }

    use SecurePaymentStatus::{Completed, ComplianceFailed, Expired, Invalidated, Pending};

    #[test]
    fn links_are_valid_to_the_last_moment_and_only_unpaid_ones_expire() {
        for (status, second, expected) in [
            (Pending, 99, Pending),
            (Pending, 100, Pending),
            (Pending, 101, Expired),
            (Completed, 101, Completed),
            (Invalidated, 101, Invalidated),
            (ComplianceFailed, 101, ComplianceFailed),
            (Expired, 101, Expired),
            (Expired, 100, Pending),
            (Expired, 99, Pending),
        ] {
            assert_eq!(link(status).status_at(at(second)), expected, "{status:?} at {second}");
        }
    }

    #[test]
    fn payments_complete_only_pending_or_expired_links() {
        for (status, are_all_paid, second, expected) in [
            (Pending, true, 50, Completed),
            (Pending, false, 50, Pending),
            (Expired, true, 150, Completed),
            (Expired, false, 150, Expired),
            (Completed, true, 150, Completed),
            (Completed, false, 50, Pending),
            (Completed, false, 150, Expired),
            (Invalidated, true, 50, Invalidated),
            (ComplianceFailed, true, 50, ComplianceFailed),
        ] {
            let after = link(status).after_payments(are_all_paid, at(second));
            assert_eq!(after.status, expected, "{status:?} {are_all_paid} at {second}");
            assert_eq!(after.completed_at.is_some(), expected == Completed);
        }
    }

    #[test]
    fn the_first_completion_keeps_its_time() {
        let first = link(Pending).after_payments(true, at(10));
        assert_eq!(first.after_payments(true, at(20)).completed_at, Some(at(10)));
    }

    #[test]
    fn completed_or_compliance_failed_links_cannot_be_withdrawn() {
        for (status, is_withdrawn) in [
            (Pending, true),
            (Expired, true),
            (Invalidated, true),
            (Completed, false),
            (ComplianceFailed, false),
        ] {
            assert_eq!(link(status).withdrawn().is_ok(), is_withdrawn, "{status:?}");
        }
    }

    #[test]
    fn a_hint_expires() {
        let hinted = SecurePayment {
            hinted_at: Some(at(10)),
            ..link(Pending)
        };
        let none = PaymentSigns::default();
        let seen = PaymentSigns { is_seen: true, ..none };
        assert_eq!(hinted.in_flight_until(none, at(129)), Some(at(130)));
        assert_eq!(hinted.in_flight_until(none, at(130)), None);
        assert_eq!(hinted.in_flight_until(seen, at(130)), Some(at(250)));
        assert_eq!(
            hinted.in_flight_until(none, at(8)),
            None,
            "a hint in the future must not count, because the clock was set back"
        );
    }

    #[test]
    fn a_broadcast_is_in_flight_as_long_as_it_may_arrive() {
        let signs = PaymentSigns {
            is_seen: false,
            broadcast_until: Some(at(70)),
        };
        let until = |second| link(Pending).in_flight_until(signs, at(second));
        assert_eq!((until(10), until(189)), (Some(at(190)), Some(at(190))));
        assert_eq!(until(500), Some(at(500)), "the chain lags");
        let last = PaymentSigns {
            broadcast_until: Some(DateTime::<Utc>::MAX_UTC),
            ..signs
        };
        let until = link(Pending).in_flight_until(last, at(10));
        assert_eq!(until, Some(DateTime::<Utc>::MAX_UTC), "no later time exists");
    }

    #[test]
    fn a_token_prints_only_its_last_characters() {
        assert_eq!(format!("{:?}", link(Pending).token), "SecurePaymentToken(…S6T7)");
    }
}
