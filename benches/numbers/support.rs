//! Test support for starting browsers and the program.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::expect_used,
    reason = "shared with the tests, which may fail with a panic"
)]

#[path = "../../tests/support/browser.rs"]
pub mod browser;
#[path = "../../tests/support/dev.rs"]
pub mod dev;
#[path = "../../tests/support/program.rs"]
pub mod program;
