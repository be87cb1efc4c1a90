//! Calls of contracts on the stand-in for Tron, signed by its accounts.

use super::app::settings;
use alloy::{
    primitives::{Address as EvmAddress, B256, U256},
    signers::{SignerSync, local::PrivateKeySigner},
    sol,
    sol_types::SolCall,
};
use devnet::tron::TronDevnet;
use prs::{
    domain::{
        address::Address,
        tron::{ReferenceBlock, TronCall, TronTransaction, encode_signed},
    },
    settings::{ChainSettings, Settings},
};
use serde_json::{Value, json};

sol! {
    interface Proxy {
        function transferFromWithReferenceAndFee(address token, address to, uint256 amount, bytes paymentReference, uint256 feeAmount, address feeAddress);
    }
    interface Token {
        function approve(address spender, uint256 amount) returns (bool);
    }
}

/// Maximum network fee of a call, in sun.
const FEE_LIMIT_SUN: u64 = 300_000_000;

/// A payment in USDT through the fee proxy.
pub struct TronPayment {
    pub to: EvmAddress,
    pub units: U256,
    pub reference: Vec<u8>,
    pub fee: U256,
    pub fee_address: EvmAddress,
}

/// Settings of the service with Tron as its only network, on all nodes of the stand-in.
pub fn tron_settings(devnet: &TronDevnet) -> Settings {
    let mut settings = settings();
    let tron = ChainSettings {
        api_urls: devnet.summary().api_urls.clone(),
        ..ChainSettings::default()
    };
    settings.chains.insert("tron".to_owned(), tron);
    settings
}

/// The 20 bytes of an address in Base58.
pub fn bytes_of(address: &str) -> EvmAddress {
    Address::parse(address).expect("an address").bytes()
}

/// The address of an account of the chain.
pub fn account(devnet: &TronDevnet, index: usize) -> EvmAddress {
    bytes_of(&devnet.summary().accounts[index].address)
}

pub fn proxy(devnet: &TronDevnet) -> EvmAddress {
    bytes_of(&devnet.summary().contracts.erc20_fee_proxy)
}

pub fn usdt(devnet: &TronDevnet) -> EvmAddress {
    bytes_of(&devnet.summary().tokens.usdt)
}

/// Calls the HTTP API of the first node.
pub async fn post(devnet: &TronDevnet, path: &str, body: Value) -> Value {
    let url = format!("{}/{path}", devnet.api_url(0).expect("a node"));
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let response = client.post(url).json(&body).send().await.expect("a response");
    response.json().await.expect("JSON")
}

/// Signs and sends a call; returns its transaction.
pub async fn send(devnet: &TronDevnet, from_index: usize, contract: EvmAddress, data: Vec<u8>) -> B256 {
    let key: PrivateKeySigner = devnet.summary().accounts[from_index]
        .private_key
        .parse()
        .expect("a key");
    let head = post(devnet, "wallet/getblock", json!({ "detail": false })).await;
    let id: B256 = head["blockID"].as_str().expect("an id").parse().expect("32 bytes");
    let time_ms = head["block_header"]["raw_data"]["timestamp"].as_u64().expect("a time");
    let transaction = TronTransaction {
        reference_block: ReferenceBlock::of_block(&id),
        expiration_ms: time_ms + 60_000,
        timestamp_ms: time_ms,
        fee_limit_sun: FEE_LIMIT_SUN,
        permission_id: 0,
        call: TronCall {
            owner: key.address(),
            contract,
            value_sun: 0,
            data: data.into(),
            token_value: 0,
            token_id: 0,
        },
    };
    let signature = key.sign_hash_sync(&transaction.tx_id()).expect("a signature");
    let signed = encode_signed(&transaction.encode(), &signature.as_bytes());
    let body = json!({ "transaction": hex::encode(signed) });
    let answer = post(devnet, "wallet/broadcasthex", body).await;
    assert_eq!(answer["result"], true, "{answer}");
    transaction.tx_id()
}

/// Lets the fee proxy spend all USDT of an account.
pub async fn approve(devnet: &TronDevnet, from_index: usize) -> B256 {
    let approve = Token::approveCall {
        spender: proxy(devnet),
        amount: U256::MAX,
    };
    send(devnet, from_index, usdt(devnet), approve.abi_encode()).await
}

/// Pays through the fee proxy; returns the transaction.
pub async fn pay(devnet: &TronDevnet, from_index: usize, payment: TronPayment) -> B256 {
    let call = Proxy::transferFromWithReferenceAndFeeCall {
        token: usdt(devnet),
        to: payment.to,
        amount: payment.units,
        paymentReference: payment.reference.into(),
        feeAmount: payment.fee,
        feeAddress: payment.fee_address,
    };
    send(devnet, from_index, proxy(devnet), call.abi_encode()).await
}
