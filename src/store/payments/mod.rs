//! Settled payments. Rows are never deleted: a payment that leaves the chain stays and is marked as reversed.

mod filter;
mod groups;
mod lists;
mod record;
mod search;
mod write;

pub use filter::{FoundPayment, FoundPayments, PageStart, PageWindow, PaymentFilter};
pub use lists::{
    PaidBefore, ReadablePayments, UnreadablePayment, blocks, count_of_request, fees_of_request, find_in_transactions,
    in_blocks, largest_of_request, largest_of_schedule, list_of_request, of_transactions, of_unknown_access,
    readable_of_transactions,
};
pub use record::{RequestSummary, SettledPayment};
pub use search::{read, search};
pub(in crate::store) use write::hide;
pub use write::{insert_new, reinstate, relocate, reverse, set_access, set_told};
