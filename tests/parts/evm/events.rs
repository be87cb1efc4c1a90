//! Payment events of ranges and of new blocks: where to look.

use super::{
    Bench, is_unavailable,
    node::{FEE_PROXY, Lie, PAYEE, PAYER, Served, TOKEN, Transfer, TransferWithReferenceAndFee, log},
    payments, told,
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use prs::ports::chain::Chain;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

#[tokio::test]
async fn what_one_node_leaves_out_the_other_tells() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000)]);
    for lie in [Lie::EmptyLogs, Lie::DropsHalfOfTheLogs, Lie::LogsOfAnotherBlock] {
        for nodes in [[honest.lying(lie), honest.clone()], [honest.clone(), honest.lying(lie)]] {
            let bench = Bench::new(nodes).await;
            let found = bench.chain.told(0, 80, true).await.unwrap();
            for expected in payments(&[(50, 1_000), (50, 2_000)]) {
                assert!(told(&found).contains(&expected), "{lie:?}: {found:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_node_that_is_missing_delays_and_two_of_three_are_enough() {
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
            // It has the blocks, so each is read as a whole.
            Lie::RefusesEveryRange => {
                let found = two.chain.told(50, 80, true).await.unwrap();
                assert_eq!((found.read_to, found.unlisted), (50, BTreeSet::from([50])));
            }
            _ => assert!(is_unavailable(&two.chain.told(0, 80, true).await), "{lie:?}"),
        }
        let three = Bench::new([honest.lying(lie), honest.clone(), honest.clone()]).await;
        let found = three.chain.told(0, 80, true).await.unwrap();
        assert_eq!(told(&found), payments(&[(50, 1_000)]), "{lie:?}");
        assert_eq!(found.hints[0].1, [1, 2], "{lie:?}");
        assert!(found.unlisted.is_empty(), "{lie:?}");
    }
}

#[tokio::test]
async fn a_node_alone_has_to_account_for_every_block_that_speaks_of_payments() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000)]);
    for lie in [
        Lie::EmptyLogs,
        Lie::DropsHalfOfTheLogs,
        Lie::LogsOfAnotherBlock,
        Lie::HashOfAnotherBlock,
        Lie::NoBloom,
    ] {
        let alone = Bench::new([honest.lying(lie)]).await;
        assert!(alone.chain.told(0, 80, true).await.is_err(), "{lie:?}");
    }
    let alone = Bench::new([honest]).await;
    let found = alone.chain.told(0, 80, true).await.unwrap();
    assert_eq!(told(&found), payments(&[(50, 1_000), (50, 2_000)]));
}

#[tokio::test]
async fn a_slow_node_alone_accounts_for_many_blocks_at_a_time() {
    const LATE_MS: u64 = 100;
    let paid: Vec<_> = (1..=64).map(|block| (block, 0, 1_000 + block)).collect();
    let alone = Bench::new([Served::with_payments(100, &paid).lying(Lie::Late(LATE_MS))]).await;
    let started = Instant::now();
    let found = alone.chain.told(1, 80, true).await.unwrap();
    let took = started.elapsed();
    assert_eq!(found.hints.len(), 64);
    assert_eq!(
        alone.nodes[0].calls("eth_getLogs").len(),
        65,
        "the range, and each block that speaks of payments"
    );
    assert!(took < Duration::from_millis(LATE_MS * 64 / 2), "{took:?}");
}

#[tokio::test]
async fn repeated_and_shuffled_events_read_the_same() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000), (51, 0, 3_000)]);
    for lie in [Lie::DuplicatesLogs, Lie::ShufflesLogs] {
        let bench = Bench::new([honest.lying(lie)]).await;
        let found = bench.chain.told(0, 80, true).await.unwrap();
        assert_eq!(
            told(&found),
            payments(&[(50, 1_000), (50, 2_000), (51, 3_000)]),
            "{lie:?}"
        );
    }
}

#[tokio::test]
async fn a_block_whose_bloom_speaks_of_payments_without_reason_is_read_as_empty() {
    let mut served = Served::honest(100);
    // Another contract emits the topic, and the proxy emits another one: the bloom holds both.
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
    assert_eq!(told(&bench.chain.told(0, 80, true).await.unwrap()), []);
    assert_eq!(
        bench.nodes[0].calls("eth_getLogs").len(),
        2,
        "the block was asked for in full"
    );
}

#[tokio::test]
async fn new_blocks_come_with_their_events_and_end_where_the_node_ends() {
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
        "no header speaks of a payment"
    );
}

#[tokio::test]
async fn a_limit_of_blocks_is_learned_and_nothing_is_skipped() {
    let paid: Vec<_> = (0..300).map(|n| (n * 7, 0, 1_000 + n)).collect();
    let served = Served::with_payments(2_200, &paid).lying(Lie::LimitsBlocks(100));
    let bench = Bench::new([served]).await;
    let (mut from, mut found) = (0, Vec::new());
    while from <= 2_150 {
        let some = bench.chain.told(from, 2_150, false).await.unwrap();
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
async fn a_chain_without_watched_contracts_asks_for_no_events() {
    let bench = Bench::with([Served::honest(100)], |options| options.contracts.clear()).await;
    assert_eq!(bench.chain.new_blocks(50, 50).await.unwrap()[0].hints, []);
    let found = bench.chain.told(0, 50, true).await.unwrap();
    assert_eq!((told(&found), found.read_to), (vec![], 50));
    assert!(bench.nodes[0].calls("eth_getLogs").is_empty());
}

#[tokio::test]
async fn the_end_of_a_range_is_agreed_when_all_who_told_of_it_show_the_same_block() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let two = Bench::new([honest.clone(), honest.clone()]).await;
    let agreed = two.chain.agreed(80).await.unwrap();
    assert_eq!(two.chain.told(0, 80, true).await.unwrap().reached, Some(agreed));
    let forked = Served {
        fork_from: 60,
        ..honest.lying(Lie::Nothing)
    };
    let apart = Bench::new([honest, forked]).await;
    assert_eq!(apart.chain.told(0, 80, true).await.unwrap().reached, None);
}
