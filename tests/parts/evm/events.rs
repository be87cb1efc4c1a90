//! Payment events of blocks and of ranges of blocks.

use super::{
    Bench,
    node::{FEE_PROXY, Lie, PAYEE, PAYER, Served, TOKEN, Transfer, TransferWithReferenceAndFee, log},
    units,
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use prs::ports::chain::{Chain, Witness};
use serde_json::json;

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
        let found = bench.chain.observations_at(&block, Witness::First).await.unwrap();
        assert_eq!(units(&found), [1_000, 2_000], "{lie:?}");
        let alone = Bench::new([honest.lying(lie)]).await;
        assert!(
            alone.chain.observations_at(&block, Witness::First).await.is_err(),
            "{lie:?}"
        );
    }
}

#[tokio::test]
async fn repeated_and_shuffled_events_read_the_same() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000), (51, 0, 3_000)]);
    for lie in [Lie::DuplicatesLogs, Lie::ShufflesLogs] {
        let bench = Bench::new([honest.lying(lie)]).await;
        let block = bench.block(50).await;
        let found = bench.chain.observations_at(&block, Witness::First).await.unwrap();
        assert_eq!(units(&found), [1_000, 2_000], "{lie:?}");
        let (found, _) = bench.chain.observations_in(0, 80, Witness::First).await.unwrap();
        assert_eq!(units(&found), [1_000, 2_000, 3_000], "{lie:?}");
    }
}

#[tokio::test]
async fn a_dropped_event_shows_when_no_other_of_its_kind_hides_it() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let bench = Bench::new([honest.lying(Lie::DropsHalfOfTheLogs), honest]).await;
    let block = bench.block(50).await;
    let found = bench.chain.observations_at(&block, Witness::First).await.unwrap();
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
        bench.chain.observations_at(&block, Witness::First).await.unwrap(),
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
    assert!(bench.chain.observations_at(&block, Witness::First).await.is_err());
}

#[tokio::test]
async fn a_limit_of_blocks_is_learned_and_nothing_is_skipped() {
    let payments: Vec<_> = (0..300).map(|n| (n * 7, 0, 1_000 + n)).collect();
    let served = Served::with_payments(2_200, &payments).lying(Lie::LimitsBlocks(100));
    let bench = Bench::new([served]).await;
    let (mut from, mut found) = (0, Vec::new());
    while from <= 2_150 {
        let (some, last) = bench.chain.observations_in(from, 2_150, Witness::First).await.unwrap();
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
    let (found, last) = bench.chain.observations_in(0, 100, Witness::First).await.unwrap();
    assert_eq!((units(&found), last), (vec![1_000], 100));
    let alone = Bench::new([honest.lying(Lie::RefusesEveryRange)]).await;
    assert!(alone.chain.observations_in(0, 100, Witness::First).await.is_err());
}

#[tokio::test]
async fn a_node_that_lacks_the_last_block_of_a_range_is_passed_over() {
    let honest = Served::with_payments(100, &[(90, 0, 1_000)]);
    let bench = Bench::new([Served::honest(80), honest]).await;
    let (found, last) = bench.chain.observations_in(50, 100, Witness::First).await.unwrap();
    assert_eq!((units(&found), last), (vec![1_000], 100));
}

#[tokio::test]
async fn a_chain_without_watched_contracts_asks_for_no_events() {
    let bench = Bench::with([Served::honest(100)], |options| options.contracts.clear()).await;
    let block = bench.block(50).await;
    assert_eq!(
        bench.chain.observations_at(&block, Witness::First).await.unwrap(),
        vec![]
    );
    let (found, last) = bench.chain.observations_in(0, 50, Witness::First).await.unwrap();
    assert_eq!((found, last), (vec![], 50));
    assert_eq!(bench.chain.start_block(), 0);
    assert!(bench.nodes[0].calls("eth_getLogs").is_empty());
}
