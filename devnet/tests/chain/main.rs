//! Tests of the local chain through its public API.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, also in its helper functions"
)]

mod artifacts;
mod contracts;
mod deployment;
mod history;
mod payments;
mod recurring;
mod safe;

use alloy::primitives::U256;
use devnet::{Devnet, Options, RpcError};

async fn started() -> Devnet {
    Devnet::start(Options::default()).await.unwrap()
}

fn units(amount: u64) -> U256 {
    U256::from(amount)
}

/// The text of the node's error for a rejected call, with the revert bytes.
fn refusal<T: std::fmt::Debug>(result: anyhow::Result<T>) -> String {
    result.unwrap_err().downcast::<RpcError>().unwrap().to_string()
}
