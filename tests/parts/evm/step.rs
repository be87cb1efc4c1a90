//! Nodes that are out of step with the others: with their heads, or with what they call final.

use super::{
    Bench,
    node::{Lie, Served},
};
use prs::{domain::payment::Finality, ports::chain::Chain};

/// Looks that include at least one at all nodes.
const LOOKS: usize = 6;

fn calls(bench: &Bench, node: usize) -> usize {
    bench.nodes[node].calls("eth_getBlockByNumber").len()
}

#[tokio::test]
async fn a_node_that_names_a_far_head_alone_is_the_suspect() {
    let bench = Bench::new(vec![Served::honest(100); 3]).await;
    bench.chain.tip(None).await.unwrap();
    bench.nodes[0].change(|served| served.blocks = 400);
    for _ in 0..LOOKS {
        let tip = bench.chain.tip(Some(Finality::Tag)).await.unwrap();
        assert_eq!(tip.head.number, 100, "one node alone names no head");
        assert!(tip.is_current);
    }
    let asked = calls(&bench, 0);
    bench.block(50).await;
    assert_eq!(calls(&bench, 0), asked, "the others are asked before it");
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
        "what others confirm was true"
    );
}

#[tokio::test]
async fn of_two_nodes_the_one_that_moves_is_asked_before_the_one_that_is_far_ahead() {
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
async fn a_node_whose_final_block_stands_still_neither_stops_the_others_nor_stays_first() {
    let bench = Bench::new(vec![Served::honest(100); 3]).await;
    assert_eq!(bench.chain.tip(None).await.unwrap().finalized.number, 80);
    for node in &bench.nodes[1..] {
        node.change(|served| served.finalized = Some(90));
    }
    // Slower than the others are waited for when nothing is open.
    bench.nodes[2].change(|served| served.lie = Lie::Late(400));
    let mut finalized = 80;
    for _ in 0..LOOKS {
        finalized = finalized.max(bench.chain.tip(Some(Finality::Tag)).await.unwrap().finalized.number);
    }
    assert_eq!(finalized, 90, "two of three call it final");
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
    assert_eq!(calls(&bench, 0), asked, "the node that stands still is asked last");
}
