//! Tests of the stand-in for Tron with unmodified tronweb, and of its control calls.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, also in its helper functions"
)]

use std::{process::Command, time::Duration};

use devnet::tron::{
    TronAccountChange, TronClock, TronDevnet, TronForgedPayment, TronLie, TronMint, TronOptions, TronTokenChange,
};
use serde_json::{Value, json};

async fn started(nodes: usize) -> TronDevnet {
    let options = TronOptions {
        nodes,
        start_time_ms: Some(1_790_000_001_000),
        ..TronOptions::default()
    };
    TronDevnet::start(options).await.unwrap()
}

async fn call(chain: &TronDevnet, node: usize, path: &str, body: Value) -> Value {
    let url = format!("{}{path}", chain.api_url(node).unwrap());
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap();
    client.post(url).json(&body).send().await.unwrap().json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tronweb_pays_and_reads_on_the_stand_in() {
    let chain = started(2).await;
    let script = devnet::dir().join("tron/check.mjs");
    let summary = serde_json::to_string(chain.summary()).unwrap();
    let output = tokio::task::spawn_blocking(move || Command::new("node").arg(script).arg(summary).output())
        .await
        .unwrap()
        .unwrap();
    let (text, complaint) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    println!("{text}");
    assert!(output.status.success(), "{text}{complaint}");
    assert!(
        text.lines().filter(|line| line.starts_with("ok ")).count() >= 40,
        "{text}"
    );
}

#[tokio::test]
async fn control_calls_change_the_chain_and_one_node() {
    let chain = started(2).await;
    let start = chain.state(0).await.unwrap();
    assert_eq!((start.head_number, start.solid_number), (3, 1));
    assert_eq!(start.head_time_ms, 1_790_000_007_000);
    let mined = chain.mine(2).await.unwrap();
    assert_eq!((mined.head_number, mined.solid_number), (5, 3));
    assert_eq!(
        chain.mine_at(1_790_000_100_000).await.unwrap().head_time_ms,
        1_790_000_100_000
    );
    assert_eq!(chain.set_step(6_000).await.unwrap().next_time_ms, 1_790_000_106_000);
    assert_eq!(chain.reorganise(1).await.unwrap().head_number, 5);
    assert_eq!(chain.set_solid_lag(1, 4).await.unwrap().solid_number, 1);
    assert_eq!(chain.set_behind(1, 2).await.unwrap().head_number, 3);
    assert_eq!(chain.state(0).await.unwrap().solid_number, 3);
    assert_eq!(chain.set_hold(true).await.unwrap().pending, 0);
    chain.set_energy_price(210).await.unwrap();
    let parameters = call(&chain, 0, "/wallet/getchainparameters", json!({})).await;
    let parameters = parameters["chainParameter"].as_array().unwrap();
    assert!(parameters.contains(&json!({ "key": "getEnergyFee", "value": 210 })));
    assert!(chain.control(0, &json!({ "unknown": 1 })).await.is_err());
}

#[tokio::test]
async fn control_calls_change_accounts_and_tokens() {
    let chain = started(1).await;
    let holder = chain.summary().accounts[9].address.clone();
    let change = TronAccountChange {
        address: holder.clone(),
        balance: Some(7),
        energy_limit: Some(50_000),
        ..TronAccountChange::default()
    };
    chain.change_account(&change).await.unwrap();
    let account = json!({ "address": holder, "visible": true });
    assert_eq!(
        call(&chain, 0, "/wallet/getaccount", account.clone()).await["balance"],
        7
    );
    let resources = call(&chain, 0, "/wallet/getaccountresource", account.clone()).await;
    assert_eq!(resources["EnergyLimit"], 50_000);
    let removal = TronAccountChange {
        address: holder.clone(),
        activated: Some(false),
        ..TronAccountChange::default()
    };
    chain.change_account(&removal).await.unwrap();
    assert_eq!(call(&chain, 0, "/wallet/getaccount", account).await, json!({}));

    let change = TronTokenChange {
        symbol: "USDC".to_owned(),
        fee_basis_points: Some(10),
        block: vec![holder.clone()],
        mint: Some(TronMint {
            to: holder.clone(),
            amount: "5".to_owned(),
        }),
        ..TronTokenChange::default()
    };
    let before = chain.state(0).await.unwrap().head_number;
    assert_eq!(chain.change_token(&change).await.unwrap().head_number, before + 1);
    let query = json!({
        "owner_address": holder,
        "contract_address": chain.summary().tokens.usdc,
        "function_selector": "basisPointsRate()",
        "visible": true,
    });
    let rate = call(&chain, 0, "/wallet/triggerconstantcontract", query).await;
    assert_eq!(rate["constant_result"][0], format!("{:064x}", 10));
}

#[tokio::test]
async fn lies_are_told_by_one_node_only() {
    let chain = started(2).await;
    let payment = TronForgedPayment {
        token: chain.summary().tokens.usdt.clone(),
        payer: None,
        to: chain.summary().accounts[1].address.clone(),
        amount: "1000000".to_owned(),
        reference: "b3581f0b0f74cc61".to_owned(),
        fee_amount: "0".to_owned(),
        fee_address: None,
    };
    let lies = [
        TronLie::WrongGenesis,
        TronLie::ForgedBlock {
            payment,
            number: Some(2),
            witness_keys: true,
        },
        TronLie::Quota {
            status: 429,
            path: Some("/wallet/getnowblock".to_owned()),
            times: Some(1),
        },
    ];
    let state = chain.set_lies(1, &lies).await.unwrap();
    assert_eq!(state.lies, ["wrongGenesis", "forgedBlock", "quota"]);
    let block = json!({ "num": 2 });
    let forged = call(&chain, 1, "/walletsolidity/getblockbynum", block.clone()).await;
    assert_eq!(forged["transactions"][0]["ret"][0]["contractRet"], "SUCCESS");
    assert!(call(&chain, 1, "/wallet/getnowblock", json!({})).await["Error"].is_string());
    assert!(call(&chain, 1, "/wallet/getnowblock", json!({})).await["blockID"].is_string());
    let honest = call(&chain, 0, "/wallet/getblockbynum", block.clone()).await;
    assert!(honest["transactions"].is_null());
    assert!(chain.set_lies(1, &[]).await.unwrap().lies.is_empty());
    assert_eq!(call(&chain, 1, "/wallet/getblockbynum", block).await, honest);
}

#[tokio::test]
async fn requests_mine_blocks_if_the_clock_is_the_wall() {
    let options = TronOptions {
        clock: TronClock::Wall,
        ..TronOptions::default()
    };
    let chain = TronDevnet::start(options).await.unwrap();
    let mut blocks = chain.blocks();
    let start = chain.state(0).await.unwrap();
    let moved = chain.forward(Duration::from_mins(1)).await.unwrap();
    assert_eq!(moved.head_number, start.head_number);
    call(&chain, 0, "/wallet/getnowblock", json!({})).await;
    call(&chain, 0, "/wallet/getnowblock", json!({})).await;
    let mined = chain.state(0).await.unwrap();
    assert_eq!(mined.head_number, start.head_number + 1);
    assert!(mined.head_time_ms >= start.head_time_ms + 60_000);
    blocks.changed().await.unwrap();
    assert_eq!(*blocks.borrow(), 1);
}

#[tokio::test]
async fn dropping_the_stand_in_ends_its_server() {
    let chain = started(1).await;
    let socket = chain.api_url(0).unwrap().trim_start_matches("http://").to_owned();
    assert!(tokio::net::TcpStream::connect(&socket).await.is_ok());
    drop(chain);
    assert!(tokio::net::TcpStream::connect(&socket).await.is_err());
}
