//! False data about Tron: the matrix of fields, and the lies of the stand-in, which are consistent in themselves.

use super::{Place, READINGS, Reading, asked, matrix, run::meet};
use crate::{
    bench::{Bench, Ground, Open, Paid},
    proxy::in_method,
    support::tron_calls,
};
use alloy::primitives::{B256, U256, b256};
use devnet::tron::{TronDevnet, TronForgedPayment, TronLie};
use prs::domain::network::Family;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Name of a lie, and the lie about a block and a payment that never happened.
type NamedLie = (&'static str, fn(u64, TronForgedPayment) -> TronLie);

const LIES: [NamedLie; 16] = [
    ("missing logs", |_, _| TronLie::MissingLogs),
    ("forged logs", |_, payment| TronLie::ForgedLogs(payment)),
    ("forged log", |block, _| TronLie::ForgedLog(Some(block))),
    ("changed result", |block, _| TronLie::ChangedResult(Some(block))),
    ("empty infos", |_, _| TronLie::EmptyInfos),
    ("other header", |block, _| TronLie::OtherHeader(Some(block))),
    ("other headers", |_, _| TronLie::OtherHeader(None)),
    ("wrong id", |block, _| TronLie::WrongId(Some(block))),
    ("changed transaction", |block, _| {
        TronLie::ChangedTransaction(Some(block))
    }),
    ("omitted transaction", |block, _| {
        TronLie::OmittedTransaction(Some(block))
    }),
    ("changed contractRet", |block, _| {
        TronLie::ChangedContractRet(Some(block))
    }),
    ("unknown blocks", |_, _| TronLie::UnknownBlocks),
    ("wrong genesis", |_, _| TronLie::WrongGenesis),
    ("forged block at the head", |_, payment| forged(payment, None)),
    ("forged block at a payment", |block, payment| {
        forged(payment, Some(block))
    }),
    ("quota", |_, _| TronLie::Quota {
        status: 429,
        path: None,
        times: None,
    }),
];

/// The lies with headers that differ from the chain, which a single node can make consistent.
const OF_HEADERS: [&str; 4] = [
    "other header",
    "other headers",
    "forged block at the head",
    "forged block at a payment",
];

/// First topic of a token transfer.
const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

fn forged(payment: TronForgedPayment, number: Option<u64>) -> TronLie {
    TronLie::ForgedBlock {
        payment,
        number,
        witness_keys: true,
    }
}

/// The payment of an unpaid request, which never happens.
fn payment_of(chain: &TronDevnet, open: &Open) -> TronForgedPayment {
    let summary = chain.summary();
    TronForgedPayment {
        token: summary.tokens.usdt.clone(),
        payer: None,
        to: summary.accounts[1].address.clone(),
        amount: open.units.to_string(),
        reference: hex::encode(&open.reference),
        fee_amount: "0".to_owned(),
        fee_address: None,
    }
}

async fn start() -> (Ground, Arc<TronDevnet>) {
    let ground = Ground::start(Family::Tron).await;
    let Ground::Tron(chain) = &ground else {
        panic!("another chain started")
    };
    let chain = chain.clone();
    (ground, chain)
}

/// Runs the lies of the stand-in with some ways of reading: with all of them if `PRS_TEST_MONEY` is set, and otherwise
/// with one for each lie, in turn.
async fn consistent_lies(place: Place) {
    let (ground, chain) = start().await;
    let mut bench = Bench::start_on(&ground, place.nodes(), |_| {}).await;
    let unpaid = bench.request().await;
    bench.settle().await;
    let [liar] = *place.liars() else {
        panic!("one node lies")
    };
    let (mut bad, mut meanwhile, mut count) = (Vec::new(), 0, 0);
    for (turn, (name, lie)) in LIES.into_iter().enumerate() {
        if place == Place::OneNode && OF_HEADERS.contains(&name) {
            continue;
        }
        let is_in_turn = |(index, _): &(usize, Reading)| asked().is_some() || turn % READINGS.len() == *index;
        for (_, reading) in READINGS.into_iter().enumerate().filter(is_in_turn) {
            let begin = async |_: &Bench, blocks: &BTreeSet<u64>| {
                let block = *blocks.first().expect("a paid block");
                let lie = lie(block, payment_of(&chain, &unpaid));
                chain.set_lies(liar, &[lie]).await.expect("a lie");
            };
            let end = async |_: &Bench| {
                chain.set_lies(liar, &[]).await.expect("honest again");
                1
            };
            let (same, _, _, outcome) = meet(bench, reading, turn % 2 == 0, begin, end).await;
            bench = same;
            count += 1;
            meanwhile += usize::from(outcome.is_credited_meanwhile);
            if outcome.is_bad() {
                bad.push(format!("{name}, {reading:?}: {outcome:?}"));
            }
        }
    }
    println!(
        "Tron, {place:?}: {count} cells with consistent lies, {meanwhile} credited meanwhile, {} bad",
        bad.len()
    );
    assert!(bad.is_empty(), "{bad:#?}");
    let credited = bench.credited().await;
    assert!(
        credited.iter().all(|payment| payment.request_id != unpaid.id),
        "an unpaid request was credited"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tron_payments_are_credited_correctly_if_the_only_node_is_false() {
    matrix(Family::Tron, Place::OneNode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tron_payments_are_credited_correctly_despite_a_false_first_node_of_two() {
    matrix(Family::Tron, Place::FirstOfTwo).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tron_payments_are_credited_correctly_despite_a_false_second_node_of_two() {
    matrix(Family::Tron, Place::SecondOfTwo).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consistent_lies_of_the_only_node_under_honest_headers_credit_nothing_wrong() {
    consistent_lies(Place::OneNode).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consistent_lies_of_the_first_node_of_two_credit_nothing_wrong() {
    consistent_lies(Place::FirstOfTwo).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consistent_lies_of_the_second_node_of_two_credit_nothing_wrong() {
    consistent_lies(Place::SecondOfTwo).await;
}

/// The service does not check the signatures of block producers, so it cannot detect a block that its only node
/// invents.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tron_block_that_as_many_nodes_invent_as_must_agree_is_believed() {
    let (ground, chain) = start().await;
    let mut bench = Bench::start_on(&ground, 1, |_| {}).await;
    let unpaid = bench.request().await;
    bench.settle().await;
    let lie = forged(payment_of(&chain, &unpaid), None);
    chain.set_lies(0, &[lie]).await.expect("a lie");
    bench.settle().await;
    let credited = bench.credited().await;
    let [payment] = credited.as_slice() else {
        panic!("{credited:?}")
    };
    assert_eq!(
        (&payment.request_id, payment.credited),
        (&unpaid.id, unpaid.units),
        "the limit that ADR-0027 states"
    );
}

/// Pays a request while nodes halve the transfer of its token and leave all else; returns the credited units.
async fn pay_past_halved_transfer(nodes: usize, liar: usize) -> (Bench, Paid, Option<U256>) {
    let (ground, _) = start().await;
    let mut bench = Bench::start_on(&ground, nodes, |_| {}).await;
    bench.settle().await;
    let [paid] = <[Paid; 1]>::try_from(bench.pay_in_blocks(&[(2, 1)]).await).expect("one payment");
    ground.mine(3).await;
    bench.nodes[liar].tamper(in_method("wallet/gettransactioninfobyblocknum", |infos| {
        let infos = infos.as_array_mut().into_iter().flatten();
        let logs = infos.filter_map(|info| info["log"].as_array_mut()).flatten();
        for log in logs.filter(|log| log["topics"][0] == json!(hex::encode(TRANSFER))) {
            let units = U256::from_str_radix(log["data"].as_str().expect("text"), 16).expect("a number");
            log["data"] = json!(hex::encode((units / U256::from(2)).to_be_bytes::<32>()));
        }
    }));
    bench
        .follow(5, async || bench.has_credited(std::slice::from_ref(&paid)).await)
        .await;
    assert!(bench.nodes[liar].changed() > 0, "nothing was changed");
    let credited = bench.credited().await.first().map(|payment| payment.credited);
    (bench, paid, credited)
}

/// The header proves the call of the payment contract, and what the token made of this call is the word of the nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_transfers_count_as_far_as_enough_nodes_agree() {
    let (_, paid, credited) = pay_past_halved_transfer(1, 0).await;
    let units = paid.requests[0].units;
    assert_eq!(credited, Some(units / U256::from(2)), "the limit that ADR-0027 states");
    for liar in [0, 1] {
        let (bench, paid, credited) = pay_past_halved_transfer(2, liar).await;
        assert_eq!(credited, None, "node {liar}");
        bench.nodes[liar].end();
        bench
            .follow_after_failures(async || bench.has_credited(std::slice::from_ref(&paid)).await)
            .await;
        bench.assert_credited(&[paid]).await;
    }
}

/// A block of Tron can contain payments through contracts of strangers, whose calldata the service cannot read. The
/// infos of such a block still have to belong to its transactions, one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn infos_of_another_block_prove_nothing_on_tron() {
    let (ground, chain) = start().await;
    let mut bench = Bench::start_on(&ground, 1, |_| {}).await;
    bench.settle().await;
    let paid = bench.pay_in_blocks(&[(2, 1), (3, 1)]).await;
    ground.mine(3).await;
    let other = json!({ "num": paid[1].block_number });
    let other = tron_calls::post(&chain, "wallet/gettransactioninfobyblocknum", other).await;
    bench.nodes[0].tamper(in_method("wallet/gettransactioninfobyblocknum", move |infos| {
        if infos.as_array().is_some_and(|infos| !infos.is_empty()) {
            *infos = other.clone();
        }
    }));
    bench.follow(5, async || false).await;
    assert!(bench.nodes[0].changed() > 0, "nothing was changed");
    let credited = bench.credited().await;
    let first = &paid[0].requests[0].id;
    assert!(credited.iter().all(|payment| payment.request_id != *first));
    bench.nodes[0].tamper(in_method("wallet/gettransactioninfobyblocknum", |infos: &mut Value| {
        *infos = json!([]);
    }));
    bench.follow(3, async || false).await;
    bench.nodes[0].end();
    bench
        .follow_after_failures(async || bench.has_credited(&paid).await)
        .await;
    bench.assert_credited(&paid).await;
}
