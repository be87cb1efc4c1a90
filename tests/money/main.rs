//! Tests of the payment path. A payment on the real local chain is credited either once with the arrived amount or not
//! at all. This holds whatever nodes return, whichever blocks a reorganisation removes, and whenever the process
//! restarts.
//!
//! `cargo xtask test money` runs these tests and lists the findings of earlier attacks on this path, each with its
//! named test. The suite draws faults and reorganisations from a seed. `PRS_TEST_MONEY=all` runs all of them; a number
//! runs all faults from that number on.
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
