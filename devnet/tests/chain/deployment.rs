//! The contents of a started chain.

use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use alloy::{
    primitives::{Address, U256, address},
    sol_types::SolCall as _,
};
use devnet::{BlockTime, Devnet, Options, currency_hash, native_currency_hash};
use serde_json::json;

use crate::{contracts::Erc20, started};

#[tokio::test]
async fn every_contract_and_token_has_code() {
    let chain = started().await;
    for (name, address) in chain.contracts().all().into_iter().chain(chain.tokens().all()) {
        let code = chain.rpc("eth_getCode", json!([address, "latest"])).await.unwrap();
        assert_ne!(code, "0x", "{name} has no code");
    }
}

#[tokio::test]
async fn addresses_are_the_same_on_every_start() {
    let (first, second) = tokio::join!(started(), started());
    assert_ne!(first.rpc_url(), second.rpc_url());
    assert_eq!(first.contracts(), second.contracts());
    assert_eq!(first.tokens(), second.tokens());
    // FAU has the same address here as on Sepolia.
    assert_eq!(first.tokens().fau, address!("370DE27fdb7D1Ff1e1BaA7D11c5820a324Cf623C"));
}

#[tokio::test]
async fn addresses_do_not_depend_on_the_chain_id() {
    let sepolia = started().await;
    let mainnet = Devnet::start(Options {
        chain_id: 1,
        ..Options::default()
    })
    .await
    .unwrap();
    assert_eq!(mainnet.rpc("eth_chainId", json!([])).await.unwrap(), "0x1");
    assert_eq!(mainnet.contracts(), sepolia.contracts());
}

#[tokio::test]
async fn tokens_return_their_metadata() {
    let chain = started().await;
    let tokens = chain.tokens();
    for (token, name, symbol, decimals) in [
        (tokens.fau, "FaucetToken", "FAU", 18),
        (tokens.usdc, "USD Coin", "USDC", 6),
        (tokens.usdt, "Tether USD", "USDT", 6),
        (tokens.fee_on_transfer, "Fee On Transfer", "FOT", 6),
        (tokens.worthless, "USD Coin", "USDC", 6),
    ] {
        let read = async |call: Vec<u8>| chain.call(0, token, call, U256::ZERO).await.unwrap();
        assert_eq!(
            Erc20::nameCall::abi_decode_returns(&read(Erc20::nameCall {}.abi_encode()).await).unwrap(),
            name
        );
        assert_eq!(
            Erc20::symbolCall::abi_decode_returns(&read(Erc20::symbolCall {}.abi_encode()).await).unwrap(),
            symbol
        );
        let answer = read(Erc20::decimalsCall {}.abi_encode()).await;
        assert_eq!(
            Erc20::decimalsCall::abi_decode_returns(&answer).unwrap(),
            U256::from(decimals)
        );
    }
}

#[tokio::test]
async fn every_account_and_the_smart_wallet_hold_every_token() {
    let chain = started().await;
    let holders = chain
        .accounts()
        .iter()
        .map(|account| account.address)
        .chain([chain.contracts().smart_wallet]);
    for holder in holders {
        for (name, token) in chain.tokens().all() {
            let balance = chain.balance_of(token, holder).await.unwrap();
            assert!(
                balance >= U256::from(1_000_000_000_000_000_u64),
                "{holder} holds {balance} {name}"
            );
        }
    }
}

#[tokio::test]
async fn mint_gives_every_real_token() {
    let chain = started().await;
    let newcomer = Address::repeat_byte(0x11);
    let tokens = chain.tokens();
    for token in [tokens.fau, tokens.usdc, tokens.usdt, tokens.fee_on_transfer] {
        assert!(chain.mint(token, newcomer, U256::from(7)).await.unwrap().status);
        assert_eq!(chain.balance_of(token, newcomer).await.unwrap(), U256::from(7));
    }
}

#[tokio::test]
async fn blocks_come_at_their_interval() {
    let options = Options {
        block_time: BlockTime::EveryMs(100),
        ..Options::default()
    };
    let chain = Devnet::start(options).await.unwrap();
    let before = chain.block_number().await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    let produced = chain.block_number().await.unwrap() - before;
    assert!(
        (3..=8).contains(&produced),
        "the node must mine 3 to 8 blocks in 600 ms, but mined {produced}"
    );
}

#[tokio::test]
async fn finality_lags_the_head_by_the_epoch() {
    let chain = Devnet::start(Options {
        slots_in_an_epoch: 3,
        ..Options::default()
    })
    .await
    .unwrap();
    chain.mine(10).await.unwrap();
    let head = chain.block_number().await.unwrap();
    let number = async |tag| chain.block(tag).await.unwrap().unwrap().number;
    assert_eq!(number(alloy::eips::BlockNumberOrTag::Safe).await, head - 3);
    assert_eq!(number(alloy::eips::BlockNumberOrTag::Finalized).await, head - 6);
}

#[tokio::test]
async fn summary_has_the_shape_that_scripts_rely_on() {
    let chain = started().await;
    let summary = chain.summary("sepolia");
    assert_eq!(summary["rpcUrl"], chain.rpc_url());
    assert_eq!(summary["chainId"], 11_155_111);
    assert_eq!(summary["network"], "sepolia");
    assert_eq!(summary["accounts"].as_array().unwrap().len(), 10);
    assert_eq!(summary["accounts"][0]["privateKey"].as_str().unwrap().len(), 66);
    for (name, address) in chain.contracts().all() {
        assert_eq!(summary["contracts"][name], json!(address), "{name}");
    }
    for (name, address) in chain.tokens().all() {
        assert_eq!(summary["tokens"][name], json!(address), "{name}");
    }
}

#[tokio::test]
async fn dropping_the_chain_ends_the_node() {
    let chain = started().await;
    let socket = chain.rpc_url().trim_start_matches("http://").to_owned();
    assert!(tokio::net::TcpStream::connect(&socket).await.is_ok());
    drop(chain);
    assert!(tokio::net::TcpStream::connect(&socket).await.is_err());
}

#[tokio::test]
async fn taken_port_is_reported_with_the_reason() {
    let chain = started().await;
    let port = chain.rpc_url().rsplit(':').next().unwrap().parse().unwrap();
    let Err(error) = Devnet::start(Options {
        port: Some(port),
        ..Options::default()
    })
    .await
    else {
        panic!("a second node must not start on a port in use");
    };
    assert!(
        format!("{error:#}").to_lowercase().contains("address already in use"),
        "{error:#}"
    );
}

#[test]
fn currency_hashes_are_those_of_the_conversion_contracts() {
    assert_eq!(
        currency_hash("ISO4217", "USD"),
        address!("775eb53d00dd0acd3ec1696472105d579b9b386b")
    );
    for (chain_id, hash) in [
        (1, address!("f5af88e117747e87fc5929f2ff87221b1447652e")),
        (10, address!("058fa190e345e245c74b4f1adbff6adfcfd8fff3")),
        (56, address!("281162bd0b7a4162cb676bc4873734497b3af025")),
        (137, address!("23c7fe5a44ca213deed6f3e2e714d747fcbcdbf0")),
        (8453, address!("b678b03f3f3a6ea652ad1d183032fac176d83b08")),
        (42161, address!("0ee88324f875d378f9a06643830934cadff6b1e5")),
        (11_155_111, address!("bb3546497a53cd710beb11b84c5240327f145bcb")),
        (728_126_428, address!("19e00026c849065c858730755d26151d5bdc8003")),
    ] {
        assert_eq!(native_currency_hash(chain_id), hash, "chain {chain_id}");
    }
}

/// Runs one of these tests in a separate process, so that the test can change its environment.
fn in_another_process(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[tokio::test]
async fn killing_the_process_ends_its_node() {
    const HOLD: &str = "DEVNET_TEST_HOLD";
    if env::var_os(HOLD).is_some() {
        let chain = started().await;
        println!("\nheld at {}", chain.rpc_url());
        return std::future::pending().await;
    }
    let mut child = in_another_process("deployment::killing_the_process_ends_its_node")
        .env(HOLD, "1")
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let socket = lines
        .filter_map(|line| Some(line.strip_prefix("held at http://")?.to_owned()))
        .next()
        .unwrap();
    assert!(tokio::net::TcpStream::connect(&socket).await.is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
    for _ in 0..200 {
        if tokio::net::TcpStream::connect(&socket).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the node must end with the process that started it");
}

#[test]
fn missing_installation_is_reported_with_the_command_that_fixes_it() {
    let output = in_another_process("deployment::every_contract_and_token_has_code")
        .env("PRS_DEVNET", "/nonexistent")
        .env("PATH", "")
        .env_remove("PRS_ANVIL")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("run `npm ci --ignore-scripts` in /nonexistent"), "{text}");
}
