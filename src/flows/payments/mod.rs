//! Payments: searching them, and bringing them in from the chains.

pub mod confirm;
pub mod resume;
pub mod search;
pub mod watch;

pub use crate::store::payments::{PaymentRecord, RequestSummary};
