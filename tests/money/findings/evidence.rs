//! Tests with false node data that in the past forged, lost or delayed payments.

use crate::{
    bench::{Bench, Paid, chain},
    proxy::{Lie, Tamper, Told, in_method},
    support::{
        chain::{PAYER, transactions},
        requests::request,
    },
};
use alloy::primitives::{B256, U256};
use chrono::TimeDelta;
use devnet::Devnet;
use prs::{
    domain::network::Network,
    flows::payments::{quarantine, rescan},
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

fn word(units: U256) -> String {
    hex::encode(units.to_be_bytes::<32>())
}

async fn start(chain: &Arc<Devnet>, nodes: usize) -> Bench {
    let bench = Bench::start(chain, nodes, |_| {}).await;
    bench.settle().await;
    bench
}

async fn pay(bench: &mut Bench) -> [Paid; 1] {
    let requests = bench.requests(2).await;
    [bench.pay(PAYER, requests).await]
}

/// In a conversion, the payer sets the maximum age of the rate, and may set any number. A huge number must not delay
/// other payments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_age_beyond_any_clock_delays_no_other_payment() {
    const AGE: std::ops::Range<usize> = 4 + 7 * 32..4 + 8 * 32;
    let chain = chain().await;
    let mut bench = start(&chain, 1).await;
    for age in [U256::ONE << 63, U256::MAX] {
        let id = bench.app.create_request(&request("12.34", "USD", "FAU-sepolia")).await;
        let mut steps = transactions(&bench.app.calldata(&id, "").await);
        let last = steps.len() - 1;
        steps[last].1[AGE].copy_from_slice(&age.to_be_bytes::<32>());
        let receipts = chain.pay(PAYER, &steps).await.expect("mined");
        assert!(
            receipts.iter().all(|receipt| receipt.status),
            "the conversion proxy takes any age"
        );
        // The call has a reference that no request has: any sender can send such a call.
        let reference = steps[last].1.len() - 32;
        steps[last].1[reference] ^= 0x55;
        chain.pay(PAYER, &steps).await.expect("mined");
        let paid = pay(&mut bench).await;
        chain.mine(3).await.expect("mined");
        bench.settle().await;
        assert!(bench.has_credited(&paid).await, "{age}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_nodes_cannot_prove_its_own_false_data() {
    for liar in [0, 1] {
        let chain = chain().await;
        let mut bench = start(&chain, 2).await;
        let paid = pay(&mut bench).await;
        chain.mine(3).await.expect("mined");
        let (honest, forged) = (paid[0].requests[0].units, U256::from(77) << 64);
        let (honest, forged) = (word(honest), word(forged));
        // Log, receipt and transaction agree.
        bench.nodes[liar].tamper(Lie(move |_: &Value, result: Value| {
            let text = result.to_string().replace(&honest, &forged);
            Told::Result(serde_json::from_str(&text).expect("still JSON"))
        }));
        bench.follow(4, async || bench.has_credited(&paid).await).await;
        assert!(bench.nodes[liar].changed() > 0, "node {liar} was not called");
        let units: Vec<U256> = paid[0].requests.iter().map(|open| open.units).collect();
        for payment in bench.credited().await {
            assert!(units.contains(&payment.credited), "node {liar}: {payment:?}");
        }
        bench.nodes[liar].end();
        let bench = bench.restarted().await;
        bench.settle().await;
        bench.assert_credited(&paid).await;
    }
}

/// The service follows the chain while its node returns false data, and must not halt the chain. Then the node becomes
/// honest and the process is restarted, and every payment must be credited.
async fn assert_nothing_is_lost(blocks: u64, lie: impl Fn() -> Box<dyn Tamper>) {
    let chain = chain().await;
    let mut bench = start(&chain, 1).await;
    let paid = pay(&mut bench).await;
    chain.mine(blocks).await.expect("mined");
    bench.nodes[0].tamper_with(lie().into());
    let halted = bench.follow(6, async || bench.has_credited(&paid).await).await;
    assert_eq!(halted, None);
    assert!(bench.nodes[0].changed() > 0, "the false data was not read");
    bench.nodes[0].end();
    let bench = bench.restarted().await;
    bench.settle().await;
    bench.assert_credited(&paid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receipts_that_are_null_for_a_while_lose_nothing() {
    let chain = chain().await;
    let mut bench = start(&chain, 1).await;
    let paid = pay(&mut bench).await;
    chain.mine(3).await.expect("mined");
    let until = Instant::now() + Duration::from_millis(1_500);
    bench.nodes[0].tamper(Lie(move |call: &Value, result: Value| {
        let method = call["method"].as_str().unwrap_or_default();
        let is_null = method.contains("Receipt") && Instant::now() < until;
        Told::Result(if is_null { Value::Null } else { result })
    }));
    assert!(bench.step().await.is_err() || !bench.has_credited(&paid).await);
    assert!(bench.nodes[0].changed() > 0, "the false data was not read");
    tokio::time::sleep_until(until.into()).await;
    // The process is not restarted. It remembers that the node returned null, and must still credit the payment.
    let halted = bench
        .follow_after_failures(async || bench.has_credited(&paid).await)
        .await;
    assert_eq!(halted, None);
    bench.assert_credited(&paid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_changed_amount_in_a_list_of_events_loses_nothing() {
    const AMOUNT_END: usize = 2 + 3 * 64;
    for blocks in [3, 70] {
        assert_nothing_is_lost(blocks, || {
            Box::new(in_method("eth_getLogs", |logs| {
                let mut logs = logs.as_array_mut().into_iter().flatten();
                // Transfer events of the token in the same list are shorter: they contain only their amount.
                let is_payment = |log: &&mut Value| log["data"].as_str().is_some_and(|data| data.len() > AMOUNT_END);
                if let Some(log) = logs.find(is_payment) {
                    let data = log["data"].as_str().unwrap_or_default().to_owned();
                    log["data"] = json!(format!("{}77{}", &data[..AMOUNT_END - 2], &data[AMOUNT_END..]));
                }
            }))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_block_hash_while_catching_up_loses_nothing() {
    assert_nothing_is_lost(70, || {
        Box::new(in_method("eth_getLogs", |logs| {
            for log in logs.as_array_mut().into_iter().flatten() {
                log["blockHash"] = json!(format!("0x{}", "ab".repeat(32)));
            }
        }))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_lists_of_events_while_far_behind_lose_nothing() {
    assert_nothing_is_lost(90, || Box::new(in_method("eth_getLogs", |logs| *logs = json!([])))).await;
}

/// No node returns the content of a block: its header exists, but its receipts are unknown, late or too large.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_no_node_returns_delays_no_other_block() {
    let lies: [fn(Value) -> Told; 4] = [
        |_| Told::Result(Value::Null),
        |_| Told::Late,
        |_| Told::Absent,
        |_| Told::Result(json!([{ "logs": "of another form" }])),
    ];
    let chain = chain().await;
    for (number, lie) in lies.into_iter().enumerate() {
        let mut bench = start(&chain, 2).await;
        let before = pay(&mut bench).await;
        let hidden = pay(&mut bench).await;
        let after = pay(&mut bench).await;
        chain.mine(3).await.expect("mined");
        let height = json!(format!("{:#x}", hidden[0].block_number));
        for (place, node) in bench.nodes.iter().enumerate() {
            let height = height.clone();
            node.tamper(Lie(move |call: &Value, result: Value| {
                let is_content = call["method"] == "eth_getBlockReceipts" && call["params"][0] == height;
                match (is_content, place) {
                    (true, 0) => lie(result),
                    (true, _) => Told::Result(Value::Null),
                    _ => Told::Result(result),
                }
            }));
        }
        let others = [before[0].clone(), after[0].clone()];
        let halted = bench
            .follow_after_failures(async || bench.has_credited(&others).await)
            .await;
        assert_eq!(halted, None, "{number}");
        assert!(bench.nodes[0].changed() > 0, "{number}: nothing was withheld");
        bench.assert_credited(&others).await;
        bench.nodes.iter().for_each(crate::proxy::Proxy::end);
        let [before, after] = others;
        let [hidden] = hidden;
        let all = [before, hidden, after];
        bench
            .follow_after_failures(async || bench.has_credited(&all).await)
            .await;
        bench.assert_credited(&all).await;
    }
}

/// A single node omits every event, first while no request awaits a payment, and then while the operator searches for
/// missed payments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rescan_waits_until_the_only_node_accounts_for_every_block() {
    let chain = chain().await;
    let mut bench = start(&chain, 1).await;
    let begin = chain.block_number().await.expect("a height") - 2;
    let paid = pay(&mut bench).await;
    chain.mine(5).await.expect("mined");
    // Longer than a request stays watched.
    bench.app.clock.advance(TimeDelta::days(8));
    bench.nodes[0].tamper(in_method("eth_getLogs", |logs| *logs = json!([])));
    bench.settle().await;
    assert!(bench.credited().await.is_empty(), "an idle network is not read closely");
    let queued = rescan::run(&bench.app.ctx, Network::Sepolia, begin).await;
    queued.expect("queued");
    bench.follow(6, async || false).await;
    bench.nodes[0].end();
    bench
        .follow_after_failures(async || bench.has_credited(&paid).await)
        .await;
    bench.assert_credited(&paid).await;
}

/// One node reports every payment event with the reference of another payment. The service reads only blocks with known
/// references, so the report of the other node must count too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn false_references_of_one_node_hide_no_payment() {
    let chain = chain().await;
    for liar in [0, 1] {
        let mut bench = start(&chain, 2).await;
        bench.nodes[liar].tamper(in_method("eth_getLogs", |logs| {
            for log in logs.as_array_mut().into_iter().flatten() {
                log["topics"][1] = json!(B256::repeat_byte(0x77));
            }
        }));
        let paid = pay(&mut bench).await;
        chain.mine(3).await.expect("mined");
        bench.follow(6, async || bench.has_credited(&paid).await).await;
        assert!(bench.nodes[liar].changed() > 0, "nothing was changed");
        bench.assert_credited(&paid).await;
    }
}

/// A block has more events than the nodes return in one list. Any sender can produce such a block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_whose_events_no_node_lists_is_read_completely() {
    let chain = chain().await;
    for nodes in [1, 2] {
        let mut bench = start(&chain, nodes).await;
        let full = pay(&mut bench).await;
        let after = pay(&mut bench).await;
        chain.mine(3).await.expect("mined");
        let height = full[0].block_number;
        for node in &bench.nodes {
            node.tamper(Lie(move |call: &Value, result: Value| {
                let filter = &call["params"][0];
                let bound = |name: &str| crate::proxy::number(&filter[name]);
                let is_in_range = match (bound("fromBlock"), bound("toBlock")) {
                    (Some(from), Some(to)) => (from..=to).contains(&height),
                    _ => {
                        call["method"] == "eth_getLogs"
                            && result.as_array().is_some_and(|logs| {
                                logs.iter()
                                    .any(|log| crate::proxy::number(&log["blockNumber"]) == Some(height))
                            })
                    }
                };
                if is_in_range {
                    Told::Error(-32_602, "query returned more than 10000 results".to_owned())
                } else {
                    Told::Result(result)
                }
            }));
        }
        let [full] = full;
        let [after] = after;
        let all = [full, after];
        let halted = bench
            .follow_after_failures(async || bench.has_credited(&all).await)
            .await;
        assert_eq!(halted, None, "{nodes}");
        assert!(bench.nodes[0].changed() > 0, "{nodes}: nothing was refused");
        bench.assert_credited(&all).await;
    }
}

/// A node reports events that never happened, in transactions that do not exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_invents_events_fills_one_row_for_each_block() {
    const INVENTED: usize = 300;
    let chain = chain().await;
    let mut bench = start(&chain, 2).await;
    let paid = pay(&mut bench).await;
    chain.mine(3).await.expect("mined");
    bench.nodes[1].tamper(in_method("eth_getLogs", |logs| {
        let Some(logs) = logs.as_array_mut() else { return };
        let Some(sample) = logs.last().cloned() else { return };
        for number in 0..INVENTED {
            let mut invented = sample.clone();
            invented["transactionHash"] = json!(format!("{:#066x}", 0xabcd_0000 + number));
            invented["transactionIndex"] = json!(format!("{:#x}", 1_000 + number));
            invented["logIndex"] = json!(format!("{:#x}", 10_000 + number));
            logs.push(invented);
        }
    }));
    bench.follow(6, async || bench.has_credited(&paid).await).await;
    assert!(bench.nodes[1].changed() > 0, "nothing was invented");
    bench.assert_credited(&paid).await;
    let rows = quarantine::list(&bench.app.ctx, &quarantine::QuarantineQuery::default(), true, None)
        .await
        .expect("a list");
    assert_eq!(rows.len(), 1, "false data was returned for one block");
    let detail = &rows[0].oddity.detail;
    assert!(detail.contains("node 2") && detail.contains("300 events"), "{detail}");
}

/// Error messages with which providers refuse a range of blocks that is too large. The adapter has a table with further
/// messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_refusal_of_a_range_leaves_the_cursor_free_to_move() {
    let refusals = [
        (-32_602, "query returned more than 10000 results"),
        (-32_000, "exceed maximum block range: 5000"),
        (
            -32_600,
            "You can make eth_getLogs requests with up to a 10 block range.",
        ),
        (-32_000, "an unknown error"),
    ];
    let chain = chain().await;
    for (code, message) in refusals {
        let mut bench = start(&chain, 1).await;
        let paid = pay(&mut bench).await;
        chain.mine(30).await.expect("mined");
        let asked = Arc::new(Mutex::new(0));
        let counted = asked.clone();
        bench.nodes[0].tamper(Lie(move |call: &Value, result: Value| {
            let bound = |name: &str| crate::proxy::number(&call["params"][0][name]);
            match (bound("fromBlock"), bound("toBlock")) {
                (Some(from), Some(to)) if to > from => {
                    *counted.lock().expect("unpoisoned") += 1;
                    Told::Error(code, message.to_owned())
                }
                _ => Told::Result(result),
            }
        }));
        let halted = bench
            .follow_after_failures(async || bench.has_credited(&paid).await)
            .await;
        assert_eq!(halted, None, "{message}");
        assert!(*asked.lock().expect("unpoisoned") > 0, "{message}: nothing was refused");
        bench.assert_credited(&paid).await;
    }
}
