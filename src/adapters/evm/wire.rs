//! Types of node responses. They contain only the fields that the service uses, so that an unusual value of any other
//! field causes no error.

use alloy::primitives::{Address, B256, Bloom, Bytes, U64};
use serde::{Deserialize, Deserializer};

/// A JSON-RPC response. An absent `result` differs from a `null` one.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
pub(super) struct RpcResponse<T> {
    /// Number of the call.
    pub(super) id: Option<u64>,
    /// The result.
    #[serde(default = "absent", deserialize_with = "present")]
    pub(super) result: Option<T>,
    /// The error.
    #[serde(default)]
    pub(super) error: Option<RpcRefusal>,
}

fn absent<T>() -> Option<T> {
    None
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The error of a call.
#[derive(Debug, Deserialize)]
pub(super) struct RpcRefusal {
    /// Code.
    pub(super) code: i64,
    /// Message of the node.
    #[serde(default)]
    pub(super) message: String,
}

/// One event. Positions are optional because nodes omit them for pending events.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawLog {
    /// Contract.
    pub(super) address: Address,
    /// Topics.
    pub(super) topics: Vec<B256>,
    /// Data.
    pub(super) data: Bytes,
    /// Hash of the block.
    pub(super) block_hash: Option<B256>,
    /// Height of the block.
    pub(super) block_number: Option<U64>,
    /// Transaction.
    pub(super) transaction_hash: Option<B256>,
    /// Index of the transaction in its block.
    pub(super) transaction_index: Option<U64>,
    /// Index of the event in its block.
    pub(super) log_index: Option<U64>,
    /// Whether a reorganisation removed it.
    #[serde(default)]
    pub(super) removed: bool,
}

/// The bloom filter of events.
pub(super) fn bloom_of(logs: &[RawLog]) -> Bloom {
    let mut bloom = Bloom::ZERO;
    for log in logs {
        bloom.accrue_raw_log(log.address, &log.topics);
    }
    bloom
}
