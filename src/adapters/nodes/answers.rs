//! Limits for the size of one response, and for the memory of all responses until they are parsed. A node may send
//! anything, and must not exhaust the memory of the process.
//!
//! Two kinds of semaphores limit concurrent responses. Reading a response of usual size needs a permit. A large
//! response also needs one of a few lanes, and each node uses at most one lane at a time. A response in a lane waits
//! for nothing else, so there is no deadlock. All networks share the permits and the lanes.

use serde_json::Value;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

const KIB: usize = 1_024;
const MIB: usize = 1_024 * KIB;

/// Maximum size of a single value: a number, a contract result, an error.
const VALUE_BYTES_MAX: usize = 256 * KIB;

/// Maximum size of a header with its transaction hashes: room for about 60,000 hashes.
const HEADER_BYTES_MAX: usize = 4 * MIB;

/// Maximum size of a block with its transactions: three times the calldata of a block of 60 million gas.
const BLOCK_BYTES_MAX: usize = 32 * MIB;

/// Maximum size of a list of logs or receipts, and of a response to several calls. A full window of payment logs takes
/// 16 MB.
const LIST_BYTES_MAX: usize = 64 * MIB;

/// Responses up to this size are read without a permit.
const SMALL_BYTES: usize = 256 * KIB;

/// Responses up to this size are read without a lane.
const USUAL_BYTES: usize = 4 * MIB;

/// Maximum numbers of responses larger than [`SMALL_BYTES`] that are read and parsed concurrently: from all nodes
/// together, and from each node.
const USUAL_AT_ONCE: usize = 32;
const USUAL_AT_ONCE_PER_NODE: usize = 8;

/// Maximum number of responses larger than [`USUAL_BYTES`] that are read and parsed concurrently, from all nodes
/// together. At most one of them is from the same node.
const LANES: usize = 4;

static USUAL: Semaphore = Semaphore::const_new(USUAL_AT_ONCE);
static LARGE: Semaphore = Semaphore::const_new(LANES);

/// Maximum response size of one call.
pub(super) fn bytes_max(method: &str, params: &Value) -> usize {
    match method {
        "eth_getBlockByNumber" | "eth_getBlockByHash" if params[1] == Value::Bool(true) => BLOCK_BYTES_MAX,
        "eth_getBlockByNumber" | "eth_getBlockByHash" => HEADER_BYTES_MAX,
        "eth_getLogs" | "eth_getBlockReceipts" | "eth_getTransactionReceipt" => LIST_BYTES_MAX,
        _ => VALUE_BYTES_MAX,
    }
}

/// Maximum response size of one batch request with several calls.
pub(super) fn bytes_max_of_all(calls: &[(&str, Value)]) -> usize {
    let each = calls.iter().map(|(method, params)| bytes_max(method, params));
    each.sum::<usize>().min(LIST_BYTES_MAX)
}

/// Limits of one node.
#[derive(Debug)]
pub(super) struct NodeLimits {
    usual: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self {
            usual: Arc::new(Semaphore::new(USUAL_AT_ONCE_PER_NODE)),
            large: Arc::new(Semaphore::new(1)),
        }
    }
}

/// A slot for one response, from its first byte until it is parsed.
#[derive(Debug, Default)]
pub(super) struct ResponseSlot {
    usual: Option<MemoryPermits>,
    large: Option<MemoryPermits>,
}

type MemoryPermits = (OwnedSemaphorePermit, SemaphorePermit<'static>);

impl ResponseSlot {
    /// Waits until a response may grow to this number of bytes.
    pub(super) async fn grow(&mut self, share: &NodeLimits, bytes: usize) {
        if bytes > SMALL_BYTES && self.usual.is_none() {
            self.usual = permits(&share.usual, &USUAL).await;
        }
        if bytes > USUAL_BYTES && self.large.is_none() {
            self.large = permits(&share.large, &LARGE).await;
        }
    }
}

/// Waits for one permit of the node and one permit of all nodes; `None` only if a semaphore is closed, which does not
/// occur.
async fn permits(own: &Arc<Semaphore>, all: &'static Semaphore) -> Option<MemoryPermits> {
    let own = Arc::clone(own).acquire_owned().await.ok()?;
    Some((own, all.acquire().await.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use serde_json::json;

    #[test]
    fn response_size_limits_follow_from_the_query() {
        let max = |method, params| bytes_max(method, &params) / KIB;
        assert_eq!(max("eth_chainId", json!([])), 256);
        assert_eq!(max("eth_getBlockByNumber", json!(["0x1", false])), 4 * KIB);
        assert_eq!(max("eth_getBlockByHash", json!(["0x1", true])), 32 * KIB);
        assert_eq!(max("eth_getLogs", json!([{}])), 64 * KIB);
        let headers = vec![("eth_getBlockByNumber", json!(["0x1", false])); 100];
        assert_eq!(bytes_max_of_all(&headers[..2]), 8 * MIB);
        assert_eq!(bytes_max_of_all(&headers), LIST_BYTES_MAX);
    }

    #[tokio::test]
    async fn one_node_holds_one_large_response_and_leaves_room_for_others() {
        let (bad, good) = (NodeLimits::default(), NodeLimits::default());
        let mut held = Vec::new();
        for _ in 0..USUAL_AT_ONCE_PER_NODE {
            let mut place = ResponseSlot::default();
            place.grow(&bad, SMALL_BYTES + 1).await;
            held.push(place);
        }
        let mut waiting = ResponseSlot::default();
        assert!(
            waiting.grow(&bad, SMALL_BYTES + 1).now_or_never().is_none(),
            "its share is used up"
        );
        held[0].grow(&bad, LIST_BYTES_MAX).await;
        assert!(
            held[1].grow(&bad, USUAL_BYTES + 1).now_or_never().is_none(),
            "its lane for large responses is taken"
        );
        let mut other = ResponseSlot::default();
        assert!(
            other.grow(&good, LIST_BYTES_MAX).now_or_never().is_some(),
            "other nodes have their own lane"
        );
        held.remove(0);
        assert!(
            held[0].grow(&bad, USUAL_BYTES + 1).now_or_never().is_some(),
            "the lane is free again"
        );
        assert!(waiting.grow(&bad, SMALL_BYTES + 1).now_or_never().is_some());
    }
}
