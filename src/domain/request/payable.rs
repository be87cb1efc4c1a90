//! Whether a request can be paid now.

use super::Request;
use crate::domain::ledger::RequestStatus;

/// Why a request cannot be paid now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpayable {
    /// The whole amount has arrived.
    Paid,
    /// Its owner withdrew it.
    Cancelled,
    /// Money is on its way.
    Processing,
    /// Its payment failed, or went back to the payer.
    Ended,
    /// A recurring payment pays it.
    OfSchedule,
    /// Its recurrence is stopped.
    Stopped,
    /// A secure payment pays it, or did until it ended.
    OfSecurePayment,
    /// A bank account gets it: where it is paid to is asked for each time.
    ForBankAccount,
}

impl Unpayable {
    /// What is said when the call is about this request alone.
    pub const fn alone(self) -> &'static str {
        self.sentences().0
    }

    /// What is said of an entry in a list of requests.
    pub const fn in_list(self) -> &'static str {
        self.sentences().1
    }

    const fn sentences(self) -> (&'static str, &'static str) {
        match self {
            Self::Paid => (
                "Request has already been paid",
                "must be a request that is not paid: this one has already been paid",
            ),
            Self::Cancelled => (
                "Request has been cancelled",
                "must be a request that is still asked for: this one has been cancelled",
            ),
            Self::Processing => (
                "Money for this request is on its way",
                "must be a request that nobody pays yet: money for this one is on its way",
            ),
            Self::Ended => (
                "The payment of this request failed or went back",
                "must be a request that is still open: the payment of this one failed or went back",
            ),
            Self::OfSchedule => (
                "This request is paid by its recurring payment",
                "must be a request that nobody pays yet: this one is paid by its recurring payment",
            ),
            Self::Stopped => (
                "The recurrence of this request is stopped",
                "cannot be paid: the recurrence of this request is stopped",
            ),
            Self::OfSecurePayment => (
                "This request belongs to a secure payment: it is paid through that link alone",
                "must be a request of no secure payment: this one is paid through its link alone",
            ),
            Self::ForBankAccount => (
                "This request is paid to a bank account: name its payer with clientUserId and the account with \
                 paymentDetailsId",
                "must be a request with a payee: this one is paid to a bank account, by GET /v2/request/{requestId}/pay alone",
            ),
        }
    }
}

impl Request {
    /// Whether calldata may be handed out for it. Errors: why not.
    pub fn payable(&self) -> Result<(), Unpayable> {
        match self.ledger.status {
            RequestStatus::Pending | RequestStatus::PartiallyPaid if self.terms.schedule.is_some() => {
                Err(Unpayable::OfSchedule)
            }
            RequestStatus::Pending | RequestStatus::PartiallyPaid if self.terms.is_recurrence_stopped() => {
                Err(Unpayable::Stopped)
            }
            RequestStatus::Pending | RequestStatus::PartiallyPaid => Ok(()),
            RequestStatus::Paid => Err(Unpayable::Paid),
            RequestStatus::Processing => Err(Unpayable::Processing),
            RequestStatus::Cancelled => Err(Unpayable::Cancelled),
            RequestStatus::Failed | RequestStatus::Refunded => Err(Unpayable::Ended),
        }
    }

    /// Whether calldata may be handed out to whoever asks with its id. Errors: why not.
    pub fn payable_by_id(&self) -> Result<(), Unpayable> {
        self.payable()?;
        match (self.link_until.is_some(), self.terms.payee) {
            (true, _) => Err(Unpayable::OfSecurePayment),
            (false, None) => Err(Unpayable::ForBankAccount),
            (false, Some(_)) => Ok(()),
        }
    }
}
