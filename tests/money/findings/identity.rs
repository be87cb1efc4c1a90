//! A payment keeps its identity, whatever else the service watches and however often it reads the block.

use crate::bench::{Bench, NATIVE, Paid, TOKENS, chain};
use alloy::primitives::U256;
use devnet::Devnet;
use prs::{
    domain::{block_range::BlockRange, network::Network},
    store::{self, backlogs::BacklogReason},
};
use std::sync::Arc;

/// Pays one transaction with a native payment before two token payments. If a payment were identified by its position
/// among the watched events, that position would depend on whether the native contract is watched.
async fn pay_mixed(bench: &mut Bench, chain: &Devnet) -> (Paid, usize) {
    let native = bench
        .request_in(
            "ETH-sepolia-sepolia",
            "0.5",
            U256::from(5) * U256::from(10).pow(U256::from(17)),
        )
        .await;
    let tokens = bench.requests(2).await;
    let groups = vec![(NATIVE, vec![native]), (TOKENS, tokens)];
    let paid = bench.pay_groups(2, groups).await;
    chain.mine(3).await.expect("mined");
    (paid, 2)
}

async fn read_again(bench: &Bench, paid: &Paid) {
    let ctx = &bench.app.ctx;
    let range = BlockRange {
        from: paid.block_number - 1,
        to: paid.block_number + 1,
    };
    store::backlogs::push(
        ctx.db.writer(),
        Network::Sepolia,
        range,
        BacklogReason::Rescan,
        ctx.clock.now(),
    )
    .await
    .expect("a range to read again");
    bench.settle().await;
}

async fn start_without_native(chain: &Arc<Devnet>) -> Bench {
    let bench = Bench::start(chain, 1, |section| {
        section
            .contracts
            .insert("EthereumFeeProxy".to_owned(), chain.accounts()[7].address.to_string());
    })
    .await;
    bench.settle().await;
    bench
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watching_one_more_contract_moves_no_payment() {
    let chain = chain().await;
    let mut bench = start_without_native(&chain).await;
    let (paid, tokens) = pay_mixed(&mut bench, &chain).await;
    bench.settle().await;
    let before = bench.credited().await;
    assert_eq!(before.len(), tokens, "the native payment is not watched yet");
    let proxy = chain.contracts().ethereum_fee_proxy.to_string();
    let bench = bench
        .restarted_with(|settings| {
            let section = settings.chains.get_mut("sepolia").expect("enabled");
            section.contracts.insert("EthereumFeeProxy".to_owned(), proxy);
        })
        .await;
    read_again(&bench, &paid).await;
    bench.assert_credited(std::slice::from_ref(&paid)).await;
    let after = bench.credited().await;
    for payment in &before {
        assert!(
            after.contains(payment),
            "the payment is the same: {payment:?} in {after:?}"
        );
    }
}
