//! Proven headers and transactions, in the form that all families of chains share.

use super::wire::RawLog;
use alloy::primitives::{Address, B256, Bloom, Bytes, U256};

/// How the events of a block are proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::adapters) enum Proof {
    /// The roots in the header prove the events, so the response of one node is sufficient.
    Roots,
    /// Equal responses of as many distinct nodes as must agree count as the proof.
    Agreement,
}

/// A header whose hash was recomputed from its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::adapters) struct ProvenHeader {
    /// Height.
    pub(in crate::adapters) number: u64,
    /// Hash.
    pub(in crate::adapters) hash: B256,
    /// Hash of the parent.
    pub(in crate::adapters) parent_hash: B256,
    /// Unix seconds.
    pub(in crate::adapters) time_s: u64,
    /// Bloom filter of addresses and topics; `None` on a chain whose headers have none.
    pub(in crate::adapters) logs_bloom: Option<Bloom>,
}

/// A proven transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::adapters) struct SettledTx {
    /// Hash.
    pub(in crate::adapters) tx_hash: B256,
    /// Index in its block.
    pub(in crate::adapters) index: u64,
    /// Whether it succeeded.
    pub(in crate::adapters) succeeded: bool,
    /// Sender.
    pub(in crate::adapters) from: Address,
    /// Called contract; `None` when the transaction created a contract.
    pub(in crate::adapters) to: Option<Address>,
    /// Units of the native coin that the transaction sends.
    pub(in crate::adapters) value: U256,
    /// Call data.
    pub(in crate::adapters) input: Bytes,
    /// Every event of the receipt, in order: the position of an event is its index in this list. The positions that the
    /// events state are recomputed.
    pub(in crate::adapters) logs: Vec<RawLog>,
}

/// Why a response proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::adapters) enum UnprovenContent {
    /// The block contains a transaction or receipt of unknown encoding. Equal responses of distinct nodes may settle
    /// it.
    #[error("{0}")]
    Unknown(String),
    /// The response contradicts the header or itself.
    #[error("{0}")]
    Untrue(String),
}
