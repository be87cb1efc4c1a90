//! A credited payment that leaves the chain is taken back in the open, and credited again when it comes back.

use crate::{
    documents::event_fits_its_schema,
    support::{TestApp, receiver::Receiver, requests::fau},
};
use devnet::{Devnet, Options, ReorgTransaction};
use prs::{boot::dev, settings::Settings};
use serde_json::{Value, json};
use std::sync::Arc;

/// Blocks after which a payment counts as final, by a setting that takes the risk.
const CONFIRMATIONS: u64 = 3;

struct Told {
    app: TestApp,
    receiver: Receiver,
}

impl Told {
    async fn start(reversals: bool) -> Self {
        let chain = Arc::new(Devnet::start(Options::default()).await.expect("the local chain starts"));
        let mut settings = crate::support::app::settings();
        let mut section = dev::chain_settings(&chain, vec![chain.rpc_url().to_owned()]);
        section.confirmations = Some(CONFIRMATIONS);
        settings.chains.insert("sepolia".to_owned(), section);
        settings.webhooks.reversals = reversals;
        let app = TestApp::with(settings, Some(chain)).await;
        let receiver = Receiver::start().await;
        app.register(&receiver.url()).await;
        Self { app, receiver }
    }

    /// Settles after so many blocks; a part of the blocks is settled on the way, so that the window knows them.
    async fn mine(&self, blocks: u64) {
        for _ in 0..blocks {
            self.app.devnet().mine(1).await.expect("mined");
            self.app.follow().await;
        }
        self.app.settle().await;
    }

    async fn events(&self) -> Vec<Value> {
        self.receiver.received().await.iter().map(|one| one.json()).collect()
    }

    async fn kinds(&self) -> Vec<String> {
        let events = self.events().await;
        events
            .iter()
            .map(|event| event["event"].as_str().expect("a kind").to_owned())
            .collect()
    }
}

#[tokio::test]
async fn a_payment_that_left_the_chain_is_reversed_and_credited_again_when_it_comes_back() {
    let told = Told::start(true).await;
    let app = &told.app;
    told.mine(CONFIRMATIONS).await;
    let id = app.create_request(&fau("5")).await;
    let receipt = app.pay(&id, "").await;
    let raw = app
        .devnet()
        .raw_transaction(receipt.tx_hash)
        .await
        .expect("a transaction");
    told.mine(CONFIRMATIONS).await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
    let payment = app.payments_of(&id).await[0].clone();
    assert!(payment.get("reversal").is_none());

    app.devnet().reorg(CONFIRMATIONS + 1).await.expect("reorganised");
    let _ = app.devnet().drop_transaction(receipt.tx_hash).await;
    told.mine(2).await;
    let read = app.read_request(&id).await;
    assert_eq!(
        (
            &read["status"],
            &read["paidAmount"],
            &read["txHash"],
            &read["isListening"]
        ),
        (&json!("pending"), &json!("0"), &json!(null), &json!(true))
    );
    assert_eq!(read["payments"], json!([]));
    let reversed = app.payments_of(&id).await;
    assert_eq!(reversed.len(), 1, "it stays");
    assert_eq!(reversed[0]["id"], payment["id"]);
    assert_eq!(reversed[0]["reversal"]["reason"], "reorganised");
    assert_eq!(told.kinds().await, ["payment.confirmed", "payment.reversed"]);
    let event = told.events().await.pop().expect("an event");
    event_fits_its_schema(&event);
    for (member, value) in [
        ("paymentId", &payment["id"]),
        ("reason", &json!("reorganised")),
        ("requestId", &json!(id)),
        ("amount", &json!("5")),
        ("totalAmountPaid", &json!("0")),
        ("expectedAmount", &json!("5")),
        ("txHash", &json!(receipt.tx_hash.to_string())),
    ] {
        assert_eq!(&event[member], value, "{member}");
    }

    told.mine(1).await;
    assert_eq!(told.kinds().await.len(), 2, "it is told once");
    let again = vec![(ReorgTransaction::Raw(raw), 0)];
    app.devnet().reorg_with(1, again).await.expect("included again");
    told.mine(CONFIRMATIONS + 1).await;
    let read = app.read_request(&id).await;
    assert_eq!((&read["status"], &read["paidAmount"]), (&json!("paid"), &json!("5")));
    let back = app.payments_of(&id).await;
    assert_eq!(back.len(), 1, "the same payment");
    assert_eq!(back[0]["id"], payment["id"]);
    assert!(back[0].get("reversal").is_none());
    assert_eq!(
        told.kinds().await,
        ["payment.confirmed", "payment.reversed", "payment.confirmed"]
    );
}

#[tokio::test]
async fn one_of_two_payments_is_reversed_and_the_other_one_counts() {
    let told = Told::start(true).await;
    let app = &told.app;
    told.mine(CONFIRMATIONS).await;
    let id = app.create_request(&fau("5")).await;
    let first = app.pay(&id, "&amount=2").await;
    told.mine(CONFIRMATIONS).await;
    let second = app.pay(&id, "&amount=3").await;
    told.mine(CONFIRMATIONS).await;
    assert_eq!(app.read_request(&id).await["txHash"], second.tx_hash.to_string());
    app.devnet().reorg(CONFIRMATIONS + 1).await.expect("reorganised");
    let _ = app.devnet().drop_transaction(second.tx_hash).await;
    told.mine(2).await;
    let read = app.read_request(&id).await;
    assert_eq!(
        (&read["status"], &read["paidAmount"]),
        (&json!("partially_paid"), &json!("2"))
    );
    assert_eq!(read["payments"][0]["sourceTxHash"], first.tx_hash.to_string());
    let event = told.events().await.pop().expect("an event");
    assert_eq!(event["event"], "payment.reversed");
    assert_eq!(
        (&event["amount"], &event["totalAmountPaid"]),
        (&json!("3"), &json!("2"))
    );
}

#[tokio::test]
async fn without_the_event_the_request_is_counted_again_all_the_same() {
    let told = Told::start(false).await;
    let app = &told.app;
    told.mine(CONFIRMATIONS).await;
    let id = app.create_request(&fau("5")).await;
    let receipt = app.pay(&id, "").await;
    told.mine(CONFIRMATIONS).await;
    app.devnet().reorg(CONFIRMATIONS + 1).await.expect("reorganised");
    let _ = app.devnet().drop_transaction(receipt.tx_hash).await;
    told.mine(2).await;
    assert_eq!(app.read_request(&id).await["status"], "pending");
    assert_eq!(told.kinds().await, ["payment.confirmed"]);
}
