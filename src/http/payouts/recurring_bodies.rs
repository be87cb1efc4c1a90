//! Bodies of the operations on recurring payouts.

use crate::{
    domain::schedule::ScheduleStatus,
    http::{forms::calldata::Transaction, operation::*},
};

words! {
    /// State of a recurring payment
    ScheduleStatus as "RecurringPaymentStatus";
}

text! {
    /// Signature of a payer: 65 bytes.
    PermitSignatureText {
        pattern: "^0x[a-fA-F0-9]{130}$",
        length_max: 132,
        example: "0x7f81f89acd7d2f2d9ccd7c9aea5664685aa37c8ff2a32915cce70ada53195ec04e04c460d5842e71f2c7537b9225ab8824b1bafff904330c7339e724297fe5f91c",
        hint: "must be a signature by the payer's key: 0x and 130 hexadecimal digits; contract wallets cannot sign a recurring payment",
    }
}

/// Change of a recurring payment
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum RecurringPaymentAction {
    /// End it
    Cancel,
    /// Resume it after failures
    Unpause,
}

/// The signature of the payer.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", example)]
pub struct ActivateRecurringBody {
    /// Signature of `recurringPaymentPermit` by the payer, as EIP-712 typed data
    pub permit_signature: PermitSignatureText,
}

impl Example for ActivateRecurringBody {
    fn example() -> Self {
        Self {
            permit_signature: PermitSignatureText::example(),
        }
    }
}

/// An activated recurring payment.
#[derive(Debug, Clone, Object)]
pub struct RecurringActivated {
    /// Confirmation. Example: `Recurring payment activated successfully`
    #[oai(validator(max_length = 64))]
    pub message: String,
    /// Its id
    pub id: UlidText,
    /// Its state. Example: `active`
    pub status: ScheduleStatus,
}

/// A request that a recurring payment created.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RecurringRequest {
    /// Reference that the payment carries on chain
    pub payment_reference: ReferenceText,
    /// Id of the request
    pub request_id: RequestIdText,
}

/// A payment that was executed.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RecurringPaymentMade {
    /// Its id
    pub id: UlidText,
    /// Amount in the payment currency, human units
    pub amount: AmountText,
    /// Time of its block
    pub timestamp: Instant,
    /// Transaction that contains the payment
    pub tx_hash: TxHash,
}

/// A recurring payment and its executed payments.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RecurringView {
    /// Its id
    pub id: UlidText,
    /// State. Example: `active`
    pub status: ScheduleStatus,
    /// Number of executed and final payments. Example: `3`
    pub processed_payments: u32,
    /// Total number of payments. Example: `12`
    pub total_payments: u32,
    /// Time of the last payment; null before the first one
    pub last_payment_date: OrNull<Instant>,
    /// When the next payment is due; null when the recurring payment is paused, completed or cancelled
    pub next_payment_date: OrNull<Instant>,
    /// Requests of the recurring payment, in order; the last request may be unpaid
    #[oai(validator(max_items = 255))]
    pub requests: Vec<RecurringRequest>,
    /// Payments of the recurring payment, oldest first; if there are more than 10,000, only the largest ones
    #[oai(validator(max_items = 10000))]
    pub payments: Vec<RecurringPaymentMade>,
    /// Number of failures since the last payment. Example: `1`
    pub failure_count: u32,
    /// Why the last payment failed, or why the service cancelled the recurring payment; null otherwise. Example: `The payer does not have enough of the token`
    #[oai(validator(max_length = 1024))]
    pub failure_reason: OrNull<String>,
}

/// Change of a recurring payment.
#[derive(Debug, Clone, Object)]
#[oai(example)]
pub struct UpdateRecurringBody {
    /// `cancel` ends the recurring payment, `unpause` resumes it after failures
    pub action: RecurringPaymentAction,
}

impl Example for UpdateRecurringBody {
    fn example() -> Self {
        Self {
            action: RecurringPaymentAction::Cancel,
        }
    }
}

/// Progress of a recurring payment.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RecurringProgress {
    /// Number of executed and final payments. Example: `3`
    pub processed_payments: u32,
    /// Total number of payments. Example: `12`
    pub total_payments: u32,
    /// Number of remaining payments; after a cancellation, the number of payments that are no longer executed.
    /// Example: `9`
    pub remaining_payments: u32,
    /// Total of the remaining payments and their fees, in units of the token. Example: `9234000`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub remaining_amount: String,
    /// When the next payment is due; null when the recurring payment is cancelled. Example: `null`
    pub next_payment_date: OrNull<Instant>,
}

/// A changed recurring payment.
#[derive(Debug, Clone, Object)]
pub struct RecurringUpdated {
    /// Its id
    pub id: UlidText,
    /// New state of the recurring payment. Example: `cancelled`
    pub status: ScheduleStatus,
    /// Transactions that reduce the payer's allowance by the payments that are no longer executed; empty when there is
    /// nothing to reduce, and when too few nodes return the allowance
    #[oai(validator(max_items = 2))]
    pub transactions: Vec<Transaction>,
    /// Its progress
    pub metadata: RecurringProgress,
}
