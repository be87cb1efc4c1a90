//! Responses of each operation in each state of a link, and the effect of payments on that state.

use crate::support::{
    TestApp,
    app::settings,
    chain::PAYER,
    links::{link_of, payout_of, token_of},
    session::sign_in,
    wallet::TestWallet,
};
use prs::{domain::secure_payment::SecurePaymentStatus, flows::secure_payments::expire};
use serde_json::{Value, json};

const OTHER: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const HASH: &str = "0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071";

/// Lifetime, in milliseconds, of the links in these tests.
const LASTS_MS: i64 = 600_000;

async fn on_chain() -> TestApp {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    app
}

fn short() -> Value {
    let mut body = link_of(&["1"]);
    body["expiresIn"] = json!(600);
    body
}

fn intent(hash: &str) -> Value {
    json!({ "txHash": hash, "chain": "SEPOLIA", "token": "FAU" })
}

fn step() -> Value {
    json!({ "userEvent": "wallet_connected", "occurredAt": "2020-01-01T00:00:00Z" })
}

/// The statuses that six calls on a link return: open, fetch calldata, record an intent, report an event, withdraw, and
/// combine.
async fn answers(app: &TestApp, token: &str) -> [u16; 6] {
    let path = |operation: &str| format!("/v2/secure-payments/{token}/{operation}");
    let opened = app.open_link(token, "").send().await.status;
    let paid = app.calldata_of(token, None).await.status;
    let intent = app
        .post(&path("intent"))
        .with_client()
        .json(&intent(HASH))
        .send()
        .await
        .status;
    let report = app
        .post(&path("events"))
        .with_client()
        .json(&step())
        .send()
        .await
        .status;
    let another = token_of(&app.payout_link(&payout_of(OTHER, "1")).await.expect(201));
    let combined = app.post("/v2/secure-payments/batch-payouts").with_key();
    let combined = combined
        .json(&json!({ "tokens": [token, another] }))
        .send()
        .await
        .status;
    let withdrawn = app.post(&path("withdraw")).with_key().send().await.status;
    [opened, paid, intent, report, combined, withdrawn]
}

async fn expired(app: &TestApp) -> String {
    let token = token_of(&app.link(&short()).await.expect(201));
    app.advance_ms(LASTS_MS + 1);
    token
}

#[tokio::test]
async fn each_state_has_its_responses() {
    let app = on_chain().await;
    let payout = async || token_of(&app.payout_link(&payout_of(OTHER, "1")).await.expect(201));
    let pending = payout().await;
    assert_eq!(answers(&app, &pending).await, [200, 200, 200, 202, 201, 200], "pending");
    let completed = payout().await;
    app.pay_link(&completed).await;
    app.settle().await;
    assert_eq!(
        answers(&app, &completed).await,
        [409, 409, 409, 202, 400, 409],
        "completed"
    );
    let late = expired(&app).await;
    assert_eq!(answers(&app, &late).await, [403, 403, 403, 403, 400, 200], "expired");
    assert_eq!(answers(&app, &late).await, [403, 403, 403, 403, 400, 200], "withdrawn");
    let nobody = "01K9Z0T3G9R5M1N2P3Q4R5S6T7";
    assert_eq!(answers(&app, nobody).await, [404, 404, 404, 404, 400, 404], "unknown");
}

#[tokio::test]
async fn the_last_millisecond_still_counts() {
    let app = on_chain().await;
    let token = token_of(&app.link(&short()).await.expect(201));
    app.advance_ms(LASTS_MS);
    app.open_link(&token, "").send().await.expect(200);
    app.advance_ms(1);
    let over = app.open_link(&token, "").send().await.expect(403);
    assert_eq!(over["message"], "Secure payment has expired");
    assert_eq!(app.stored_link(&token).await.status, SecurePaymentStatus::Pending);
    assert!(!expire::run(&app.ctx).await.expect("a sweep"));
    assert_eq!(app.stored_link(&token).await.status, SecurePaymentStatus::Expired);
}

#[tokio::test]
async fn links_expired_by_a_clock_ahead_reopen_and_count_against_the_cap() {
    const HOUR_MS: i64 = 3_600_000;
    let mut settings = settings();
    settings.caps.open_requests = 1;
    let app = TestApp::on_chain_as(settings, 1).await;
    app.is_paid_in("FAU-sepolia").await;
    let token = token_of(&app.link(&short()).await.expect(201));
    app.advance_ms(HOUR_MS);
    expire::run(&app.ctx).await.expect("a sweep");
    assert_eq!(app.stored_link(&token).await.status, SecurePaymentStatus::Expired);
    app.open_link(&token, "").send().await.expect(403);
    app.advance_ms(-HOUR_MS);
    let opened = app.open_link(&token, "").send().await.expect(200);
    assert_eq!(opened["status"], "pending");
    app.link(&short()).await.expect(429);
    app.pay_link(&token).await;
    app.settle().await;
    app.open_link(&token, "").send().await.expect(409);
}

#[tokio::test]
async fn late_payments_complete_links_but_withdrawn_links_stay_withdrawn() {
    let app = on_chain().await;
    for (is_withdrawn, is_swept, expected) in [
        (false, false, SecurePaymentStatus::Completed),
        (false, true, SecurePaymentStatus::Completed),
        (true, false, SecurePaymentStatus::Invalidated),
    ] {
        let made = app.link(&short()).await.expect(201);
        let token = token_of(&made);
        let calldata = app.calldata_of(&token, Some(&app.account(PAYER))).await.expect(200);
        if is_withdrawn {
            let call = app.post(&format!("/v2/secure-payments/{token}/withdraw")).with_key();
            assert_eq!(call.send().await.expect(200)["status"], "invalidated");
        }
        app.advance_ms(LASTS_MS + 1);
        if is_swept {
            expire::run(&app.ctx).await.expect("a sweep");
        }
        app.send_calldata(&calldata).await;
        app.settle().await;
        let id = made["requestIds"][0].as_str().expect("an id");
        assert_eq!(
            app.read_request(id).await["status"],
            "paid",
            "the late payment is credited"
        );
        assert_eq!(app.stored_link(&token).await.status, expected);
        let hash = app.read_request(id).await["txHash"]
            .as_str()
            .expect("a hash")
            .to_owned();
        let page = app.get(&format!("/pay/{token}")).send().await;
        assert_eq!(page.status, if is_withdrawn { 410 } else { 200 });
        assert_eq!(page.text.contains("Payment received"), is_withdrawn, "{}", page.text);
        let receipt = app.get(&format!("/pay/{token}/receipt")).send().await;
        assert!(
            !receipt.text.contains("No payment is confirmed yet"),
            "{}",
            receipt.text
        );
        for text in [page.text, receipt.text] {
            assert!(text.contains(&hash), "{text}");
        }
    }
}

#[tokio::test]
async fn receipt_lists_each_payment() {
    const SECOND_PAYER: usize = 4;
    let app = on_chain().await;
    let made = app.link(&link_of(&["1"])).await.expect(201);
    let token = token_of(&made);
    let receipt = async || app.get(&format!("/pay/{token}/receipt")).send().await.text;
    let mut shown = Vec::new();
    for (payer, amount) in [(PAYER, "0.4"), (SECOND_PAYER, "0.85")] {
        let hashes = app.pay_part_of_link(payer, &token, (amount, 18)).await;
        app.settle().await;
        shown.extend([app.account(payer), format!("{amount}\u{a0}FAU")]);
        let hash = hashes.last().expect("a payment").to_string();
        let text = receipt().await;
        assert!(text.contains(&hash), "{hash} is not in {text}");
        for part in &shown {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(text.contains("Paid in excess"), amount == "0.85", "{text}");
    }
    assert!(receipt().await.contains("0.25\u{a0}FAU"), "the excess has no amount");
    let single = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    app.pay_link(&single).await;
    app.settle().await;
    let text = app.get(&format!("/pay/{single}/receipt")).send().await.text;
    let is_plain = text.contains(&app.account(PAYER)) && !text.contains("Paid in excess");
    assert!(is_plain, "{text}");
}

#[tokio::test]
async fn an_intent_is_stored_once_per_hash_and_settles_nothing() {
    let app = on_chain().await;
    let token = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let path = format!("/v2/secure-payments/{token}/intent");
    let send = async |body: Value| app.post(&path).with_client().json(&body).send().await;
    let first = send(intent(HASH)).await.expect(200);
    assert_eq!(first, send(intent(HASH)).await.expect(200));
    let opened = app.open_link(&token, "").send().await.expect(200);
    assert_eq!(
        (&opened["status"], &opened["inFlight"]),
        (&json!("pending"), &json!(true))
    );
    app.advance_ms(120_000);
    assert_eq!(app.open_link(&token, "").send().await.expect(200)["inFlight"], false);
    for number in 1..40_u8 {
        send(intent(&format!("0x{}", hex::encode([number; 32]))))
            .await
            .expect(200);
    }
    let full = send(intent(&format!("0x{}", "ff".repeat(32)))).await;
    full.expect(429);
    assert_eq!(full.header("retry-after"), None, "no report is ever deleted");
    assert_eq!(
        first,
        send(intent(HASH)).await.expect(200),
        "a known hash takes no new slot"
    );
    for (body, field) in [
        (
            json!({ "txHash": &HASH[..65], "chain": "SEPOLIA", "token": "FAU" }),
            "txHash",
        ),
        (json!({ "chain": "SEPOLIA", "token": "FAU" }), "txHash"),
        (
            json!({ "txHash": HASH, "safeTxHash": HASH, "chain": "SEPOLIA", "token": "FAU" }),
            "safeTxHash",
        ),
        (json!({ "txHash": HASH, "chain": "BASE", "token": "FAU" }), "chain"),
        (json!({ "txHash": HASH, "chain": "SEPOLIA", "token": "USDC" }), "token"),
        (json!({ "txHash": HASH, "chain": "MARS", "token": "USDC" }), "chain"),
    ] {
        assert_eq!(send(body).await.wrong_fields(), [field]);
    }
    let of_own_chain = json!({
        "executionKind": "evm_same_chain", "sourceNetwork": "sepolia", "sourceToken": "fau", "sourceAmount": "1",
        "routeKind": "same_chain",
    });
    let with = |members: &Value| {
        let mut body = intent(HASH);
        let members = members.as_object().cloned().unwrap_or_default();
        body.as_object_mut().expect("an object").extend(members);
        body
    };
    assert_eq!(first, send(with(&of_own_chain)).await.expect(200));
    for (member, asked) in [
        ("executionKind", "evm_cross_chain"),
        ("sourceNetwork", "base"),
        ("sourceNetwork", "tron"),
        ("sourceNetwork", "mars"),
        ("sourceToken", "USDC"),
        ("routeKind", "crosschain"),
        ("routeKind", "same_chain_conversion"),
        ("bridgeTool", "across"),
    ] {
        let refused = send(with(&json!({ member: asked }))).await;
        assert_eq!(refused.wrong_fields(), [member], "{asked}");
        assert!(
            refused.expect(400).to_string().contains("not supported yet"),
            "{member}: {asked}"
        );
        assert_eq!(
            first,
            send(with(&json!({ member: null }))).await.expect(200),
            "{member}"
        );
    }
    for member in [
        "safeTxHash",
        "safePaymentDeadline",
        "payerAddress",
        "payerEoaAddress",
        "sourceAmount",
    ] {
        assert_eq!(
            first,
            send(with(&json!({ member: null }))).await.expect(200),
            "{member}"
        );
    }
}

#[tokio::test]
async fn only_the_owner_finds_the_link_of_a_request() {
    let app = TestApp::start().await;
    let owner = TestWallet::new(7);
    let session = format!("Bearer {}", sign_in(&app, &owner).await);
    let stranger = format!("Bearer {}", sign_in(&app, &TestWallet::new(8)).await);
    let destination =
        json!({ "tokenAddress": crate::support::wallet::token(&app, "FAU-sepolia"), "chainId": 11_155_111 });
    let call = app.post("/v1/payee-destination").header("authorization", &session);
    call.json(&destination).send().await.expect(201);
    let mut body = link_of(&["1"]);
    body["payerIdentifier"] = json!("customer-17");
    body["accessPolicy"] = json!({ "allowedPayerAddresses": [OTHER.to_lowercase()] });
    let call = app.post("/v2/secure-payments").header("authorization", &session);
    let made = call.json(&body).send().await.expect(201);
    let find = async |session: &str, id: &str| {
        let call = app.get(&format!("/v2/secure-payments?requestId={id}"));
        call.header("authorization", session).send().await
    };
    let id = made["requestIds"][0].as_str().expect("an id");
    let found = find(&session, id).await.expect(200);
    assert_eq!(
        (
            &found["token"],
            &found["status"],
            &found["payerIdentifier"],
            &found["blockReason"]
        ),
        (
            &made["token"],
            &json!("pending"),
            &json!("customer-17"),
            &json!("not_outgoing")
        )
    );
    assert_eq!(found["allowedPayerAddresses"], json!([OTHER]));
    let sentence = "No secure payment found for this request ID";
    assert_eq!(find(&stranger, id).await.expect(404)["message"], sentence);
    assert_eq!(find(&session, "01ab").await.expect(404)["message"], sentence);
    app.get("/v2/secure-payments")
        .header("authorization", &session)
        .send()
        .await
        .expect(400);
}

#[tokio::test]
async fn a_request_of_a_link_is_cancelled_with_the_link() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let made = app.link(&link_of(&["1"])).await.expect(201);
    let id = made["requestIds"][0].as_str().expect("an id");
    let cancel = async || app.post(&format!("/v2/request/{id}/cancel")).with_key().send().await;
    cancel().await.expect(400);
    let withdraw = format!("/v2/secure-payments/{}/withdraw", token_of(&made));
    app.post(&withdraw).with_key().send().await.expect(200);
    cancel().await.expect(200);
}
