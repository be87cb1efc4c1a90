//! What whoever read a public client ID off a page learns of the links of other visitors: nothing that opens one, and
//! nothing that one hides.

use crate::{
    documents::event_fits_its_schema,
    support::{
        TestApp,
        app::{forged, settings},
        links::{link_of, payout_of, token_of},
        receiver::{Received, Receiver},
        requests::PAYEE,
    },
};
use poem::http::Method;
use serde_json::{Value, json};

const LISTED: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const UNLISTED: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";

/// The bodies that an endpoint received since it was asked last, of these events.
async fn heard(receiver: &Receiver, kinds: &[&str]) -> Vec<Received> {
    let received = receiver.received().await.into_iter();
    received
        .filter(|one| kinds.iter().any(|kind| one.json()["event"] == *kind))
        .collect()
}

#[tokio::test]
async fn an_endpoint_that_nobody_approved_hears_no_token_of_a_link() {
    let mut settings = settings();
    settings.webhooks.scoped_variants = true;
    let app = TestApp::on_chain_as(settings, 1).await;
    app.is_paid_in("FAU-sepolia").await;
    let receiver = Receiver::start().await;
    let register = forged(&app, Method::POST, "/v1/webhook");
    let registered = register
        .json(&json!({ "url": receiver.url() }))
        .send()
        .await
        .expect(201);
    let kinds = ["secure_payment.user_event", "payment.confirmed.checkout"];
    let visit = async || {
        let link = forged(&app, Method::POST, "/v2/secure-payments");
        let made = link.json(&link_of(&["1"])).send().await.expect(201);
        let step = json!({ "userEvent": "wallet_connected", "occurredAt": "2020-01-01T00:00:00Z" });
        let path = format!("/v2/secure-payments/{}/events", token_of(&made));
        app.post(&path).with_key().json(&step).send().await.expect(202);
        app.pay_link(&token_of(&made)).await;
        app.settle().await;
        made
    };
    let made = visit().await;
    let told = heard(&receiver, &kinds).await;
    assert_eq!(told.len(), 2);
    for one in &told {
        let body = one.json();
        event_fits_its_schema(&body);
        assert!(!one.body.contains(&token_of(&made)), "{}", one.body);
        assert_eq!(body.get("securePaymentToken"), Some(&Value::Null));
    }
    let step = told[0].json();
    assert_eq!((step.get("requestId"), &step["requestIds"]), (None, &json!([])));

    let path = format!("/v1/webhook/{}/approve", registered["id"].as_str().expect("text"));
    app.post(&path).with_key().send().await.expect(200);
    let made = visit().await;
    let told = heard(&receiver, &kinds).await;
    assert_eq!(told.len(), 4);
    for one in &told[2..] {
        assert_eq!(one.json()["securePaymentToken"], made["token"]);
    }
    assert_eq!(told[2].json()["requestIds"], made["requestIds"]);
}

