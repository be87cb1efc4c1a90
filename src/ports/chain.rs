//! Chains: what every one of them can do, and what only some can.
//!
//! A network that lacks a part is missing in the map of that part, so no adapter has a method that can only fail.

use crate::domain::{
    address::Address,
    calldata::Standing,
    network::Network,
    payment::{BlockRef, Observation, TxProof},
    session::WalletAnswer,
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use async_trait::async_trait;
use std::{collections::BTreeMap, sync::Arc};

/// Why the chain could not be asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ChainError {
    /// No node answered in time.
    #[error("no node of {network} answered: {reason}")]
    Unavailable {
        /// Network.
        network: Network,
        /// Last failure, without addresses of nodes.
        reason: String,
    },
    /// Nodes answered, but with something that cannot be true.
    #[error("a node of {network} answered with something that cannot be true: {reason}")]
    Malformed {
        /// Network.
        network: Network,
        /// What was wrong.
        reason: String,
    },
    /// The contract call was refused by the chain.
    #[error("the chain refused the call: {0}")]
    Reverted(String),
    /// Two nodes disagree about settled facts: the watcher must stop.
    #[error("nodes of {network} disagree: {reason}")]
    Disagreement {
        /// Network.
        network: Network,
        /// About what.
        reason: String,
    },
}

/// Which node is asked. What matters is asked of two, where there are two, and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// The first healthy node in the order of the settings.
    First,
    /// Another one than [`Witness::First`] would use, when there are several.
    Second,
}

/// Reads a chain. Every answer is validated before it is returned. Source: rules B.2.
#[async_trait]
pub trait Chain: Send + Sync + 'static {
    /// Network.
    fn network(&self) -> Network;
    /// First block that matters.
    fn start_block(&self) -> u64;
    /// Newest block.
    async fn head(&self) -> Result<BlockRef, ChainError>;
    /// Newest block that counts as final: by the setting, the `finalized` tag or the depth of the network.
    async fn finalized(&self, head: &BlockRef) -> Result<BlockRef, ChainError>;
    /// Block at a height; `None` when the chain is shorter.
    async fn block(&self, number: u64, witness: Witness) -> Result<Option<BlockRef>, ChainError>;
    /// Payment events of one block, read by its hash, so that a reorganisation shows as an error.
    async fn observations_at(&self, block: &BlockRef, witness: Witness) -> Result<Vec<Observation>, ChainError>;
    /// Payment events from `from` on, at most to `to`: returns the last height that was read in full.
    async fn observations_in(
        &self,
        from: u64,
        to: u64,
        witness: Witness,
    ) -> Result<(Vec<Observation>, u64), ChainError>;
    /// What the receipt of a transaction proves; `None` when it is in no block.
    async fn proof(&self, tx_hash: B256, witness: Witness) -> Result<Option<TxProof>, ChainError>;
}

/// Answers what calldata needs to know before somebody pays.
#[async_trait]
pub trait PayerLookup: Send + Sync + 'static {
    /// Balances, allowance and gas price of a payer. `token` is `None` for the native coin.
    async fn standing(&self, payer: Address, token: Option<Address>, spender: Address) -> Result<Standing, ChainError>;
    /// Converts units of the first currency of a path into the last one by the on-chain feeds.
    async fn convert(&self, path: &[EvmAddress], units: U256) -> Result<U256, ChainError>;
}

/// Asks contract wallets, which have no key that a signature could be checked with.
#[async_trait]
pub trait WalletLookup: Send + Sync + 'static {
    /// What a contract wallet says about a signature of a hash; one that is not deployed yet may bring its creation
    /// along. Only what every node that could be asked agrees on is answered.
    async fn check_signature(
        &self,
        wallet: EvmAddress,
        hash: B256,
        signature: &[u8],
    ) -> Result<WalletAnswer, ChainError>;
}

/// What the enabled networks offer.
#[derive(Clone, Default)]
pub struct Chains {
    /// Every enabled network.
    pub followed: BTreeMap<Network, Arc<dyn Chain>>,
    /// Networks that can be asked about a payer.
    pub payers: BTreeMap<Network, Arc<dyn PayerLookup>>,
    /// Networks that have contract wallets.
    pub wallets: BTreeMap<Network, Arc<dyn WalletLookup>>,
}
