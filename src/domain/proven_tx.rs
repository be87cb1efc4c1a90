//! A single transaction whose content is proven.

use super::{address::Address, payment::BlockRef};
use alloy::primitives::{B256, U256};

/// A transaction in a final block, with a proof of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenTx {
    /// Hash.
    pub tx_hash: B256,
    /// Its block.
    pub block: BlockRef,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// Sender.
    pub sender: Address,
    /// Called account; `None` when the transaction created a contract.
    pub target: Option<Address>,
    /// Units of the native coin that it sent.
    pub value: U256,
    /// Call data.
    pub input: Vec<u8>,
    /// Every event of the transaction, in order.
    pub logs: Vec<ProvenLog>,
}

/// An event of a proven transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenLog {
    /// Contract that emitted the event.
    pub emitter: Address,
    /// Topics.
    pub topics: Vec<B256>,
    /// Data.
    pub data: Vec<u8>,
}
