//! Sign-in with a contract wallet, deployed or not.

use crate::{
    sessions::{Person, answered, challenge, token},
    support::{
        Answer, TestApp,
        chain::{FACTORY, PAYER, creation_of},
        requests::fau,
    },
};
use alloy::{
    primitives::{Address as EvmAddress, Bytes},
    sol_types::SolValue,
};
use axum::{Json, Router};
use devnet::{Devnet, Options, SMART_WALLET_OWNER_INDEX};
use prs::{
    boot::dev,
    domain::{address::Address, network::Family, session::message_hash},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::net::TcpListener;

/// Index of an account that owns no contract wallet.
const STRANGER: usize = 7;

fn person(app: &TestApp, index: usize) -> Person {
    Person::with_key(app.devnet().accounts()[index].private_key.as_slice(), Family::Evm)
}

/// Signs in as a contract wallet: an account signs the challenge of the wallet, and `wrap` changes the signature before
/// it is sent.
async fn sign_in(app: &TestApp, wallet: EvmAddress, index: usize, wrap: impl Fn(Vec<u8>) -> Vec<u8>) -> Answer {
    let asked = challenge(app, &wallet.to_string()).await;
    let hash = message_hash(Family::Evm, asked["message"].as_str().expect("text"));
    let signature = wrap(person(app, index).sign_hash(hash));
    let body = answered(&asked, &hex::encode_prefixed(signature));
    app.post("/v1/auth/wallet/verify").json(&body).send().await
}

/// An undeployed wallet of an account: its future address, and the call that creates it.
fn planned(app: &TestApp, owner: usize) -> (EvmAddress, Vec<u8>) {
    creation_of("SmartWallet", &app.devnet().accounts()[owner].address.abi_encode())
}

/// A signature in the format of ERC-6492: factory, input of the factory, signature, and the magic suffix.
fn wrapped(factory: EvmAddress, input: &[u8], signature: Vec<u8>) -> Vec<u8> {
    let parts = (factory, Bytes::copy_from_slice(input), Bytes::from(signature));
    let mark = hex::decode("6492".repeat(16)).expect("hexadecimal");
    [parts.abi_encode_params(), mark].concat()
}

#[tokio::test]
async fn a_contract_wallet_signs_in_only_with_its_owners_key() {
    let app = TestApp::on_chain().await;
    let wallet = app.devnet().contracts().smart_wallet;
    let answer = sign_in(&app, wallet, SMART_WALLET_OWNER_INDEX, |signature| signature).await;
    assert_eq!(answer.expect(200)["address"], wallet.to_string());
    let caller = crate::sessions::caller(&app, &token(&answer)).await;
    assert_eq!(caller.wallet(), Some(&Address::Evm(wallet)));
    sign_in(&app, wallet, STRANGER, |signature| signature).await.expect(401);
    // A contract without ERC-1271 accepts no signature.
    let token = app.devnet().tokens().fau;
    sign_in(&app, token, SMART_WALLET_OWNER_INDEX, |signature| signature)
        .await
        .expect(401);
    // An address without a contract accepts only its own key.
    let account = app.devnet().accounts()[2].address;
    sign_in(&app, account, STRANGER, |signature| signature)
        .await
        .expect(401);
    sign_in(&app, account, 2, |signature| signature).await.expect(200);
}

#[tokio::test]
async fn an_undeployed_wallet_signs_in_with_its_deployment_data() {
    let app = TestApp::on_chain().await;
    let (wallet, input) = planned(&app, STRANGER);
    let wrap = |signature| wrapped(FACTORY, &input, signature);
    sign_in(&app, wallet, STRANGER, |signature| signature).await.expect(401);
    sign_in(&app, wallet, SMART_WALLET_OWNER_INDEX, wrap).await.expect(401);
    let other = app.devnet().accounts()[2].address;
    sign_in(&app, other, STRANGER, wrap).await.expect(401);
    let answer = sign_in(&app, wallet, STRANGER, wrap).await;
    assert_eq!(answer.expect(200)["address"], wallet.to_string());
    // The query changed nothing: the wallet is still not deployed.
    let code = app.devnet().rpc("eth_getCode", json!([wallet, "latest"]));
    assert_eq!(code.await.expect("an answer"), "0x");
    let sent = app
        .devnet()
        .send(1, FACTORY, input.clone(), alloy::primitives::U256::ZERO)
        .await;
    assert!(sent.expect("mined").status);
    sign_in(&app, wallet, STRANGER, wrap).await.expect(200);
    sign_in(&app, wallet, STRANGER, |signature| signature).await.expect(200);
    sign_in(&app, wallet, SMART_WALLET_OWNER_INDEX, wrap).await.expect(401);
}

#[tokio::test]
async fn malformed_erc6492_wrappers_are_rejected() {
    let app = TestApp::on_chain().await;
    let wallet = app.devnet().contracts().smart_wallet;
    let mark = hex::decode("6492".repeat(16)).expect("hexadecimal");
    for damage in [
        mark.clone(),
        [vec![0xff; 96], mark.clone()].concat(),
        [vec![0; 31], mark].concat(),
    ] {
        let answer = sign_in(&app, wallet, SMART_WALLET_OWNER_INDEX, |_| damage.clone()).await;
        answer.expect(401);
    }
}

/// A contract that uses all time and gas: it exponentiates numbers of 1,024 bits in an endless loop.
async fn bomb(app: &TestApp) -> EvmAddress {
    let code = "60806000526020602052608060405260001960605260001960805260001960a05260001960c05260001960e0526000196101\
                00526000196101205260001961014052600219610160525b6080610200610180600060055afa50604956";
    let address = EvmAddress::repeat_byte(0xb0);
    let set = app.devnet().rpc("anvil_setCode", json!([address, format!("0x{code}")]));
    set.await.expect("placed");
    address
}

#[tokio::test]
async fn a_gas_bomb_wallet_does_not_slow_other_tenants() {
    let app = TestApp::on_chain().await;
    let (key, _) = app.other_tenant().await;
    let id = app.create_request_as(("x-api-key", &key), &fau("1")).await;
    let own = app.create_request(&fau("1")).await;
    let bomb = bomb(&app).await;
    let attack = async {
        let guesses = (0..24).map(|_| sign_in(&app, bomb, STRANGER, |signature| signature));
        futures_util::future::join_all(guesses).await
    };
    let pay = format!("/v2/request/{id}/pay?wallet={}", app.account(PAYER));
    let modest = async {
        let mut statuses = Vec::new();
        for _ in 0..55 {
            statuses.push(app.get(&pay).header("x-api-key", &key).send().await.status);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        statuses
    };
    let (attacked, statuses) = tokio::join!(attack, modest);
    assert_eq!(
        statuses.iter().filter(|status| **status != 200).count(),
        0,
        "{statuses:?}"
    );
    for answer in attacked {
        assert!(matches!(answer.status, 401 | 429), "{} {}", answer.status, answer.text);
    }
    app.pay(&own, "").await;
    app.follow().await;
    assert_eq!(app.payments_of(&own).await.len(), 1);
}

#[tokio::test]
async fn a_wallet_failing_in_deployment_is_rejected_without_affecting_others() {
    let app = TestApp::on_chain().await;
    let bomb = bomb(&app).await;
    let (wallet, _) = planned(&app, STRANGER);
    for _ in 0..5 {
        let answer = sign_in(&app, wallet, STRANGER, |signature| wrapped(bomb, &[], signature)).await;
        answer.expect(401);
    }
    let honest = app.devnet().contracts().smart_wallet;
    sign_in(&app, honest, SMART_WALLET_OWNER_INDEX, |signature| signature)
        .await
        .expect(200);
}

#[tokio::test]
async fn a_challenge_allows_three_contract_checks_and_the_key_afterwards() {
    let app = TestApp::on_chain().await;
    let account = app.devnet().accounts()[2].address;
    let asked = challenge(&app, &account.to_string()).await;
    let message = asked["message"].as_str().expect("text");
    let answer = async |index: usize| {
        let body = answered(&asked, &person(&app, index).sign(message));
        app.post("/v1/auth/wallet/verify").json(&body).send().await
    };
    for _ in 0..3 {
        let refused = answer(STRANGER).await.expect(401);
        assert_eq!(
            refused["message"],
            "The signature does not match the address of the challenge"
        );
    }
    let refused = answer(STRANGER).await.expect(401);
    assert_eq!(
        refused["message"],
        "Too many wrong signatures for this challenge; request a new one"
    );
    answer(2).await.expect(200);
}

/// A node that reports for every signature that the wallet accepts it.
async fn liar() -> String {
    let answer = |Json(call): Json<Value>| async move {
        let result = match call["method"].as_str() {
            Some("eth_chainId") => "0xaa36a7".to_owned(),
            _ => format!("0x{:064x}", 1),
        };
        Json(json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }))
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    url
}

#[tokio::test]
async fn one_false_node_alongside_an_honest_one_cannot_sign_a_user_in() {
    let chain = Arc::new(Devnet::start(Options::default()).await.expect("the local chain starts"));
    let mut settings = crate::support::app::settings();
    let nodes = vec![liar().await, chain.rpc_url().to_owned()];
    settings
        .chains
        .insert("sepolia".to_owned(), dev::chain_settings(&chain, nodes));
    let app = TestApp::with(settings, Some(chain)).await;
    let wallet = app.devnet().contracts().smart_wallet;
    sign_in(&app, wallet, STRANGER, |signature| signature).await.expect(502);
    let account = app.devnet().accounts()[2].address;
    sign_in(&app, account, STRANGER, |signature| signature)
        .await
        .expect(502);
    sign_in(&app, wallet, SMART_WALLET_OWNER_INDEX, |signature| signature)
        .await
        .expect(200);
}

#[tokio::test]
async fn contract_wallets_cannot_sign_in_while_their_chain_is_unresponsive() {
    // The only network has a node that is down.
    let app = TestApp::start().await;
    let ada = Person::new(1, Family::Evm);
    let asked = challenge(&app, "0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7").await;
    let body = answered(&asked, &ada.sign(asked["message"].as_str().expect("text")));
    let answer = app.post("/v1/auth/wallet/verify").json(&body).send().await;
    answer.expect(502);
    assert_eq!(answer.header("set-cookie"), None);
}
