//! The reading of Tron, on nodes that serve one chain and return false data: no payment is credited wrongly, and each is
//! credited once the nodes return true data again.

mod lies;

use alloy::{
    primitives::{Address as EvmAddress, B256, U256, keccak256},
    signers::{SignerSync, local::PrivateKeySigner},
    sol,
    sol_types::SolCall,
};
use devnet::tron::{TronDevnet, TronOptions};
use prs::{
    adapters::{
        nodes::{ChainOptions, HttpApi},
        tron::connect,
    },
    domain::{
        address::Address,
        currency::{ContractKind, KnownContract},
        network::Network,
        payment::{Observation, SettledBlock},
        tron::{ReferenceBlock, TronCall, TronTransaction, encode_signed},
    },
    ports::chain::{Chain, ChainParts},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

sol! {
    interface Proxy {
        function transferFromWithReferenceAndFee(address token, address to, uint256 amount, bytes paymentReference, uint256 feeAmount, address feeAddress);
    }
    interface Token {
        function approve(address spender, uint256 amount) returns (bool);
    }
}

/// The reference of the payments.
const REFERENCE: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// A chain with its nodes, and an account that pays.
struct Ground {
    devnet: TronDevnet,
    key: PrivateKeySigner,
}

fn parse(address: &str) -> EvmAddress {
    Address::parse(address).expect("an address").bytes()
}

impl Ground {
    async fn start(nodes: usize) -> Self {
        let options = TronOptions {
            nodes,
            ..TronOptions::default()
        };
        let devnet = TronDevnet::start(options).await.expect("the stand-in starts");
        let key = devnet.summary().accounts[0].private_key.parse().expect("a key");
        Self { devnet, key }
    }

    fn proxy(&self) -> EvmAddress {
        parse(&self.devnet.summary().contracts.erc20_fee_proxy)
    }

    fn token(&self) -> EvmAddress {
        parse(&self.devnet.summary().tokens.usdt)
    }

    fn account(&self, index: usize) -> EvmAddress {
        parse(&self.devnet.summary().accounts[index].address)
    }

    fn options(&self, nodes: &[usize], agreement: usize) -> ChainOptions {
        let urls: Vec<String> = nodes
            .iter()
            .map(|node| self.devnet.api_url(*node).expect("a node").to_owned())
            .collect();
        let parsed = |suffix: &str| {
            let urls = urls.iter().map(|url| format!("{url}{suffix}").parse());
            urls.collect::<Result<Vec<_>, _>>().expect("URLs")
        };
        ChainOptions {
            network: Network::Tron,
            chain_id: Network::Tron.chain_id(),
            rpc_urls: parsed("/jsonrpc"),
            api: Some(HttpApi {
                urls: parsed(""),
                key: None,
            }),
            confirmations: None,
            start_block: None,
            agreement: Some(agreement),
            agreement_fallback: None,
            contracts: vec![KnownContract {
                kind: ContractKind::Erc20FeeProxy,
                address: Address::Tron(self.proxy()),
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

    async fn post(&self, node: usize, path: &str, body: Value) -> Value {
        let url = format!("{}/{path}", self.devnet.api_url(node).expect("a node"));
        let response = reqwest::Client::builder()
            .build()
            .expect("a client")
            .post(url)
            .json(&body)
            .send()
            .await
            .expect("a response");
        response.json().await.expect("JSON")
    }

    /// Signs and sends a call; returns its transaction and the block that contains it.
    async fn send(&self, contract: EvmAddress, data: Vec<u8>) -> (B256, u64) {
        let head = self.post(0, "wallet/getblock", json!({ "detail": false })).await;
        let id: B256 = head["blockID"].as_str().expect("an id").parse().expect("32 bytes");
        let time_ms = head["block_header"]["raw_data"]["timestamp"].as_u64().expect("a time");
        let transaction = TronTransaction {
            reference_block: ReferenceBlock::of_block(&id),
            expiration_ms: time_ms + 60_000,
            timestamp_ms: time_ms,
            fee_limit_sun: 300_000_000,
            permission_id: 0,
            call: TronCall {
                owner: self.key.address(),
                contract,
                value_sun: 0,
                data: data.into(),
                token_value: 0,
                token_id: 0,
            },
        };
        let signature = self.key.sign_hash_sync(&transaction.tx_id()).expect("a signature");
        let signed = encode_signed(&transaction.encode(), &signature.as_bytes());
        let answer = self
            .post(0, "wallet/broadcasthex", json!({ "transaction": hex::encode(signed) }))
            .await;
        assert_eq!(answer["result"], true, "{answer}");
        let state = self.devnet.state(0).await.expect("a state");
        (transaction.tx_id(), state.head_number)
    }

    async fn approve(&self) {
        let approve = Token::approveCall {
            spender: self.proxy(),
            amount: U256::MAX,
        };
        self.send(self.token(), approve.abi_encode()).await;
    }

    /// Pays through the proxy; returns the transaction and its block.
    async fn pay(&self, units: u64) -> (B256, u64) {
        let call = Proxy::transferFromWithReferenceAndFeeCall {
            token: self.token(),
            to: self.account(1),
            amount: U256::from(units),
            paymentReference: REFERENCE.to_vec().into(),
            feeAmount: U256::from(7),
            feeAddress: self.account(2),
        };
        self.send(self.proxy(), call.abi_encode()).await
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
    assert_eq!((proof.from, proof.to), (on(0), Some(Address::Tron(ground.proxy()))));
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
    let broken = |url: &url::Url| url.join("/no-such-path").expect("a URL");
    options.rpc_urls = options.rpc_urls.iter().map(broken).collect();
    let without = connect(options, None).expect("valid options").followed;
    let listed = without.list_events(1, number, true).await.expect("events");
    assert_eq!(listed.unlisted, (1..=number).collect());
    assert_eq!(payments(&without.settled(number).await.expect("a block")).len(), 1);
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
