//! Parts of the service on their own: the store, what HTTP does for every operation, the adapter of chains.
//!
//! A test that needs PostgreSQL fails without it; `cargo xtask test` provides one.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail with a panic")]
#![allow(unreachable_pub, reason = "modules of one test binary")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "shared with the tests that go through the router")]
mod support;

mod chain_faults;
mod evm;
mod http_floor;
mod store;
