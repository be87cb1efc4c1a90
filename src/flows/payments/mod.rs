//! Payments: searching them, and bringing them in from the chains.

mod backlog;
mod confirm;
pub mod resume;
mod rewind;
pub mod search;
pub mod watch;

pub use crate::store::payments::{PaymentRecord, RequestSummary};
