//! Blocks that arrive late, disappear or are replaced.

use alloy::{
    primitives::{Address, U256},
    rpc::types::Filter,
    sol_types::SolCall as _,
};
use devnet::{Devnet, ReorgTransaction, TxReceiptLite};

use crate::{
    contracts::{NativeFeeProxy, REFERENCE},
    started, units,
};

const PAYER_INDEX: usize = 1;
const PAYEE: Address = Address::repeat_byte(0xaa);

fn payment() -> Vec<u8> {
    NativeFeeProxy::transferWithReferenceAndFeeCall {
        to: PAYEE,
        reference: REFERENCE,
        fee: U256::ZERO,
        feeAddress: Address::ZERO,
    }
    .abi_encode()
}

async fn paid(chain: &Devnet) -> TxReceiptLite {
    let proxy = chain.contracts().ethereum_fee_proxy;
    chain.send(PAYER_INDEX, proxy, payment(), units(1_000)).await.unwrap()
}

/// The blocks in which the proxy was paid.
async fn payment_blocks(chain: &Devnet) -> Vec<u64> {
    let filter = Filter::new()
        .address(chain.contracts().ethereum_fee_proxy)
        .from_block(0);
    chain
        .logs(&filter)
        .await
        .unwrap()
        .iter()
        .map(|log| log.block_number.unwrap())
        .collect()
}

#[tokio::test]
async fn reorg_removes_logs_and_receipts_and_keeps_the_height() {
    let chain = started().await;
    let kept = paid(&chain).await;
    let lost = paid(&chain).await;
    chain.mine(1).await.unwrap();
    let height = chain.block_number().await.unwrap();
    chain.reorg(2).await.unwrap();
    assert_eq!(chain.block_number().await.unwrap(), height);
    assert_eq!(payment_blocks(&chain).await, [kept.block_number]);
    assert!(chain.receipt(lost.tx_hash).await.unwrap().is_none());
    let replaced = chain.block(lost.block_number).await.unwrap().unwrap();
    assert_ne!(replaced.hash, lost.block_hash);
    assert_eq!(replaced.parent_hash, kept.block_hash);
    assert_eq!(chain.native_balance_of(PAYEE).await.unwrap(), units(1_000));
}

#[tokio::test]
async fn reorg_can_bring_a_transaction_back_in_another_block() {
    let chain = started().await;
    let before = paid(&chain).await;
    let raw = chain.raw_transaction(before.tx_hash).await.unwrap();
    chain.mine(2).await.unwrap();
    chain
        .reorg_with(3, vec![(ReorgTransaction::Raw(raw), 1)])
        .await
        .unwrap();
    let after = chain.wait_for_receipt(before.tx_hash).await.unwrap();
    assert_eq!(after.block_number, before.block_number + 1);
    assert_ne!(after.block_hash, before.block_hash);
    assert_eq!(payment_blocks(&chain).await, [after.block_number]);
}

#[tokio::test]
async fn reorg_can_replace_transactions_with_other_ones() {
    let chain = started().await;
    let before = paid(&chain).await;
    let other = |value| ReorgTransaction::Request {
        from_index: PAYER_INDEX,
        to: chain.contracts().ethereum_fee_proxy,
        call: payment(),
        value: units(value),
    };
    chain
        .reorg_with(1, vec![(other(500), 0), (other(1_500), 0)])
        .await
        .unwrap();
    assert!(chain.receipt(before.tx_hash).await.unwrap().is_none());
    assert_eq!(payment_blocks(&chain).await, [before.block_number; 2]);
    assert_eq!(chain.native_balance_of(PAYEE).await.unwrap(), units(2_000));
}

#[tokio::test]
async fn payments_go_on_after_a_reorg() {
    let chain = started().await;
    paid(&chain).await;
    chain.reorg(1).await.unwrap();
    assert!(paid(&chain).await.status);
    assert_eq!(payment_blocks(&chain).await.len(), 1);
}

#[tokio::test]
async fn rollback_shortens_the_chain() {
    let chain = started().await;
    let height = chain.block_number().await.unwrap();
    paid(&chain).await;
    chain.rollback(1).await.unwrap();
    assert_eq!(chain.block_number().await.unwrap(), height);
    assert!(payment_blocks(&chain).await.is_empty());
}

#[tokio::test]
async fn snapshot_brings_the_old_state_back_once() {
    let chain = started().await;
    let snapshot = chain.snapshot().await.unwrap();
    paid(&chain).await;
    chain.revert(snapshot).await.unwrap();
    assert_eq!(chain.native_balance_of(PAYEE).await.unwrap(), U256::ZERO);
    assert!(chain.revert(snapshot).await.is_err());
}

#[tokio::test]
async fn without_automine_transactions_wait_and_share_a_block_in_order() {
    let chain = started().await;
    let proxy = chain.contracts().ethereum_fee_proxy;
    chain.set_automine(false).await.unwrap();
    let mut sent = Vec::new();
    for from_index in [3, 1, 2, 1] {
        sent.push(
            chain
                .send_without_waiting(from_index, proxy, payment(), units(1))
                .await
                .unwrap(),
        );
    }
    assert!(chain.receipt(sent[0]).await.unwrap().is_none());
    chain.mine(1).await.unwrap();
    let head = chain.block(chain.block_number().await.unwrap()).await.unwrap().unwrap();
    assert_eq!(head.transactions, sent);
}

#[tokio::test]
async fn dropped_transaction_is_never_mined() {
    let chain = started().await;
    chain.set_automine(false).await.unwrap();
    let proxy = chain.contracts().ethereum_fee_proxy;
    let sent = chain
        .send_without_waiting(PAYER_INDEX, proxy, payment(), units(1))
        .await
        .unwrap();
    chain.drop_transaction(sent).await.unwrap();
    chain.mine(2).await.unwrap();
    assert!(chain.receipt(sent).await.unwrap().is_none());
    assert!(chain.drop_transaction(sent).await.is_err());
}

#[tokio::test]
async fn time_moves_forward_by_the_requested_amount() {
    let chain = started().await;
    let now = async || {
        chain
            .block(alloy::eips::BlockNumberOrTag::Latest)
            .await
            .unwrap()
            .unwrap()
            .timestamp
    };
    let before = now().await;
    chain.increase_time(86_400).await.unwrap();
    let passed = now().await - before;
    assert!((86_400..86_410).contains(&passed), "{passed} s");
}
