//! Tests of the payment page with a real browser, the real program and the local chain.
//!
//! The tests print the result of each scenario, the size of the page and the number of axe-core checks, and store
//! screenshots under the target directory. `PRS_TEST_PAGE` runs only the scenarios whose name contains its value.
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
mod safe_and_multicall;
mod scenarios;
mod screens;
mod stage;
mod tron;
mod tron_wallet;
mod unclear;
mod wallet;
