//! Payments: searching them, and bringing them in from the chains.

mod ahead;
pub mod backlog;
mod confirm;
mod cursor;
pub mod export;
mod gather;
mod handed_out;
pub mod lead;
mod lines;
mod links;
pub mod obstacles;
pub(in crate::flows) mod payer_access;
pub mod quarantine;
mod rating;
pub mod reconcile;
pub mod rescan;
pub mod resume;
mod reverse;
mod rewind;
pub mod search;
pub mod watch;

use crate::{domain::network::Network, flows::FlowError};

pub use crate::store::payments::RequestSummary;

/// Somebody else moved, halted or resumed a chain while it was looked at: the next look sees how it is now.
fn moved_meanwhile(network: Network) -> FlowError {
    FlowError::NotYet(anyhow::anyhow!("{network} was moved or halted while it was looked at"))
}
