//! Receipts, balances and rates.

use super::{
    Bench, is_malformed, is_unavailable,
    node::{FEE_PROXY, Lie, PAYEE, PAYER, Served, TOKEN, payment, sender, tx_hash},
    units,
};
use alloy::primitives::U256;
use prs::{
    adapters::nodes::ChainOptions,
    domain::{address::Address, network::Network, paying::NetworkPrice, payment::SettledBlock},
    ports::chain::ChainError,
};

#[tokio::test]
async fn a_block_proves_its_payments_and_transfers() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000)]);
    for lie in [Lie::Nothing, Lie::NoBlockReceipts, Lie::RefusesBatches] {
        let bench = Bench::new([honest.lying(lie)]).await;
        let settled = bench.chain.settled(50).await.unwrap();
        assert_eq!(settled.block, bench.block(50).await, "{lie:?}");
        let proof = settled
            .transactions
            .iter()
            .find(|proof| proof.tx_hash == tx_hash(50, 1))
            .unwrap();
        assert_eq!((proof.block_number, proof.succeeded), (50, true), "{lie:?}");
        assert_eq!(
            (proof.from, proof.to, &proof.input[..]),
            (
                Address::Evm(sender(50, 1)),
                Some(Address::Evm(FEE_PROXY)),
                &[1, 2, 3][..]
            ),
            "{lie:?}"
        );
        let [observed] = &proof.observations[..] else {
            panic!("one payment")
        };
        assert_eq!((observed.position, observed.log_index), (1, 3), "{lie:?}");
        assert_eq!(proof.transfers.len(), 1, "{lie:?}");
        assert_eq!(proof.transfers[0].to, Address::Evm(PAYEE), "{lie:?}");
        assert_eq!(bench.chain.noted(&settled.block).await.unwrap(), settled, "{lie:?}");
    }
}

#[tokio::test]
async fn data_that_contradicts_the_header_comes_from_another_node_or_fails() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000)]);
    for lie in [
        Lie::NullReceipts,
        Lie::DropsReceipts,
        Lie::DropsReceiptLogs,
        Lie::OtherAmounts,
        Lie::OtherSender,
        Lie::UnknownType,
    ] {
        for nodes in [[honest.lying(lie), honest.clone()], [honest.clone(), honest.lying(lie)]] {
            let bench = Bench::new(nodes).await;
            assert_eq!(
                units(&bench.chain.settled(50).await.unwrap()),
                [1_000, 2_000],
                "{lie:?}"
            );
        }
        if lie == Lie::UnknownType {
            continue;
        }
        let alone = Bench::new([honest.lying(lie)]).await;
        assert!(is_malformed(&alone.chain.settled(50).await), "{lie:?}");
        let block = alone.block(50).await;
        assert!(alone.chain.noted(&block).await.is_err(), "{lie:?}");
    }
}

/// If the roots of a block cannot be recomputed, the required number of nodes must return the same data.
#[tokio::test]
async fn a_false_node_among_three_delays_no_block_that_needs_agreement() {
    let arbitrum = |options: &mut ChainOptions| options.network = Network::ArbitrumOne;
    let honest = Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000)]);
    let lies = [
        Lie::NullReceipts,
        Lie::DropsReceipts,
        Lie::DropsReceiptLogs,
        Lie::OtherAmounts,
        Lie::OtherSender,
        Lie::Hangs,
    ];
    for lie in lies {
        for place in 0..3 {
            let mut nodes = [honest.clone(), honest.clone(), honest.clone()];
            nodes[place] = honest.lying(lie);
            let bench = Bench::with(nodes, arbitrum).await;
            let settled = bench.chain.settled(50).await.unwrap();
            assert_eq!(units(&settled), [1_000, 2_000], "{lie:?} at {place}");
        }
        let pair = Bench::with([honest.lying(lie), honest.clone()], arbitrum).await;
        for _ in 0..2 {
            assert!(pair.chain.settled(50).await.is_err(), "{lie:?}: one of two was trusted");
        }
    }
}

/// The false node serves a complete chain of its own, which is consistent down to every root.
#[tokio::test]
async fn a_node_that_calls_a_block_reverted_is_skipped() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let bad = honest.lying(Lie::RevertsBlocks);
    for nodes in [vec![bad.clone(), honest.clone()], vec![bad, honest.clone(), honest]] {
        let bench = Bench::new(nodes).await;
        assert_eq!(units(&bench.chain.settled(50).await.unwrap()), [1_000]);
    }
}

#[tokio::test]
async fn one_node_of_two_cannot_forge_a_block() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let forged = Served::with_payments(100, &[(50, 0, 9_000)]);
    for nodes in [[honest.clone(), forged.clone()], [forged.clone(), honest.clone()]] {
        let bench = Bench::new(nodes).await;
        assert!(is_unavailable(&bench.chain.settled(50).await));
    }
    let bench = Bench::new([forged, honest.clone(), honest]).await;
    assert_eq!(units(&bench.chain.settled(50).await.unwrap()), [1_000]);
}

#[tokio::test]
async fn a_block_is_proven_once_for_every_payment_and_attempt() {
    let bench = Bench::new([Served::with_payments(100, &[(50, 0, 1_000)])]).await;
    for _ in 0..3 {
        bench.chain.settled(50).await.unwrap();
    }
    assert_eq!(bench.nodes[0].calls("eth_getBlockReceipts").len(), 1);
}

#[tokio::test]
async fn a_block_that_a_reorganisation_removed_is_an_error() {
    let bench = Bench::new([Served::with_payments(100, &[(90, 0, 1_000)])]).await;
    let block = bench.block(90).await;
    bench.nodes[0].change(|served| {
        served.fork_from = 90;
        served.transactions.clear();
    });
    assert!(bench.chain.noted(&block).await.is_err());
}

#[tokio::test]
async fn balances_and_rates_are_read_and_nodes_agree_on_a_refusal() {
    let bench = Bench::new([Served::honest(100), Served::honest(100)]).await;
    let (payer, token) = (Address::Evm(PAYER), Address::Evm(TOKEN));
    let standing = bench.parts.standings.standing(payer, Some(token), payer).await.unwrap();
    assert_eq!(
        [standing.balance, standing.allowance, standing.native_balance,],
        [700, 300, 100].map(U256::from)
    );
    assert_eq!(standing.price, NetworkPrice::Gas(U256::from(7)));
    let rate = bench.rates().convert(&[PAYER, TOKEN], U256::from(5)).await.unwrap();
    assert_eq!(rate.units, U256::from(42));
    bench.nodes[0].change(|served| served.lie = Lie::Reverts);
    let refused = bench.rates().convert(&[PAYER, TOKEN], U256::from(5)).await;
    assert!(matches!(refused, Err(ChainError::Disagreement { .. })), "{refused:?}");
    bench.nodes[1].change(|served| served.lie = Lie::Reverts);
    let refused = bench.rates().convert(&[PAYER, TOKEN], U256::from(5)).await;
    assert!(matches!(refused, Err(ChainError::Reverted(reason)) if reason.contains("No aggregator")));
}

/// Blocks 49 to 54; three of these blocks contain payments.
const SEVERAL: [u64; 6] = [49, 50, 51, 52, 53, 54];

fn with_several() -> Served {
    Served::with_payments(100, &[(50, 0, 1_000), (50, 1, 2_000), (51, 0, 3_000), (54, 0, 4_000)])
}

/// Settles blocks 49 to 54 in one call; returns for each block the units of its payments, or the error.
async fn together(bench: &Bench) -> Vec<(u64, Result<Vec<u64>, ChainError>)> {
    // The adapter learns the size of blocks from the first block that it reads.
    let _ = bench.chain.settled(50).await;
    let answers = bench.chain.settled_all(&SEVERAL).await;
    let read = |(number, answer): (u64, Result<SettledBlock, ChainError>)| (number, answer.map(|block| units(&block)));
    answers.into_iter().map(read).collect()
}

#[tokio::test]
async fn several_blocks_are_proven_like_single_ones() {
    let expected: [&[u64]; 6] = [&[], &[1_000, 2_000], &[3_000], &[], &[], &[4_000]];
    for lie in [
        Lie::Nothing,
        Lie::Status(503),
        Lie::Hangs,
        Lie::NullBlocks,
        Lie::WrongNumbers,
        Lie::HashOfAnotherBlock,
        Lie::NullReceipts,
        Lie::DropsReceipts,
        Lie::DropsReceiptLogs,
        Lie::OtherAmounts,
        Lie::OtherSender,
        Lie::NoBlockReceipts,
        Lie::RefusesBatches,
    ] {
        let (honest, lying) = (with_several(), with_several().lying(lie));
        for nodes in [
            [lying.clone(), honest.clone(), honest.clone()],
            [honest.clone(), lying, honest],
        ] {
            let bench = Bench::new(nodes).await;
            let found = together(&bench).await;
            let found: Vec<(u64, Vec<u64>)> = found
                .into_iter()
                .map(|(number, units)| (number, units.unwrap_or_else(|error| panic!("{lie:?}: {error}"))))
                .collect();
            let expected = SEVERAL.into_iter().zip(expected.map(<[u64]>::to_vec));
            assert_eq!(found, expected.collect::<Vec<_>>(), "{lie:?}");
        }
    }
}

#[tokio::test]
async fn one_node_of_two_cannot_forge_one_of_several_blocks() {
    let honest = with_several();
    let mut forged = with_several();
    forged.transactions.insert((51, 0), payment(9_000));
    for nodes in [[honest.clone(), forged.clone()], [forged.clone(), honest.clone()]] {
        for (number, found) in together(&Bench::new(nodes).await).await {
            match number {
                ..51 => assert!(found.is_ok(), "{number}: {found:?}"),
                _ => assert!(is_unavailable(&found), "{number}: {found:?}"),
            }
        }
    }
}

#[tokio::test]
async fn each_of_several_blocks_is_queried_once() {
    let bench = Bench::new([with_several(), with_several()]).await;
    bench.chain.settled(50).await.unwrap();
    let calls = |node: usize, method: &str| bench.nodes[node].calls(method).len();
    let count = || [0, 1].map(|node| [calls(node, "eth_getBlockByNumber"), calls(node, "eth_getBlockReceipts")]);
    let before = count();
    let settled = bench.chain.settled_all(&SEVERAL).await;
    assert!(settled.iter().all(|(_, answer)| answer.is_ok()));
    let after = count();
    let asked = [0, 1].map(|node| [0, 1].map(|method| after[node][method] - before[node][method]));
    assert_eq!(asked, [[SEVERAL.len(), SEVERAL.len()], [SEVERAL.len(), 0]]);
}
