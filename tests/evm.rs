//! The chain adapter against nodes that fail and lie: each fault has to end in the right answer or in none.
#![expect(clippy::unwrap_used, reason = "a surprise in a test double fails the test")]

use alloy::{
    primitives::{Address as EvmAddress, B256, Bloom, Bytes, U256, keccak256},
    sol,
    sol_types::{SolEvent, SolValue},
};
use chrono::{DateTime, Utc};
use prs::{
    adapters::evm::{EvmChain, EvmChainOptions},
    domain::{
        address::Address,
        currency::{ContractKind, KnownContract},
        network::Network,
        payment::{BlockRef, Observation},
    },
    ports::{
        chain::{Chain, ChainError, PayerLookup, Reader},
        clock::Clock,
    },
};
use serde_json::{Value, json};
use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

sol! {
    event TransferWithReferenceAndFee(address tokenAddress, address to, uint256 amount, bytes indexed paymentReference, uint256 feeAmount, address feeAddress);
    event Transfer(address indexed from, address indexed to, uint256 value);
}

const CHAIN_ID: u64 = 31_337;
const FEE_PROXY: EvmAddress = EvmAddress::repeat_byte(0xfe);
const RATES: EvmAddress = EvmAddress::repeat_byte(0xaa);
const TOKEN: EvmAddress = EvmAddress::repeat_byte(0x70);
const PAYER: EvmAddress = EvmAddress::repeat_byte(0x0a);
const PAYEE: EvmAddress = EvmAddress::repeat_byte(0x0b);

/// Time of block 0; blocks follow every twelve seconds.
const GENESIS_S: u64 = 1_800_000_000;

/// Stands at the time of the newest block of the usual chain.
struct FixedClock(DateTime<Utc>);

impl Clock for FixedClock {
    fn now(&self) -> DateTime<Utc> {
        self.0
    }

    fn steady(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

/// A payment of `units` in a transaction of its own.
fn payment(block: u64, index: u64, units: u64) -> Vec<Value> {
    let transfer = Transfer {
        from: PAYER,
        to: PAYEE,
        value: U256::from(units),
    };
    let paid = TransferWithReferenceAndFee {
        tokenAddress: TOKEN,
        to: PAYEE,
        amount: U256::from(units),
        paymentReference: keccak256(units.to_be_bytes()),
        feeAmount: U256::ZERO,
        feeAddress: EvmAddress::ZERO,
    };
    vec![
        log(TOKEN, &transfer, block, index, index * 2),
        log(FEE_PROXY, &paid, block, index, index * 2 + 1),
    ]
}

fn log(address: EvmAddress, event: &impl SolEvent, block: u64, tx_index: u64, log_index: u64) -> Value {
    let encoded = event.encode_log_data();
    json!({
        "address": address,
        "topics": encoded.topics(),
        "data": encoded.data,
        "blockNumber": format!("0x{block:x}"),
        "blockHash": hash(block, 0),
        "transactionHash": tx_hash(block, tx_index),
        "transactionIndex": format!("0x{tx_index:x}"),
        "logIndex": format!("0x{log_index:x}"),
        "removed": false,
    })
}

fn hash(block: u64, fork: u64) -> B256 {
    keccak256(format!("block {block} of {fork}"))
}

fn tx_hash(block: u64, index: u64) -> B256 {
    keccak256(format!("transaction {index} of {block}"))
}

fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// What a node serves, and how it lies.
#[derive(Clone)]
struct Served {
    chain_id: u64,
    blocks: u64,
    finalized: Option<u64>,
    /// From this block on the hashes are others.
    fork_from: u64,
    logs: Vec<Value>,
    lie: Lie,
    calls: Vec<Value>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Lie {
    Nothing,
    Status(u16),
    RefusesWithStatus200,
    Garbage,
    Hangs,
    EmptyLogs,
    DropsHalfOfTheLogs,
    DuplicatesLogs,
    ShufflesLogs,
    LogsOfAnotherBlock,
    LogsOfAnotherContract,
    LogsWithoutPlace,
    NullBlocks,
    WrongNumbers,
    BlockTime(u64),
    LimitsBlocks(u64),
    RefusesEveryRange,
    Reverts,
    NullReceipts,
    DropsReceiptLogs,
}

impl Served {
    fn honest(blocks: u64) -> Self {
        Self {
            chain_id: CHAIN_ID,
            blocks,
            finalized: Some(blocks.saturating_sub(20)),
            fork_from: u64::MAX,
            logs: Vec::new(),
            lie: Lie::Nothing,
            calls: Vec::new(),
        }
    }

    fn with_payments(blocks: u64, payments: &[(u64, u64, u64)]) -> Self {
        let logs = payments
            .iter()
            .flat_map(|(block, index, units)| payment(*block, *index, *units));
        Self {
            logs: logs.collect(),
            ..Self::honest(blocks)
        }
    }

    fn lying(&self, lie: Lie) -> Self {
        Self { lie, ..self.clone() }
    }

    fn hash(&self, block: u64) -> B256 {
        hash(block, u64::from(block >= self.fork_from))
    }

    fn block(&self, block: u64) -> Value {
        if block > self.blocks || self.lie == Lie::NullBlocks {
            return Value::Null;
        }
        let mut bloom = Bloom::ZERO;
        for log in self.logs.iter().filter(|log| number(&log["blockNumber"]) == block) {
            let topics: Vec<B256> = serde_json::from_value(log["topics"].clone()).unwrap();
            bloom.accrue_raw_log(serde_json::from_value(log["address"].clone()).unwrap(), &topics);
        }
        let said = if self.lie == Lie::WrongNumbers {
            block + 1
        } else {
            block
        };
        let time_s = match self.lie {
            Lie::BlockTime(time_s) => time_s,
            _ => GENESIS_S + block * 12,
        };
        json!({
            "number": format!("0x{said:x}"),
            "hash": self.hash(block),
            "parentHash": block.checked_sub(1).map_or(B256::repeat_byte(1), |parent| self.hash(parent)),
            "timestamp": format!("0x{time_s:x}"),
            "logsBloom": bloom,
            "transactions": [],
        })
    }

    fn logs(&self, filter: &Value) -> Result<Value, (i64, &'static str)> {
        if filter["address"].as_array().is_some_and(Vec::is_empty) {
            panic!("an empty list of addresses means every contract to some nodes");
        }
        let wanted = |log: &Value| {
            let in_list = |list: &Value, value: &Value| list.as_array().is_none_or(|list| list.contains(value));
            let in_block = match &filter["blockHash"] {
                Value::Null => {
                    (number(&filter["fromBlock"])..=number(&filter["toBlock"])).contains(&number(&log["blockNumber"]))
                }
                hash => log["blockHash"] == *hash,
            };
            in_block && in_list(&filter["address"], &log["address"]) && in_list(&filter["topics"][0], &log["topics"][0])
        };
        if filter["blockHash"].is_null() {
            let asked = number(&filter["toBlock"]) - number(&filter["fromBlock"]) + 1;
            match self.lie {
                Lie::LimitsBlocks(limit) if asked > limit => return Err((-32_602, "range limit exceeded")),
                Lie::RefusesEveryRange => return Err((-32_602, "query returned more than 10000 results")),
                _ => {}
            }
        }
        let mut logs: Vec<Value> = self.logs.iter().filter(|log| wanted(log)).cloned().collect();
        match self.lie {
            Lie::EmptyLogs => logs.clear(),
            Lie::DropsHalfOfTheLogs => {
                let mut position = 0;
                logs.retain(|_| {
                    position += 1;
                    position % 2 == 0
                });
            }
            Lie::DuplicatesLogs => logs = logs.iter().flat_map(|log| [log.clone(), log.clone()]).collect(),
            Lie::ShufflesLogs => logs.reverse(),
            Lie::LogsOfAnotherBlock => logs
                .iter_mut()
                .for_each(|log| log["blockHash"] = json!(B256::repeat_byte(0xab))),
            Lie::LogsOfAnotherContract => logs
                .iter_mut()
                .for_each(|log| log["address"] = json!(EvmAddress::repeat_byte(0x99))),
            Lie::LogsWithoutPlace => logs.iter_mut().for_each(|log| log["transactionHash"] = Value::Null),
            _ => {}
        }
        Ok(json!(logs))
    }

    fn receipt(&self, tx: &Value) -> Value {
        let mut logs: Vec<Value> = self
            .logs
            .iter()
            .filter(|log| log["transactionHash"] == *tx)
            .cloned()
            .collect();
        let Some(first) = logs.first().cloned().filter(|_| self.lie != Lie::NullReceipts) else {
            return Value::Null;
        };
        let mut bloom = Bloom::ZERO;
        for log in &logs {
            let topics: Vec<B256> = serde_json::from_value(log["topics"].clone()).unwrap();
            bloom.accrue_raw_log(serde_json::from_value(log["address"].clone()).unwrap(), &topics);
        }
        if self.lie == Lie::DropsReceiptLogs {
            logs.pop();
        }
        json!({
            "transactionHash": tx, "blockHash": first["blockHash"], "blockNumber": first["blockNumber"],
            "status": "0x1", "from": PAYER, "to": FEE_PROXY, "logsBloom": bloom, "logs": logs,
        })
    }

    fn contract_call(&self, request: &Value) -> Result<Value, (i64, &'static str)> {
        if self.lie == Lie::Reverts {
            return Err((3, "execution reverted: No aggregator found"));
        }
        let data: Bytes = serde_json::from_value(request["data"].clone()).unwrap();
        Ok(match data[..4] {
            [0x70, 0xa0, 0x82, 0x31] => json!(Bytes::from(U256::from(700).abi_encode())),
            [0xdd, 0x62, 0xed, 0x3e] => json!(Bytes::from(U256::from(300).abi_encode())),
            [0xfb, 0xd4, 0x12, 0x2a] => json!(Bytes::from((U256::from(42), U256::from(GENESIS_S)).abi_encode())),
            _ => json!("0x"),
        })
    }

    fn answer(&self, method: &str, params: &Value) -> Result<Value, (i64, &'static str)> {
        if self.lie == Lie::RefusesWithStatus200 {
            return Err((-32_005, "rate limited"));
        }
        match method {
            "eth_chainId" => Ok(json!(format!("0x{:x}", self.chain_id))),
            "eth_getBlockByNumber" => match params[0].as_str().unwrap() {
                "latest" => Ok(self.block(self.blocks)),
                "finalized" => match self.finalized {
                    Some(block) => Ok(self.block(block)),
                    None => Err((-32_000, "finalized block not found")),
                },
                text => Ok(self.block(number(&json!(text)))),
            },
            "eth_getBlockByHash" => {
                let found = (0..=self.blocks).find(|block| json!(self.hash(*block)) == params[0]);
                Ok(found.map_or(Value::Null, |block| self.block(block)))
            }
            "eth_getLogs" => self.logs(&params[0]),
            "eth_getTransactionReceipt" => Ok(self.receipt(&params[0])),
            "eth_getTransactionByHash" => Ok(match self.receipt(&params[0]) {
                Value::Null => Value::Null,
                receipt => {
                    json!({ "hash": params[0], "blockHash": receipt["blockHash"], "from": PAYER, "to": FEE_PROXY })
                }
            }),
            "eth_call" => self.contract_call(&params[0]),
            "eth_getBalance" => Ok(json!("0x64")),
            "eth_gasPrice" => Ok(json!("0x7")),
            _ => Err((-32_601, "no such method")),
        }
    }
}

/// A node whose behaviour can change while it runs.
#[derive(Clone)]
struct FakeNode(Arc<Mutex<Served>>);

impl FakeNode {
    fn change(&self, change: impl FnOnce(&mut Served)) {
        change(&mut self.0.lock().unwrap());
    }

    fn calls(&self, method: &str) -> Vec<Value> {
        let served = self.0.lock().unwrap();
        let calls = served.calls.iter().filter(|call| call["method"] == method);
        calls.cloned().collect()
    }
}

impl Respond for FakeNode {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let call: Value = serde_json::from_slice(&request.body).unwrap();
        let mut served = self.0.lock().unwrap();
        served.calls.push(call.clone());
        match served.lie {
            Lie::Status(status) => return ResponseTemplate::new(status),
            Lie::Garbage => return ResponseTemplate::new(200).set_body_string("<html>welcome</html>"),
            Lie::Hangs => return ResponseTemplate::new(200).set_delay(Duration::from_secs(60)),
            _ => {}
        }
        ResponseTemplate::new(200).set_body_json(
            match served.answer(call["method"].as_str().unwrap(), &call["params"]) {
                Ok(result) => json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }),
                Err((code, message)) => {
                    json!({ "jsonrpc": "2.0", "id": call["id"], "error": { "code": code, "message": message } })
                }
            },
        )
    }
}

/// Nodes and the chain that reads them.
struct Bench {
    nodes: Vec<FakeNode>,
    chain: EvmChain,
    _servers: Vec<MockServer>,
}

impl Bench {
    async fn new(served: impl IntoIterator<Item = Served>) -> Self {
        Self::with(served, |_| {}).await
    }

    async fn with(served: impl IntoIterator<Item = Served>, adjust: impl FnOnce(&mut EvmChainOptions)) -> Self {
        let (mut nodes, mut servers) = (Vec::new(), Vec::new());
        for served in served {
            let node = FakeNode(Arc::new(Mutex::new(served)));
            let server = MockServer::start().await;
            Mock::given(any()).respond_with(node.clone()).mount(&server).await;
            nodes.push(node);
            servers.push(server);
        }
        let head = nodes
            .iter()
            .map(|node| node.0.lock().unwrap().blocks)
            .max()
            .unwrap_or(0);
        let now_s = i64::try_from(GENESIS_S + head * 12).unwrap();
        let urls = servers
            .iter()
            .map(|server| format!("{}/v3/secret-key-0123456789", server.uri()));
        let mut options = EvmChainOptions {
            network: Network::Sepolia,
            chain_id: CHAIN_ID,
            rpc_urls: urls.map(|url| url.parse().unwrap()).collect(),
            confirmations: None,
            start_block: None,
            contracts: [
                (ContractKind::Erc20FeeProxy, FEE_PROXY),
                (ContractKind::ChainlinkConversionPath, RATES),
            ]
            .map(|(kind, address)| KnownContract {
                kind,
                address: Address::Evm(address),
                creation_block: 5,
                is_default: true,
            })
            .to_vec(),
            call_timeout: Duration::from_millis(500),
            clock: Arc::new(FixedClock(DateTime::from_timestamp(now_s, 0).unwrap())),
        };
        adjust(&mut options);
        Self {
            nodes,
            chain: EvmChain::new(options).unwrap(),
            _servers: servers,
        }
    }

    async fn block(&self, number: u64) -> BlockRef {
        self.chain.block(number, Reader::First).await.unwrap().unwrap()
    }
}

fn units(found: &[Observation]) -> Vec<u64> {
    found.iter().map(|observation| observation.units.to()).collect()
}

fn is_malformed<T>(answer: &Result<T, ChainError>) -> bool {
    matches!(answer, Err(ChainError::Malformed { .. }))
}

#[tokio::test]
async fn a_node_that_fails_is_passed_over_for_every_question() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000)]);
    let mut wrong_chain = honest.clone();
    wrong_chain.chain_id = CHAIN_ID + 1;
    let faults = [
        Lie::Status(429),
        Lie::Status(500),
        Lie::Status(503),
        Lie::RefusesWithStatus200,
        Lie::Garbage,
        Lie::Hangs,
    ];
    for bad in faults.map(|lie| honest.lying(lie)).into_iter().chain([wrong_chain]) {
        let fault = (bad.lie, bad.chain_id);
        let bench = Bench::new([bad, honest.clone()]).await;
        let started = Instant::now();
        let head = bench.chain.head().await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(2), "{fault:?}");
        assert_eq!(head.number, 100, "{fault:?}");
        assert_eq!(bench.chain.finalized(&head).await.unwrap().number, 80, "{fault:?}");
        let block = bench.block(50).await;
        let found = bench.chain.observations_at(&block, Reader::First).await.unwrap();
        assert_eq!(units(&found), [1_000, 2_000], "{fault:?}");
        let (found, last) = bench.chain.observations_in(0, 80, Reader::First).await.unwrap();
        assert_eq!((units(&found), last), (vec![1_000, 2_000], 80), "{fault:?}");
        let proof = bench.chain.proof(tx_hash(50, 1), Reader::First).await.unwrap();
        assert_eq!(units(&proof.unwrap().observations), [2_000], "{fault:?}");
        let payer = Address::Evm(PAYER);
        let standing = bench.chain.standing(payer, None, payer).await.unwrap();
        assert_eq!(standing.native_balance, U256::from(100), "{fault:?}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_failure_of_the_node() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let cut = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4_096]).await;
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"jsonrpc\"")
                .await;
        }
    });
    let bench = Bench::with([Served::honest(100)], |options| {
        options.rpc_urls.insert(0, cut.parse().unwrap())
    })
    .await;
    assert_eq!(bench.chain.head().await.unwrap().number, 100);
}

#[tokio::test]
async fn a_lookup_fails_in_time_when_every_node_hangs_and_names_no_url() {
    let hanging = Served::honest(1).lying(Lie::Hangs);
    let bench = Bench::with([hanging.clone(), hanging.clone(), hanging], |options| {
        options.call_timeout = Duration::from_secs(2);
    })
    .await;
    let payer = Address::Evm(PAYER);
    for _ in 0..3 {
        let started = Instant::now();
        let answer = bench.chain.standing(payer, Some(Address::Evm(TOKEN)), payer).await;
        assert!(
            started.elapsed() < Duration::from_secs(2),
            "{} ms",
            started.elapsed().as_millis()
        );
        let Err(ChainError::Unavailable { reason, .. }) = answer else {
            panic!("{answer:?}");
        };
        assert!(!reason.contains("secret") && !reason.contains("127.0.0.1"), "{reason}");
    }
    // By now every breaker is open, so that nobody waits for dead nodes.
    let started = Instant::now();
    assert!(bench.chain.head().await.is_err());
    assert!(started.elapsed() < Duration::from_millis(100));
}

#[tokio::test]
async fn a_node_that_recovers_is_used_again() {
    let bench = Bench::new([Served::honest(100).lying(Lie::Status(500))]).await;
    for _ in 0..3 {
        assert!(bench.chain.head().await.is_err());
    }
    bench.nodes[0].change(|served| served.lie = Lie::Nothing);
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert_eq!(bench.chain.head().await.unwrap().number, 100);
}

#[tokio::test]
async fn the_chain_id_is_asked_again_after_a_broken_line() {
    let bench = Bench::new([Served::honest(100)]).await;
    bench.chain.head().await.unwrap();
    bench.chain.head().await.unwrap();
    assert_eq!(bench.nodes[0].calls("eth_chainId").len(), 1);
    bench.nodes[0].change(|served| served.lie = Lie::Status(502));
    assert!(bench.chain.head().await.is_err());
    bench.nodes[0].change(|served| {
        served.lie = Lie::Nothing;
        served.chain_id += 1;
    });
    assert!(is_malformed(&bench.chain.head().await));
}

#[tokio::test]
async fn events_that_cannot_be_true_come_from_the_next_node() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000)]);
    for lie in [
        Lie::EmptyLogs,
        Lie::LogsOfAnotherBlock,
        Lie::LogsOfAnotherContract,
        Lie::LogsWithoutPlace,
        Lie::NullBlocks,
        Lie::WrongNumbers,
    ] {
        let bench = Bench::new([honest.lying(lie), honest.clone()]).await;
        let block = bench.block(50).await;
        let found = bench.chain.observations_at(&block, Reader::First).await.unwrap();
        assert_eq!(units(&found), [1_000, 2_000], "{lie:?}");
        let alone = Bench::new([honest.lying(lie)]).await;
        assert!(
            alone.chain.observations_at(&block, Reader::First).await.is_err(),
            "{lie:?}"
        );
    }
}

#[tokio::test]
async fn a_block_time_that_cannot_be_read_is_an_error_and_never_another_time() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let first_of_year_10000 = 253_402_300_800;
    for time_s in [first_of_year_10000, i64::MAX as u64, u64::MAX] {
        let lie = Lie::BlockTime(time_s);
        let alone = Bench::new([honest.lying(lie)]).await;
        assert!(is_malformed(&alone.chain.head().await), "{time_s}");
        assert!(is_malformed(&alone.chain.block(50, Reader::First).await), "{time_s}");
        let bench = Bench::new([honest.lying(lie), honest.clone()]).await;
        let expected = DateTime::from_timestamp(i64::try_from(GENESIS_S).unwrap() + 600, 0);
        assert_eq!(Some(bench.block(50).await.time), expected, "{time_s}");
    }
    let last = Bench::new([honest.lying(Lie::BlockTime(first_of_year_10000 - 1))]).await;
    last.chain.head().await.unwrap();
}

#[tokio::test]
async fn repeated_and_shuffled_events_read_the_same() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000), (51, 0, 3_000)]);
    for lie in [Lie::DuplicatesLogs, Lie::ShufflesLogs] {
        let bench = Bench::new([honest.lying(lie)]).await;
        let block = bench.block(50).await;
        let found = bench.chain.observations_at(&block, Reader::First).await.unwrap();
        assert_eq!(units(&found), [1_000, 2_000], "{lie:?}");
        let (found, _) = bench.chain.observations_in(0, 80, Reader::First).await.unwrap();
        assert_eq!(units(&found), [1_000, 2_000, 3_000], "{lie:?}");
    }
}

#[tokio::test]
async fn a_dropped_event_shows_when_no_other_of_its_kind_hides_it() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let bench = Bench::new([honest.lying(Lie::DropsHalfOfTheLogs), honest]).await;
    let block = bench.block(50).await;
    let found = bench.chain.observations_at(&block, Reader::First).await.unwrap();
    assert_eq!(units(&found), [1_000]);
}

#[tokio::test]
async fn a_block_whose_bloom_speaks_of_payments_without_reason_is_read_as_empty() {
    let mut served = Served::honest(100);
    // Another contract emits the topic, and the proxy is named by a topic of a third one: the bloom holds both.
    let look_alike = TransferWithReferenceAndFee {
        tokenAddress: TOKEN,
        to: PAYEE,
        amount: U256::from(1),
        paymentReference: B256::ZERO,
        feeAmount: U256::ZERO,
        feeAddress: EvmAddress::ZERO,
    };
    let mut named = log(
        TOKEN,
        &Transfer {
            from: PAYER,
            to: PAYEE,
            value: U256::ZERO,
        },
        50,
        0,
        1,
    );
    named["address"] = json!(EvmAddress::repeat_byte(0x55));
    served.logs = vec![
        log(EvmAddress::repeat_byte(0x44), &look_alike, 50, 0, 0),
        named,
        log(
            FEE_PROXY,
            &Transfer {
                from: PAYER,
                to: PAYEE,
                value: U256::ZERO,
            },
            50,
            0,
            2,
        ),
    ];
    let bench = Bench::new([served]).await;
    let block = bench.block(50).await;
    assert_eq!(
        bench.chain.observations_at(&block, Reader::First).await.unwrap(),
        vec![]
    );
}

#[tokio::test]
async fn a_block_that_a_reorganisation_removed_is_an_error() {
    let bench = Bench::new([Served::with_payments(100, &[(90, 0, 1_000)])]).await;
    let block = bench.block(90).await;
    bench.nodes[0].change(|served| {
        served.fork_from = 90;
        served.logs.clear();
    });
    assert!(bench.chain.observations_at(&block, Reader::First).await.is_err());
}

#[tokio::test]
async fn a_final_block_at_or_above_the_head_is_refused() {
    for claimed in [100, 101] {
        let mut lying = Served::honest(100);
        lying.blocks = claimed;
        lying.finalized = Some(claimed);
        let bench = Bench::new([lying]).await;
        bench.nodes[0].change(|served| served.blocks = claimed);
        let head = bench.block(100).await;
        assert!(is_malformed(&bench.chain.finalized(&head).await), "{claimed}");
    }
}

#[tokio::test]
async fn the_lower_of_two_final_blocks_counts_and_it_never_falls() {
    let mut early = Served::honest(100);
    early.finalized = Some(98);
    let bench = Bench::new([early, Served::honest(100)]).await;
    let head = bench.chain.head().await.unwrap();
    assert_eq!(bench.chain.finalized(&head).await.unwrap().number, 80);
    bench.nodes[1].change(|served| served.finalized = Some(70));
    assert_eq!(bench.chain.finalized(&head).await.unwrap().number, 80);
    bench.nodes[1].change(|served| served.finalized = Some(85));
    assert_eq!(bench.chain.finalized(&head).await.unwrap().number, 85);
}

#[tokio::test]
async fn without_a_tag_the_depth_of_the_network_counts_and_the_setting_beats_both() {
    let mut untagged = Served::honest(100);
    untagged.finalized = None;
    let bench = Bench::new([untagged.clone()]).await;
    let head = bench.chain.head().await.unwrap();
    assert_eq!(
        bench.chain.finalized(&head).await.unwrap().number,
        100 - Network::Sepolia.finality_depth()
    );
    for (confirmations, expected) in [(0, 100), (1, 100), (2, 99), (12, 89), (1_000, 0)] {
        let bench = Bench::with([Served::honest(100)], |options| {
            options.confirmations = Some(confirmations)
        })
        .await;
        let head = bench.chain.head().await.unwrap();
        assert_eq!(
            bench.chain.finalized(&head).await.unwrap().number,
            expected,
            "{confirmations}"
        );
    }
}

#[tokio::test]
async fn a_chain_that_takes_back_what_was_final_stops_everything() {
    let bench = Bench::new([Served::honest(100)]).await;
    let head = bench.chain.head().await.unwrap();
    bench.chain.finalized(&head).await.unwrap();
    bench.nodes[0].change(|served| served.fork_from = 70);
    let answer = bench.chain.finalized(&head).await;
    assert!(matches!(answer, Err(ChainError::Disagreement { .. })), "{answer:?}");
    bench.nodes[0].change(|served| served.blocks = 75);
    assert!(is_malformed(&bench.chain.head().await));
    assert!(is_malformed(&bench.chain.block(80, Reader::First).await));
    assert_eq!(bench.chain.block(101, Reader::First).await.unwrap(), None);
}

#[tokio::test]
async fn a_node_that_is_left_behind_loses_its_place_and_gets_it_back() {
    let bench = Bench::with([Served::honest(60), Served::honest(300)], |options| {
        options.network = Network::ArbitrumOne;
    })
    .await;
    let calls = |node: usize| bench.nodes[node].calls("eth_getBlockByNumber").len();
    assert_eq!(bench.chain.head().await.unwrap().number, 300);
    let asked = calls(0);
    assert_eq!(bench.chain.head().await.unwrap().number, 300);
    assert_eq!(calls(0), asked);
    // The heads are compared again after a while; a node that has caught up is first again.
    bench.nodes[0].change(|served| served.blocks = 300);
    tokio::time::sleep(Duration::from_millis(5_100)).await;
    bench.chain.head().await.unwrap();
    let asked = calls(1);
    bench.chain.head().await.unwrap();
    assert_eq!(calls(1), asked);
}

#[tokio::test]
async fn a_chain_that_stands_still_is_no_fault_of_its_nodes() {
    let bench = Bench::with([Served::honest(100), Served::honest(100)], |options| {
        options.clock = Arc::new(FixedClock(DateTime::from_timestamp(2_000_000_000, 0).unwrap()));
    })
    .await;
    for _ in 0..3 {
        assert_eq!(bench.chain.head().await.unwrap().number, 100);
    }
    assert_eq!(bench.nodes[0].calls("eth_getBlockByNumber").len(), 4);
}

#[tokio::test]
async fn the_second_reader_asks_another_node() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let bench = Bench::new([honest.clone(), honest]).await;
    let block = bench.block(50).await;
    bench.chain.observations_at(&block, Reader::First).await.unwrap();
    assert_eq!(bench.nodes[1].calls("eth_getLogs").len(), 0);
    bench.chain.observations_at(&block, Reader::Second).await.unwrap();
    bench.chain.observations_in(40, 60, Reader::Second).await.unwrap();
    assert_eq!(bench.nodes[0].calls("eth_getLogs").len(), 1);
    assert_eq!(bench.nodes[1].calls("eth_getLogs").len(), 2);
}

#[tokio::test]
async fn a_limit_of_blocks_is_learned_and_nothing_is_skipped() {
    let payments: Vec<_> = (0..300).map(|n| (n * 7, 0, 1_000 + n)).collect();
    let served = Served::with_payments(2_200, &payments).lying(Lie::LimitsBlocks(100));
    let bench = Bench::new([served]).await;
    let (mut from, mut found) = (0, Vec::new());
    while from <= 2_150 {
        let (some, last) = bench.chain.observations_in(from, 2_150, Reader::First).await.unwrap();
        assert!(last >= from);
        found.extend(some);
        from = last + 1;
    }
    assert_eq!(units(&found), (1_000..1_300).collect::<Vec<_>>());
    let calls = bench.nodes[0].calls("eth_getLogs").len();
    assert!(calls < 60, "{calls} calls for 22 windows");
}

#[tokio::test]
async fn a_node_that_refuses_every_range_is_passed_over() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let bench = Bench::new([honest.lying(Lie::RefusesEveryRange), honest.clone()]).await;
    let (found, last) = bench.chain.observations_in(0, 100, Reader::First).await.unwrap();
    assert_eq!((units(&found), last), (vec![1_000], 100));
    let alone = Bench::new([honest.lying(Lie::RefusesEveryRange)]).await;
    assert!(alone.chain.observations_in(0, 100, Reader::First).await.is_err());
}

#[tokio::test]
async fn a_node_that_lacks_the_last_block_of_a_range_is_passed_over() {
    let honest = Served::with_payments(100, &[(90, 0, 1_000)]);
    let bench = Bench::new([Served::honest(80), honest]).await;
    let (found, last) = bench.chain.observations_in(50, 100, Reader::First).await.unwrap();
    assert_eq!((units(&found), last), (vec![1_000], 100));
}

#[tokio::test]
async fn a_receipt_proves_the_payment_and_what_moved() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let bench = Bench::new([honest]).await;
    let proof = bench.chain.proof(tx_hash(50, 0), Reader::First).await.unwrap().unwrap();
    assert_eq!((proof.block_number, proof.succeeded), (50, true));
    assert_eq!(
        (proof.from, proof.to),
        (Address::Evm(PAYER), Some(Address::Evm(FEE_PROXY)))
    );
    let block = bench.block(50).await;
    let found = bench.chain.observations_at(&block, Reader::First).await.unwrap();
    assert_eq!(proof.observations, found);
    assert_eq!(proof.transfers.len(), 1);
    assert_eq!(proof.transfers[0].to, Address::Evm(PAYEE));
    assert_eq!(
        bench.chain.proof(B256::repeat_byte(9), Reader::First).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn a_receipt_of_a_block_outside_the_chain_proves_nothing() {
    let mut forked = Served::with_payments(100, &[(50, 0, 1_000)]);
    forked.fork_from = 40;
    let bench = Bench::new([forked]).await;
    assert_eq!(bench.chain.proof(tx_hash(50, 0), Reader::First).await.unwrap(), None);
}

#[tokio::test]
async fn a_receipt_without_its_events_comes_from_the_next_node() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    for lie in [Lie::NullReceipts, Lie::DropsReceiptLogs] {
        let bench = Bench::new([honest.lying(lie), honest.clone()]).await;
        let proof = bench.chain.proof(tx_hash(50, 0), Reader::First).await.unwrap();
        assert_eq!(units(&proof.unwrap().observations), [1_000], "{lie:?}");
    }
    let alone = Bench::new([honest.lying(Lie::DropsReceiptLogs)]).await;
    assert!(is_malformed(&alone.chain.proof(tx_hash(50, 0), Reader::First).await));
}

#[tokio::test]
async fn balances_and_rates_are_read_and_refusals_of_the_chain_are_final() {
    let bench = Bench::new([Served::honest(100), Served::honest(100)]).await;
    let (payer, token) = (Address::Evm(PAYER), Address::Evm(TOKEN));
    let standing = bench.chain.standing(payer, Some(token), payer).await.unwrap();
    assert_eq!(
        [
            standing.balance,
            standing.allowance,
            standing.native_balance,
            standing.gas_price
        ],
        [700, 300, 100, 7].map(U256::from)
    );
    let rate = bench.chain.convert(&[PAYER, TOKEN], U256::from(5)).await.unwrap();
    assert_eq!(rate, U256::from(42));
    bench.nodes[0].change(|served| served.lie = Lie::Reverts);
    let refused = bench.chain.convert(&[PAYER, TOKEN], U256::from(5)).await;
    assert!(matches!(refused, Err(ChainError::Reverted(reason)) if reason.contains("No aggregator")));
    assert_eq!(bench.nodes[1].calls("eth_call").len(), 0);
}

#[tokio::test]
async fn a_chain_without_watched_contracts_asks_for_no_events() {
    let bench = Bench::with([Served::honest(100)], |options| options.contracts.clear()).await;
    let block = bench.block(50).await;
    assert_eq!(
        bench.chain.observations_at(&block, Reader::First).await.unwrap(),
        vec![]
    );
    let (found, last) = bench.chain.observations_in(0, 50, Reader::First).await.unwrap();
    assert_eq!((found, last), (vec![], 50));
    assert_eq!(bench.chain.start_block(), 0);
    assert!(bench.nodes[0].calls("eth_getLogs").is_empty());
}

#[tokio::test]
async fn options_that_cannot_work_are_refused_and_watching_begins_with_the_oldest_contract() {
    let bench = Bench::new([Served::honest(1)]).await;
    assert_eq!(
        (bench.chain.network(), bench.chain.start_block()),
        (Network::Sepolia, 5)
    );
    let options = |network, urls: &[&str]| EvmChainOptions {
        network,
        chain_id: CHAIN_ID,
        rpc_urls: urls.iter().map(|url| url.parse().unwrap()).collect(),
        confirmations: None,
        start_block: None,
        contracts: Vec::new(),
        call_timeout: Duration::from_secs(1),
        clock: Arc::new(FixedClock(DateTime::UNIX_EPOCH)),
    };
    for (network, urls) in [
        (Network::Tron, &["http://localhost"][..]),
        (Network::Base, &[]),
        (Network::Base, &["ftp://localhost/secret-key"]),
    ] {
        let error = EvmChain::new(options(network, urls)).err().unwrap().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
