//! The contract of a schedule has counted other payments than the service has. The service then corrects its record of
//! the schedule from the contract.

use crate::support::{
    TestApp,
    receiver::Receiver,
    schedules::{FIRST_DAY, MONTH_S, recurring, schedule, units},
};
use alloy::primitives::{B256, U256};
use prs::{
    domain::{ids::ScheduleId, reference::PaymentReference},
    store,
};
use serde_json::{Value, json};

/// Index of an account that, like this service, may execute payments in the contract.
const OTHER_RELAYER: usize = 6;

/// A payment reference that no request has.
const FOREIGN: PaymentReference = PaymentReference([7; 8]);

/// In milliseconds: longer than the relayer waits for a block before it raises the gas price of a transaction.
const LONGER_THAN_A_BID_MS: i64 = 200_000;

/// A schedule of three payments, its id, and a receiver of its events.
async fn scheduled() -> (TestApp, String, Receiver) {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let made = schedule(&app, &recurring(&app, 3)).await;
    app.admit_relayer(OTHER_RELAYER).await;
    let id = made["id"].as_str().expect("an id").to_owned();
    (app, id, receiver)
}

/// The payment reference of one payment of a schedule. `payment` counts the payments from 0.
async fn reference(app: &TestApp, id: &str, payment: usize) -> PaymentReference {
    let read = app.read_schedule(id).await;
    let text = read["requests"][payment]["paymentReference"].as_str().expect("text");
    PaymentReference(hex::decode_to_array(text).expect("eight bytes"))
}

/// Makes the other relayer execute a payment.
async fn execute_elsewhere(app: &TestApp, id: &str, number: u8, reference: PaymentReference) -> B256 {
    let id = ScheduleId(id.to_owned());
    let found = store::schedules::find(app.ctx.db.reader(), &app.platform, &id).await;
    let found = found.expect("a read").expect("a schedule");
    let signature = found.signature.expect("it is signed");
    let step = found.permit.trigger_step(&signature, number, reference);
    let contract = app.devnet().contracts().recurring_payment_proxy;
    let sent = app
        .devnet()
        .send(OTHER_RELAYER, contract, step.calldata, U256::ZERO)
        .await;
    let sent = sent.expect("mined");
    assert!(sent.status, "the transaction succeeds");
    sent.tx_hash
}

async fn assert_in_step(app: &TestApp, id: &str, payments: u8) {
    let read = app.read_schedule(id).await;
    let found = (&read["processedPayments"], &read["failureCount"], &read["status"]);
    let status = if payments == 3 { "completed" } else { "active" };
    assert_eq!(found, (&json!(payments), &json!(0), &json!(status)), "{read}");
}

async fn told(app: &TestApp, receiver: &Receiver) -> Vec<String> {
    app.deliver().await;
    let told = receiver.received().await;
    let kinds = told.iter().map(|one| one.json()["event"].as_str().map(str::to_owned));
    kinds.map(|kind| kind.expect("text")).collect()
}

#[tokio::test]
async fn a_payment_executed_by_another_relayer_counts() {
    let (app, id, receiver) = scheduled().await;
    let before = app.payee_balance().await;
    app.both_to(FIRST_DAY).await;
    let first = reference(&app, &id, 0).await;
    execute_elsewhere(&app, &id, 1, first).await;
    app.execute().await;
    assert_in_step(&app, &id, 1).await;
    let read = app.read_schedule(&id).await;
    assert_eq!(read["payments"].as_array().map(Vec::len), Some(1));
    assert_eq!(read["lastPaymentDate"], read["payments"][0]["timestamp"]);
    for month in 1..3 {
        app.both_to(FIRST_DAY + month * MONTH_S).await;
        app.execute().await;
    }
    assert_in_step(&app, &id, 3).await;
    assert_eq!(app.payee_balance().await - before, U256::from(3) * units("1.5"));
    assert_eq!(told(&app, &receiver).await, ["payment.confirmed"; 3]);
}

#[tokio::test]
async fn payments_with_unknown_references_count_and_settle_no_request() {
    let (app, id, receiver) = scheduled().await;
    let before = app.payee_balance().await;
    app.both_to(FIRST_DAY + 2 * MONTH_S).await;
    for number in [1, 2] {
        execute_elsewhere(&app, &id, number, FOREIGN).await;
    }
    app.execute().await;
    assert_in_step(&app, &id, 3).await;
    assert_eq!(app.payee_balance().await - before, U256::from(3) * units("1.5"));
    let read = app.read_schedule(&id).await;
    let mut open = Vec::new();
    for request in read["requests"].as_array().expect("a list") {
        let request = app.read_request(request["requestId"].as_str().expect("text")).await;
        open.push(request["status"].clone());
    }
    assert_eq!(open, ["pending", "pending", "paid"].map(Value::from));
    assert_eq!(told(&app, &receiver).await, ["payment.confirmed"]);
}

#[tokio::test]
async fn a_transaction_that_comes_second_is_not_a_payer_failure() {
    let (app, id, receiver) = scheduled().await;
    app.both_to(FIRST_DAY).await;
    let sent = app.send_and_forget().await;
    let first = reference(&app, &id, 0).await;
    execute_elsewhere(&app, &id, 1, first).await;
    app.execute().await;
    assert_in_step(&app, &id, 1).await;
    let mined = app.devnet().receipt(sent[0].bids[0].tx_hash).await.expect("asked");
    assert!(
        mined.is_some_and(|receipt| !receipt.status()),
        "the contract refused it"
    );
    assert!(app.pending_transactions().await.is_empty());
    assert_eq!(told(&app, &receiver).await, ["payment.confirmed"]);
}

#[tokio::test]
async fn a_payment_removed_by_a_reorganisation_is_executed_again() {
    let (app, id, receiver) = scheduled().await;
    let before = app.payee_balance().await;
    app.both_to(FIRST_DAY).await;
    app.execute().await;
    assert_in_step(&app, &id, 1).await;
    let read = app.read_schedule(&id).await;
    let undone: B256 = read["payments"][0]["txHash"]
        .as_str()
        .expect("text")
        .parse()
        .expect("a hash");
    let chain = app.devnet();
    let mined = chain.receipt(undone).await.expect("asked").expect("a receipt");
    let head = chain.block_number().await.expect("a height");
    let depth = head + 1 - mined.block_number.expect("a height");
    chain.reorg_with(depth, Vec::new()).await.expect("reorganised");
    let _ = chain.drop_transaction(undone).await;
    assert_eq!(app.payee_balance().await, before, "the payment is gone");
    chain.mine(2).await.expect("mined");
    app.settle().await;
    app.both_to(FIRST_DAY + MONTH_S).await;
    // The nonce of the first transaction is free again, and the transaction of the next nonce waits for it. After this
    // wait, the relayer sends the first transaction again.
    for _ in 0..8 {
        app.follow().await;
        app.relay_once().await.expect("a look");
        app.advance_ms(LONGER_THAN_A_BID_MS);
    }
    app.execute().await;
    assert_in_step(&app, &id, 2).await;
    assert_eq!(app.payee_balance().await - before, U256::from(2) * units("1.5"));
    let told = told(&app, &receiver).await;
    let count = |kind: &str| told.iter().filter(|told| *told == kind).count();
    assert_eq!(
        (
            count("payment.confirmed"),
            count("payment.reversed"),
            count("payment.failed")
        ),
        (3, 1, 0),
        "{told:?}"
    );
}

#[tokio::test]
async fn an_expired_permit_pauses_only_unexecuted_payments() {
    let (app, id, receiver) = scheduled().await;
    app.both_to(FIRST_DAY + 2 * MONTH_S).await;
    for number in 1..=3 {
        execute_elsewhere(&app, &id, number, FOREIGN).await;
    }
    app.both_to(FIRST_DAY + 4 * MONTH_S).await;
    app.execute().await;
    assert_in_step(&app, &id, 3).await;
    assert_eq!(told(&app, &receiver).await, Vec::<String>::new());
}
