//! Payments through every contract, and the tokens that misbehave.

use alloy::{
    primitives::{Address, U256, keccak256},
    sol_types::{SolCall as _, SolValue as _},
};
use devnet::{
    Devnet, EUR_PRICE_E8_USD, NATIVE_PRICE_E8_USD, SMART_WALLET_OWNER_INDEX, TxReceiptLite, currency_hash,
    native_currency_hash,
};

use crate::{
    contracts::{
        CONVERSION, ConversionBatch, ERC20_PAYMENT, Erc20, Erc20Conversion, Erc20FeeProxy, MetaDetail, NATIVE_PAYMENT,
        NativeConversion, NativeFeeProxy, REFERENCE, RequestDetail, SmartWallet, SwapToPay, logs_of, topics,
    },
    refusal, started, units,
};

const PAYER_INDEX: usize = 1;
const PAYEE: Address = Address::repeat_byte(0xaa);
const FEE_ADDRESS: Address = Address::repeat_byte(0xbb);

fn direct(token: Address, amount: u64, fee: u64) -> Vec<u8> {
    Erc20FeeProxy::transferFromWithReferenceAndFeeCall {
        token,
        to: PAYEE,
        amount: units(amount),
        reference: REFERENCE,
        fee: units(fee),
        feeAddress: FEE_ADDRESS,
    }
    .abi_encode()
}

async fn pay_directly(chain: &Devnet, token: Address, amount: u64, fee: u64) -> TxReceiptLite {
    let proxy = chain.contracts().erc20_fee_proxy;
    let approval = Erc20::approveCall {
        spender: proxy,
        amount: units(amount + fee),
    }
    .abi_encode();
    let transactions = [
        (token, approval, U256::ZERO),
        (proxy, direct(token, amount, fee), U256::ZERO),
    ];
    let receipts = chain.pay(PAYER_INDEX, &transactions).await.unwrap();
    assert!(receipts.iter().all(|receipt| receipt.status));
    receipts[1].clone()
}

#[tokio::test]
async fn direct_token_payment_emits_the_payment_event() {
    let chain = started().await;
    let tokens = chain.tokens();
    for token in [tokens.fau, tokens.usdc, tokens.usdt] {
        let receipt = pay_directly(&chain, token, 1_000, 25).await;
        let logs = logs_of(&chain, &receipt, chain.contracts().erc20_fee_proxy).await;
        assert_eq!(topics(&logs), [ERC20_PAYMENT]);
        assert_eq!(logs[0].topics()[1], keccak256(REFERENCE));
        let expected = (token, PAYEE, units(1_000), units(25), FEE_ADDRESS).abi_encode_params();
        assert_eq!(logs[0].data().data, expected);
        assert_eq!(chain.balance_of(token, PAYEE).await.unwrap(), units(1_000));
        assert_eq!(chain.balance_of(token, FEE_ADDRESS).await.unwrap(), units(25));
    }
}

#[tokio::test]
async fn native_payment_emits_the_payment_event() {
    let chain = started().await;
    let call = NativeFeeProxy::transferWithReferenceAndFeeCall {
        to: PAYEE,
        reference: REFERENCE,
        fee: units(25),
        feeAddress: FEE_ADDRESS,
    };
    let proxy = chain.contracts().ethereum_fee_proxy;
    let receipt = chain
        .send(PAYER_INDEX, proxy, call.abi_encode(), units(1_025))
        .await
        .unwrap();
    let logs = logs_of(&chain, &receipt, proxy).await;
    assert_eq!(topics(&logs), [NATIVE_PAYMENT]);
    assert_eq!(
        logs[0].data().data,
        (PAYEE, units(1_000), units(25), FEE_ADDRESS).abi_encode_params()
    );
    assert_eq!(chain.native_balance_of(PAYEE).await.unwrap(), units(1_000));
}

#[tokio::test]
async fn second_usdt_approval_needs_a_reset() {
    let chain = started().await;
    let (usdt, spender) = (chain.tokens().usdt, chain.contracts().erc20_fee_proxy);
    let approve = async |amount| {
        chain
            .approve(PAYER_INDEX, usdt, spender, units(amount))
            .await
            .unwrap()
            .status
    };
    assert!(approve(5).await);
    assert!(!approve(6).await);
    assert!(approve(0).await);
    assert!(approve(6).await);
}

#[tokio::test]
async fn second_fau_approval_needs_no_reset() {
    let chain = started().await;
    let (fau, spender) = (chain.tokens().fau, chain.contracts().erc20_fee_proxy);
    for amount in [5, 6] {
        assert!(
            chain
                .approve(PAYER_INDEX, fau, spender, units(amount))
                .await
                .unwrap()
                .status
        );
    }
}

#[tokio::test]
async fn fee_on_transfer_token_pays_less_than_the_event_says() {
    let chain = started().await;
    let token = chain.tokens().fee_on_transfer;
    let receipt = pay_directly(&chain, token, 10_000_000, 0).await;
    let logs = logs_of(&chain, &receipt, chain.contracts().erc20_fee_proxy).await;
    assert_eq!(U256::from_be_slice(&logs[0].data().data[64..96]), units(10_000_000));
    assert_eq!(chain.balance_of(token, PAYEE).await.unwrap(), units(9_990_000));
}

#[tokio::test]
async fn worthless_token_emits_a_valid_event_and_moves_nothing() {
    let chain = started().await;
    let receipt = pay_directly(&chain, chain.tokens().worthless, 1_000, 25).await;
    let logs = logs_of(&chain, &receipt, chain.contracts().erc20_fee_proxy).await;
    assert_eq!(topics(&logs), [ERC20_PAYMENT]);
    assert_eq!(chain.balance_of(chain.tokens().usdc, PAYEE).await.unwrap(), U256::ZERO);
}

fn euros_to(token: Address, max_to_spend: u64, max_age_seconds: u64) -> Vec<u8> {
    Erc20Conversion::transferFromWithReferenceAndFeeCall {
        to: PAYEE,
        // Fiat amounts have 8 decimals: 10 EUR and a fee of 1 EUR.
        requestAmount: units(1_000_000_000),
        path: vec![currency_hash("ISO4217", "EUR"), currency_hash("ISO4217", "USD"), token],
        reference: REFERENCE,
        fee: units(100_000_000),
        feeAddress: FEE_ADDRESS,
        maxToSpend: units(max_to_spend),
        maxRateTimespan: units(max_age_seconds),
    }
    .abi_encode()
}

#[tokio::test]
async fn token_conversion_emits_both_events_and_pays_at_the_price() {
    let chain = started().await;
    let proxy = chain.contracts().erc20_conversion_proxy;
    for token in [chain.tokens().usdc, chain.tokens().usdt] {
        assert!(
            chain
                .approve(PAYER_INDEX, token, proxy, units(20_000_000))
                .await
                .unwrap()
                .status
        );
        let call = euros_to(token, 20_000_000, 0);
        let receipt = chain.send(PAYER_INDEX, proxy, call, U256::ZERO).await.unwrap();
        assert!(receipt.status);
        assert_eq!(
            topics(&logs_of(&chain, &receipt, proxy).await),
            [ERC20_PAYMENT, CONVERSION]
        );
        let (amount, fee) = (EUR_PRICE_E8_USD / 10, EUR_PRICE_E8_USD / 100);
        assert_eq!(chain.balance_of(token, PAYEE).await.unwrap(), units(amount));
        assert_eq!(chain.balance_of(token, FEE_ADDRESS).await.unwrap(), units(fee));
    }
}

#[tokio::test]
async fn conversion_refuses_an_old_price_and_too_low_a_limit() {
    let chain = started().await;
    let (token, proxy) = (chain.tokens().usdc, chain.contracts().erc20_conversion_proxy);
    chain
        .approve(PAYER_INDEX, token, proxy, units(20_000_000))
        .await
        .unwrap();
    let refused = async |call| refusal(chain.call(PAYER_INDEX, proxy, call, U256::ZERO).await);
    assert!(
        refused(euros_to(token, 20_000_000, 30))
            .await
            .contains("aggregator rate is outdated")
    );
    assert!(
        refused(euros_to(token, 12_000_000, 0))
            .await
            .contains("Amount to pay is over the user limit")
    );
}

#[tokio::test]
async fn native_conversion_emits_both_events_and_pays_at_the_price() {
    let chain = started().await;
    let call = NativeConversion::transferWithReferenceAndFeeCall {
        to: PAYEE,
        requestAmount: units(NATIVE_PRICE_E8_USD),
        path: vec![currency_hash("ISO4217", "USD"), native_currency_hash(chain.chain_id())],
        reference: REFERENCE,
        fee: U256::ZERO,
        feeAddress: FEE_ADDRESS,
        maxRateTimespan: U256::ZERO,
    };
    let proxy = chain.contracts().eth_conversion_proxy;
    let one_coin = units(1_000_000_000_000_000_000);
    let receipt = chain
        .send(PAYER_INDEX, proxy, call.abi_encode(), one_coin)
        .await
        .unwrap();
    assert!(receipt.status);
    assert_eq!(
        topics(&logs_of(&chain, &receipt, proxy).await),
        [NATIVE_PAYMENT, CONVERSION]
    );
    assert_eq!(chain.native_balance_of(PAYEE).await.unwrap(), one_coin);
}

fn detail(path: Vec<Address>, amount: u64, fee: u64, max_to_spend: u64) -> RequestDetail {
    RequestDetail {
        recipient: PAYEE,
        requestAmount: units(amount),
        path,
        reference: REFERENCE,
        feeAmount: units(fee),
        maxToSpend: units(max_to_spend),
        maxRateTimespan: U256::ZERO,
    }
}

fn batch(details: Vec<MetaDetail>) -> Vec<u8> {
    let call = ConversionBatch::batchPaymentsCall {
        details,
        pathsToUsd: Vec::new(),
        feeAddress: FEE_ADDRESS,
    };
    let bytes = call.abi_encode();
    assert_eq!(bytes[..4], [0x92, 0xcd, 0xdb, 0x91]);
    bytes
}

#[tokio::test]
async fn batch_of_two_payments_emits_one_event_each_and_takes_no_batch_fee() {
    let chain = started().await;
    let (token, contract) = (chain.tokens().usdt, chain.contracts().batch_conversion_payments);
    let fee = chain
        .call(0, contract, ConversionBatch::batchFeeCall {}.abi_encode(), U256::ZERO)
        .await
        .unwrap();
    assert_eq!(ConversionBatch::batchFeeCall::abi_decode_returns(&fee).unwrap(), 0);
    let call = batch(vec![MetaDetail {
        // Two token payments without conversion, both in the same token.
        paymentNetworkId: units(1),
        requestDetails: vec![detail(vec![token], 1_000, 10, 0), detail(vec![token], 2_000, 20, 0)],
    }]);
    assert!(
        chain
            .approve(PAYER_INDEX, token, contract, units(3_030))
            .await
            .unwrap()
            .status
    );
    let receipt = chain.send(PAYER_INDEX, contract, call, U256::ZERO).await.unwrap();
    assert!(receipt.status);
    let logs = logs_of(&chain, &receipt, chain.contracts().erc20_fee_proxy).await;
    assert_eq!(topics(&logs), [ERC20_PAYMENT, ERC20_PAYMENT]);
    assert_eq!(chain.balance_of(token, PAYEE).await.unwrap(), units(3_000));
    assert_eq!(chain.balance_of(token, FEE_ADDRESS).await.unwrap(), units(30));
}

#[tokio::test]
async fn batch_pays_native_and_converted_amounts_together() {
    let chain = started().await;
    let (token, contracts) = (chain.tokens().usdc, chain.contracts());
    let usd = currency_hash("ISO4217", "USD");
    let call = batch(vec![
        MetaDetail {
            paymentNetworkId: units(0),
            requestDetails: vec![detail(vec![usd, token], 100_000_000, 0, 1_000_000)],
        },
        MetaDetail {
            paymentNetworkId: units(3),
            requestDetails: vec![detail(Vec::new(), 500, 5, 0)],
        },
    ]);
    chain
        .approve(
            PAYER_INDEX,
            token,
            contracts.batch_conversion_payments,
            units(1_000_000),
        )
        .await
        .unwrap();
    let receipt = chain
        .send(PAYER_INDEX, contracts.batch_conversion_payments, call, units(505))
        .await
        .unwrap();
    assert!(receipt.status);
    assert_eq!(
        topics(&logs_of(&chain, &receipt, contracts.erc20_conversion_proxy).await),
        [ERC20_PAYMENT, CONVERSION]
    );
    assert_eq!(
        topics(&logs_of(&chain, &receipt, contracts.ethereum_fee_proxy).await),
        [NATIVE_PAYMENT]
    );
    assert_eq!(chain.balance_of(token, PAYEE).await.unwrap(), units(1_000_000));
    assert_eq!(chain.native_balance_of(PAYEE).await.unwrap(), units(500));
}

#[tokio::test]
async fn swap_pays_the_payee_in_the_other_token() {
    let chain = started().await;
    let (fau, usdc, contract) = (
        chain.tokens().fau,
        chain.tokens().usdc,
        chain.contracts().erc20_swap_to_pay,
    );
    let payer = chain.accounts()[PAYER_INDEX].address;
    let before = chain.balance_of(fau, payer).await.unwrap();
    let call = SwapToPay::swapTransferWithReferenceCall {
        paymentProxy: chain.contracts().erc20_fee_proxy,
        to: PAYEE,
        amount: units(1_000),
        amountInMax: units(5_000),
        path: vec![fau, usdc],
        reference: REFERENCE,
        fee: units(25),
        feeAddress: FEE_ADDRESS,
        deadline: U256::from(u64::MAX),
    };
    assert!(
        chain
            .approve(PAYER_INDEX, fau, contract, units(5_000))
            .await
            .unwrap()
            .status
    );
    let receipt = chain
        .send(PAYER_INDEX, contract, call.abi_encode(), U256::ZERO)
        .await
        .unwrap();
    assert!(receipt.status);
    let logs = logs_of(&chain, &receipt, chain.contracts().erc20_fee_proxy).await;
    assert_eq!(topics(&logs), [ERC20_PAYMENT]);
    assert_eq!(chain.balance_of(usdc, PAYEE).await.unwrap(), units(1_000));
    // The router takes two units for one, and returns the unused part of the maximum.
    assert_eq!(chain.balance_of(fau, payer).await.unwrap(), before - units(2 * 1_025));
}

#[tokio::test]
async fn smart_wallet_pays_in_its_own_name() {
    let chain = started().await;
    let (wallet, token) = (chain.contracts().smart_wallet, chain.tokens().usdc);
    let proxy = chain.contracts().erc20_fee_proxy;
    let before = chain.balance_of(token, wallet).await.unwrap();
    let execute = |to, call: Vec<u8>| {
        SmartWallet::executeCall {
            to,
            value: U256::ZERO,
            call: call.into(),
        }
        .abi_encode()
    };
    let approval = Erc20::approveCall {
        spender: proxy,
        amount: units(1_025),
    }
    .abi_encode();
    let transactions = [
        (wallet, execute(token, approval), U256::ZERO),
        (wallet, execute(proxy, direct(token, 1_000, 25)), U256::ZERO),
    ];
    let receipts = chain.pay(SMART_WALLET_OWNER_INDEX, &transactions).await.unwrap();
    assert!(receipts.iter().all(|receipt| receipt.status));
    assert_eq!(topics(&logs_of(&chain, &receipts[1], proxy).await), [ERC20_PAYMENT]);
    assert_eq!(chain.balance_of(token, wallet).await.unwrap(), before - units(1_025));
    let stranger = execute(proxy, direct(token, 1, 0));
    assert!(
        !chain
            .send(PAYER_INDEX, wallet, stranger, U256::ZERO)
            .await
            .unwrap()
            .status
    );
}
