//! Secure payments: links by which whoever has the token pays, from their creation to their end.

pub mod access;
pub mod attempt;
pub mod fee_plan;
mod flow;
pub mod intent;
pub mod options;
pub mod plan;
pub mod redirect;
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
use attempt::Attempts;
use chrono::{DateTime, TimeDelta, Utc};
pub use flow::PaymentFlow;
use redirect::Redirect;

/// How long a payment counts as on its way after somebody said so. Source: interface §4.7 (an intent is a hint).
const HINT_LASTS: TimeDelta = TimeDelta::minutes(2);

wire_text! {
    /// State of a secure payment. Source: rules S.2.
    pub enum SecurePaymentStatus {
        /// Can be paid until it expires.
        Pending = "pending",
        /// Every request of it is paid.
        Completed = "completed",
        /// Its time is over. Money that arrives all the same completes it.
        Expired = "expired",
        /// Withdrawn by its owner, or combined with others. Money that arrives all the same is credited to its request.
        Invalidated = "invalidated",
        /// Its recipient may not be paid.
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

/// What its creator says about a secure payment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Reference of the merchant.
    pub reference: Option<String>,
    /// Where the payer may go afterwards.
    pub redirect: Option<Redirect>,
}

/// A merchant's own names for people. They are no part of a secure payment: whoever opens one by its token does not even
/// read them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Of who pays.
    pub payer: Option<String>,
    /// Of who is paid.
    pub recipient: Option<String>,
}

impl std::fmt::Debug for Names {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Names(…)")
    }
}

/// A request of a secure payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Row of the request.
    pub request: RequestRowId,
    /// Its public id.
    pub request_id: RequestId,
    /// What is charged on top of it, as it was when the secure payment was made.
    pub charges: Charges,
}

/// A secure payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurePayment {
    /// Row.
    pub id: SecurePaymentId,
    /// What payers have of it.
    pub token: SecurePaymentToken,
    /// Who created it.
    pub origin: Origin,
    /// Which way the money goes.
    pub flow: PaymentFlow,
    /// State, as it was stored.
    pub status: SecurePaymentStatus,
    /// Network of its payments.
    pub network: Network,
    /// Where it pays to, as it was when it was made; none for a batch of payouts and for a native coin.
    pub destination: Option<DestinationKey>,
    /// Wallet that is to pay a payout, as text: it is not held to it.
    pub creator: Option<String>,
    /// Who may pay, and what a payer sees.
    pub policy: AccessPolicy,
    /// What its creator says about it.
    pub about: About,
    /// When somebody said last that a payment is on its way.
    pub hinted_at: Option<DateTime<Utc>>,
    /// What payment pages asked wallets to send.
    pub attempts: Attempts,
    /// Time of creation.
    pub created_at: DateTime<Utc>,
    /// Until when it can be paid.
    pub expires_at: DateTime<Utc>,
    /// When the last of its requests was paid.
    pub completed_at: Option<DateTime<Utc>>,
    /// Its requests, in the order in which they were asked for.
    pub items: Vec<Item>,
}

/// Why a secure payment cannot be paid any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpayable {
    /// It is paid.
    Completed,
    /// Its time is over.
    Expired,
    /// It was withdrawn or combined with others.
    Invalidated,
    /// Its recipient may not be paid.
    ComplianceFailed,
}

impl Unpayable {
    /// What is said of it. Source: rules P.3.7.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Completed => "Secure payment has already been completed",
            Self::Expired => "Secure payment has expired",
            Self::Invalidated => "Secure payment has been withdrawn",
            Self::ComplianceFailed => "Secure payment cannot be paid",
        }
    }
}

impl From<Unpayable> for Refusal {
    fn from(why: Unpayable) -> Self {
        match why {
            Unpayable::Completed => Self::conflict(why.sentence()),
            Unpayable::Expired | Unpayable::Invalidated | Unpayable::ComplianceFailed => {
                Self::forbidden(why.sentence())
            }
        }
    }
}

impl SecurePayment {
    /// How many requests it has.
    pub fn kind(&self) -> SecurePaymentKind {
        match self.items.as_slice() {
            [] | [_] => SecurePaymentKind::Single,
            _ => SecurePaymentKind::Batch,
        }
    }

    /// State at a time: one that nobody paid expires by itself. At its last moment it can still be paid.
    ///
    /// The time decides, not the stored word: one that was ended by a clock that was ahead is open again once the clock is
    /// right.
    pub fn status_at(&self, now: DateTime<Utc>) -> SecurePaymentStatus {
        match self.status {
            SecurePaymentStatus::Pending | SecurePaymentStatus::Expired if now > self.expires_at => {
                SecurePaymentStatus::Expired
            }
            SecurePaymentStatus::Pending | SecurePaymentStatus::Expired => SecurePaymentStatus::Pending,
            status => status,
        }
    }

    /// Whether it can be paid. Errors: why not.
    pub fn payable_at(&self, now: DateTime<Utc>) -> Result<(), Unpayable> {
        match self.status_at(now) {
            SecurePaymentStatus::Pending => Ok(()),
            SecurePaymentStatus::Completed => Err(Unpayable::Completed),
            SecurePaymentStatus::Expired => Err(Unpayable::Expired),
            SecurePaymentStatus::Invalidated => Err(Unpayable::Invalidated),
            SecurePaymentStatus::ComplianceFailed => Err(Unpayable::ComplianceFailed),
        }
    }

    /// Until when a payment counts as on its way; `None` when no intent, page or chain says so. What is seen on the chain
    /// and not final is on its way however long that takes: it counts anew with each look.
    pub fn in_flight_until(&self, is_seen: bool, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let since = if is_seen { Some(now) } else { self.hinted_at };
        let hinted = since
            .filter(|at| is_within(*at, HINT_LASTS, now))
            .map(|at| at + HINT_LASTS);
        hinted.max(self.attempts.warn_until(&[], now))
    }

    /// The state once it is withdrawn by its owner; one that was withdrawn before stays as it is.
    ///
    /// Errors: it is paid, or its recipient may not be paid (409). Source: rules S.2.
    pub fn withdrawn(&self) -> Result<SecurePaymentStatus, Refusal> {
        match self.status {
            SecurePaymentStatus::Pending | SecurePaymentStatus::Expired | SecurePaymentStatus::Invalidated => {
                Ok(SecurePaymentStatus::Invalidated)
            }
            SecurePaymentStatus::Completed => Err(Unpayable::Completed.into()),
            SecurePaymentStatus::ComplianceFailed => Err(Refusal::conflict(Unpayable::ComplianceFailed.sentence())),
        }
    }

    /// What payments make of it: with every request paid it is completed, also late; without, it awaits them again. One
    /// that was withdrawn or refused stays so, whatever arrives. Source: rules S.2.
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
            },
            flow: PaymentFlow::GetPaid,
            status,
            network: Network::Sepolia,
            destination: None,
            creator: None,
            policy: AccessPolicy::OPEN,
            about: About::default(),
            hinted_at: None,
            attempts: Attempts::default(),
            created_at: at(0),
            expires_at: at(100),
            completed_at: None,
            items: Vec::new(),
        }
    }

    use SecurePaymentStatus::{Completed, ComplianceFailed, Expired, Invalidated, Pending};

    #[test]
    fn the_last_moment_counts_and_only_what_nobody_paid_expires() {
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
    fn payments_complete_what_is_open_or_late_and_nothing_else() {
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
    fn what_is_paid_or_refused_is_not_withdrawn() {
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
    fn a_hint_ends_by_itself() {
        let hinted = SecurePayment {
            hinted_at: Some(at(10)),
            ..link(Pending)
        };
        assert_eq!(hinted.in_flight_until(false, at(129)), Some(at(130)));
        assert_eq!(hinted.in_flight_until(false, at(130)), None);
        assert_eq!(hinted.in_flight_until(true, at(130)), Some(at(250)));
        assert_eq!(hinted.in_flight_until(false, at(8)), None, "the clock was set back");
    }

    #[test]
    fn a_token_shows_its_end_alone() {
        assert_eq!(format!("{:?}", link(Pending).token), "SecurePaymentToken(…S6T7)");
    }
}
