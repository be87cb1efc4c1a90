//! The search for events of contracts that strangers chose, on nodes that return false data. One node of two neither
//! hides an event nor crowds out the events that the other node names.

use super::proofs::{FalseSafe, Ground, imitate};
use crate::proxy::{Lie, Proxy, Told, in_method, number};
use alloy::primitives::{Address as EvmAddress, B256};
use prs::{
    domain::{address::Address, safe::OUTCOME_TOPICS},
    ports::chain::{Emitter, ReportedEmissions, TxProofs},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const MARK: B256 = B256::repeat_byte(0xa1);

/// Marks of events that are not searched.
const OTHER_MARK: B256 = B256::repeat_byte(0xb2);

/// Maximum number of transactions that one node can name.
const NAMED_MAX: usize = 3;

fn emitter(contract: EvmAddress, from: u64) -> Emitter {
    Emitter {
        contract: Address::Evm(contract),
        mark: MARK,
        from,
    }
}

/// Searches the events of one contract.
async fn search(chain: &dyn TxProofs, emitter: Emitter, topics: &[B256], to: u64) -> ReportedEmissions {
    let found = chain.list_emissions(&[emitter], topics, to).await.expect("a search");
    let [found] = <[ReportedEmissions; 1]>::try_from(found).expect("one contract");
    found
}

/// An event of the false Safe with the searched mark, between other blocks. Returns its transaction and its block.
async fn emitted(ground: &Ground) -> (B256, u64) {
    ground.chain.mine(2).await.expect("mined");
    let emitted = ground
        .emit(ground.false_safe, FalseSafe::emitSuccessCall { hash: MARK })
        .await;
    ground.chain.mine(40).await.expect("mined");
    emitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_marked_events_of_the_contract_are_listed() {
    let ground = Ground::start(2).await;
    let safe = ground.false_safe;
    let stranger = imitate(&ground.chain, EvmAddress::repeat_byte(0x52)).await;
    let [success, failure] = OUTCOME_TOPICS;
    let (in_topic, from) = ground.emit(safe, FalseSafe::emitSuccessCall { hash: MARK }).await;
    let (in_data, _) = ground
        .emit(safe, FalseSafe::emitUnindexedSuccessCall { hash: MARK })
        .await;
    let (failed, _) = ground.emit(safe, FalseSafe::emitFailureCall { hash: MARK }).await;
    ground.emit(safe, FalseSafe::emitSuccessCall { hash: OTHER_MARK }).await;
    ground
        .emit(safe, FalseSafe::emitUnindexedSuccessCall { hash: OTHER_MARK })
        .await;
    let (foreign, _) = ground.emit(stranger, FalseSafe::emitSuccessCall { hash: MARK }).await;
    ground.chain.mine(3).await.expect("mined");
    let (chain, head) = (ground.adapter(2), ground.head().await);
    for (topics, from, expected) in [
        (&[success][..], from, BTreeSet::from([in_topic, in_data])),
        (&[failure], from, BTreeSet::from([failed])),
        (&[success, failure], from, BTreeSet::from([in_topic, in_data, failed])),
        (&[success], from + 1, BTreeSet::from([in_data])),
        (&[B256::repeat_byte(1)], from, BTreeSet::new()),
    ] {
        let found = search(chain.as_ref(), emitter(safe, from), topics, head).await;
        assert_eq!(found.tx_hashes, expected, "{topics:?} from {from}");
        assert_eq!(found.read_to, Some(head));
    }
    let below = search(chain.as_ref(), emitter(safe, from - 1), &[success], from - 1).await;
    assert_eq!((below.tx_hashes, below.read_to), (BTreeSet::new(), Some(from - 1)));
    let contracts = [emitter(stranger, from), emitter(safe, from)];
    let both = chain
        .list_emissions(&contracts, &[success], head)
        .await
        .expect("a search");
    let both: Vec<_> = both.into_iter().map(|found| found.tx_hashes).collect();
    assert_eq!(both, [BTreeSet::from([foreign]), BTreeSet::from([in_topic, in_data])]);
    let none = chain.list_emissions(&[], &[success], head).await.expect("a search");
    assert!(none.is_empty(), "{none:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_of_two_cannot_hide_an_event() {
    let ground = Ground::start(2).await;
    let (tx_hash, from) = emitted(&ground).await;
    let head = ground.head().await;
    let omitted: fn(&mut Value) = |logs| *logs = json!([]);
    let unplaced: fn(&mut Value) = |logs| {
        for log in logs.as_array_mut().into_iter().flatten() {
            log["transactionHash"] = Value::Null;
        }
    };
    let remarked: fn(&mut Value) = |logs| {
        for log in logs.as_array_mut().into_iter().flatten() {
            log["topics"][1] = json!(OTHER_MARK);
        }
    };
    // The transactions that this node invents sort before all others.
    let invented: fn(&mut Value) = |logs| {
        let Some(logs) = logs.as_array_mut() else { return };
        let Some(sample) = logs.first().cloned() else { return };
        let invented = (1..=5_000_u64).map(|position| {
            let mut log = sample.clone();
            log["transactionHash"] = json!(format!("{position:#066x}"));
            log
        });
        *logs = invented.collect();
    };
    for (number, lie) in [omitted, unplaced, remarked, invented].into_iter().enumerate() {
        for liar in [0, 1] {
            ground.nodes.iter().for_each(Proxy::end);
            ground.nodes[liar].tamper(in_method("eth_getLogs", lie));
            let chain = ground.adapter(2);
            let found = search(chain.as_ref(), emitter(ground.false_safe, from), &OUTCOME_TOPICS, head).await;
            assert!(ground.nodes[liar].changed() > 0, "{number}: node {liar} was not asked");
            assert!(found.tx_hashes.contains(&tx_hash), "{number}: {found:?}");
            assert!(found.tx_hashes.len() <= 1 + NAMED_MAX, "{number}: {found:?}");
            assert_eq!(found.read_to, Some(head), "{number}");
            for named in &found.tx_hashes {
                let proven = chain.proven(*named, head).await.expect("a response");
                assert_eq!(proven.is_some(), *named == tx_hash, "{number}: {named}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lagging_or_false_node_does_not_count_as_a_search() {
    let ground = Ground::start(3).await;
    let (tx_hash, from) = emitted(&ground).await;
    let head = ground.head().await;
    let contracts = [emitter(ground.false_safe, from)];
    let lagging = move || {
        Lie(move |call: &Value, result: Value| {
            let is_unknown = call["method"] == "eth_getBlockByNumber" && number(&call["params"][0]) == Some(head);
            Told::Result(match call["method"].as_str() {
                _ if is_unknown => Value::Null,
                // The node does not have the block with the event either.
                Some("eth_getLogs") => json!([]),
                _ => result,
            })
        })
    };
    let foreign = || {
        in_method("eth_getLogs", |logs| {
            for log in logs.as_array_mut().into_iter().flatten() {
                log["address"] = json!(EvmAddress::repeat_byte(0x99));
            }
        })
    };
    for liar in [0, 1] {
        for is_lagging in [true, false] {
            ground.nodes.iter().for_each(Proxy::end);
            if is_lagging {
                ground.nodes[liar].tamper(lagging());
            } else {
                ground.nodes[liar].tamper(foreign());
            }
            let all = ground
                .adapter(3)
                .list_emissions(&contracts, &OUTCOME_TOPICS, head)
                .await;
            assert!(all.is_err(), "node {liar}, lagging: {is_lagging}: {all:?}");
            let found = search(ground.adapter(2).as_ref(), contracts[0], &OUTCOME_TOPICS, head).await;
            assert_eq!(
                (found.tx_hashes, found.read_to),
                (BTreeSet::from([tx_hash]), Some(head)),
                "the third node replaces node {liar}, lagging: {is_lagging}"
            );
        }
    }
}

/// A contract can emit more events than a node returns in one response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contract_whose_events_a_node_refuses_delays_no_other() {
    let ground = Ground::start(2).await;
    let flooded = imitate(&ground.chain, EvmAddress::repeat_byte(0x52)).await;
    let (in_flood, from) = ground.emit(flooded, FalseSafe::emitSuccessCall { hash: MARK }).await;
    let (tx_hash, _) = emitted(&ground).await;
    let head = ground.head().await;
    let contracts = [emitter(flooded, from), emitter(ground.false_safe, from)];
    for liars in [&[0][..], &[1], &[0, 1]] {
        ground.nodes.iter().for_each(Proxy::end);
        for liar in liars {
            ground.nodes[*liar].tamper(Lie(move |call: &Value, result: Value| {
                if call["params"][0]["address"] == json!(flooded) {
                    return Told::Error(-32_602, "query returned more than 10000 results".to_owned());
                }
                Told::Result(result)
            }));
        }
        let chain = ground.adapter(2);
        for _ in 0..4 {
            let found = chain.list_emissions(&contracts, &OUTCOME_TOPICS, head).await;
            let found = found.expect("the refusals do not count as failures of the node");
            let (flood, other) = (&found[0], &found[1]);
            assert_eq!(flood.read_to, None, "{liars:?}: {found:?}");
            assert_eq!(
                flood.tx_hashes.contains(&in_flood),
                liars.len() == 1,
                "{liars:?}: {found:?}"
            );
            assert_eq!(other.read_to, Some(head), "{liars:?}: {found:?}");
            assert_eq!(other.tx_hashes, BTreeSet::from([tx_hash]), "{liars:?}: {found:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_over_too_many_blocks_is_narrowed_until_it_passes() {
    const BLOCKS_MAX: u64 = 4;
    let ground = Ground::start(2).await;
    let begin = ground.head().await;
    let (tx_hash, _) = emitted(&ground).await;
    let head = ground.head().await;
    ground.nodes[1].tamper(Lie(|call: &Value, result: Value| {
        let bound = |name: &str| number(&call["params"][0][name]);
        match (bound("fromBlock"), bound("toBlock")) {
            (Some(from), Some(to)) if to - from >= BLOCKS_MAX => {
                Told::Error(-32_602, "exceeds the maximum block range".to_owned())
            }
            _ => Told::Result(result),
        }
    }));
    let chain = ground.adapter(2);
    let (mut from, mut found) = (begin, BTreeSet::new());
    let mut searches = 0;
    while from <= head {
        let reported = search(chain.as_ref(), emitter(ground.false_safe, from), &OUTCOME_TOPICS, head).await;
        let read_to = reported.read_to.expect("each search passes");
        assert!((from..=head).contains(&read_to), "{read_to} from {from}");
        found.extend(reported.tx_hashes);
        from = read_to + 1;
        searches += 1;
    }
    assert_eq!(found, BTreeSet::from([tx_hash]));
    assert!(searches > 1, "the node refused no search");
}
