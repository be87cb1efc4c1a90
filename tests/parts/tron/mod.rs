//! The adapter of Tron on nodes that serve one chain.

mod endpoints;

use crate::support::tron_calls::{self, TronPayment, account, proxy, usdt};
use alloy::primitives::{Address as EvmAddress, B256, U256, keccak256};
use chrono::DateTime;
use devnet::tron::{TronDevnet, TronOptions};
use prs::{
    adapters::{
        nodes::{ChainOptions, NodeUrls},
        tron::connect,
    },
    domain::{
        address::Address,
        currency::{ContractKind, KnownContract},
        network::Network,
        payment::{Observation, SettledBlock},
    },
    ports::chain::{Chain, ChainError, ChainParts},
};
use std::{sync::Arc, time::Duration};

/// The reference of the payments.
const REFERENCE: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// The URLs of a node whose JSON-RPC is at the usual place.
fn node_urls(api: &str) -> NodeUrls {
    NodeUrls {
        rpc: format!("{api}/jsonrpc").parse().expect("a URL"),
        api: Some(api.parse().expect("a URL")),
    }
}

/// Lets every node serve its HTTP API only.
fn break_jsonrpc(options: &mut ChainOptions) {
    for node in &mut options.nodes {
        node.rpc = node.rpc.join("/no-such-path").expect("a URL");
    }
}

/// A chain with its nodes.
struct Ground {
    devnet: TronDevnet,
}

impl Ground {
    async fn start(nodes: usize) -> Self {
        let options = TronOptions {
            nodes,
            ..TronOptions::default()
        };
        let devnet = TronDevnet::start(options).await.expect("the stand-in starts");
        Self { devnet }
    }

    fn token(&self) -> EvmAddress {
        usdt(&self.devnet)
    }

    fn account(&self, index: usize) -> EvmAddress {
        account(&self.devnet, index)
    }

    fn options(&self, nodes: &[usize], agreement: usize) -> ChainOptions {
        let urls = nodes.iter().map(|node| self.devnet.api_url(*node).expect("a node"));
        ChainOptions {
            network: Network::Tron,
            chain_id: Network::Tron.chain_id(),
            nodes: urls.map(node_urls).collect(),
            api_key: None,
            confirmations: None,
            start_block: None,
            agreement: Some(agreement),
            agreement_fallback: None,
            contracts: vec![KnownContract {
                kind: ContractKind::Erc20FeeProxy,
                address: Address::Tron(proxy(&self.devnet)),
                creation_block: 0,
                is_default: true,
            }],
            call_timeout: Duration::from_secs(2),
            lookup_timeout: Duration::from_secs(5),
        }
    }

    /// The adapter in a new process that knows nothing about its nodes.
    fn parts(&self, nodes: &[usize], agreement: usize) -> ChainParts {
        connect(self.options(nodes, agreement), None).expect("valid options")
    }

    fn chain(&self, nodes: &[usize], agreement: usize) -> Arc<dyn Chain> {
        self.parts(nodes, agreement).followed
    }

    async fn approve(&self) {
        tron_calls::approve(&self.devnet, 0).await;
    }

    /// Pays through the proxy; returns the transaction and its block.
    async fn pay(&self, units: u64) -> (B256, u64) {
        let payment = TronPayment {
            to: self.account(1),
            units: U256::from(units),
            reference: REFERENCE.to_vec(),
            fee: U256::from(7),
            fee_address: self.account(2),
        };
        let tx_hash = tron_calls::pay(&self.devnet, 0, payment).await;
        (tx_hash, self.devnet.state(0).await.expect("a state").head_number)
    }
}

/// The payments of a block.
fn payments(block: &SettledBlock) -> Vec<&Observation> {
    block
        .transactions
        .iter()
        .flat_map(|proof| &proof.observations)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_is_found_proven_and_read() {
    let ground = Ground::start(2).await;
    ground.approve().await;
    let (tx_hash, number) = ground.pay(1_000_000).await;
    ground.devnet.mine(3).await.expect("mined");
    let chain = ground.chain(&[0, 1], 2);
    let tip = chain.tip(None).await.expect("a tip");
    assert_eq!((tip.head.number, tip.finalized.number), (number + 3, number + 1));
    let listed = chain.list_events(1, number + 1, true).await.expect("events");
    let [(hint, tellers)] = listed.hints.as_slice() else {
        panic!("{listed:?}");
    };
    assert_eq!(
        (hint.block_number, hint.tx_hash, tellers.as_slice()),
        (number, tx_hash, &[0, 1][..])
    );
    assert_eq!(hint.reference_topic, Some(keccak256(REFERENCE)));
    let settled = chain.settled(number).await.expect("a block");
    let [payment] = payments(&settled)[..] else {
        panic!("{settled:?}");
    };
    let on = |account: usize| Address::Tron(ground.account(account));
    assert_eq!(
        (payment.tx_hash, payment.position),
        (tx_hash, hint_position(&settled, payment))
    );
    assert_eq!((payment.payee, payment.fee_address), (on(1), Some(on(2))));
    assert_eq!(
        (payment.units, payment.fee_units),
        (U256::from(1_000_000), U256::from(7))
    );
    assert_eq!(payment.token, Some(Address::Tron(ground.token())));
    let [proof] = settled.transactions.as_slice() else {
        panic!("{settled:?}");
    };
    assert!(proof.succeeded);
    assert_eq!(
        (proof.from, proof.to),
        (on(0), Some(Address::Tron(proxy(&ground.devnet))))
    );
    assert_eq!(proof.transfers.len(), 2, "to the payee and to the receiver of the fee");
    let block = chain.block(number).await.expect("a response").expect("a block");
    assert_eq!(chain.noted(&block).await.expect("near the head"), settled);
}

/// The position of a payment among the events of its transaction, counted from what it follows.
fn hint_position(block: &SettledBlock, payment: &Observation) -> u32 {
    let transfers = block.transactions.iter().flat_map(|proof| &proof.transfers);
    let before = transfers.filter(|transfer| transfer.log_index < payment.log_index);
    u32::try_from(before.count()).expect("few")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_json_rpc_or_a_second_node_blocks_are_read_whole() {
    let ground = Ground::start(2).await;
    ground.approve().await;
    let (_, number) = ground.pay(5).await;
    ground.devnet.mine(3).await.expect("mined");
    let alone = ground
        .chain(&[0], 1)
        .list_events(1, number, true)
        .await
        .expect("events");
    assert_eq!(alone.unlisted, (1..=number).collect(), "one node could omit events");
    let idle = ground
        .chain(&[0], 1)
        .list_events(1, number, false)
        .await
        .expect("events");
    assert_eq!((idle.hints.len(), idle.read_to), (1, number), "nothing is awaited");
    let mut options = ground.options(&[0, 1], 2);
    break_jsonrpc(&mut options);
    let without = connect(options, None).expect("valid options").followed;
    let listed = without.list_events(1, number, true).await.expect("events");
    assert_eq!(listed.unlisted, (1..=number).collect());
    assert_eq!(payments(&without.settled(number).await.expect("a block")).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_json_rpc_that_is_behind_its_api_hides_no_payment() {
    let ground = Ground::start(2).await;
    ground.approve().await;
    let (_, number) = ground.pay(5).await;
    ground.devnet.mine(3).await.expect("mined");
    ground.devnet.set_behind(1, 10).await.expect("set");
    let mut options = ground.options(&[0], 1);
    options.nodes[0].rpc = node_urls(ground.devnet.api_url(1).expect("a node")).rpc;
    let chain = connect(options, None).expect("valid options").followed;
    let refused = chain
        .list_events(1, number, false)
        .await
        .expect_err("no events are known");
    let expected = format!("the JSON-RPC of the node has not reached block {number}");
    assert!(refused.to_string().contains(&expected), "{refused}");
    ground.devnet.set_behind(1, 0).await.expect("set");
    let listed = chain.list_events(1, number, false).await.expect("events");
    assert_eq!((listed.hints.len(), listed.read_to), (1, number));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_refer_to_the_block_of_a_node_that_is_not_behind() {
    let ground = Ground::start(2).await;
    ground.devnet.mine(30).await.expect("mined");
    let state = ground.devnet.state(0).await.expect("a state");
    let at = |ms: u64| DateTime::from_timestamp_millis(ms.cast_signed()).expect("in range");
    let now = at(state.head_time_ms + 1_000);
    let refer = async |nodes: &[usize], now| {
        let preparations = ground.parts(nodes, 1).preparations.expect("Tron prepares transactions");
        preparations.reference_point(now).await
    };
    let time_ms = refer(&[0, 1], now).await.expect("a block").time_ms;
    assert_eq!(time_ms, state.head_time_ms);
    // Ten blocks are 30 s.
    ground.devnet.set_behind(0, 10).await.expect("set");
    let time_ms = refer(&[0, 1], now).await.expect("a block").time_ms;
    assert_eq!(time_ms, state.head_time_ms, "the first node is 31 s behind");
    let time_ms = refer(&[0, 1], at(state.head_time_ms)).await.expect("a block").time_ms;
    assert_eq!(time_ms, state.head_time_ms - 30_000, "30 s are allowed");
    let alone = refer(&[0], now).await.expect_err("no node has a newer block");
    assert!(
        matches!(&alone, ChainError::Unavailable { reason, .. } if reason.contains("31 s old")),
        "{alone}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_near_the_head_are_found_on_nodes_that_list_no_events() {
    let ground = Ground::start(1).await;
    ground.approve().await;
    let (tx_hash, number) = ground.pay(5).await;
    let mut options = ground.options(&[0], 1);
    break_jsonrpc(&mut options);
    let chain = connect(options, None).expect("valid options").followed;
    let blocks = chain.new_blocks(number - 1, number).await.expect("blocks");
    let hints: Vec<_> = blocks.iter().flat_map(|new| &new.hints).collect();
    let [hint] = hints[..] else { panic!("{blocks:?}") };
    assert_eq!((hint.block_number, hint.tx_hash), (number, tx_hash));
    let listing = ground.chain(&[0], 1).new_blocks(number - 1, number).await;
    assert_eq!(listing.expect("blocks"), blocks, "as on a node that lists events");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_block_is_replaced_near_the_head() {
    let ground = Ground::start(1).await;
    ground.approve().await;
    let (_, number) = ground.pay(5).await;
    let chain = ground.chain(&[0], 1);
    let [new] = chain
        .new_blocks(number, number)
        .await
        .expect("blocks")
        .try_into()
        .expect("one block");
    assert_eq!(new.hints.len(), 1);
    ground.devnet.reorganise(1).await.expect("reorganised");
    ground.devnet.mine_at(4_000_000_000_000).await.expect("mined");
    assert!(chain.noted(&new.block).await.is_err(), "the block is gone");
    let [other] = chain
        .new_blocks(number, number)
        .await
        .expect("blocks")
        .try_into()
        .expect("one block");
    assert_ne!(other.block.hash, new.block.hash);
    assert_eq!(other.block.parent_hash, new.block.parent_hash);
}
