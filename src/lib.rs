//! The Payment Request Service: creates payment requests in fiat or tokens, recognises their payments on chain, settles
//! them and notifies the merchant with signed webhooks.
//!
//! The layers, the lowest first: `domain` (values and rules), `ports` (the outside world in domain words), `payloads`
//! (bodies of webhooks), `store` (SQL), `adapters` (implementations of ports), `flows` (one file for each operation:
//! gather, decide, commit), `http` (the declared contract) and `worker` (loops around flows). Only `boot` imports every
//! layer. ARCHITECTURE.md describes them.

pub mod adapters;
pub mod boot;
pub mod ctx;
pub mod domain;
pub mod flows;
pub mod http;
pub mod payloads;
pub mod ports;
pub mod settings;
pub mod store;
pub mod worker;

/// Ends the process here, as SIGKILL would, when `FAILPOINTS` names this point; the durability tests use it.
///
/// Source: rules D.2.
#[cfg(debug_assertions)]
pub(crate) fn fail_at(step: &str, edge: &str) {
    fail::fail_point!(&format!("{step}.{edge}"), |_| std::process::abort());
}

/// Does nothing: an optimised build has no failpoints.
#[cfg(not(debug_assertions))]
pub(crate) const fn fail_at(_step: &str, _edge: &str) {}
