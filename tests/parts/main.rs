//! Parts of the service in isolation: the store, the HTTP layer common to every operation, and the chain adapter.
//!
//! A test that needs PostgreSQL fails without a server; `cargo xtask test` provides one.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail with a panic")]
#![allow(unreachable_pub, reason = "modules of one test binary")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "shared with the tests that go through the router")]
mod support;

mod chain_faults;
mod evm;
mod http_floor;
mod store;
mod tron;
