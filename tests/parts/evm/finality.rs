//! Determination of the final block.

use super::{
    Bench, is_malformed, is_unavailable,
    node::{Lie, Served},
};
use prs::domain::{network::Network, payment::Finality};

async fn finalized(bench: &Bench, known: Option<Finality>) -> (u64, Finality) {
    let tip = bench.chain.tip(known).await.unwrap();
    (tip.finalized.number, tip.finality)
}

fn without_tag(served: &Served) -> Served {
    Served {
        finalized: None,
        ..served.lying(Lie::Nothing)
    }
}

#[tokio::test]
async fn a_final_block_at_or_above_the_head_is_refused() {
    for claimed in [100, 101] {
        let mut lying = Served::honest(101);
        lying.blocks = 100;
        lying.finalized = Some(claimed);
        let bench = Bench::new([lying]).await;
        bench.nodes[0].change(|served| served.blocks = claimed);
        assert!(is_malformed(&bench.chain.tip(None).await), "{claimed}");
    }
}

#[tokio::test]
async fn the_lower_of_two_final_blocks_counts_and_never_decreases() {
    let mut early = Served::honest(100);
    early.finalized = Some(98);
    let bench = Bench::new([early, Served::honest(100)]).await;
    assert_eq!(finalized(&bench, None).await, (80, Finality::Tag));
    bench.nodes[1].change(|served| served.finalized = Some(70));
    assert_eq!(finalized(&bench, None).await, (80, Finality::Tag));
    bench.nodes[1].change(|served| served.finalized = Some(85));
    assert_eq!(finalized(&bench, None).await, (85, Finality::Tag));
}

#[tokio::test]
async fn the_operator_can_discard_a_final_block_that_nodes_withdrew() {
    let bench = Bench::new([Served::honest(100)]).await;
    assert_eq!(finalized(&bench, None).await.0, 80);
    bench.nodes[0].change(|served| served.finalized = Some(70));
    assert_eq!(finalized(&bench, None).await.0, 80);
    bench.chain.forget_final();
    assert_eq!(finalized(&bench, None).await.0, 70);
}

#[tokio::test]
async fn two_of_three_nodes_make_a_block_final() {
    let at = |block: u64| Served {
        finalized: Some(block),
        ..Served::honest(100)
    };
    let bench = Bench::new([at(98), at(60), at(85)]).await;
    assert_eq!(finalized(&bench, None).await.0, 85);
    bench.nodes[2].change(|served| served.lie = Lie::Status(500));
    assert_eq!(finalized(&bench, None).await.0, 85, "a final block stays final");
}

#[tokio::test]
async fn a_missing_node_delays_finality() {
    let bench = Bench::new([Served::honest(100), Served::honest(100).lying(Lie::Status(500))]).await;
    assert!(is_unavailable(&bench.chain.tip(None).await));
    bench.nodes[1].change(|served| served.lie = Lie::Nothing);
    assert_eq!(finalized(&bench, None).await.0, 80);
}

#[tokio::test]
async fn nodes_that_disagree_make_no_block_final() {
    let forked = Served {
        fork_from: 50,
        ..Served::honest(100)
    };
    let bench = Bench::new([Served::honest(100), forked.lying(Lie::Nothing)]).await;
    assert!(is_unavailable(&bench.chain.tip(None).await));
    assert!(is_unavailable(&bench.chain.agreed(60).await));
    assert_eq!(bench.chain.agreed(40).await.unwrap().number, 40);
    let with_third = Bench::new([forked, Served::honest(100), Served::honest(100)]).await;
    let honest = with_third.chain.agreed(60).await.unwrap();
    assert_eq!(
        Some(honest),
        Bench::new([Served::honest(100)]).await.chain.block(60).await.unwrap()
    );
}

#[tokio::test]
async fn without_a_finalized_tag_the_network_depth_counts() {
    let depth = 100 - Network::Sepolia.finality_depth();
    let bench = Bench::new([without_tag(&Served::honest(100))]).await;
    for known in [None, Some(Finality::Depth)] {
        assert_eq!(finalized(&bench, known).await, (depth, Finality::Depth));
    }
    assert!(is_unavailable(&bench.chain.tip(Some(Finality::Tag)).await));
    bench.nodes[0].change(|served| served.finalized = Some(90));
    assert_eq!(finalized(&bench, Some(Finality::Depth)).await, (90, Finality::Tag));
}

#[tokio::test]
async fn the_setting_overrides_tag_and_depth() {
    for (confirmations, expected) in [(0, 100), (1, 100), (2, 99), (12, 89), (1_000, 0)] {
        let bench = Bench::with([Served::honest(100)], |options| {
            options.confirmations = Some(confirmations)
        })
        .await;
        assert_eq!(
            finalized(&bench, Some(Finality::Tag)).await,
            (expected, Finality::Setting),
            "{confirmations}"
        );
    }
}

#[tokio::test]
async fn other_nodes_are_queried_for_a_new_final_block_and_every_few_polls() {
    let bench = Bench::new([Served::honest(100), Served::honest(100)]).await;
    let mut known = None;
    let mut look = async || {
        let before = bench.nodes[1].calls("eth_getBlockByNumber").len();
        let tip = bench.chain.tip(known).await.unwrap();
        known = Some(tip.finality);
        (
            tip.finalized.number,
            bench.nodes[1].calls("eth_getBlockByNumber").len() > before,
        )
    };
    assert_eq!(look().await, (80, true));
    for _ in 0..3 {
        assert_eq!(look().await, (80, false));
    }
    bench.nodes[0].change(|served| served.finalized = Some(90));
    assert_eq!(look().await, (80, true), "one node makes nothing final");
    bench.nodes[1].change(|served| served.finalized = Some(90));
    assert_eq!(look().await, (90, true));
    let mut asked = 0;
    for _ in 0..20 {
        let (finalized, is_asked) = look().await;
        assert_eq!(finalized, 90);
        asked += usize::from(is_asked);
    }
    assert_eq!(asked, 4);
}

#[tokio::test]
async fn a_stuck_first_node_delays_finality_by_a_few_polls() {
    let bench = Bench::new([Served::honest(100), Served::honest(100), Served::honest(100)]).await;
    finalized(&bench, None).await;
    for node in &bench.nodes[1..] {
        node.change(|served| served.finalized = Some(95));
    }
    let mut looks = 0;
    while finalized(&bench, Some(Finality::Tag)).await.0 < 95 {
        looks += 1;
        assert!(looks < 5, "still at the old block after {looks} looks");
    }
}

#[tokio::test]
async fn a_failing_first_node_delays_nothing_if_enough_others_respond() {
    let bench = Bench::new([Served::honest(100), Served::honest(100), Served::honest(100)]).await;
    finalized(&bench, None).await;
    bench.nodes[0].change(|served| served.lie = Lie::Status(500));
    for node in &bench.nodes[1..] {
        node.change(|served| served.finalized = Some(95));
    }
    assert_eq!(finalized(&bench, Some(Finality::Tag)).await, (95, Finality::Tag));
}
