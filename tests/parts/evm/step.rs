//! Nodes whose head or final block differs from that of the other nodes.

use super::{
    Bench,
    node::{Lie, Served},
};
use prs::domain::payment::Finality;

/// Number of polls after which all nodes have been queried at least once.
const LOOKS: usize = 6;

fn calls(bench: &Bench, node: usize) -> usize {
    bench.nodes[node].calls("eth_getBlockByNumber").len()
}

#[tokio::test]
async fn a_single_node_that_reports_a_far_head_is_suspected() {
    let bench = Bench::new(vec![Served::honest(100); 3]).await;
    bench.chain.tip(None).await.unwrap();
    bench.nodes[0].change(|served| served.blocks = 400);
    for _ in 0..LOOKS {
        let tip = bench.chain.tip(Some(Finality::Tag)).await.unwrap();
        assert_eq!(tip.head.number, 100, "a single node does not determine the head");
        assert!(tip.is_current);
    }
    let asked = calls(&bench, 0);
    bench.block(50).await;
    assert_eq!(calls(&bench, 0), asked, "the others are queried before it");
    for node in &bench.nodes[1..] {
        node.change(|served| served.blocks = 400);
    }
    for _ in 0..LOOKS {
        bench.chain.tip(Some(Finality::Tag)).await.unwrap();
    }
    let asked = calls(&bench, 1) + calls(&bench, 2);
    bench.block(50).await;
    assert_eq!(
        calls(&bench, 1) + calls(&bench, 2),
        asked,
        "a head that others confirm was true"
    );
}

#[tokio::test]
async fn a_moving_node_is_queried_before_one_that_is_far_ahead() {
    let bench = Bench::new(vec![Served::honest(100); 2]).await;
    bench.chain.tip(None).await.unwrap();
    bench.nodes[0].change(|served| served.blocks = 400);
    for blocks in [101, 102] {
        bench.nodes[1].change(|served| served.blocks = blocks);
        for _ in 0..LOOKS {
            let tip = bench.chain.tip(Some(Finality::Tag)).await.unwrap();
            assert!(tip.head.number <= blocks, "{}", tip.head.number);
        }
        let asked = calls(&bench, 0);
        bench.block(50).await;
        assert_eq!(calls(&bench, 0), asked, "{blocks}");
    }
}

#[tokio::test]
async fn a_node_with_a_stuck_final_block_blocks_no_other_and_moves_last() {
    let bench = Bench::new(vec![Served::honest(100); 3]).await;
    assert_eq!(bench.chain.tip(None).await.unwrap().finalized.number, 80);
    for node in &bench.nodes[1..] {
        node.change(|served| served.finalized = Some(90));
    }
    // This node responds later than the adapter waits for other nodes when no payment is awaited.
    bench.nodes[2].change(|served| served.lie = Lie::Late(400));
    let mut finalized = 80;
    for _ in 0..LOOKS {
        finalized = finalized.max(bench.chain.tip(Some(Finality::Tag)).await.unwrap().finalized.number);
    }
    assert_eq!(finalized, 90, "two of three report it as final");
    for node in &bench.nodes {
        node.change(|served| {
            served.blocks = 104;
            served.lie = Lie::Nothing;
        });
    }
    for _ in 0..LOOKS {
        bench.chain.tip(Some(Finality::Tag)).await.unwrap();
    }
    let asked = calls(&bench, 0);
    bench.block(50).await;
    assert_eq!(calls(&bench, 0), asked, "the stuck node is queried last");
}
