//! What a developer does to the world of a local service.

use crate::domain::address::Address;
use alloy::primitives::{Address as Contract, B256, U256};
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};

/// Moves time.
#[async_trait]
pub trait TimeMachine: Send + Sync + 'static {
    /// Moves the clock of the service and that of its local chain forward together; returns what the service's shows then.
    ///
    /// Errors: the chain does not follow, and the clock of the service stays where it was.
    async fn forward(&self, by: TimeDelta) -> anyhow::Result<DateTime<Utc>>;
}

/// A call that a wallet signs.
#[derive(Debug, Clone)]
pub struct WalletCall {
    /// Contract that is called.
    pub to: Contract,
    /// Encoded call.
    pub data: Vec<u8>,
    /// Native coin that goes with it, in its smallest unit.
    pub value: U256,
}

/// A wallet on the local chain, which signs whatever it is given.
#[async_trait]
pub trait SandboxWallet: Send + Sync + 'static {
    /// Its address.
    fn address(&self) -> Address;

    /// Sends calls one after the other, each when the one before is mined; returns the hashes of their transactions.
    ///
    /// Errors: the chain does not take one of them, or it has no effect; those before it stay.
    async fn send(&self, calls: &[WalletCall]) -> anyhow::Result<Vec<B256>>;
}
