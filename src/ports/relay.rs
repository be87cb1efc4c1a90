//! Sends transactions of the relayer account of this service.

use super::chain::ChainError;
use crate::domain::{
    address::Address,
    paying::PaymentTransaction,
    permit::Permit,
    relay::{Bid, GasMarket, UnsignedTransaction},
};
use alloy::primitives::{B256, U256};
use async_trait::async_trait;
use chrono::{DateTime, Utc};

/// State of the relayer account at a block on which enough distinct nodes agree. Each value is the lowest one that
/// these nodes return, so a single node cannot raise it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayAccount {
    /// Number of mined transactions of the account.
    pub nonce: u64,
    /// Whether all nodes return the same number of transactions.
    pub is_agreed: bool,
    /// Balance of the native coin.
    pub balance: U256,
    /// Current gas price.
    pub market: GasMarket,
}

impl RelayAccount {
    /// Combines the states that two nodes return: the lower one of each value.
    #[must_use]
    pub fn lowest(self, other: Self) -> Self {
        Self {
            nonce: self.nonce.min(other.nonce),
            is_agreed: self.is_agreed && other.is_agreed && self.nonce == other.nonce,
            balance: self.balance.min(other.balance),
            market: GasMarket {
                gas_price: self.market.gas_price.min(other.market.gas_price),
                tip: self.market.tip.min(other.market.tip),
            },
        }
    }
}

/// State of a recurring payments contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContractState {
    /// Whether the account may execute payments.
    pub is_admitted: bool,
    /// Whether its owner paused it.
    pub is_paused: bool,
    /// Unix time of the next block, as far as the node knows it.
    pub time_s: u64,
}

/// Response of a node to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendResult {
    /// The node has the transaction.
    Accepted,
    /// Another transaction with the same nonce is in a block.
    NonceUsed,
    /// The balance of the account is insufficient.
    Unaffordable,
    /// The node has a transaction with the same nonce and at least the same price.
    Underpriced,
}

/// Location of a transaction, from one node. It shows where to look and proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Its hash.
    pub tx_hash: B256,
    /// Height of its block.
    pub block_number: u64,
    /// Whether it succeeded.
    pub succeeded: bool,
}

/// The account of this service on a network.
#[async_trait]
pub trait Relay: Send + Sync + 'static {
    /// Its address.
    fn address(&self) -> Address;
    /// Signs a transaction; nothing is sent.
    fn sign(&self, transaction: &UnsignedTransaction, now: DateTime<Utc>) -> anyhow::Result<Bid>;
    /// State of the account. Errors: fewer nodes respond than must agree.
    async fn account(&self) -> Result<RelayAccount, ChainError>;
    /// Number of mined transactions of a former account of this service: the lowest count of enough distinct nodes.
    /// Errors: too few nodes respond.
    async fn counted(&self, former: Address) -> Result<u64, ChainError>;
    /// State of a recurring payment contract. If there is no such contract, no account may execute payments.
    async fn contract(&self, contract: Address) -> Result<ContractState, ChainError>;
    /// Number of payments of a permit that its contract will have counted before the next block. The number comes from
    /// one node.
    async fn counted_next(&self, permit: &Permit) -> Result<u8, ChainError>;
    /// Number of payments that the contract has counted after a block: the lowest count of enough distinct nodes.
    /// Errors: too few nodes respond.
    async fn counted_by(&self, permit: &Permit, block: u64) -> Result<u8, ChainError>;
    /// Simulates a call; returns the gas used. Errors: the call reverts ([`ChainError::Reverted`]).
    async fn rehearse(&self, step: &PaymentTransaction) -> Result<u64, ChainError>;
    /// Sends a signed transaction; a transaction already known to the node counts as accepted.
    async fn send(&self, raw: &[u8]) -> Result<SendResult, ChainError>;
    /// Location of one of several mutually exclusive transactions. `None` if none of them is in a block.
    async fn receipt(&self, tx_hashes: &[B256]) -> Result<Option<Receipt>, ChainError>;
}
