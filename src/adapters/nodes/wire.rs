//! Types of node responses. They contain only the fields that the service uses, so that an unusual value of any other
//! field causes no error.

use alloy::primitives::{Address, B256, Bloom, Bytes, U64};
use serde::{Deserialize, Deserializer};

/// A JSON-RPC response. An absent `result` differs from a `null` one.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
pub(in crate::adapters) struct RpcResponse<T> {
    /// Number of the call.
    pub(in crate::adapters) id: Option<u64>,
    /// The result.
    #[serde(default = "absent", deserialize_with = "present")]
    pub(in crate::adapters) result: Option<T>,
    /// The error.
    #[serde(default)]
    pub(in crate::adapters) error: Option<RpcRefusal>,
}

fn absent<T>() -> Option<T> {
    None
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The error of a call.
#[derive(Debug, Deserialize)]
pub(in crate::adapters) struct RpcRefusal {
    /// Code.
    pub(in crate::adapters) code: i64,
    /// Message of the node.
    #[serde(default)]
    pub(in crate::adapters) message: String,
}

/// One event. Positions are optional because nodes omit them for pending events.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::adapters) struct RawLog {
    /// Contract.
    pub(in crate::adapters) address: Address,
    /// Topics.
    pub(in crate::adapters) topics: Vec<B256>,
    /// Data.
    pub(in crate::adapters) data: Bytes,
    /// Hash of the block.
    pub(in crate::adapters) block_hash: Option<B256>,
    /// Height of the block.
    pub(in crate::adapters) block_number: Option<U64>,
    /// Transaction.
    pub(in crate::adapters) transaction_hash: Option<B256>,
    /// Index of the transaction in its block.
    pub(in crate::adapters) transaction_index: Option<U64>,
    /// Index of the event in its block.
    pub(in crate::adapters) log_index: Option<U64>,
    /// Whether a reorganisation removed it.
    #[serde(default)]
    pub(in crate::adapters) removed: bool,
}

/// The bloom filter of events.
pub(in crate::adapters) fn bloom_of(logs: &[RawLog]) -> Bloom {
    let mut bloom = Bloom::ZERO;
    for log in logs {
        bloom.accrue_raw_log(log.address, &log.topics);
    }
    bloom
}
