//! Payments to bank accounts: their deposit addresses, quotes and payout orders.

mod deposit;
mod order;
mod quote;

pub use deposit::{DepositAddress, is_offered};
pub use order::{
    FiatOrder, OffRampStatus, OrderState, OrderTransition, OrderTrigger, PUT_OFF_MAX, PayoutOrder, SILENT_AFTER,
    ask_again_after, open_again_after,
};
pub use quote::{CalledByPartner, FiatQuote, PaidOutTo, QuoteTerms, order_key, quote_key};
