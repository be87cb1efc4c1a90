//! What nodes answer, typed: only the fields that are used, so that fields of one network do not break another.

use alloy::primitives::{Address, B256, Bloom, Bytes, U64};
use serde::{Deserialize, Deserializer};

/// A JSON-RPC answer. An absent `result` and a `null` one are different things.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
pub(super) struct Envelope<T> {
    /// Number of the call.
    pub(super) id: Option<u64>,
    /// The answer.
    #[serde(default = "absent", deserialize_with = "present")]
    pub(super) result: Option<T>,
    /// The refusal.
    #[serde(default)]
    pub(super) error: Option<Refusal>,
}

fn absent<T>() -> Option<T> {
    None
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The refusal of a call.
#[derive(Debug, Deserialize)]
pub(super) struct Refusal {
    /// Code.
    pub(super) code: i64,
    /// Text of the node.
    #[serde(default)]
    pub(super) message: String,
}

/// One event. Places are optional because nodes leave them out of events that are in no block.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawLog {
    /// Contract.
    pub(super) address: Address,
    /// Topics.
    pub(super) topics: Vec<B256>,
    /// The rest.
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
    /// Whether a reorganisation took it back.
    #[serde(default)]
    pub(super) removed: bool,
}

/// The bloom filter that events add up to.
pub(super) fn bloom_of(logs: &[RawLog]) -> Bloom {
    let mut bloom = Bloom::ZERO;
    for log in logs {
        bloom.accrue_raw_log(log.address, &log.topics);
    }
    bloom
}
