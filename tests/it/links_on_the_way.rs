//! Payments of links in flight: what other visitors see of them, and who may report one.

use crate::support::{
    TestApp,
    app::forged,
    chain::PAYER,
    links::{link_of, token_of},
};
use poem::http::Method;
use serde_json::{Value, json};

/// Number of blocks until a payment is final in these tests.
const CONFIRMATIONS: u64 = 6;

/// A time in milliseconds after which the page no longer shows that a reported payment is in flight.
const AFTER_HINTS_MS: i64 = 150_000;

const LISTED: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const UNLISTED: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";
const HASH: &str = "0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071";

async fn app() -> TestApp {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    app
}

fn masked() -> Value {
    let mut body = link_of(&["1"]);
    body["accessPolicy"] = json!({ "allowedPayerAddresses": [LISTED], "hideUntilApproved": true });
    body
}

fn intent(payer: Option<&str>) -> Value {
    let mut body = json!({ "txHash": HASH, "chain": "SEPOLIA", "token": "FAU" });
    if let Some(payer) = payer {
        body["payerAddress"] = json!(payer);
    }
    body
}

#[tokio::test]
async fn a_detected_payment_is_in_flight_until_final() {
    let app = TestApp::on_chain_with(CONFIRMATIONS).await;
    app.is_paid_in("FAU-sepolia").await;
    let link = token_of(&app.link(&link_of(&["2", "3"])).await.expect(201));
    let look = async || {
        let opened = app.open_link(&link, "").send().await.expect(200);
        let state = app.get(&format!("/pay/{link}/state")).send().await.expect(200);
        let shown = state["inFlight"]["until"].as_str().map(str::to_owned);
        let now = state["serverTime"].as_str().expect("a time").to_owned();
        (opened["inFlight"].as_bool().expect("a boolean"), shown, now)
    };
    let (is_in_flight, until, _) = look().await;
    assert_eq!((is_in_flight, until), (false, None), "no payment yet");
    app.pay_link(&link).await;
    app.follow().await;
    for _ in 0..3 {
        let (is_in_flight, until, now) = look().await;
        assert!(is_in_flight, "seen and not final");
        assert!(until.expect("a time") > now, "the page warns");
        app.advance_ms(AFTER_HINTS_MS);
    }
    // The hint only warns: a payer who continues can pay.
    app.calldata_of(&link, Some(&app.account(PAYER))).await.expect(200);
    app.devnet().mine(CONFIRMATIONS).await.expect("mined");
    app.settle().await;
    app.open_link(&link, "").send().await.expect(409);
    let state = app.get(&format!("/pay/{link}/state")).send().await.expect(200);
    assert_eq!(
        (&state["status"], &state["inFlight"]),
        (&json!("completed"), &Value::Null)
    );
}

#[tokio::test]
async fn a_partial_payment_that_leaves_the_chain_is_no_longer_in_flight() {
    let app = TestApp::on_chain_with(CONFIRMATIONS).await;
    app.is_paid_in("FAU-sepolia").await;
    let made = app.link(&link_of(&["5"])).await.expect(201);
    let link = token_of(&made);
    app.calldata_of(&link, Some(&app.account(PAYER))).await.expect(200);
    let before = app.devnet().block_number().await.expect("a height");
    app.pay_past_link(&made["requestIds"][0], "2").await;
    app.follow().await;
    assert_eq!(app.open_link(&link, "").send().await.expect(200)["inFlight"], true);
    let after = app.devnet().block_number().await.expect("a height");
    app.devnet().reorg(after - before).await.expect("a reorganisation");
    app.devnet().mine(1).await.expect("mined");
    app.follow().await;
    assert_eq!(app.open_link(&link, "").send().await.expect(200)["inFlight"], false);
}

#[tokio::test]
async fn a_refused_wallet_cannot_report_payments() {
    let app = app().await;
    let mut open = link_of(&["1"]);
    open["accessPolicy"] = json!({ "allowedPayerAddresses": [LISTED] });
    for body in [open, masked()] {
        let link = token_of(&app.link(&body).await.expect(201));
        let path = format!("/v2/secure-payments/{link}/intent");
        for call in [app.post(&path).with_key(), forged(&app, Method::POST, &path)] {
            let refused = call.json(&intent(Some(UNLISTED))).send().await.expect(403);
            assert_eq!(refused["message"], "Wallet is not allowed to pay this secure payment");
        }
        let page = app
            .post(&format!("/pay/{link}/intent"))
            .header("sec-fetch-site", "same-origin");
        let sent = json!({ "txHash": HASH, "payerAddress": UNLISTED });
        page.json(&sent).send().await.expect(403);
        let opened = app
            .open_link(&link, &format!("?wallet={LISTED}"))
            .send()
            .await
            .expect(200);
        assert_eq!(opened["inFlight"], false, "no intent was recorded");
        let noted = app.post(&path).with_key().json(&intent(Some(LISTED))).send().await;
        assert!(noted.expect(200)["paymentReference"].is_string());
    }
}

#[tokio::test]
async fn an_intent_for_a_hidden_link_requires_a_payer_address() {
    let app = app().await;
    let link = token_of(&app.link(&masked()).await.expect(201));
    let path = format!("/v2/secure-payments/{link}/intent");
    let refused = app.post(&path).with_key().json(&intent(None)).send().await;
    assert_eq!(refused.wrong_fields(), ["payerAddress"], "{}", refused.text);
    refused.expect(400);
    // A link that hides nothing requires no wallet.
    let open = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let path = format!("/v2/secure-payments/{open}/intent");
    app.post(&path).with_key().json(&intent(None)).send().await.expect(200);
    // The state of the link is checked before the wallet.
    let withdrawal = app.post(&format!("/v2/secure-payments/{link}/withdraw"));
    withdrawal.with_key().send().await.expect(200);
    let path = format!("/v2/secure-payments/{link}/intent");
    let over = app.post(&path).with_key().json(&intent(Some(UNLISTED))).send().await;
    assert_eq!(over.expect(403)["message"], "Secure payment has been withdrawn");
}
