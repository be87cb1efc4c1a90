//! How much of an answer is read, and how much of all answers is held until they are parsed: a node may send anything,
//! and it must not take the memory of the process.
//!
//! An answer of usual size is read under a permit. One that turns out to be large waits for one of few lanes, of which a
//! node has one; who is in a lane waits for nothing more, so that answers never wait for each other in a circle. Both are
//! shared by all networks.

use serde_json::Value;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

const KIB: usize = 1_024;
const MIB: usize = 1_024 * KIB;

/// Largest answer that is one value: a number, what a contract returns, a refusal.
const VALUE_BYTES_MAX: usize = 256 * KIB;

/// Largest header with the hashes of its transactions: some 60,000 of them.
const HEADER_BYTES_MAX: usize = 4 * MIB;

/// Largest block with its transactions: three times the calldata that a block of 60 million gas can hold.
const BLOCK_BYTES_MAX: usize = 32 * MIB;

/// Largest list of events or receipts, and largest answer to several calls. A full window of payment events takes 16 MB.
const LIST_BYTES_MAX: usize = 64 * MIB;

/// Answers up to this size are read without a permit.
const SMALL_BYTES: usize = 256 * KIB;

/// Answers up to this size are read without a lane.
const USUAL_BYTES: usize = 4 * MIB;

/// Answers beyond [`SMALL_BYTES`] that are read and parsed at once, of all nodes and of one.
const USUAL_AT_ONCE: usize = 32;
const USUAL_AT_ONCE_PER_NODE: usize = 8;

/// Answers beyond [`USUAL_BYTES`] that are read and parsed at once; of one node, one.
const LANES: usize = 4;

static USUAL: Semaphore = Semaphore::const_new(USUAL_AT_ONCE);
static LARGE: Semaphore = Semaphore::const_new(LANES);

/// Largest answer to a call.
pub(super) fn bytes_max(method: &str, params: &Value) -> usize {
    match method {
        "eth_getBlockByNumber" | "eth_getBlockByHash" if params[1] == Value::Bool(true) => BLOCK_BYTES_MAX,
        "eth_getBlockByNumber" | "eth_getBlockByHash" => HEADER_BYTES_MAX,
        "eth_getLogs" | "eth_getBlockReceipts" | "eth_getTransactionReceipt" => LIST_BYTES_MAX,
        _ => VALUE_BYTES_MAX,
    }
}

/// Largest answer to several calls.
pub(super) fn bytes_max_of_all(calls: &[(&str, Value)]) -> usize {
    let each = calls.iter().map(|(method, params)| bytes_max(method, params));
    each.sum::<usize>().min(LIST_BYTES_MAX)
}

/// What one node may hold of the whole.
#[derive(Debug)]
pub(super) struct Share {
    usual: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            usual: Arc::new(Semaphore::new(USUAL_AT_ONCE_PER_NODE)),
            large: Arc::new(Semaphore::new(1)),
        }
    }
}

/// A place for one answer, from its first byte until it is parsed.
#[derive(Debug, Default)]
pub(super) struct Place {
    usual: Option<Permits>,
    large: Option<Permits>,
}

type Permits = (OwnedSemaphorePermit, SemaphorePermit<'static>);

impl Place {
    /// Waits until an answer may grow to so many bytes.
    pub(super) async fn grow(&mut self, share: &Share, bytes: usize) {
        if bytes > SMALL_BYTES && self.usual.is_none() {
            self.usual = permits(&share.usual, &USUAL).await;
        }
        if bytes > USUAL_BYTES && self.large.is_none() {
            self.large = permits(&share.large, &LARGE).await;
        }
    }
}

/// One of the node and one of all; `None` only of semaphores that are closed, which none is.
async fn permits(own: &Arc<Semaphore>, all: &'static Semaphore) -> Option<Permits> {
    let own = Arc::clone(own).acquire_owned().await.ok()?;
    Some((own, all.acquire().await.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use serde_json::json;

    #[test]
    fn an_answer_is_as_large_as_its_question_can_make_it() {
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
    async fn one_node_holds_one_large_answer_and_leaves_room_for_those_of_others() {
        let (bad, good) = (Share::default(), Share::default());
        let mut held = Vec::new();
        for _ in 0..USUAL_AT_ONCE_PER_NODE {
            let mut place = Place::default();
            place.grow(&bad, SMALL_BYTES + 1).await;
            held.push(place);
        }
        let mut waiting = Place::default();
        assert!(
            waiting.grow(&bad, SMALL_BYTES + 1).now_or_never().is_none(),
            "its share"
        );
        held[0].grow(&bad, LIST_BYTES_MAX).await;
        assert!(held[1].grow(&bad, USUAL_BYTES + 1).now_or_never().is_none(), "its lane");
        let mut other = Place::default();
        assert!(other.grow(&good, LIST_BYTES_MAX).now_or_never().is_some(), "others");
        held.remove(0);
        assert!(held[0].grow(&bad, USUAL_BYTES + 1).now_or_never().is_some(), "its turn");
        assert!(waiting.grow(&bad, SMALL_BYTES + 1).now_or_never().is_some());
    }
}
