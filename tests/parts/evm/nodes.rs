//! Which node is asked, and what happens when it does not answer.

use super::{
    Bench, FixedClock, is_malformed,
    node::{CHAIN_ID, GENESIS_S, Lie, PAYER, Served, TOKEN, tx_hash},
    units,
};
use alloy::primitives::U256;
use chrono::DateTime;
use prs::{
    adapters::evm::{EvmChain, EvmChainOptions},
    domain::{address::Address, network::Network},
    ports::chain::{Chain, ChainError, PayerLookup, Witness},
};
use std::{
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

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
        let found = bench.chain.observations_at(&block, Witness::First).await.unwrap();
        assert_eq!(units(&found), [1_000, 2_000], "{fault:?}");
        let (found, last) = bench.chain.observations_in(0, 80, Witness::First).await.unwrap();
        assert_eq!((units(&found), last), (vec![1_000, 2_000], 80), "{fault:?}");
        let proof = bench.chain.proof(tx_hash(50, 1), Witness::First).await.unwrap();
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
async fn the_second_witness_asks_another_node() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let bench = Bench::new([honest.clone(), honest]).await;
    let block = bench.block(50).await;
    bench.chain.observations_at(&block, Witness::First).await.unwrap();
    assert_eq!(bench.nodes[1].calls("eth_getLogs").len(), 0);
    bench.chain.observations_at(&block, Witness::Second).await.unwrap();
    bench.chain.observations_in(40, 60, Witness::Second).await.unwrap();
    assert_eq!(bench.nodes[0].calls("eth_getLogs").len(), 1);
    assert_eq!(bench.nodes[1].calls("eth_getLogs").len(), 2);
}

#[tokio::test]
async fn a_block_time_that_cannot_be_read_is_an_error_and_never_another_time() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let first_of_year_10000 = 253_402_300_800;
    for time_s in [first_of_year_10000, i64::MAX as u64, u64::MAX] {
        let lie = Lie::BlockTime(time_s);
        let alone = Bench::new([honest.lying(lie)]).await;
        assert!(is_malformed(&alone.chain.head().await), "{time_s}");
        assert!(is_malformed(&alone.chain.block(50, Witness::First).await), "{time_s}");
        let bench = Bench::new([honest.lying(lie), honest.clone()]).await;
        let expected = DateTime::from_timestamp(i64::try_from(GENESIS_S).unwrap() + 600, 0);
        assert_eq!(Some(bench.block(50).await.time), expected, "{time_s}");
    }
    let last = Bench::new([honest.lying(Lie::BlockTime(first_of_year_10000 - 1))]).await;
    last.chain.head().await.unwrap();
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
