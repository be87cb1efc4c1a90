//! Payers at the payment page: a real browser, the real program, and the local chain.
//!
//! Prints what came of each scenario, how large the page is, and how often it was judged by axe-core; keeps pictures of its
//! screens below the target directory. `PRS_TEST_PAGE` names a part of the scenarios that are played alone.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail with a panic")]
#![allow(unreachable_pub, reason = "modules of one test binary")]

#[path = "../support"]
#[allow(dead_code, reason = "shared with other test binaries")]
mod support {
    pub mod browser;
    pub mod dev;
    pub mod program;
    pub mod published;
}

mod bent;
mod brand;
mod hostile;
mod many;
mod proxy;
mod scenarios;
mod screens;
mod stage;
mod unclear;
mod wallet;
