//! Which node the adapter queries, and what happens when a node does not respond.

use super::{
    Bench, NODES_APART_BPS, is_malformed,
    node::{CHAIN_ID, GENESIS_S, Lie, PAYER, Served, TOKEN},
    payments, told, units,
};
use alloy::primitives::U256;
use chrono::DateTime;
use prs::{
    adapters::{
        evm::connect,
        nodes::{ChainOptions, NodeUrls},
    },
    domain::{address::Address, network::Network, payment::Finality},
    ports::chain::ChainError,
};
use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

#[tokio::test]
async fn a_failing_node_is_skipped_for_every_query() {
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
        let bench = Bench::new([bad, honest.clone(), honest.clone()]).await;
        let started = Instant::now();
        let tip = bench.chain.tip(None).await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(2), "{fault:?}");
        assert_eq!((tip.head.number, tip.finalized.number), (100, 80), "{fault:?}");
        let block = bench.block(50).await;
        assert_eq!(
            units(&bench.chain.noted(&block).await.unwrap()),
            [1_000, 2_000],
            "{fault:?}"
        );
        let found = bench.chain.list_events(0, 80, true).await.unwrap();
        assert_eq!(
            (told(&found), found.read_to),
            (payments(&[(50, 1_000), (50, 2_000)]), 80),
            "{fault:?}"
        );
        let settled = bench.chain.settled(50).await.unwrap();
        assert_eq!(units(&settled), [1_000, 2_000], "{fault:?}");
        let payer = Address::Evm(PAYER);
        let standing = bench.parts.standings.standing(payer, None, payer).await.unwrap();
        assert_eq!(standing.native_balance, U256::from(100), "{fault:?}");
    }
}

/// Peak memory of this process in MiB; 0 if the system does not report it.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    peak.unwrap_or_default() / 1_024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_of_pure_structure_uses_bounded_memory() {
    const BYTES: usize = 24 * 1_024 * 1_024;
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let bad = honest.lying(Lie::Structure(BYTES));
    let bench = Bench::with([bad, honest.clone(), honest], |options| {
        options.call_timeout = Duration::from_secs(20);
    })
    .await;
    let before = peak_mib();
    assert_eq!(units(&bench.chain.settled(50).await.unwrap()), [1_000]);
    assert!(!bench.nodes[0].calls("eth_getBlockByNumber").is_empty());
    let took = peak_mib() - before;
    // The node of the test runs in this process and holds the response several times, so the limit is generous.
    assert!(took < 300, "{took} MiB");
}

#[tokio::test]
async fn a_truncated_response_is_a_node_failure() {
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
    let bench = Bench::with([Served::honest(100), Served::honest(100)], |options| {
        options.nodes.insert(0, NodeUrls::of_rpc(cut.parse().unwrap()))
    })
    .await;
    assert_eq!(head(&bench).await, 100);
}

#[tokio::test]
async fn a_lookup_with_hanging_nodes_fails_in_time_and_reveals_no_url() {
    let hanging = Served::honest(1).lying(Lie::Hangs);
    let bench = Bench::with([hanging.clone(), hanging.clone(), hanging], |options| {
        options.call_timeout = Duration::from_secs(2);
        let of_caller = Duration::from_secs(2);
        assert!(
            options.lookup_timeout < of_caller,
            "the caller gets its response in time"
        );
        options.lookup_timeout /= 4;
    })
    .await;
    let payer = Address::Evm(PAYER);
    for _ in 0..3 {
        let started = Instant::now();
        let answer = bench
            .parts
            .standings
            .standing(payer, Some(Address::Evm(TOKEN)), payer)
            .await;
        assert!(
            started.elapsed() < Duration::from_secs(1),
            "{} ms",
            started.elapsed().as_millis()
        );
        let Err(ChainError::Unavailable { reason, .. }) = answer else {
            panic!("{answer:?}");
        };
        assert!(!reason.contains("secret") && !reason.contains("127.0.0.1"), "{reason}");
    }
    // By now every circuit breaker is open, so that no caller waits for dead nodes.
    let started = Instant::now();
    let answer = bench.parts.standings.standing(payer, None, payer).await;
    answer.expect_err("every node is paused");
    assert!(started.elapsed() < Duration::from_millis(100));
}

#[tokio::test]
async fn a_node_that_recovers_is_used_again() {
    let bench = Bench::new([Served::honest(100).lying(Lie::Status(500))]).await;
    for _ in 0..3 {
        assert!(bench.chain.tip(None).await.is_err());
    }
    bench.nodes[0].change(|served| served.lie = Lie::Nothing);
    let begun = Instant::now();
    while bench.chain.tip(None).await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5), "the node is paused");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(head(&bench).await, 100);
}

#[tokio::test]
async fn payer_lookups_never_pause_nodes_that_crediting_needs() {
    let bench = Bench::new([Served::honest(100).lying(Lie::Status(500))]).await;
    let parts = &bench.parts;
    let payer = Address::Evm(PAYER);
    for _ in 0..4 {
        parts.standings.standing(payer, None, payer).await.unwrap_err();
    }
    bench.nodes[0].change(|served| served.lie = Lie::Nothing);
    parts.followed.tip(None).await.unwrap();
    let resting = parts.standings.standing(payer, None, payer).await;
    resting.expect_err("connections for payers are paused for a while");
}

#[tokio::test]
async fn the_chain_id_is_queried_again_after_a_lost_connection() {
    let bench = Bench::new([Served::honest(100)]).await;
    bench.chain.tip(None).await.unwrap();
    bench.chain.tip(None).await.unwrap();
    assert_eq!(bench.nodes[0].calls("eth_chainId").len(), 1);
    bench.nodes[0].change(|served| served.lie = Lie::Status(502));
    assert!(bench.chain.tip(None).await.is_err());
    bench.nodes[0].change(|served| {
        served.lie = Lie::Nothing;
        served.chain_id += 1;
    });
    assert!(is_malformed(&bench.chain.tip(None).await));
}

#[tokio::test]
async fn a_hanging_node_leaves_time_to_query_the_others() {
    let hanging = Served::honest(100).lying(Lie::Hangs);
    let bench = Bench::with([hanging, Served::honest(100), Served::honest(100)], |options| {
        options.call_timeout = Duration::from_secs(2);
    })
    .await;
    let rate = bench.rates().convert(&[PAYER, TOKEN], U256::from(5)).await;
    assert_eq!(rate.unwrap().units, U256::from(42));
}

#[tokio::test]
async fn a_lagging_node_loses_its_position_and_regains_it() {
    let bench = Bench::with([Served::honest(60), Served::honest(300)], |options| {
        options.network = Network::ArbitrumOne;
        options.agreement = Some(1);
    })
    .await;
    assert_eq!(head(&bench).await, 300);
    let calls = |node: usize| bench.nodes[node].calls("eth_getBlockByNumber").len();
    let asked = calls(0);
    bench.block(50).await;
    assert_eq!(calls(0), asked, "the lagging node is queried last");
    bench.nodes[0].change(|served| served.blocks = 300);
    bench.chain.tip(None).await.unwrap();
    let asked = calls(1);
    bench.block(50).await;
    assert_eq!(calls(1), asked, "the node has caught up and is first again");
}

/// Polls until the chain reports this state of its nodes. Several polls are needed, because a poll may query only the
/// first node.
async fn comes_to(bench: &Bench, is_current: bool) -> bool {
    for _ in 0..6 {
        let tip = bench.chain.tip(Some(Finality::Tag)).await.unwrap();
        if tip.is_current == is_current {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn a_node_with_a_stuck_head_is_not_among_those_that_must_agree() {
    for (others, is_enough) in [(1, false), (2, true)] {
        let bench = Bench::new(vec![Served::honest(100); 1 + others]).await;
        assert!(bench.chain.tip(None).await.unwrap().is_current);
        let go_on = |blocks: u64| {
            for node in &bench.nodes[1..] {
                node.change(|served| served.blocks = blocks);
            }
        };
        go_on(102);
        assert!(!comes_to(&bench, false).await, "a small lag is allowed");
        go_on(110);
        assert_eq!(comes_to(&bench, false).await, !is_enough, "{others}");
        bench.nodes[0].change(|served| served.blocks = 101);
        assert!(comes_to(&bench, true).await, "a slow node is not a stuck node");
    }
}

#[tokio::test]
async fn a_single_node_is_trusted_while_too_few_respond() {
    const FALLBACK: Duration = Duration::from_millis(400);
    let down = Served::honest(100).lying(Lie::Status(500));
    let bench = Bench::with([Served::honest(100), down], |options| {
        options.agreement_fallback = Some(FALLBACK);
    })
    .await;
    assert!(bench.chain.tip(None).await.is_err());
    tokio::time::sleep(FALLBACK).await;
    for final_block in [80, 85, 90] {
        bench.nodes[0].change(|served| served.finalized = Some(final_block));
        let tip = bench.chain.tip(Some(Finality::Tag)).await.unwrap();
        assert_eq!(tip.finalized.number, final_block);
    }
    bench.nodes[1].change(|served| {
        served.lie = Lie::Nothing;
        served.finalized = Some(95);
    });
    let begun = Instant::now();
    let asked = bench.nodes[1].calls("eth_getBlockByNumber").len();
    while bench.nodes[1].calls("eth_getBlockByNumber").len() == asked {
        assert!(begun.elapsed() < Duration::from_secs(5), "the node is paused");
        bench.chain.tip(Some(Finality::Tag)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bench.nodes[0].change(|served| served.finalized = Some(98));
    let tip = bench.chain.tip(Some(Finality::Tag)).await.unwrap();
    assert_eq!(tip.finalized.number, 95, "both have to agree again");
}

#[tokio::test]
async fn a_single_node_is_trusted_only_where_configured() {
    let down = Served::honest(100).lying(Lie::Status(500));
    for (agreement, fallback, is_enough) in [
        (None, None, false),
        (Some(1), None, true),
        (None, Some(Duration::ZERO), true),
        (None, Some(Duration::from_secs(600)), false),
    ] {
        let bench = Bench::with([down.lying(Lie::Status(500)), Served::honest(100)], |options| {
            options.agreement = agreement;
            options.agreement_fallback = fallback;
        })
        .await;
        let answer = bench.chain.tip(None).await;
        assert_eq!(answer.is_ok(), is_enough, "{agreement:?} {fallback:?}: {answer:?}");
        // No single node decides the amount for a payer who is waiting for calldata.
        let rate = bench.rates().convert(&[PAYER, TOKEN], U256::from(5)).await;
        assert_eq!(
            rate.is_ok(),
            agreement == Some(1),
            "{agreement:?} {fallback:?}: {rate:?}"
        );
    }
}

#[tokio::test]
async fn an_unreadable_block_time_is_an_error() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let first_of_year_10000 = 253_402_300_800;
    for time_s in [first_of_year_10000, i64::MAX as u64, u64::MAX] {
        let lie = Lie::BlockTime(time_s);
        let alone = Bench::new([honest.lying(lie)]).await;
        assert!(is_malformed(&alone.chain.tip(None).await), "{time_s}");
        assert!(is_malformed(&alone.chain.block(50).await), "{time_s}");
        let bench = Bench::new([honest.lying(lie), honest.clone()]).await;
        let expected = DateTime::from_timestamp(i64::try_from(GENESIS_S).unwrap() + 600, 0);
        assert_eq!(Some(bench.block(50).await.time), expected, "{time_s}");
    }
    let last = Bench::new([honest.lying(Lie::BlockTime(first_of_year_10000 - 1))]).await;
    last.chain.tip(None).await.unwrap();
}

#[tokio::test]
async fn options_that_cannot_work_are_rejected() {
    let options = |network, urls: &[&str], agreement| ChainOptions {
        network,
        chain_id: CHAIN_ID,
        nodes: urls.iter().map(|url| NodeUrls::of_rpc(url.parse().unwrap())).collect(),
        api_key: None,
        confirmations: None,
        start_block: None,
        agreement,
        agreement_fallback: None,
        contracts: Vec::new(),
        call_timeout: Duration::from_secs(1),
        lookup_timeout: Duration::from_secs(1),
    };
    let (one, other) = ("http://one.example/secret-key", "http://other.example");
    assert!(connect(options(Network::Base, &[one, other], Some(2)), NODES_APART_BPS).is_ok());
    for (network, urls, agreement) in [
        (Network::Tron, &[one][..], None),
        (Network::Base, &[], None),
        (Network::Base, &["ftp://localhost/secret-key"], None),
        (Network::Base, &[one, one], None),
        (Network::Base, &[one, other], Some(0)),
        (Network::Base, &[one, other], Some(3)),
    ] {
        let error = connect(options(network, urls, agreement), NODES_APART_BPS)
            .err()
            .unwrap()
            .to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}

async fn head(bench: &Bench) -> u64 {
    bench.chain.tip(None).await.unwrap().head.number
}
