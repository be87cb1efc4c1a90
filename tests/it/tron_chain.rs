//! Payments on Tron from the request to the credit, on a chain with two nodes, signed by unmodified tronweb.

use crate::support::{
    Answer, TestApp,
    app::settings,
    chain::step,
    clock::FixedClock,
    links::{link_of, token_of},
    receiver::Receiver,
    requests::request,
};
use devnet::tron::{TronAccount, TronDevnet, TronOptions, Tronweb};
use prs::{
    domain::{address::Address, network::Network},
    flows::payments::watch::WatchResult,
    ports::clock::Clock,
    settings::{ChainSettings, Settings},
    store,
};
use serde_json::{Value, json};

/// The service, a chain with two nodes, and the wallet of its accounts.
pub(crate) struct Ground {
    pub(crate) app: TestApp,
    pub(crate) devnet: TronDevnet,
    pub(crate) tronweb: Tronweb,
}

impl Ground {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Settings)) -> Self {
        let now_ms = u64::try_from(FixedClock::new().now().timestamp_millis()).expect("after 1970");
        let options = TronOptions {
            nodes: 2,
            // The blocks of the start end at the time of the service.
            start_time_ms: Some(now_ms - 9_000),
            ..TronOptions::default()
        };
        let devnet = TronDevnet::start(options).await.expect("the stand-in starts");
        let tronweb = Tronweb::start(devnet.api_url(0).expect("a node")).expect("tronweb starts");
        let mut settings = settings();
        let tron = ChainSettings {
            api_urls: devnet.summary().api_urls.clone(),
            ..ChainSettings::default()
        };
        settings.chains.insert("tron".to_owned(), tron);
        change(&mut settings);
        let app = TestApp::with(settings, None).await;
        let ground = Self { app, devnet, tronweb };
        ground.follow().await;
        ground
    }

    pub(crate) fn holder(&self, index: usize) -> &TronAccount {
        &self.devnet.summary().accounts[index]
    }

    pub(crate) fn account(&self, index: usize) -> &str {
        &self.holder(index).address
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

    /// Makes every payment final, credits it, and sends the deliveries.
    pub(crate) async fn settle(&self) {
        self.devnet.mine(3).await.expect("mined");
        self.follow().await;
        self.app.deliver().await;
    }

    /// Signs an unsigned transaction of a response.
    pub(crate) async fn sign(&self, account: usize, step: &Value) -> Value {
        let unsigned = json!({
            "txID": step["txID"], "raw_data": step["raw_data"], "raw_data_hex": step["raw_data_hex"],
        });
        let signed = self.tronweb.sign(self.holder(account), &unsigned).await;
        signed.expect("a signed transaction")
    }

    /// Sends a signed transaction to a node, past the service; returns its hash with `0x`.
    pub(crate) async fn send(&self, signed: &Value) -> String {
        let sent = self.tronweb.send(signed).await.expect("a response");
        assert_eq!(sent["result"], true, "{sent}");
        hash_of(signed)
    }

    /// Signs and sends every transaction of a response in order; returns the hash of the last one.
    pub(crate) async fn send_all(&self, account: usize, calldata: &Value) -> String {
        let mut hash = String::new();
        for step in transactions(calldata) {
            hash = self.send(&self.sign(account, step).await).await;
        }
        hash
    }

    pub(crate) async fn calldata(&self, token: &str, account: usize) -> Value {
        let answer = self.app.calldata_of(token, Some(self.account(account))).await;
        answer.expect(200)
    }

    /// Sends a signed transaction to the service.
    pub(crate) async fn broadcast(&self, token: &str, signed: &Value) -> Answer {
        let path = format!("/v2/secure-payments/{token}/tron/broadcast");
        let body = json!({ "signedTransaction": signed });
        self.app.post(&path).with_client().json(&body).send().await
    }

    /// Pays a link: the service broadcasts every transaction of its calldata. Returns the hash of the payment.
    pub(crate) async fn pay_link(&self, token: &str, account: usize) -> String {
        let calldata = self.calldata(token, account).await;
        let mut hash = String::new();
        for step in transactions(&calldata) {
            let signed = self.sign(account, step).await;
            let sent = self.broadcast(token, &signed).await.expect(200);
            assert_eq!(sent, json!({ "result": true, "txid": step["txID"] }));
            hash = hash_of(&signed);
        }
        hash
    }

    /// Calldata that pays a part of a request.
    pub(crate) async fn part(&self, id: &str, account: usize, amount: &str) -> Value {
        let path = format!("/v2/request/{id}/pay?wallet={}&amount={amount}", self.account(account));
        self.app.get(&path).with_client().send().await.expect(200)
    }

    /// Balances of accounts in units of USDT.
    pub(crate) async fn balances<const N: usize>(&self, accounts: [usize; N]) -> [u128; N] {
        let token = &self.devnet.summary().tokens.usdt;
        let mut balances = [0; N];
        for (balance, account) in balances.iter_mut().zip(accounts) {
            *balance = self
                .tronweb
                .balance(token, self.account(account))
                .await
                .expect("a balance");
        }
        balances
    }

    /// An endpoint of the tenant, which receives its events.
    pub(crate) async fn receiver(&self) -> Receiver {
        let receiver = Receiver::start().await;
        let endpoint = self.app.post("/v1/webhook").with_key();
        endpoint
            .json(&json!({ "url": receiver.url() }))
            .send()
            .await
            .expect(201);
        receiver
    }

    /// The body of a request in USDT that pays account 1.
    pub(crate) fn usdt(&self, amount: &str) -> Value {
        let mut body = request(amount, "USDT-tron", "USDT-tron");
        body["payee"] = json!(self.account(1));
        body
    }

    /// Payments that a search finds.
    pub(crate) async fn found(&self, query: &str) -> Vec<Value> {
        let found = self.app.get(&format!("/v2/payments?{query}")).with_key().send().await;
        found.expect(200)["payments"].as_array().expect("payments").clone()
    }
}

/// The transactions of calldata.
pub(crate) fn transactions(calldata: &Value) -> &[Value] {
    calldata["transactions"].as_array().expect("transactions")
}

/// The hash of a transaction with `0x`.
pub(crate) fn hash_of(transaction: &Value) -> String {
    format!("0x{}", transaction["txID"].as_str().expect("an id"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_on_tron_is_approved_paid_and_credited() {
    let ground = Ground::start().await;
    let app = &ground.app;
    let payee: Address = Address::parse(ground.account(1)).expect("an address");
    app.is_paid_on(Network::Tron, payee, "USDT-tron").await;
    let token = token_of(&app.link(&link_of(&["10"])).await.expect(201));
    let first = ground.calldata(&token, 0).await;
    assert_eq!(first["metadata"]["needsApproval"], true, "{first}");
    let [approval, _] = transactions(&first) else {
        panic!("{first}");
    };
    let approved = ground.broadcast(&token, &ground.sign(0, approval).await).await;
    assert_eq!(
        approved.expect(200),
        json!({ "result": true, "txid": approval["txID"] })
    );
    let second = ground.calldata(&token, 0).await;
    let [payment] = transactions(&second) else {
        panic!("{second}");
    };
    let cursor = store::cursors::load(app.ctx.db.reader(), Network::Tron).await;
    let agreed = cursor.expect("read").expect("a cursor").finalized.number.to_be_bytes();
    assert_eq!(
        payment["raw_data"]["ref_block_bytes"],
        hex::encode(&agreed[6..]),
        "the final block on which the nodes agree"
    );
    let signed = ground.sign(0, payment).await;
    let paid = ground.broadcast(&token, &signed).await.expect(200);
    assert_eq!(paid["txid"], payment["txID"], "{paid}");
    let again = ground.broadcast(&token, &signed).await.expect(200);
    assert_eq!(again["code"], "DUP_TRANSACTION_ERROR", "{again}");
    ground.follow().await;
    let open = app.open_link(&token, "").send().await.expect(200);
    assert_eq!(
        (&open["status"], &open["inFlight"]),
        (&json!("pending"), &json!(true)),
        "a broadcast is no payment"
    );
    ground.settle().await;
    let hash = hash_of(payment);
    let found = ground.found(&format!("txHash={hash}")).await;
    let [credited] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(credited["sourceTxHash"], hash, "{credited}");
    assert_eq!(credited["amount"], "10", "{credited}");
    for account in [0, 1] {
        let found = ground
            .found(&format!("walletAddress={}", ground.account(account)))
            .await;
        assert_eq!(found[0]["id"], credited["id"], "{found:?}");
    }
    app.calldata_of(&token, None).await.expect(409);
}
