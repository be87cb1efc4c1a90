//! The way of the money: a payment on the real local chain is credited once with what arrived, or not at all, whatever
//! nodes tell, chains take back and processes live through.
//!
//! `cargo xtask test money` runs it and lists what an attack on this way once found, each as a named test.
//! The suite draws lies and reorganisations by a seed; `PRS_TEST_MONEY=all` runs all of them,
//! and a number all lies from that one on.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail with a panic")]
#![allow(unreachable_pub, reason = "modules of one test binary")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "shared with the tests that go through the router")]
mod support;

mod bench;
mod findings;
mod lies;
mod proxy;
mod relayer;
mod schedules;
