//! What clients send and get for recurring payouts.

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
        hint: "must be the signature of the payer's key: 0x and 130 hexadecimal digits; contract wallets cannot sign a recurring payment",
    }
}

/// What is done to a recurring payment
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[oai(rename_all = "snake_case")]
pub enum RecurringPaymentAction {
    /// It ends
    Cancel,
    /// It goes on after failures
    Unpause,
}

/// The signature of the payer.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase", example)]
pub struct ActivateRecurringBody {
    /// Signature of the payer over `recurringPaymentPermit`, as typed data of EIP-712
    pub permit_signature: PermitSignatureText,
}

impl Example for ActivateRecurringBody {
    fn example() -> Self {
        Self {
            permit_signature: PermitSignatureText::example(),
        }
    }
}

/// A recurring payment that begins.
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

/// A request that a recurring payment made.
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
    /// Transaction that holds it
    pub tx_hash: TxHash,
}

/// A recurring payment and what was executed of it.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RecurringView {
    /// Its id
    pub id: UlidText,
    /// State. Example: `active`
    pub status: ScheduleStatus,
    /// Payments that are executed and final. Example: `3`
    pub processed_payments: u32,
    /// Payments altogether. Example: `12`
    pub total_payments: u32,
    /// Time of the last payment; null before the first one
    pub last_payment_date: OrNull<Instant>,
    /// When the next payment is due; null when it is paused, completed or cancelled
    pub next_payment_date: OrNull<Instant>,
    /// Requests of its payments, the first one first; the last one may not be paid yet
    #[oai(validator(max_items = 255))]
    pub requests: Vec<RecurringRequest>,
    /// Its payments, the oldest first; the 10,000 largest when there are more
    #[oai(validator(max_items = 10000))]
    pub payments: Vec<RecurringPaymentMade>,
    /// Failures since the last payment. Example: `1`
    pub failure_count: u32,
    /// Why the last payment failed, or why it was cancelled without a call; null otherwise. Example: `The payer does not have enough of the token`
    #[oai(validator(max_length = 1024))]
    pub failure_reason: OrNull<String>,
}

/// What is done to a recurring payment.
#[derive(Debug, Clone, Object)]
#[oai(example)]
pub struct UpdateRecurringBody {
    /// `cancel` ends it, `unpause` takes it up again after failures
    pub action: RecurringPaymentAction,
}

impl Example for UpdateRecurringBody {
    fn example() -> Self {
        Self {
            action: RecurringPaymentAction::Cancel,
        }
    }
}

/// How far a recurring payment is.
#[derive(Debug, Clone, Object)]
#[oai(rename_all = "camelCase")]
pub struct RecurringProgress {
    /// Payments that are executed and final. Example: `3`
    pub processed_payments: u32,
    /// Payments altogether. Example: `12`
    pub total_payments: u32,
    /// Payments that are left; of a cancelled one those that are not executed any more. Example: `9`
    pub remaining_payments: u32,
    /// What they take from the payer with their fees, in units of the token. Example: `9234000`
    #[oai(validator(max_length = 78, pattern = "^[0-9]+$"))]
    pub remaining_amount: String,
    /// When the next payment is due; null when it is cancelled. Example: `null`
    pub next_payment_date: OrNull<Instant>,
}

/// A recurring payment that was changed.
#[derive(Debug, Clone, Object)]
pub struct RecurringUpdated {
    /// Its id
    pub id: UlidText,
    /// Its state now. Example: `cancelled`
    pub status: ScheduleStatus,
    /// Transactions with which the payer takes back what was allowed for payments that are not executed any more; empty
    /// when nothing is to be taken back, and when too few nodes tell what is allowed
    #[oai(validator(max_items = 2))]
    pub transactions: Vec<Transaction>,
    /// How far it is
    pub metadata: RecurringProgress,
}
