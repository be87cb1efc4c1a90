//! Which block is final.

use super::{Bench, is_malformed, node::Served};
use prs::{
    domain::network::Network,
    ports::chain::{Chain, ChainError, Witness},
};

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
    assert!(is_malformed(&bench.chain.block(80, Witness::First).await));
    assert_eq!(bench.chain.block(101, Witness::First).await.unwrap(), None);
}
