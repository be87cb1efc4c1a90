//! Cancelling requests, and payments that arrive anyway.

use crate::support::{
    TestApp,
    app::PAGE,
    chain::{PAYER, transactions},
    receiver::Receiver,
    requests::fau,
    session::sign_in,
    wallet::TestWallet,
};
use prs::{
    domain::{block_range::BlockRange, network::Network},
    flows::payments::reconcile,
};
use serde_json::{Value, json};

/// Cancels with a credential.
async fn cancel_as(app: &TestApp, credential: (&str, &str), id: &str) -> crate::support::Answer {
    let call = app.post(&format!("/v2/request/{id}/cancel"));
    call.header(credential.0, credential.1).send().await
}

async fn cancel(app: &TestApp, id: &str) -> crate::support::Answer {
    cancel_as(app, ("x-api-key", &app.key), id).await
}

#[tokio::test]
async fn cancelling_a_pending_request_is_repeatable() {
    let app = TestApp::start().await;
    let id = app.create_request(&fau("1.5")).await;
    app.get(&format!("/v2/request/{id}/pay"))
        .with_client()
        .send()
        .await
        .expect(200);
    assert_eq!(app.read_request(&id).await["isListening"], true);
    let first = cancel(&app, &id).await;
    assert_eq!(first.expect(200), json!({ "requestId": id, "status": "cancelled" }));
    app.advance_ms(1_000);
    assert_eq!(cancel(&app, &id).await.text, first.text);
    let read = app.read_request(&id).await;
    assert_eq!(
        (
            &read["status"],
            &read["hasBeenPaid"],
            &read["isListening"],
            &read["paidAmount"]
        ),
        (&json!("cancelled"), &json!(false), &json!(false), &json!("0"))
    );
    assert!(read.get("excessAmount").is_none());
    let refused = app.get(&format!("/v2/request/{id}/pay")).with_client().send().await;
    assert_eq!(refused.expect(400)["message"], "Request has been cancelled");
    assert_eq!(app.read_request(&id).await["isListening"], false);
    let listed = app.get("/v2/request").with_key().send().await.expect(200);
    assert_eq!(listed["requests"][0]["status"], "cancelled");
}

#[tokio::test]
async fn only_secret_credentials_of_the_platform_can_cancel() {
    let app = TestApp::start().await;
    let wallet = TestWallet::new(7);
    let bearer = format!("Bearer {}", sign_in(&app, &wallet).await);
    let (foreign, _) = app.other_tenant().await;
    let id = app.create_request(&fau("1")).await;
    let unknown = format!("01{}", "ab".repeat(32));
    // These credentials belong to other platforms, also that of the user who signs in.
    for stranger in [("x-api-key", foreign.as_str()), ("authorization", bearer.as_str())] {
        let refused = cancel_as(&app, stranger, &id).await.expect(404);
        assert_eq!(refused["message"], cancel(&app, &unknown).await.expect(404)["message"]);
    }
    let page = app.post(&format!("/v2/request/{id}/cancel"));
    let page = page.header("x-client-id", &app.page_client).header("origin", PAGE);
    page.send().await.expect(403);
    assert_eq!(app.read_request(&id).await["status"], "pending");
    cancel_as(&app, ("x-client-id", &app.backend_client), &id)
        .await
        .expect(200);
    let made = app.post("/v1/api-keys").header("authorization", &bearer);
    let made = made.json(&json!({ "label": "Shop" })).send().await.expect(201);
    let own = app
        .create_request_as(("x-api-key", made["apiKey"].as_str().expect("a key")), &fau("1"))
        .await;
    cancel_as(&app, ("authorization", &bearer), &own).await.expect(200);
}

#[tokio::test]
async fn paid_requests_cannot_be_cancelled() {
    let app = TestApp::on_chain().await;
    let (partly, paid) = (app.create_request(&fau("5")).await, app.create_request(&fau("5")).await);
    app.pay(&partly, "&amount=2").await;
    app.pay(&paid, "").await;
    app.follow().await;
    for (id, status) in [(&partly, "partially_paid"), (&paid, "paid")] {
        let refused = cancel(&app, id).await.expect(400);
        let sentence = format!("Only a pending request can be cancelled; this one is {status}");
        assert_eq!(refused["message"], sentence);
        assert_eq!(app.read_request(id).await["status"], status);
    }
}

/// Pays with calldata issued earlier; returns the hash of the payment.
async fn pay_with(app: &TestApp, calldata: &Value) -> String {
    let receipts = app.devnet().pay(PAYER, &transactions(calldata)).await.expect("mined");
    assert!(receipts.iter().all(|receipt| receipt.status), "a step failed");
    receipts.last().expect("a payment").tx_hash.to_string()
}

#[tokio::test]
async fn payments_to_a_cancelled_request_are_credited_but_do_not_complete_it() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let id = app.create_request(&fau("5")).await;
    let part = app.calldata(&id, "&amount=2").await;
    let whole = app.calldata(&id, "").await;
    cancel(&app, &id).await.expect(200);
    let hashes = [pay_with(&app, &part).await, pay_with(&app, &whole).await];
    app.settle().await;
    let read = app.read_request(&id).await;
    assert_eq!(
        (
            &read["status"],
            &read["hasBeenPaid"],
            &read["txHash"],
            &read["isListening"]
        ),
        (&json!("cancelled"), &json!(false), &json!(null), &json!(false))
    );
    assert_eq!((&read["paidAmount"], &read["excessAmount"]), (&json!("7"), &json!("7")));
    assert_eq!(app.payments_of(&id).await.len(), 2);
    let mut told: Vec<Value> = receiver.received().await.iter().map(|one| one.json()).collect();
    told.sort_by_key(|event| event["totalAmountPaid"].to_string());
    let shown: Vec<_> = told
        .iter()
        .map(|event| {
            [
                &event["event"],
                &event["txHash"],
                &event["totalAmountPaid"],
                &event["excessAmount"],
            ]
        })
        .collect();
    assert_eq!(
        shown,
        [
            [&json!("payment.partial"), &json!(hashes[0]), &json!("2"), &json!("2")],
            [&json!("payment.partial"), &json!(hashes[1]), &json!("7"), &json!("7")],
        ]
    );
    assert_eq!(cancel(&app, &id).await.expect(200)["status"], "cancelled");
    let untouched = app.create_request(&fau("5")).await;
    cancel(&app, &untouched).await.expect(200);
    let head = app.devnet().block_number().await.expect("a height");
    let chain = app.ctx.partners.chains.followed[&Network::Sepolia].clone();
    let report = reconcile::run(
        &app.ctx,
        chain.as_ref(),
        BlockRange { from: 0, to: head },
        false,
        &mut |_| {},
    )
    .await;
    assert_eq!(
        report.expect("compared").differences,
        0,
        "a cancelled request causes no difference"
    );
}

#[tokio::test]
async fn concurrent_payment_and_cancellation_have_one_outcome() {
    const ROUNDS: usize = 16;
    let app = TestApp::on_chain().await;
    let (mut paid, mut cancelled) = (0, 0);
    for round in 0..ROUNDS {
        let id = app.paid_request("1").await;
        let cancelling = async {
            // The start delays of the cancellation range from well before the payment is seen to well after it.
            tokio::time::sleep(std::time::Duration::from_millis(8 * round as u64)).await;
            cancel(&app, &id).await
        };
        let (answer, _) = tokio::join!(cancelling, app.follow());
        app.follow().await;
        let read = app.read_request(&id).await;
        match answer.status {
            200 => {
                assert_eq!(
                    (&read["status"], &read["excessAmount"]),
                    (&json!("cancelled"), &json!("1"))
                );
                cancelled += 1;
            }
            400 => {
                assert_eq!((&read["status"], read.get("excessAmount")), (&json!("paid"), None));
                paid += 1;
            }
            _ => panic!("{}", answer.text),
        }
        let events = app.get(&format!("/v2/events?requestId={id}")).with_key().send().await;
        let events = events.expect(200)["events"].as_array().expect("a list").len();
        assert_eq!(events, 1, "one payment is reported once");
    }
    println!("cancel: {cancelled} cancellations came first, {paid} payments did");
    assert_eq!(paid + cancelled, ROUNDS);
}
