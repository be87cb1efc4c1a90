//! Controls of a local service for developers.

use crate::domain::address::Address;
use alloy::primitives::{Address as Contract, B256, U256};
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

/// Moves the clock.
#[async_trait]
pub trait TimeMachine: Send + Sync + 'static {
    /// Moves the clocks of the service and of its local chain forward together; returns the new time of the service.
    ///
    /// Errors: the chain cannot be moved. The clock of the service then stays unchanged.
    async fn forward(&self, by: TimeDelta) -> anyhow::Result<DateTime<Utc>>;
}

/// A call for a wallet to sign.
#[derive(Debug, Clone)]
pub struct WalletCall {
    /// Called contract.
    pub to: Contract,
    /// Encoded call.
    pub data: Vec<u8>,
    /// Amount of native coin, in its smallest unit.
    pub value: U256,
}

/// A wallet on the local chain that signs every call.
#[async_trait]
pub trait SandboxWallet: Send + Sync + 'static {
    /// Its address.
    fn address(&self) -> Address;

    /// Sends calls one after the other. Each call is sent after the previous one is mined. Returns the transaction
    /// hashes.
    ///
    /// Errors: the chain rejects a call, or a call has no effect. The effects of earlier calls remain.
    async fn send(&self, calls: &[WalletCall]) -> anyhow::Result<Vec<B256>>;
}
