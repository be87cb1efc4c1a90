//! Strict clients, one in Rust and one in Python, read every response from the creation of a request to its deliveries.
//! Unknown members, missing members, members of another type and whole numbers with a fraction are errors.
//!
//! Source: decisions D31.

mod bodies;

use crate::support::{
    Answer, TestApp,
    chain::{PAYER, transactions},
    receiver::Receiver,
    requests::fau,
};
use alloy::primitives::B256;
use bodies::{
    Created, DeliveryDetail, DeliveryPage, EventDetail, EventPage, Hook, HookCreated, Hooks, Page, Payable,
    RequestView, Requests, Search, Tested,
};
use poem::http::Method;
use prs::{
    domain::{
        ids::QuarantineId,
        network::Network,
        oddity::{ConcernedRequest, OddReason, Oddity},
    },
    store::{self, Scope},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::Command,
};

/// Reads a response as the strict client in Rust does.
#[track_caller]
fn read<T: DeserializeOwned>(answer: &Answer, status: u16) -> T {
    assert_eq!(answer.status, status, "{}", answer.text);
    serde_json::from_str(&answer.text).unwrap_or_else(|error| panic!("{error} in {}", answer.text))
}

/// The body of the request that both clients create.
fn order() -> Value {
    let mut order = fau("1.5");
    order["reference"] = json!("INV-7");
    order["customerInfo"] = json!({ "firstName": "Ada", "address": { "country": "GB" } });
    order
}

/// Number of blocks after which a payment counts as final; few enough for a reorganisation to remove a payment.
const CONFIRMATIONS: u64 = 3;

async fn mine(app: &TestApp, blocks: u64) {
    for _ in 0..blocks {
        app.devnet().mine(1).await.expect("mined");
        app.follow().await;
    }
    app.deliver().await;
}

/// Starts a service and lets it read the blocks of its chain one by one.
async fn start() -> TestApp {
    let app = TestApp::on_chain_with(CONFIRMATIONS).await;
    mine(&app, CONFIRMATIONS).await;
    app
}

async fn pay(app: &TestApp, calldata: &Value) {
    let steps = transactions(calldata);
    app.devnet().pay(PAYER, &steps).await.expect("mined");
    mine(app, CONFIRMATIONS).await;
}

/// Removes the payment of a request from the chain, and puts another payment into the quarantine.
async fn undo(app: &TestApp, id: &str, tx_hash: B256) {
    app.devnet().reorg(CONFIRMATIONS + 1).await.expect("reorganised");
    let _ = app.devnet().drop_transaction(tx_hash).await;
    mine(app, 2).await;
    let scope = Scope {
        platform: app.platform.clone(),
        client: None,
    };
    let found = store::requests::find(app.ctx.db.reader(), &scope, id).await;
    let odd = Oddity {
        network: Network::Sepolia,
        block_number: 1,
        tx_hash: Some(tx_hash),
        position: Some(2),
        reason: OddReason::NothingMoved,
        detail: "seen by node 1".to_owned(),
        concerned: Some(ConcernedRequest::of(&found.expect("a store").expect("a request"))),
    };
    let row = QuarantineId(app.ctx.ids.ulid());
    let put = store::quarantine::put(app.ctx.db.writer(), &odd, row, app.ctx.clock.now()).await;
    put.expect("a row");
}

#[tokio::test]
async fn a_strict_client_in_rust_reads_every_response() {
    let app = start().await;
    let receiver = Receiver::start().await;
    let get = async |path: &str| app.get(path).with_key().send().await;

    let hook = json!({ "url": receiver.url() });
    let answer = app.post("/v1/webhook").with_client().json(&hook).send().await;
    let hook: HookCreated = read(&answer, 201);
    let hooks: Hooks = read(&app.get("/v1/webhook").with_client().send().await, 200);
    assert_eq!((hooks.webhooks.len(), &hooks.webhooks[0].id), (1, &hook.id));
    assert!(hooks.webhooks[0].is_active && !hook.secret.is_empty() && !hook.standard_secret.is_empty());
    let sample = json!({ "eventType": "payment.confirmed" });
    let answer = app.post("/v1/webhook/test").with_client().json(&sample).send().await;
    let Tested { sent, failed } = read(&answer, 200);
    assert_eq!((sent, failed), (1, 0));

    let answer = app.post("/v2/request").with_client().json(&order()).send().await;
    let created: Created = read(&answer, 201);
    let id = created.request_id;
    let path = format!("/v2/request/{id}");
    let listed: Requests = read(&get("/v2/request").await, 200);
    assert_eq!(listed.pagination, Page::of(1));
    assert_eq!(
        (&listed.requests[0].request_id, &listed.requests[0].tx_hash),
        (&id, &None)
    );
    let before: RequestView = read(&get(&path).await, 200);
    assert_eq!(
        (before.status.as_str(), &before.tx_hash, before.payments.len()),
        ("pending", &None, 0)
    );
    assert_eq!(before.payment_reference, created.payment_reference);

    let wallet = app.account(PAYER);
    let fee = format!("feePercentage=2.5&feeAddress={wallet}");
    let answer = get(&format!("{path}/pay?wallet={wallet}&{fee}")).await;
    let payable: Payable = read(&answer, 200);
    let fee = payable
        .metadata
        .platform_fee
        .as_ref()
        .expect("the fee that was requested");
    assert_eq!((fee.percentage.as_str(), &fee.address), ("2.5", &wallet));
    assert_eq!(payable.metadata.steps_required, payable.transactions.len());
    assert_eq!(payable.metadata.approval_transaction_index, Some(0));
    assert_eq!(payable.metadata.payment_transaction_index, 1);
    pay(&app, &answer.json()).await;

    let after: RequestView = read(&get(&path).await, 200);
    assert_eq!(
        (after.status.as_str(), after.has_been_paid, after.payments.len()),
        ("paid", true, 1)
    );
    assert_eq!(
        (after.reference.as_deref(), after.conversion_breakdown),
        (Some("INV-7"), None)
    );
    let found: Search = read(&get(&format!("/v2/payments?requestId={id}")).await, 200);
    assert_eq!(found.pagination, Page::of(1));
    assert_eq!(
        (
            &found.payments[0].source_tx_hash,
            &found.payments[0].conversion_rate_source
        ),
        (&after.tx_hash, &None)
    );
    assert_eq!(
        (&found.payments[0].reversal, &after.quarantined_payments),
        (&None, &None)
    );
    let again: Payable = read(&get(&format!("/v2/request/{}/pay", second(&app).await)).await, 200);
    assert!(again.metadata.needs_approval);

    let paid = after.tx_hash.as_deref().expect("paid").parse().expect("a hash");
    undo(&app, &id, paid).await;
    let undone: RequestView = read(&get(&path).await, 200);
    assert_eq!((undone.status.as_str(), undone.payments.len()), ("pending", 0));
    let aside = &undone.quarantined_payments.expect("one")[0];
    assert_eq!((aside.position, aside.reason.as_str()), (Some(2), "nothing_moved"));
    let found: Search = read(&get(&format!("/v2/payments?requestId={id}")).await, 200);
    let reversal = found.payments[0].reversal.as_ref().expect("taken back");
    assert_eq!(reversal.reason, "reorganised");

    let events: EventPage = read(&get("/v2/events").await, 200);
    assert_eq!((events.events.len(), events.next_cursor), (3, None));
    for event in &events.events {
        let detail: EventDetail = read(&get(&format!("/v2/events/{}", event.id)).await, 200);
        assert_eq!((&detail.event, detail.deliveries.len()), (event, 1));
    }
    let deliveries: DeliveryPage = read(&get("/v2/deliveries").await, 200);
    assert_eq!((deliveries.deliveries.len(), deliveries.next_cursor), (3, None));
    for delivery in &deliveries.deliveries {
        let detail: DeliveryDetail = read(&get(&format!("/v2/deliveries/{}", delivery.id)).await, 200);
        assert_eq!((&detail.delivery, detail.tries.len()), (delivery, 1));
        assert_eq!((detail.tries[0].number, detail.tries[0].status), (1, Some(200)));
    }

    let path = format!("/v1/webhook/{}", hook.id);
    let off: Hook = read(&app.call(Method::PUT, &path).with_client().send().await, 200);
    assert!(!off.is_active);
    let gone = app.call(Method::DELETE, &path).with_client().send().await;
    assert_eq!(read::<Value>(&gone, 200), json!({ "success": true }));
}

/// Creates a second request, which stays unpaid.
async fn second(app: &TestApp) -> String {
    app.create_request(&fau("2")).await
}

/// The Python client prints `pay` and its calldata when this test has to pay, and then reads `paid`. Later it prints
/// `undo` and a transaction hash when this test has to remove the payment.
#[tokio::test]
async fn a_strict_client_in_python_reads_every_response() {
    let app = start().await;
    let receiver = Receiver::start().await;
    let service = format!("http://{}", app.listen().await);
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/strict_client/client.py");
    let credentials = [app.key.as_str(), app.backend_client.as_str()];
    let mut client = Command::new("python3")
        .arg(program)
        .arg(&service)
        .args(credentials)
        .args([app.account(PAYER), receiver.url(), order().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("python3 is needed");
    let mut lines = BufReader::new(client.stdout.take().expect("piped")).lines();
    let mut told = client.stdin.take().expect("piped");
    let mut count = None;
    while let Some(line) = app.with_worker(lines.next_line()).await.expect("readable") {
        match line.split_once(' ').expect("a word and what it is about") {
            ("pay", calldata) => {
                pay(&app, &serde_json::from_str(calldata).expect("JSON")).await;
                told.write_all(b"paid\n").await.expect("written");
            }
            ("undo", tx_hash) => {
                let payments = app.payments_in(tx_hash.parse().expect("a hash")).await;
                let id = payments[0]["request"]["requestId"].as_str().expect("text").to_owned();
                undo(&app, &id, tx_hash.parse().expect("a hash")).await;
                told.write_all(b"undone\n").await.expect("written");
            }
            ("read", answers) => count = Some(answers.parse::<u32>().expect("a number")),
            other => panic!("{other:?}"),
        }
    }
    assert!(
        client.wait().await.expect("ended").success(),
        "see what it says on stderr"
    );
    assert!(count.is_some_and(|count| count >= 15), "{count:?} answers");
    assert_eq!(receiver.received().await.len(), 3);
}
