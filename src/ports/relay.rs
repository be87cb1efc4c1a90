//! Sending transactions of this service's own account.

use super::chain::ChainError;
use crate::domain::{
    address::Address,
    paying::Step,
    permit::Permit,
    relay::{Bid, Market, Unsigned},
};
use alloy::primitives::{B256, U256};
use async_trait::async_trait;
use chrono::{DateTime, Utc};

/// The account as distinct nodes know it, as many as have to agree on a block: of each number the lowest one, so that
/// one of them alone makes nothing higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// Transactions of it that are in blocks.
    pub nonce: u64,
    /// Whether all of them count as many.
    pub is_agreed: bool,
    /// Balance of the native coin.
    pub balance: U256,
    /// What gas costs now.
    pub market: Market,
}

impl Account {
    /// What two of them know together.
    #[must_use]
    pub fn lowest(self, other: Self) -> Self {
        Self {
            nonce: self.nonce.min(other.nonce),
            is_agreed: self.is_agreed && other.is_agreed && self.nonce == other.nonce,
            balance: self.balance.min(other.balance),
            market: Market {
                gas_price: self.market.gas_price.min(other.market.gas_price),
                tip: self.market.tip.min(other.market.tip),
            },
        }
    }
}

/// What a contract of recurring payments says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContractState {
    /// Whether the account may have payments executed.
    pub is_admitted: bool,
    /// Whether its owner paused it.
    pub is_paused: bool,
    /// Unix time of the block that comes next, as far as the node knows it.
    pub time_s: u64,
}

/// What a node said to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It has it.
    Accepted,
    /// Another transaction with its nonce is in a block.
    NonceUsed,
    /// The account cannot pay for it.
    Unaffordable,
    /// The node holds one with its nonce that pays as much.
    Underpriced,
}

/// Where a transaction is, by the word of one node: it tells where to look and proves nothing.
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
    fn sign(&self, transaction: &Unsigned, now: DateTime<Utc>) -> anyhow::Result<Bid>;
    /// The account. Errors: fewer nodes answer than have to agree.
    async fn account(&self) -> Result<Account, ChainError>;
    /// Transactions of an account of this service before that are in blocks: the lowest count of the nodes that have to
    /// agree. Errors: fewer nodes answer.
    async fn counted(&self, former: Address) -> Result<u64, ChainError>;
    /// What a contract of recurring payments says; one that is not there admits nobody.
    async fn contract(&self, contract: Address) -> Result<ContractState, ChainError>;
    /// How many payments of a permit its contract will have counted before the next block, by the word of one node.
    async fn counted_next(&self, permit: &Permit) -> Result<u8, ChainError>;
    /// How many it had counted after a block: of what as many distinct nodes say as have to agree, the lowest. Errors:
    /// fewer of them answer.
    async fn counted_by(&self, permit: &Permit, block: u64) -> Result<u8, ChainError>;
    /// Runs a call without sending it; returns the gas that it used. Errors: the chain refuses it
    /// ([`ChainError::Reverted`]).
    async fn rehearse(&self, step: &Step) -> Result<u64, ChainError>;
    /// Sends a signed transaction; one that the node has already is accepted.
    async fn send(&self, raw: &[u8]) -> Result<Sent, ChainError>;
    /// Where one of several transactions is that can only be in a block one at a time; `None` when none is in a block.
    async fn receipt(&self, tx_hashes: &[B256]) -> Result<Option<Receipt>, ChainError>;
}
