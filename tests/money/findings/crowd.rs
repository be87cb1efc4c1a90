//! Many payments in one transaction.

use crate::bench::{Bench, chain};
use prs::{flows::payments::watch::Step, settings::ChainSettings};
use std::time::{Duration, Instant};

/// Payments in the transaction.
const PAYMENTS: usize = 1_000;

/// Calls to the node from finality on, over all payments.
const CALLS_MAX: usize = 10;

/// Time from finality until all are credited.
const WITHIN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_payments_in_one_transaction_are_confirmed_by_few_calls() {
    let chain = chain().await;
    // Final in the block that holds them, so that nothing else is read meanwhile.
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
    assert!(matches!(step, Ok(Step::At(_))), "{step:?}");
    assert_eq!(bench.credited().await.len(), PAYMENTS);
    assert!(bench.has_credited(&paid).await, "each to its own request");
    assert!(took <= WITHIN, "{took:?}");
    assert!(calls.len() <= CALLS_MAX, "{} calls: {calls:?}", calls.len());
}
