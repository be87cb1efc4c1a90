//! The integration suite: HTTP to the real router on a real database, with a fixed clock and seeded ids.
//!
//! `PRS_TEST_DATABASE` chooses `sqlite` (the default) or `postgres`; the latter needs `PRS_TEST_POSTGRES_URL`, an
//! address at which databases may be created. `cargo xtask test` provides both.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail with a panic")]
#![allow(unreachable_pub, reason = "modules of one test binary")]

mod support;

mod bad_input;
mod client_ids;
mod currencies;
mod documents;
mod events;
mod events_kinds;
mod faults;
mod idempotency;
mod pay;
mod payments;
mod reorg;
mod requests;
mod restart;
mod vectors;
mod webhooks;
