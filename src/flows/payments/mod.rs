//! Payments: searching them, and bringing them in from the chains.

mod ahead;
pub mod backlog;
mod confirm;
mod facts;
mod gather;
mod handed_out;
pub mod obstacles;
pub mod quarantine;
pub mod reconcile;
pub mod rescan;
pub mod resume;
mod reverse;
mod rewind;
pub mod search;
pub mod watch;

pub use crate::store::payments::{PaymentRecord, RequestSummary};
