//! Readers of the documentation: a real browser, the real program, and the local chain; and everything that it shows as an
//! example, executed as it stands.
//!
//! Prints each step of the first request, what the pages fetched, and what axe-core says; keeps pictures of the pages below
//! the target directory.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail with a panic")]
#![allow(unreachable_pub, reason = "modules of one test binary")]

#[path = "../support"]
#[allow(dead_code, reason = "shared with other test binaries")]
mod support {
    pub mod browser;
    pub mod contract;
    pub mod dev;
    pub mod program;
    pub mod published;
}

mod examples;
mod page;
mod reader;
mod readings;
mod samples;
