//! Receipts, balances and rates.

use super::{
    Bench, is_malformed,
    node::{FEE_PROXY, Lie, PAYEE, PAYER, Served, TOKEN, tx_hash},
    units,
};
use alloy::primitives::{B256, U256};
use prs::{
    domain::address::Address,
    ports::chain::{Chain, ChainError, PayerLookup, Witness},
};

#[tokio::test]
async fn a_receipt_proves_the_payment_and_what_moved() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    let bench = Bench::new([honest]).await;
    let proof = bench
        .chain
        .proof(tx_hash(50, 0), Witness::First)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((proof.block_number, proof.succeeded), (50, true));
    assert_eq!(
        (proof.from, proof.to),
        (Address::Evm(PAYER), Some(Address::Evm(FEE_PROXY)))
    );
    let block = bench.block(50).await;
    let found = bench.chain.observations_at(&block, Witness::First).await.unwrap();
    assert_eq!(proof.observations, found);
    assert_eq!(proof.transfers.len(), 1);
    assert_eq!(proof.transfers[0].to, Address::Evm(PAYEE));
    assert_eq!(
        bench.chain.proof(B256::repeat_byte(9), Witness::First).await.unwrap(),
        None
    );
}

#[tokio::test]
async fn a_receipt_of_a_block_outside_the_chain_proves_nothing() {
    let mut forked = Served::with_payments(100, &[(50, 0, 1_000)]);
    forked.fork_from = 40;
    let bench = Bench::new([forked]).await;
    assert_eq!(bench.chain.proof(tx_hash(50, 0), Witness::First).await.unwrap(), None);
}

#[tokio::test]
async fn a_receipt_without_its_events_comes_from_the_next_node() {
    let honest = Served::with_payments(100, &[(50, 0, 1_000)]);
    for lie in [Lie::NullReceipts, Lie::DropsReceiptLogs] {
        let bench = Bench::new([honest.lying(lie), honest.clone()]).await;
        let proof = bench.chain.proof(tx_hash(50, 0), Witness::First).await.unwrap();
        assert_eq!(units(&proof.unwrap().observations), [1_000], "{lie:?}");
    }
    let alone = Bench::new([honest.lying(Lie::DropsReceiptLogs)]).await;
    assert!(is_malformed(&alone.chain.proof(tx_hash(50, 0), Witness::First).await));
}

#[tokio::test]
async fn balances_and_rates_are_read_and_refusals_of_the_chain_are_final() {
    let bench = Bench::new([Served::honest(100), Served::honest(100)]).await;
    let (payer, token) = (Address::Evm(PAYER), Address::Evm(TOKEN));
    let standing = bench.chain.standing(payer, Some(token), payer).await.unwrap();
    assert_eq!(
        [
            standing.balance,
            standing.allowance,
            standing.native_balance,
            standing.gas_price
        ],
        [700, 300, 100, 7].map(U256::from)
    );
    let rate = bench.chain.convert(&[PAYER, TOKEN], U256::from(5)).await.unwrap();
    assert_eq!(rate, U256::from(42));
    bench.nodes[0].change(|served| served.lie = Lie::Reverts);
    let refused = bench.chain.convert(&[PAYER, TOKEN], U256::from(5)).await;
    assert!(matches!(refused, Err(ChainError::Reverted(reason)) if reason.contains("No aggregator")));
    assert_eq!(bench.nodes[1].calls("eth_call").len(), 0);
}
