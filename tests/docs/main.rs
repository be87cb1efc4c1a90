//! Readers of the documentation: a real browser, the real program, and the local chain. Also executes every published
//! example unchanged.
//!
//! Prints each step of the first request, the bytes that the pages fetched, and the findings of axe-core. Stores
//! screenshots of the pages below the target directory.
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
