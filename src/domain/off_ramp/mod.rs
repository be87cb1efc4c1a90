//! Payments to bank accounts: where their money is paid to, and how far the partner who pays them out is.

mod deposit;
mod order;
mod quote;

pub use deposit::{Deposit, is_offered};
pub use order::{
    AskedFor, FiatOrder, OffRampStatus, OrderState, OrderTrigger, PUT_OFF_MAX, SILENT_AFTER, Step, ask_again_after,
    open_again_after,
};
pub use quote::{CalledByPartner, FiatQuote, PaidOutTo, QuoteTerms, order_key, quote_key};
