//! Payment events of ranges and of new blocks.

use super::{
    Bench, is_unavailable,
    node::{FEE_PROXY, Lie, PAYEE, PAYER, Served, TOKEN, Transfer, TransferWithReferenceAndFee, log},
    payments, told,
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

#[tokio::test]
async fn events_omitted_by_one_node_come_from_the_other() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000)]);
    for lie in [Lie::EmptyLogs, Lie::DropsHalfOfTheLogs, Lie::LogsOfAnotherBlock] {
        for nodes in [[honest.lying(lie), honest.clone()], [honest.clone(), honest.lying(lie)]] {
            let bench = Bench::new(nodes).await;
            let found = bench.chain.list_events(0, 80, true).await.unwrap();
            for expected in payments(&[(50, 1_000), (50, 2_000)]) {
                assert!(told(&found).contains(&expected), "{lie:?}: {found:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_missing_node_delays_and_two_of_three_are_enough() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    for lie in [
        Lie::LogsOfAnotherContract,
        Lie::LogsWithoutPlace,
        Lie::NullBlocks,
        Lie::WrongNumbers,
        Lie::Status(500),
        Lie::RefusesEveryRange,
    ] {
        let two = Bench::new([honest.lying(lie), honest.clone()]).await;
        match lie {
            // The node has the blocks, so each is read completely.
            Lie::RefusesEveryRange => {
                let found = two.chain.list_events(50, 80, true).await.unwrap();
                assert_eq!((found.read_to, found.unlisted), (50, BTreeSet::from([50])));
            }
            _ => assert!(is_unavailable(&two.chain.list_events(0, 80, true).await), "{lie:?}"),
        }
        let three = Bench::new([honest.lying(lie), honest.clone(), honest.clone()]).await;
        let found = three.chain.list_events(0, 80, true).await.unwrap();
        assert_eq!(told(&found), payments(&[(50, 1_000)]), "{lie:?}");
        assert_eq!(found.hints[0].1, [1, 2], "{lie:?}");
        assert!(found.unlisted.is_empty(), "{lie:?}");
    }
}

#[tokio::test]
async fn a_single_node_must_prove_every_block_that_indicates_payments() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000)]);
    for lie in [
        Lie::EmptyLogs,
        Lie::DropsHalfOfTheLogs,
        Lie::LogsOfAnotherBlock,
        Lie::HashOfAnotherBlock,
        Lie::NoBloom,
    ] {
        let alone = Bench::new([honest.lying(lie)]).await;
        assert!(alone.chain.list_events(0, 80, true).await.is_err(), "{lie:?}");
    }
    let alone = Bench::new([honest]).await;
    let found = alone.chain.list_events(0, 80, true).await.unwrap();
    assert_eq!(told(&found), payments(&[(50, 1_000), (50, 2_000)]));
}

#[tokio::test]
async fn a_slow_single_node_proves_many_blocks_at_a_time() {
    const LATE_MS: u64 = 100;
    let paid: Vec<_> = (1..=64).map(|block| (block, 0, 1_000 + block)).collect();
    let alone = Bench::new([Served::with_payments(100, &paid).lying(Lie::Late(LATE_MS))]).await;
    let started = Instant::now();
    let found = alone.chain.list_events(1, 80, true).await.unwrap();
    let took = started.elapsed();
    assert_eq!(found.hints.len(), 64);
    assert_eq!(
        alone.nodes[0].calls("eth_getLogs").len(),
        65,
        "the range, and each block that indicates payments"
    );
    assert!(took < Duration::from_millis(LATE_MS * 64 / 2), "{took:?}");
}

#[tokio::test]
async fn repeated_and_shuffled_events_read_the_same() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000), (51, 0, 3_000)]);
    for lie in [Lie::DuplicatesLogs, Lie::ShufflesLogs] {
        let bench = Bench::new([honest.lying(lie)]).await;
        let found = bench.chain.list_events(0, 80, true).await.unwrap();
        assert_eq!(
            told(&found),
            payments(&[(50, 1_000), (50, 2_000), (51, 3_000)]),
            "{lie:?}"
        );
    }
}

#[tokio::test]
async fn a_false_positive_in_the_bloom_filter_reads_as_an_empty_block() {
    let mut served = Served::honest(100);
    // Another contract emits the topic of a payment, and the proxy emits another topic. The bloom filter therefore
    // contains both the proxy and the topic.
    let look_alike = TransferWithReferenceAndFee {
        tokenAddress: TOKEN,
        to: PAYEE,
        amount: U256::from(1),
        paymentReference: B256::ZERO,
        feeAmount: U256::ZERO,
        feeAddress: EvmAddress::ZERO,
    };
    let moved = Transfer {
        from: PAYER,
        to: PAYEE,
        value: U256::ZERO,
    };
    let logs = vec![log(EvmAddress::repeat_byte(0x44), &look_alike), log(FEE_PROXY, &moved)];
    served.transactions.insert((50, 0), logs);
    let bench = Bench::new([served]).await;
    assert_eq!(told(&bench.chain.list_events(0, 80, true).await.unwrap()), []);
    assert_eq!(
        bench.nodes[0].calls("eth_getLogs").len(),
        2,
        "the block was queried in full"
    );
}

#[tokio::test]
async fn new_blocks_include_their_events_up_to_the_nodes_head() {
    let served = Served::with_payments(100, &[(90, 0, 1_000), (99, 0, 2_000)]);
    for lie in [Lie::Nothing, Lie::RefusesBatches] {
        let bench = Bench::new([served.lying(lie)]).await;
        let blocks = bench.chain.new_blocks(88, 110).await.unwrap();
        let numbers: Vec<u64> = blocks.iter().map(|new| new.block.number).collect();
        assert_eq!(numbers, (88..=100).collect::<Vec<_>>(), "{lie:?}");
        let with_events = blocks.iter().filter(|new| !new.hints.is_empty());
        assert_eq!(
            with_events.map(|new| new.block.number).collect::<Vec<_>>(),
            [90, 99],
            "{lie:?}"
        );
    }
    let bench = Bench::new([served]).await;
    assert_eq!(bench.chain.new_blocks(91, 98).await.unwrap().len(), 8);
    assert!(
        bench.nodes[0].calls("eth_getLogs").is_empty(),
        "no header indicates a payment"
    );
}

#[tokio::test]
async fn a_block_range_limit_is_learned_and_no_block_is_skipped() {
    let paid: Vec<_> = (0..300).map(|n| (n * 7, 0, 1_000 + n)).collect();
    let served = Served::with_payments(2_200, &paid).lying(Lie::LimitsBlocks(100));
    let bench = Bench::new([served]).await;
    let (mut from, mut found) = (0, Vec::new());
    while from <= 2_150 {
        let some = bench.chain.list_events(from, 2_150, false).await.unwrap();
        assert!(some.read_to >= from);
        from = some.read_to + 1;
        found.extend(told(&some));
    }
    let expected: Vec<_> = paid.iter().map(|(block, _, units)| (*block, *units)).collect();
    assert_eq!(found, payments(&expected));
    let calls = bench.nodes[0].calls("eth_getLogs").len();
    assert!(calls < 60, "{calls} calls for 22 windows");
}

#[tokio::test]
async fn a_chain_without_watched_contracts_queries_no_events() {
    let bench = Bench::with([Served::honest(100)], |options| options.contracts.clear()).await;
    assert_eq!(bench.chain.new_blocks(50, 50).await.unwrap()[0].hints, []);
    let found = bench.chain.list_events(0, 50, true).await.unwrap();
    assert_eq!((told(&found), found.read_to), (vec![], 50));
    assert!(bench.nodes[0].calls("eth_getLogs").is_empty());
}

#[tokio::test]
async fn a_range_end_is_agreed_when_its_nodes_show_the_same_block() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let two = Bench::new([honest.clone(), honest.clone()]).await;
    let agreed = two.chain.agreed(80).await.unwrap();
    assert_eq!(two.chain.list_events(0, 80, true).await.unwrap().reached, Some(agreed));
    let forked = Served {
        fork_from: 60,
        ..honest.lying(Lie::Nothing)
    };
    let apart = Bench::new([honest, forked]).await;
    assert_eq!(apart.chain.list_events(0, 80, true).await.unwrap().reached, None);
}
