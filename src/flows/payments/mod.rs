//! Payments: search, and detection on the chains.

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
pub mod safe_outcomes;
pub mod search;
pub mod watch;

use crate::{
    domain::{network::Network, refusal::Refusal},
    flows::FlowError,
};

pub use crate::store::payments::RequestSummary;

/// Another process moved, halted or resumed a chain during a step: the next step reads its new state.
fn moved_meanwhile(network: Network) -> FlowError {
    FlowError::NotYet(anyhow::anyhow!(
        "another process moved the cursor of {network}, or halted or resumed {network}, during this step"
    ))
}

/// A command about a network whose position is not stored yet.
fn never_followed(network: Network) -> Refusal {
    Refusal::not_found(format!(
        "no instance has followed {network} yet: set {}, start `prs serve`, and check /health/ready",
        network.node_setting()
    ))
}
