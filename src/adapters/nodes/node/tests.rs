//! How errors of a node narrow block ranges.

use super::*;
use futures_util::{
    FutureExt,
    future::{join, pending, try_join},
};
use std::time::Duration;

fn refused(code: i64, message: &str) -> NodeFailure {
    NodeFailure::Refused {
        code,
        message: message.to_owned(),
    }
}

#[test]
fn provider_limits_are_distinguished_from_other_errors() {
    for (failure, expected) in [
        (
            refused(-32_602, "query returned more than 10000 results"),
            Some(NarrowingCause::Limit),
        ),
        (
            refused(-32_000, "exceed maximum block range: 5000"),
            Some(NarrowingCause::Limit),
        ),
        (
            refused(-32_602, "range 20000 exceeds limit of 10000"),
            Some(NarrowingCause::Limit),
        ),
        (refused(-32_005, "rate limited"), Some(NarrowingCause::Unclear)),
        (
            refused(-32_005, "Too many requests, retry later"),
            Some(NarrowingCause::Unclear),
        ),
        (
            refused(-32_007, "50/second: requests per second reached"),
            Some(NarrowingCause::Unclear),
        ),
        (refused(-1, "an undocumented error"), Some(NarrowingCause::Unclear)),
        (refused(429, "compute units exceeded"), None),
        (refused(-32_601, "no such method"), None),
        (
            refused(-32_000, "the method eth_getLogs does not exist/is not available"),
            None,
        ),
        (refused(-32_600, "Must be authenticated!"), None),
        (refused(-32_000, "Unauthorized: you must use an API key"), None),
        (NodeFailure::Status(413), Some(NarrowingCause::Limit)),
        (NodeFailure::TooLarge, Some(NarrowingCause::Limit)),
        (NodeFailure::Status(400), Some(NarrowingCause::Unclear)),
        (NodeFailure::Status(422), Some(NarrowingCause::Unclear)),
        (NodeFailure::Status(401), None),
        (NodeFailure::Status(403), None),
        (NodeFailure::Status(404), None),
        (NodeFailure::Status(429), None),
        (NodeFailure::Status(302), None),
        // The server failed because of the query or for another reason, so the service narrows the range and queries
        // another node.
        (NodeFailure::Status(500), Some(NarrowingCause::Slow)),
        (NodeFailure::Status(504), Some(NarrowingCause::Slow)),
        (NodeFailure::Status(524), Some(NarrowingCause::Slow)),
        (NodeFailure::Transport(BROKEN_OFF), Some(NarrowingCause::Slow)),
        (NodeFailure::Transport("no connection"), None),
        (NodeFailure::Slow, Some(NarrowingCause::Slow)),
        (NodeFailure::Untrue("two hashes".to_owned()), None),
        (NodeFailure::Unknown("not there yet".to_owned()), None),
    ] {
        assert_eq!(failure.narrower(), expected, "{failure}");
    }
}

/// Responses of providers and node software to a range that is too wide: name, status, code, text.
const REFUSALS: [(&str, u16, i64, &str); 30] = [
    (
        "Alchemy, free plan",
        400,
        -32_600,
        "Under the Free tier plan, you can make eth_getLogs requests with up to a 10 block range. Based on your parameters, this block range should work: [0x10, 0x19].",
    ),
    (
        "Alchemy, results",
        400,
        -32_602,
        "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range and no limit on the response size.",
    ),
    (
        "Infura, results",
        200,
        -32_005,
        "query returned more than 10000 results. Try with this block range [0x16E360, 0x16E4F2].",
    ),
    ("Infura, range", 200, -32_602, "range 1000000 exceeds limit of 10000"),
    ("QuickNode", 413, -32_614, "eth_getLogs is limited to a 10,000 range"),
    (
        "QuickNode, free plan",
        413,
        -32_615,
        "eth_getLogs is limited to a 5 range",
    ),
    ("Ankr", 200, -32_600, "block range is too wide"),
    (
        "Ankr, premium",
        200,
        -32_602,
        "maximum [from, to] blocks distance: 10000",
    ),
    (
        "Chainstack",
        400,
        -32_602,
        "Block range limit exceeded. See more details at https://docs.chainstack.com/docs/limits#evm-range-limits",
    ),
    (
        "dRPC, free plan",
        400,
        35,
        "ranges over 10000 blocks are not supported on freetier",
    ),
    (
        "dRPC, time",
        408,
        30,
        "Request timeout on the free tier, please upgrade your tier to the paid one",
    ),
    (
        "Blast",
        200,
        -32_000,
        "eth_getLogs is limited to a 10 block range, please use an API key",
    ),
    ("PublicNode", 403, -32_701, "exceed maximum block range: 50000"),
    (
        "PublicNode, wide filter",
        200,
        -32_701,
        "Please specify an address in your request or, to remove restrictions, order a dedicated full node here",
    ),
    (
        "LlamaRPC",
        200,
        -32_602,
        "query exceeds max results 20000, retry with the range 19000000-19000100",
    ),
    ("1RPC", 400, -32_000, "eth_getLogs is limited to 0 - 10000 blocks range"),
    (
        "Cloudflare",
        200,
        -32_047,
        "Invalid eth_getLogs request. 'fromBlock'-'toBlock' range too large. Max range: 800",
    ),
    ("Moralis", 400, -32_600, "exceeds maximum allowed block range"),
    (
        "GetBlock",
        500,
        -32_603,
        "requested too many blocks, block range is limited to 2000",
    ),
    ("Tenderly", 400, -32_602, "invalid params"),
    (
        "Thirdweb",
        400,
        -32_602,
        "Maximum allowed number of requested blocks is 1000",
    ),
    ("BlockPI", 200, -32_602, "eth_getLogs is limited to 1024 block range"),
    ("bsc-dataseed", 200, -32_005, "limit exceeded"),
    (
        "polygon-rpc",
        200,
        -32_000,
        "eth_getLogs block range too large, range: 99991, max: 3500",
    ),
    ("Base, public", 413, -32_600, "block range too large"),
    ("Arbitrum, public", 200, -32_000, "query timeout exceeded"),
    ("geth", 200, -32_003, "response too large"),
    ("reth", 200, -32_602, "query exceeds max block range 100000"),
    ("Erigon", 200, -32_000, "query block range exceeds server limit"),
    ("Besu", 200, -32_005, "Requested range exceeds maximum RPC range limit"),
];

/// Number of queries after which the search for an accepted width gives up.
const SEARCH: usize = 14;

/// The identity of a node that no test calls.
struct Uncalled;

#[async_trait]
impl ChainIdentity for Uncalled {
    async fn chain_id(&self, _: &NodeLookup) -> Result<u64, NodeFailure> {
        Err(NodeFailure::Resting)
    }
}

fn node() -> Arc<ChainNode> {
    crate::adapters::install_tls();
    let url: Url = "https://rpc.example.com/0123456789abcdef".parse().unwrap();
    let client = Client::builder().build().unwrap();
    let network = (Network::Base, 8_453);
    let node = ChainNode::new(0, network, url, None, Arc::new(Uncalled), client).unwrap();
    node.is_verified.store(true, Ordering::Release);
    Arc::new(node)
}

/// A call may make two lookups at once and give both up when one of them fails.
#[tokio::test]
async fn lookups_after_a_pause_wait_for_the_one_that_tries_the_node() {
    let node = node();
    let rest_until_now = || {
        let earlier = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        *lock(&node.breaker) = Breaker::default();
        lock(&node.breaker).rest(earlier);
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    let lookup = || {
        node.ask(deadline, |_| async {
            tokio::task::yield_now().await;
            Ok(())
        })
    };
    rest_until_now();
    try_join(lookup(), lookup())
        .await
        .expect("both get the outcome of one trial");
    rest_until_now();
    let given_up = node.ask(deadline, |_| pending::<Result<(), NodeFailure>>());
    assert!(given_up.now_or_never().is_none());
    lookup().await.expect("the next lookup tries the node");
    rest_until_now();
    let failing = node.ask(deadline, |_| async {
        tokio::task::yield_now().await;
        Err::<(), _>(NodeFailure::Slow)
    });
    let (failed, waiting) = join(failing, lookup()).await;
    assert!(matches!(failed, Err(NodeFailure::Slow)));
    assert!(matches!(waiting, Err(NodeFailure::Resting)), "the node rests again");
}

#[test]
fn each_range_rejection_narrows_it_down_to_one_block() {
    for (provider, status, code, message) in REFUSALS {
        let line = NodeLookup {
            node: node(),
            deadline: Instant::now(),
        };
        let body = serde_json::json!({ "jsonrpc": "2.0", "id": 0, "error": { "code": code, "message": message } });
        let mut widths = vec![line.node.width()];
        while line.node.width() > 1 {
            let failure = if status == 200 {
                line.refused(
                    "eth_getLogs",
                    &RpcRefusal {
                        code,
                        message: message.to_owned(),
                    },
                )
            } else {
                line.refused_by_status(
                    "eth_getLogs",
                    StatusCode::from_u16(status).unwrap(),
                    &body.to_string().into(),
                )
            };
            let why = failure.narrower();
            let asked = line.node.width();
            line.node.learn_refused(
                asked,
                why.unwrap_or_else(|| panic!("{provider} stays at {asked}: {failure}")),
            );
            assert!(line.node.width() < asked, "{provider} stays at {asked}");
            widths.push(line.node.width());
        }
        assert!(widths.len() <= SEARCH, "{provider}: {widths:?}");
    }
}
