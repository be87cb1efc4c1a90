//! Tests with many payments in one transaction, and with many payments that the service reads again.

use crate::{
    bench::{Bench, chain},
    support::chain::{lead, look},
};
use prs::{
    domain::network::Network,
    flows::payments::{rescan, watch::WatchResult},
    settings::ChainSettings,
    store,
    worker::{fill_in_chains, pace::BlockNotices},
};
use std::time::{Duration, Instant};

/// Payments in the transaction.
const PAYMENTS: usize = 1_000;

/// Maximum number of node calls that confirm all payments together, counted from the block at which they are final.
const CALLS_MAX: usize = 10;

/// Maximum time from the finality of the payments until all of them are credited.
const WITHIN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_payments_in_one_transaction_are_confirmed_by_few_calls() {
    let chain = chain().await;
    // Final in their own block, so that nothing else is read meanwhile.
    let adjust = |section: &mut ChainSettings| {
        section.call_timeout_ms = 10_000;
        section.confirmations = Some(1);
    };
    let mut bench = Bench::start(&chain, 1, adjust).await;
    bench.settle().await;
    let requests = bench.requests(PAYMENTS).await;
    let paid = [bench.pay(2, requests).await];
    bench.nodes[0].end();
    let started = Instant::now();
    let step = bench.step().await;
    let took = started.elapsed();
    let calls = bench.nodes[0].calls();
    println!(
        "{PAYMENTS} payments in one transaction: {took:?}, {} calls: {calls:?}",
        calls.len()
    );
    assert!(matches!(step, Ok(WatchResult::At(_))), "{step:?}");
    assert_eq!(bench.credited().await.len(), PAYMENTS);
    assert!(bench.has_credited(&paid).await, "each to its own request");
    assert!(took <= WITHIN, "{took:?}");
    assert!(calls.len() <= CALLS_MAX, "{} calls: {calls:?}", calls.len());
}

/// Number of blocks that each contain a payment and are read again. With a single node, each block needs a separate
/// call as proof.
const READ_AGAIN: usize = 12;

/// Maximum number of event lists that are fetched while one payment is confirmed.
const LISTS_MAX: usize = 3;

/// A height above every block of the local chain.
const EVERY_BLOCK: u64 = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_payment_and_the_backfill_do_not_wait_for_each_other() {
    let chain = chain().await;
    let mut bench = Bench::start(&chain, 1, |section| section.confirmations = Some(1)).await;
    bench.settle().await;
    let begin = chain.block_number().await.expect("a height") - 1;
    let mut paid = Vec::new();
    for _ in 0..READ_AGAIN {
        let requests = bench.requests(1).await;
        paid.push(bench.pay(2, requests).await);
    }
    // More blocks than one node call covers.
    chain.mine(2_100).await.expect("mined");
    bench.settle().await;
    let queued = rescan::run(&bench.app.ctx, Network::Sepolia, begin).await;
    queued.expect("queued");
    let requests = bench.requests(1).await;
    paid.push(bench.pay(3, requests).await);
    bench.nodes[0].end();
    let step = look(&bench.app.ctx, bench.adapter().as_ref()).await;
    assert!(matches!(step, Ok(WatchResult::At(_))), "{step:?}");
    bench.assert_credited(&paid).await;
    let lists = bench.nodes[0]
        .calls()
        .iter()
        .filter(|call| *call == "eth_getLogs")
        .count();
    assert!(lists <= LISTS_MAX, "{lists} lists of events");

    let is_filled = async || {
        let reader = bench.app.ctx.db.reader();
        let due = store::backlogs::due(reader, Network::Sepolia, EVERY_BLOCK, bench.app.ctx.clock.now(), 1).await;
        due.expect("read").is_empty()
    };
    assert!(!is_filled().await, "a poll of the chain fills in nothing");
    let leadership = lead(&bench.app.ctx, Network::Sepolia).await;
    let (ctx, adapter, filled_by) = (bench.app.ctx.clone(), bench.adapter(), leadership.clone());
    let filling = tokio::spawn(async move {
        let (poll, news) = (Duration::from_hours(1), BlockNotices::default());
        fill_in_chains::run(&ctx, adapter.as_ref(), poll, news, &filled_by).await;
    });
    let end = Instant::now() + Duration::from_secs(20);
    while !is_filled().await {
        assert!(Instant::now() < end, "there is a pause between two parts of a range");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    leadership.ended().cancel();
    filling.await.expect("stopped");
    bench.assert_credited(&paid).await;
}
