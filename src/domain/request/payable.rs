//! Whether a request can be paid now.

use super::Request;
use crate::domain::ledger::RequestStatus;

/// Why a request cannot be paid now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnpayableRequest {
    /// The whole amount has arrived.
    Paid,
    /// Its owner cancelled it.
    Cancelled,
    /// A payment is in progress.
    Processing,
    /// The payment of the request failed, or was refunded to the payer.
    Ended,
    /// A recurring payment pays the request.
    OfSchedule,
    /// The recurrence of the request is stopped.
    Stopped,
    /// The request belongs to a secure payment, so it can be paid only through the link, even if the link has ended.
    OfSecurePayment,
    /// The request is paid to a bank account, so calldata is issued only by a call that names the account.
    ForBankAccount,
}

impl UnpayableRequest {
    /// The message when the call is about a single request.
    pub const fn alone(self) -> &'static str {
        self.sentences().0
    }

    /// The message for an entry in a list of requests.
    pub const fn in_list(self) -> &'static str {
        self.sentences().1
    }

    const fn sentences(self) -> (&'static str, &'static str) {
        match self {
            Self::Paid => (
                "Request has already been paid",
                "must be an open request: this one has already been paid",
            ),
            Self::Cancelled => (
                "Request has been cancelled",
                "must be an open request: this one has been cancelled",
            ),
            Self::Processing => (
                "A payment of this request is in progress",
                "must be a request without a payment in progress",
            ),
            Self::Ended => (
                "The payment of this request failed or was refunded",
                "must be an open request: the payment of this one failed or was refunded",
            ),
            Self::OfSchedule => (
                "This request is paid by a recurring payment",
                "must not be a request of a recurring payment",
            ),
            Self::Stopped => (
                "The recurrence of this request is stopped",
                "cannot be paid: the recurrence of this request is stopped",
            ),
            Self::OfSecurePayment => (
                "This request belongs to a secure payment and can only be paid through its link",
                "must not be a request of a secure payment: this one can only be paid through its link",
            ),
            Self::ForBankAccount => (
                "This request is paid to a bank account: identify the account with clientUserId and \
                 paymentDetailsId",
                "must be a request with a payee: this one is paid to a bank account; use GET \
                 /v2/request/{requestId}/pay",
            ),
        }
    }
}

impl Request {
    /// Checks whether calldata may be issued for the request. Errors: the reason why not.
    pub fn payable(&self) -> Result<(), UnpayableRequest> {
        match self.ledger.status {
            RequestStatus::Pending | RequestStatus::PartiallyPaid if self.terms.schedule.is_some() => {
                Err(UnpayableRequest::OfSchedule)
            }
            RequestStatus::Pending | RequestStatus::PartiallyPaid if self.terms.is_recurrence_stopped() => {
                Err(UnpayableRequest::Stopped)
            }
            RequestStatus::Pending | RequestStatus::PartiallyPaid => Ok(()),
            RequestStatus::Paid => Err(UnpayableRequest::Paid),
            RequestStatus::Processing => Err(UnpayableRequest::Processing),
            RequestStatus::Cancelled => Err(UnpayableRequest::Cancelled),
            RequestStatus::Failed | RequestStatus::Refunded => Err(UnpayableRequest::Ended),
        }
    }

    /// Checks whether calldata may be issued to any caller that has the id of the request. Errors: the reason why not.
    pub fn payable_by_id(&self) -> Result<(), UnpayableRequest> {
        self.payable()?;
        match (self.link_until.is_some(), self.terms.payee) {
            (true, _) => Err(UnpayableRequest::OfSecurePayment),
            (false, None) => Err(UnpayableRequest::ForBankAccount),
            (false, Some(_)) => Ok(()),
        }
    }
}
