//! Payments on Tron from the request to the credit, on a chain with two nodes, signed as a wallet signs them.

use crate::support::{
    TestApp,
    app::settings,
    chain::step,
    links::{link_of, token_of},
    requests::request,
};
use alloy::{
    primitives::B256,
    signers::{SignerSync, local::PrivateKeySigner},
};
use devnet::tron::{TronDevnet, TronOptions};
use prs::{
    domain::{address::Address, network::Network},
    flows::payments::watch::WatchResult,
    settings::ChainSettings,
};
use serde_json::{Value, json};

/// The service, a chain with two nodes, and the account that pays.
pub(crate) struct Ground {
    pub(crate) app: TestApp,
    pub(crate) devnet: TronDevnet,
}

impl Ground {
    pub(crate) async fn start() -> Self {
        let options = TronOptions {
            nodes: 2,
            ..TronOptions::default()
        };
        let devnet = TronDevnet::start(options).await.expect("the stand-in starts");
        let mut settings = settings();
        let tron = ChainSettings {
            api_urls: devnet.summary().api_urls.clone(),
            ..ChainSettings::default()
        };
        settings.chains.insert("tron".to_owned(), tron);
        let app = TestApp::with(settings, None).await;
        Self { app, devnet }
    }

    pub(crate) fn account(&self, index: usize) -> &str {
        &self.devnet.summary().accounts[index].address
    }

    /// Credits everything that is final.
    pub(crate) async fn follow(&self) {
        let chain = self.app.ctx.partners.chains.followed[&Network::Tron].clone();
        for _ in 0..50 {
            match step(&self.app.ctx, chain.as_ref()).await.expect("a step") {
                WatchResult::At(position) if !position.moved => return,
                WatchResult::At(_) => {}
                WatchResult::Halted(reason) => panic!("halted: {reason}"),
            }
        }
        panic!("the chain never becomes idle");
    }

    /// Signs an unsigned transaction of an answer as tronweb does.
    pub(crate) fn sign(&self, transaction: &Value) -> Value {
        let key: PrivateKeySigner = self.devnet.summary().accounts[0].private_key.parse().expect("a key");
        let tx_id: B256 = transaction["txID"].as_str().expect("an id").parse().expect("32 bytes");
        let signature = key.sign_hash_sync(&tx_id).expect("a signature");
        json!({
            "txID": transaction["txID"],
            "raw_data": transaction["raw_data"],
            "raw_data_hex": transaction["raw_data_hex"],
            "signature": [hex::encode(signature.as_bytes())],
        })
    }

    pub(crate) async fn calldata(&self, token: &str) -> Value {
        let path = format!("/v2/secure-payments/{token}/pay?wallet={}", self.account(0));
        self.app.get(&path).with_client().send().await.expect(200)
    }

    async fn broadcast(&self, token: &str, signed: &Value) -> Value {
        let path = format!("/v2/secure-payments/{token}/tron/broadcast");
        let body = json!({ "signedTransaction": signed });
        self.app.post(&path).with_client().json(&body).send().await.expect(200)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_on_tron_is_approved_paid_and_credited() {
    let ground = Ground::start().await;
    let app = &ground.app;
    ground.follow().await;
    let payee: Address = Address::parse(ground.account(1)).expect("an address");
    app.is_paid_on(Network::Tron, payee, "USDT-tron").await;
    let token = token_of(&app.link(&link_of(&["10"])).await.expect(201));
    let first = ground.calldata(&token).await;
    assert_eq!(first["metadata"]["needsApproval"], true, "{first}");
    let steps = first["transactions"].as_array().expect("transactions");
    assert_eq!(steps.len(), 2);
    let approved = ground.broadcast(&token, &ground.sign(&steps[0])).await;
    assert_eq!(
        (&approved["result"], &approved["txid"]),
        (&json!(true), &steps[0]["txID"])
    );
    let second = ground.calldata(&token).await;
    let [payment] = second["transactions"].as_array().expect("transactions").as_slice() else {
        panic!("{second}");
    };
    let paid = ground.broadcast(&token, &ground.sign(payment)).await;
    assert_eq!(paid["txid"], payment["txID"], "{paid}");
    let again = ground.broadcast(&token, &ground.sign(payment)).await;
    assert_eq!(again["code"], "DUP_TRANSACTION_ERROR", "{again}");
    ground.follow().await;
    let open = app
        .get(&format!("/v2/secure-payments/{token}"))
        .with_client()
        .send()
        .await;
    open.expect(200);
    ground.devnet.mine(3).await.expect("mined");
    ground.follow().await;
    let hash = format!("0x{}", payment["txID"].as_str().expect("an id"));
    let found = app
        .get(&format!("/v2/payments?txHash={hash}"))
        .with_key()
        .send()
        .await
        .expect(200);
    let [credited] = found["payments"].as_array().expect("payments").as_slice() else {
        panic!("{found}");
    };
    assert_eq!(credited["sourceTxHash"], hash, "{credited}");
    assert_eq!(credited["amount"], "10", "{credited}");
    for account in [0, 1] {
        let path = format!("/v2/payments?walletAddress={}", ground.account(account));
        let found = app.get(&path).with_key().send().await.expect(200);
        assert_eq!(found["payments"][0]["id"], credited["id"], "{found}");
    }
    let done = app
        .get(&format!("/v2/secure-payments/{token}/pay"))
        .with_client()
        .send()
        .await;
    done.expect(409);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_on_tron_is_paid_in_two_parts() {
    let ground = Ground::start().await;
    let app = &ground.app;
    ground.follow().await;
    let mut body = request("10", "USDT-tron", "USDT-tron");
    body["payee"] = json!(ground.account(1));
    let id = app.create_request(&body).await;
    for amount in ["4", "6"] {
        for _ in 0..2 {
            let path = format!("/v2/request/{id}/pay?wallet={}&amount={amount}", ground.account(0));
            let calldata = app.get(&path).with_client().send().await.expect(200);
            let step = calldata["transactions"][0].clone();
            let signed = ground.sign(&step);
            let raw = hex::decode(step["raw_data_hex"].as_str().expect("text")).expect("hexadecimal");
            let signature = hex::decode(signed["signature"][0].as_str().expect("text")).expect("hexadecimal");
            let sent = prs::domain::tron::encode_signed(&raw, &signature);
            let url = format!("{}/wallet/broadcasthex", ground.devnet.api_url(0).expect("a node"));
            let answer = reqwest::Client::builder()
                .build()
                .expect("a client")
                .post(url)
                .json(&json!({ "transaction": hex::encode(sent) }));
            let answer: Value = answer.send().await.expect("a response").json().await.expect("JSON");
            assert_eq!(answer["result"], true, "{answer}");
            if calldata["metadata"]["needsApproval"] == false {
                break;
            }
        }
        ground.devnet.mine(3).await.expect("mined");
        ground.follow().await;
    }
    let payments = app.payments_of(&id).await;
    assert_eq!(payments.len(), 2, "{payments:?}");
    assert!(
        payments.iter().all(|payment| payment["request"]["hasBeenPaid"] == true),
        "{payments:?}"
    );
}
