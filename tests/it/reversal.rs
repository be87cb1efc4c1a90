//! A credited payment that leaves the chain is reversed with an event, and credited again when it returns.

use crate::{
    documents::event_fits_its_schema,
    support::{
        TestApp,
        chain::{PAYER, transactions},
        receiver::Receiver,
        requests::fau,
    },
};
use alloy::primitives::{Address, B256, U256};
use devnet::{Devnet, Options, ReorgTransaction};
use prs::{
    adapters::ids::SystemIds,
    boot::dev,
    domain::{block_range::BlockRange, reconciliation::RecordDifference},
    flows::payments::reconcile,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Number of blocks after which a payment counts as final. The setting is deliberately low, so that a final payment can
/// leave the chain.
pub const CONFIRMATIONS: u64 = 3;

/// A second paying account.
const SECOND_PAYER: usize = 4;

/// A call that pays through a proxy contract: the contract, the input of the call, and the native value.
type Payment = (Address, Vec<u8>, U256);

/// A payment that was sent.
struct Sent {
    tx_hash: B256,
    raw: Vec<u8>,
}

struct Told {
    app: TestApp,
    receiver: Receiver,
}

/// A service on a chain whose final payments can still leave it.
pub async fn reversible_app(reversals: bool) -> TestApp {
    let chain = Arc::new(Devnet::start(Options::default()).await.expect("the local chain starts"));
    let mut settings = crate::support::app::settings();
    let mut section = dev::chain_settings(&chain, vec![chain.rpc_url().to_owned()]);
    section.confirmations = Some(CONFIRMATIONS);
    settings.chains.insert("sepolia".to_owned(), section);
    settings.webhooks.reversals = reversals;
    TestApp::with(settings, Some(chain)).await
}

/// Mines this number of blocks and follows the chain, so that some blocks are settled and their hashes are stored.
pub async fn mine(app: &TestApp, blocks: u64) {
    for _ in 0..blocks {
        app.devnet().mine(1).await.expect("mined");
        app.follow().await;
    }
    app.settle().await;
}

impl Told {
    async fn start(reversals: bool) -> Self {
        let app = reversible_app(reversals).await;
        let receiver = Receiver::start().await;
        app.register(&receiver.url()).await;
        Self { app, receiver }
    }

    async fn mine(&self, blocks: u64) {
        mine(&self.app, blocks).await;
    }

    async fn events(&self) -> Vec<Value> {
        self.receiver.received().await.iter().map(|one| one.json()).collect()
    }

    /// The call that pays a request or a part of it. The first account has already approved the proxy.
    async fn payment(&self, id: &str, query: &str) -> Payment {
        let calldata = self.app.calldata(id, query).await;
        transactions(&calldata).pop().expect("a payment")
    }

    /// Gives the second account tokens and an approval, so that it can pay through the proxy of a call.
    async fn fund_second(&self, payment: &Payment) {
        let devnet = self.app.devnet();
        let (fau, plenty) = (devnet.tokens().fau, U256::from(10).pow(U256::from(21)));
        let account = devnet.accounts()[SECOND_PAYER].address;
        devnet.mint(fau, account, plenty).await.expect("mined");
        devnet
            .approve(SECOND_PAYER, fau, payment.0, plenty)
            .await
            .expect("mined");
    }

    /// Creates a request of 5 FAU, pays it and waits until the payment is final; returns the payment.
    async fn paid(&self) -> (String, Sent) {
        self.mine(CONFIRMATIONS).await;
        let id = self.app.create_request(&fau("5")).await;
        let tx_hash = self.app.pay(&id, "").await.tx_hash;
        let raw = self.app.devnet().raw_transaction(tx_hash).await.expect("a transaction");
        self.mine(CONFIRMATIONS).await;
        (id, Sent { tx_hash, raw })
    }

    async fn pay(&self, account: usize, payment: &Payment) -> Sent {
        let devnet = self.app.devnet();
        let receipts = devnet.pay(account, std::slice::from_ref(payment)).await.expect("mined");
        let tx_hash = receipts[0].tx_hash;
        assert!(receipts[0].status, "the transaction succeeds");
        let raw = devnet.raw_transaction(tx_hash).await.expect("a transaction");
        Sent { tx_hash, raw }
    }

    /// Replaces the newest `depth` blocks. The transactions in `kept` are in the first new block; the transactions in
    /// `gone` are dropped.
    async fn undo(&self, depth: u64, kept: &[&Sent], gone: &[&Sent]) {
        let kept = kept.iter().map(|sent| (ReorgTransaction::Raw(sent.raw.clone()), 0));
        let devnet = self.app.devnet();
        devnet.reorg_with(depth, kept.collect()).await.expect("reorganised");
        for sent in gone {
            let _ = devnet.drop_transaction(sent.tx_hash).await;
        }
        self.mine(2).await;
    }

    /// Includes dropped transactions again and waits until they are final.
    async fn include(&self, back: &[&Sent]) {
        let back = back.iter().map(|sent| (ReorgTransaction::Raw(sent.raw.clone()), 0));
        self.app.devnet().reorg_with(1, back.collect()).await.expect("included");
        self.mine(CONFIRMATIONS + 1).await;
    }

    /// Status and paid amount of a request.
    async fn standing(&self, id: &str) -> (Value, Value) {
        let read = self.app.read_request(id).await;
        (read["status"].clone(), read["paidAmount"].clone())
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
async fn a_payment_is_reversed_and_credited_again_when_it_returns() {
    let told = Told::start(true).await;
    let app = &told.app;
    let (id, paid) = told.paid().await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
    let payment = app.payments_of(&id).await[0].clone();
    assert!(payment.get("reversal").is_none());

    app.devnet().reorg(CONFIRMATIONS + 1).await.expect("reorganised");
    let _ = app.devnet().drop_transaction(paid.tx_hash).await;
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
    assert_eq!(reversed.len(), 1, "the payment stays in the list");
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
        ("txHash", &json!(paid.tx_hash.to_string())),
    ] {
        assert_eq!(&event[member], value, "{member}");
    }

    told.mine(1).await;
    assert_eq!(told.kinds().await.len(), 2, "the reversal is reported once");
    let again = vec![(ReorgTransaction::Raw(paid.raw), 0)];
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
async fn one_of_two_payments_is_reversed_and_the_other_still_counts() {
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
async fn a_reversal_of_a_cancelled_request_leaves_it_cancelled() {
    let told = Told::start(true).await;
    let app = &told.app;
    told.mine(CONFIRMATIONS).await;
    let id = app.create_request(&fau("5")).await;
    let steps = transactions(&app.calldata(&id, "").await);
    let cancelled = app.post(&format!("/v2/request/{id}/cancel")).with_client();
    cancelled.send().await.expect(200);
    let receipts = app.devnet().pay(PAYER, &steps).await.expect("mined");
    let tx_hash = receipts.last().expect("a payment").tx_hash;
    let raw = app.devnet().raw_transaction(tx_hash).await.expect("a transaction");
    told.mine(CONFIRMATIONS).await;
    assert_eq!(told.standing(&id).await, (json!("cancelled"), json!("5")));
    app.devnet().reorg(CONFIRMATIONS + 1).await.expect("reorganised");
    let _ = app.devnet().drop_transaction(tx_hash).await;
    told.mine(2).await;
    assert_eq!(told.standing(&id).await, (json!("cancelled"), json!("0")));
    assert!(app.read_request(&id).await.get("excessAmount").is_none());
    let again = vec![(ReorgTransaction::Raw(raw), 0)];
    app.devnet().reorg_with(1, again).await.expect("included again");
    told.mine(CONFIRMATIONS + 1).await;
    assert_eq!(told.standing(&id).await, (json!("cancelled"), json!("5")));
    assert_eq!(
        told.kinds().await,
        ["payment.partial", "payment.reversed", "payment.partial"]
    );
}

#[tokio::test]
async fn with_reversals_off_the_request_is_still_recounted() {
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

#[tokio::test]
async fn an_unreported_surplus_sends_no_reversal() {
    let told = Told::start(true).await;
    told.mine(CONFIRMATIONS).await;
    let id = told.app.create_request(&fau("5")).await;
    let payment = told.payment(&id, "").await;
    told.app.pay(&id, "").await;
    told.mine(CONFIRMATIONS).await;
    let surplus = told.pay(PAYER, &payment).await;
    told.mine(CONFIRMATIONS).await;
    assert_eq!(told.standing(&id).await, (json!("paid"), json!("10")));
    told.undo(CONFIRMATIONS + 1, &[], &[&surplus]).await;
    assert_eq!(told.standing(&id).await, (json!("paid"), json!("5")));
    told.include(&[&surplus]).await;
    assert_eq!(told.standing(&id).await, (json!("paid"), json!("10")));
    assert_eq!(told.kinds().await, ["payment.confirmed"]);
}

#[tokio::test]
async fn a_request_covered_by_a_surplus_is_confirmed_again() {
    let told = Told::start(true).await;
    told.mine(CONFIRMATIONS).await;
    let id = told.app.create_request(&fau("5")).await;
    let payment = told.payment(&id, "").await;
    told.app.pay(&told.app.create_request(&fau("1")).await, "").await;
    told.fund_second(&payment).await;
    told.mine(CONFIRMATIONS).await;
    let before = told.events().await.len();
    let first = told.pay(PAYER, &payment).await;
    let surplus = told.pay(SECOND_PAYER, &payment).await;
    told.mine(CONFIRMATIONS).await;
    let depth = CONFIRMATIONS + 2;
    told.undo(depth, &[&surplus], &[&first]).await;
    assert_eq!(told.standing(&id).await, (json!("paid"), json!("5")));
    let events = &told.events().await[before..];
    let facts = |event: &Value| ["event", "txHash", "totalAmountPaid"].map(|member| event[member].clone());
    let (first_hash, surplus_hash) = (json!(first.tx_hash.to_string()), json!(surplus.tx_hash.to_string()));
    let expected = [
        [json!("payment.confirmed"), first_hash.clone(), json!("5")],
        [json!("payment.reversed"), first_hash, json!("5")],
        [json!("payment.confirmed"), surplus_hash.clone(), json!("5")],
    ];
    assert_eq!(events.iter().map(facts).collect::<Vec<_>>(), expected);
    told.include(&[&first]).await;
    assert_eq!(told.standing(&id).await, (json!("paid"), json!("10")));
    assert_eq!(
        told.events().await.len(),
        before + 3,
        "the former payment is now the surplus"
    );
    let depth = 2 * CONFIRMATIONS + 8;
    told.undo(depth, &[&first], &[&surplus]).await;
    assert_eq!(told.standing(&id).await, (json!("paid"), json!("5")));
    let kinds = told.kinds().await;
    assert_eq!(kinds[before + 3..], ["payment.reversed", "payment.confirmed"]);
}

#[tokio::test]
async fn payments_that_leave_together_are_reversed_and_reported_once() {
    let told = Told::start(true).await;
    told.mine(CONFIRMATIONS).await;
    let id = told.app.create_request(&fau("5")).await;
    let payment = told.payment(&id, "").await;
    told.app.pay(&told.app.create_request(&fau("1")).await, "").await;
    told.mine(CONFIRMATIONS).await;
    let before = told.events().await.len();
    let first = told.pay(PAYER, &payment).await;
    let surplus = told.pay(PAYER, &payment).await;
    told.mine(CONFIRMATIONS).await;
    told.undo(CONFIRMATIONS + 2, &[], &[&first, &surplus]).await;
    assert_eq!(told.standing(&id).await, (json!("pending"), json!("0")));
    let kinds = async || told.kinds().await[before..].to_vec();
    assert_eq!(kinds().await, ["payment.confirmed", "payment.reversed"]);
    assert_eq!(told.events().await.pop().expect("an event")["totalAmountPaid"], "0");
    told.include(&[&first, &surplus]).await;
    assert_eq!(told.standing(&id).await, (json!("paid"), json!("10")));
    let expected = ["payment.confirmed", "payment.reversed", "payment.confirmed"];
    assert_eq!(kinds().await, expected);
}

#[tokio::test]
async fn events_of_one_commit_sort_by_delivery_id() {
    let mut told = Told::start(true).await;
    // Ids of the tests always sort in the order of their creation. This test uses the ids of production, which may sort
    // otherwise within one millisecond.
    told.app.ctx.ids = Arc::new(SystemIds::new(told.app.ctx.clock.clone()));
    told.mine(CONFIRMATIONS).await;
    let id = told.app.create_request(&fau("10")).await;
    let payment = told.payment(&id, "&amount=1").await;
    told.app.pay(&told.app.create_request(&fau("1")).await, "").await;
    told.mine(CONFIRMATIONS).await;
    let mut parts = Vec::new();
    for _ in 0..5 {
        parts.push(told.pay(PAYER, &payment).await);
    }
    told.mine(CONFIRMATIONS).await;
    assert_eq!(told.standing(&id).await, (json!("partially_paid"), json!("5")));
    let before = told.events().await.len();
    let gone: Vec<&Sent> = parts.iter().collect();
    told.undo(CONFIRMATIONS + 5, &[], &gone).await;
    let mut received = told.receiver.received().await.split_off(before);
    for header in ["x-service-delivery", "webhook-id"] {
        received.sort_by_key(|one| one.header(header).expect("an id").to_owned());
        let totals: Vec<Value> = received
            .iter()
            .map(|one| one.json()["totalAmountPaid"].clone())
            .collect();
        assert_eq!(totals, ["4", "3", "2", "1", "0"], "{header}");
    }
    let listed = told
        .app
        .get("/v2/events?event=payment.reversed")
        .with_key()
        .send()
        .await
        .expect(200);
    let ids: Vec<&Value> = listed["events"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| &event["id"])
        .collect();
    assert_eq!(ids.len(), 5);
}

#[tokio::test]
async fn without_reversals_no_event_is_sent_twice() {
    let told = Told::start(false).await;
    told.mine(CONFIRMATIONS).await;
    let id = told.app.create_request(&fau("5")).await;
    let payment = told.payment(&id, "").await;
    told.app.pay(&told.app.create_request(&fau("1")).await, "").await;
    told.mine(CONFIRMATIONS).await;
    let before = told.events().await.len();
    let paid = told.pay(PAYER, &payment).await;
    told.mine(CONFIRMATIONS).await;
    for depth in [CONFIRMATIONS + 1, CONFIRMATIONS + 2] {
        told.undo(depth, &[], &[&paid]).await;
        assert_eq!(told.standing(&id).await, (json!("pending"), json!("0")));
        told.include(&[&paid]).await;
        assert_eq!(told.standing(&id).await, (json!("paid"), json!("5")));
    }
    assert_eq!(told.kinds().await[before..], ["payment.confirmed"]);
}

#[tokio::test]
async fn without_reversals_a_returning_last_part_completes_the_request() {
    let told = Told::start(false).await;
    told.mine(CONFIRMATIONS).await;
    let id = told.app.create_request(&fau("5")).await;
    let (two, three) = (
        told.payment(&id, "&amount=2").await,
        told.payment(&id, "&amount=3").await,
    );
    told.app.pay(&told.app.create_request(&fau("1")).await, "").await;
    told.fund_second(&two).await;
    told.mine(CONFIRMATIONS).await;
    let before = told.events().await.len();
    let part = told.pay(PAYER, &two).await;
    told.mine(CONFIRMATIONS).await;
    told.undo(CONFIRMATIONS + 1, &[], &[&part]).await;
    told.pay(SECOND_PAYER, &three).await;
    told.mine(CONFIRMATIONS).await;
    told.include(&[&part]).await;
    assert_eq!(told.standing(&id).await, (json!("paid"), json!("5")));
    let expected = ["payment.partial", "payment.partial", "payment.confirmed"];
    assert_eq!(told.kinds().await[before..], expected);
}

#[tokio::test]
async fn a_moved_payment_shows_its_new_block_and_time() {
    let told = Told::start(true).await;
    let app = &told.app;
    let (id, paid) = told.paid().await;
    let before = app.payments_of(&id).await[0].clone();
    app.devnet().rollback(CONFIRMATIONS + 1).await.expect("rolled back");
    app.devnet().increase_time(600).await.expect("a later block");
    // The node may have put the transaction back into its pool.
    let raw = json!([hex::encode_prefixed(&paid.raw)]);
    let _ = app.devnet().rpc("eth_sendRawTransaction", raw).await;
    told.mine(CONFIRMATIONS + 1).await;
    let moved = app
        .devnet()
        .receipt(paid.tx_hash)
        .await
        .expect("an answer")
        .expect("a receipt");
    let block = moved.block_number.expect("mined");
    let block = app.devnet().block(block).await.expect("an answer").expect("a block");
    let after = app.payments_of(&id).await;
    assert_eq!((after.len(), &after[0]["id"]), (1, &before["id"]), "the same payment");
    let shown = chrono::DateTime::parse_from_rfc3339(after[0]["timestamp"].as_str().expect("text")).expect("a time");
    assert_eq!(u64::try_from(shown.timestamp()).expect("after 1970"), block.timestamp);
    assert_ne!(after[0]["timestamp"], before["timestamp"]);
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let end = app.follow().await.confirmed;
    let mut differences = Vec::new();
    let mut tell = |found: &RecordDifference| differences.push(found.clone());
    let report = reconcile::run(
        &app.ctx,
        chain.as_ref(),
        BlockRange { from: 0, to: end },
        false,
        &mut tell,
    )
    .await;
    assert_eq!(report.expect("compared").same, 1);
    assert_eq!(differences, []);
    assert_eq!(told.kinds().await, ["payment.confirmed"], "the money never left");
    assert_eq!(app.read_request(&id).await["paidAmount"], "5");
}
