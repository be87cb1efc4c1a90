//! Nodes that forge a block header and everything that proves the block. The forgery succeeds only if as many nodes
//! forge as must agree.

use crate::{
    bench::{Bench, Paid, chain},
    proxy::{Tamper, Told},
};
use alloy::{
    consensus::proofs::calculate_receipt_root,
    primitives::{B256, U256},
    rpc::types::{Block, TransactionReceipt},
};
use devnet::Devnet;
use serde_json::{Value, json};
use std::sync::Arc;

/// A node that reports ten times the amount of a payment, in a consistent chain of blocks.
struct Forger {
    /// Texts of the honest chain that the forger replaces: block hashes and a receipts root, each with its replacement.
    replaced: Vec<(String, String)>,
    /// The true amount and the forged amount, as they are encoded in the data of events.
    amount: (String, String),
}

impl Tamper for Forger {
    fn ask(&self, call: &mut Value) {
        let mut text = call.to_string();
        for (honest, forged) in &self.replaced {
            text = text.replace(forged, honest);
        }
        *call = serde_json::from_str(&text).expect("still JSON");
    }

    fn tell(&self, call: &Value, result: Value) -> Told {
        let mut text = result.to_string();
        for (honest, forged) in &self.replaced {
            text = text.replace(honest, forged);
        }
        let holds_events = ["eth_getLogs", "eth_getBlockReceipts", "eth_getTransactionReceipt"];
        if holds_events.iter().any(|method| call["method"] == *method) {
            text = text.replace(&self.amount.0, &self.amount.1);
        }
        Told::Result(serde_json::from_str(&text).expect("still JSON"))
    }
}

fn word(units: U256) -> String {
    hex::encode(units.to_be_bytes::<32>())
}

/// Makes a forger that changes the block of a payment and all blocks above it.
async fn forge(chain: &Devnet, paid: &Paid) -> Forger {
    let units = paid.requests[0].units;
    let amount = (word(units), word(units * U256::from(10)));
    let call = json!([format!("{:#x}", paid.block_number)]);
    let receipts = chain
        .rpc("eth_getBlockReceipts", call)
        .await
        .expect("receipts")
        .to_string();
    let receipts: Vec<TransactionReceipt> =
        serde_json::from_str(&receipts.replace(&amount.0, &amount.1)).expect("receipts");
    let receipts: Vec<_> = receipts
        .into_iter()
        .map(|receipt| receipt.into_primitives_receipt().inner)
        .collect();
    let forged_root = calculate_receipt_root(&receipts);
    let head = chain.block_number().await.expect("a height");
    let mut replaced: Vec<(String, String)> = Vec::new();
    let mut parent: Option<B256> = None;
    for number in paid.block_number..=head {
        let block = chain
            .rpc("eth_getBlockByNumber", json!([format!("{number:#x}"), false]))
            .await;
        let block: Block = serde_json::from_value(block.expect("a block")).expect("a block");
        let mut header = block.header.inner;
        assert_eq!(header.hash_slow(), block.header.hash, "the header is parsed completely");
        match parent {
            Some(parent) => header.parent_hash = parent,
            None => {
                replaced.push((header.receipts_root.to_string(), forged_root.to_string()));
                header.receipts_root = forged_root;
            }
        }
        let forged = header.hash_slow();
        replaced.push((block.header.hash.to_string(), forged.to_string()));
        parent = Some(forged);
    }
    Forger { replaced, amount }
}

/// Pays a request while the nodes with these indexes forge; returns the bench, the payment and the credited units, if
/// any.
async fn pay_past(nodes: usize, forgers: &[usize]) -> (Bench, Paid, Option<U256>) {
    let chain = chain().await;
    let mut bench = Bench::start(&chain, nodes, |_| {}).await;
    bench.settle().await;
    let requests = bench.requests(1).await;
    let paid = bench.pay(2, requests).await;
    chain.mine(3).await.expect("mined");
    let forger = Arc::new(forge(&chain, &paid).await);
    for index in forgers {
        bench.nodes[*index].tamper_with(forger.clone());
    }
    let halted = bench
        .follow(5, async || bench.has_credited(std::slice::from_ref(&paid)).await)
        .await;
    assert_eq!(halted, None);
    assert!(
        forgers.iter().all(|index| bench.nodes[*index].changed() > 0),
        "nothing was forged"
    );
    let credited = bench.credited().await.first().map(|payment| payment.credited);
    (bench, paid, credited)
}

/// If as many nodes forge as must agree, the service cannot detect it: the forged amount is credited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgers_are_accepted_if_as_many_agree_as_required() {
    for (nodes, forgers) in [(1, &[0][..]), (3, &[0, 1][..])] {
        let (_, paid, credited) = pay_past(nodes, forgers).await;
        let units = paid.requests[0].units;
        println!(
            "{} of {nodes} nodes forge header, receipts and events: {credited:?} credited of {units}",
            forgers.len()
        );
        assert_eq!(credited, Some(units * U256::from(10)), "the limit that ADR-0012 states");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_are_credited_correctly_despite_too_few_forgers() {
    for (nodes, forger) in [(2, 0), (2, 1), (3, 0), (3, 2)] {
        let (bench, paid, credited) = pay_past(nodes, &[forger]).await;
        let units = paid.requests[0].units;
        assert!(
            credited.is_none() || credited == Some(units),
            "node {forger} of {nodes}: {credited:?}"
        );
        bench.nodes[forger].end();
        let bench = bench.restarted().await;
        bench.settle().await;
        bench.assert_credited(&[paid]).await;
    }
}
