//! Finality, the block at which a network is first followed, and nodes that fall behind.

use crate::{
    bench::{Bench, chain},
    proxy::{Tamper, Told, number},
};
use prs::{domain::network::Network, flows::payments::watch::WatchResult, store};
use serde_json::{Value, json};

/// A node that reports an older block as its head.
struct Behind {
    head: u64,
}

impl Tamper for Behind {
    fn ask(&self, call: &mut Value) {
        if call["method"] != "eth_getBlockByNumber" {
            return;
        }
        let limit = match call["params"][0].as_str() {
            Some("latest") => self.head,
            Some("finalized") => self.head - 2,
            _ => return,
        };
        call["params"][0] = json!(format!("{limit:#x}"));
    }

    fn tell(&self, call: &Value, result: Value) -> Told {
        let is_beyond = number(&result["number"]).is_some_and(|height| height > self.head);
        let is_block = call["method"]
            .as_str()
            .is_some_and(|method| method.starts_with("eth_getBlockBy"));
        Told::Result(if is_block && is_beyond { Value::Null } else { result })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_while_the_only_node_lags_waits_for_it() {
    let chain = chain().await;
    let mut bench = Bench::start(&chain, 1, |_| {}).await;
    bench.settle().await;
    let requests = bench.requests(1).await;
    let first = bench.pay(2, requests).await;
    chain.mine(30).await.expect("mined");
    bench.settle().await;
    let head = chain.block_number().await.expect("a height");
    bench.nodes[0].tamper(Behind { head: head - 12 });
    let bench = bench.restarted().await;
    for _ in 0..6 {
        let step = bench.step().await;
        assert!(!matches!(step, Ok(WatchResult::Halted(_))), "{step:?}");
    }
    let mut bench = bench;
    let requests = bench.requests(1).await;
    let second = bench.pay(2, requests).await;
    chain.mine(3).await.expect("mined");
    bench.nodes[0].end();
    bench.settle().await;
    bench.assert_credited(&[first, second]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reorganisation_at_one_confirmation_halts_nothing() {
    let chain = chain().await;
    let mut bench = Bench::start(&chain, 1, |section| section.confirmations = Some(1)).await;
    bench.settle().await;
    for depth in [1, 2, 5] {
        chain.mine(depth + 1).await.expect("mined");
        bench.settle().await;
        chain.reorg(depth).await.expect("reorganised");
        let requests = bench.requests(1).await;
        let paid = bench.pay(2, requests).await;
        chain.mine(depth).await.expect("mined");
        bench.settle().await;
        assert!(bench.has_credited(&[paid]).await, "{depth}");
    }
}

/// A network returned a `finalized` block once, and then null for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_final_block_that_is_null_for_a_while_is_never_replaced_by_a_depth() {
    struct Untagged;
    impl Tamper for Untagged {
        fn tell(&self, call: &Value, result: Value) -> Told {
            let is_tag = call["params"][0] == "finalized";
            Told::Result(if is_tag { Value::Null } else { result })
        }
    }
    let chain = chain().await;
    let mut bench = Bench::start(&chain, 1, |_| {}).await;
    bench.settle().await;
    let requests = bench.requests(1).await;
    let paid = [bench.pay(2, requests).await];
    chain.mine(Network::Sepolia.finality_depth() + 10).await.expect("mined");
    bench.nodes[0].tamper(Untagged);
    // The database stores that this network supports the `finalized` tag, so a restart must not change the result.
    let bench = bench.restarted().await;
    for _ in 0..4 {
        drop(bench.step().await);
    }
    assert!(bench.nodes[0].changed() > 0, "the tag was not queried");
    assert!(bench.credited().await.is_empty(), "confirmed by a depth");
    bench.nodes[0].end();
    bench.settle().await;
    bench.assert_credited(&paid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_begins_at_the_final_block_and_backfills_an_older_one() {
    let chain = chain().await;
    let reached = async |bench: &Bench| {
        let cursor = store::cursors::load(bench.app.ctx.db.reader(), Network::Sepolia).await;
        cursor.expect("read").map(|cursor| cursor.finalized.number)
    };
    let mut bench = Bench::start(&chain, 1, |_| {}).await;
    chain.mine(100).await.expect("mined");
    let head = chain.block_number().await.expect("a height");
    bench.step().await.expect("a step");
    assert_eq!(reached(&bench).await, Some(head - 2), "nothing older is read");
    let requests = bench.requests(1).await;
    let paid = bench.pay(2, requests).await;
    chain.mine(3).await.expect("mined");
    bench.settle().await;
    bench.assert_credited(&[paid]).await;

    let start = chain.block_number().await.expect("a height") + 1;
    let mut bench = Bench::start(&chain, 1, |section| section.start_block = Some(start)).await;
    let requests = bench.requests(1).await;
    let old = bench.pay(3, requests).await;
    chain.mine(300).await.expect("mined");
    let head = chain.block_number().await.expect("a height");
    let requests = bench.requests(1).await;
    bench.step().await.expect("a step");
    assert!(
        reached(&bench).await.is_some_and(|reached| reached >= head - 2),
        "new blocks come first"
    );
    let new = bench.pay(2, requests).await;
    chain.mine(3).await.expect("mined");
    bench.settle().await;
    bench.assert_credited(&[old, new]).await;
}
