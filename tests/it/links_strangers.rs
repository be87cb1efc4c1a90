//! What a stranger with a public client ID learns about links of other visitors: nothing that opens a link, and nothing
//! that a link hides.

use crate::{
    documents::event_fits_its_schema,
    support::{
        TestApp,
        app::{forged, settings},
        chain::PAYER,
        links::{link_of, payout_of, token_of},
        receiver::{Received, Receiver},
        requests::PAYEE,
    },
};
use poem::http::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const LISTED: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const UNLISTED: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";

/// Events of these kinds that an endpoint received since the last check.
async fn heard(receiver: &Receiver, kinds: &[&str]) -> Vec<Received> {
    let received = receiver.received().await.into_iter();
    received
        .filter(|one| kinds.iter().any(|kind| one.json()["event"] == *kind))
        .collect()
}

#[tokio::test]
async fn unapproved_endpoints_receive_no_link_token() {
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

#[tokio::test]
async fn requests_hide_from_public_client_ids_what_their_link_hides() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let receiver = Receiver::start().await;
    let register = forged(&app, Method::POST, "/v1/webhook").json(&json!({ "url": receiver.url() }));
    let endpoint = register.send().await.expect(201)["id"]
        .as_str()
        .expect("text")
        .to_owned();
    let payments = ["payment.confirmed", "payment.partial"];
    let replay = async || {
        let body = json!({ "since": "2020-01-01T00:00:00Z", "endpointId": endpoint });
        app.post("/v2/events/replay")
            .with_key()
            .json(&body)
            .send()
            .await
            .expect(202);
        app.deliver().await;
    };
    let page = async |path: &str| forged(&app, Method::GET, path).send().await;
    let by_key = async |path: &str| app.get(path).with_key().send().await.expect(200);
    for (policy, is_hidden) in [
        (json!({ "hideUntilApproved": true }), true),
        (json!({ "hidePayeeAddress": true }), true),
        (json!({}), false),
    ] {
        let mut body = link_of(&["1", "2"]);
        body["accessPolicy"] = policy.clone();
        let link = forged(&app, Method::POST, "/v2/secure-payments");
        let made = link.json(&body).send().await.expect(201);
        let before = heard(&receiver, &payments).await.len();
        app.pay_link(&token_of(&made)).await;
        app.settle().await;
        let told = heard(&receiver, &payments).await.len() - before;
        assert_eq!(told, if is_hidden { 0 } else { 2 }, "{policy}");
        let id = made["requestIds"][1].as_str().expect("an id");
        let (one, paid) = (format!("/v2/request/{id}"), format!("/v2/payments?requestId={id}"));
        by_key(&one).await;
        assert_eq!(by_key(&paid).await["payments"].as_array().map(Vec::len), Some(1));
        app.get(&one).with_client().send().await.expect(200);
        let seen = page(&one).await;
        assert_eq!(seen.status, if is_hidden { 404 } else { 200 }, "{policy} {}", seen.text);
        let payments = page(&paid).await;
        assert_eq!(
            payments.expect(200)["payments"],
            if is_hidden {
                json!([])
            } else {
                payments.json()["payments"].clone()
            }
        );
        assert_eq!(payments.text.contains(id), !is_hidden, "{policy} {}", payments.text);
        assert_eq!(
            payments.json()["pagination"]["total"],
            i32::from(!is_hidden),
            "{policy}"
        );
    }
    let listed = page("/v2/request").await.expect(200);
    assert_eq!(listed["requests"].as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(listed["pagination"]["total"], 2, "{listed}");
    let behind = page("/v2/request?limit=1&offset=1").await.expect(200);
    assert_eq!(behind["pagination"]["total"], 2, "{behind}");
    assert_eq!(by_key("/v2/request").await["pagination"]["total"], 6);
    // A redelivery by key also omits hidden values. An approved endpoint receives everything.
    let told = async || {
        let told = heard(&receiver, &payments).await.into_iter();
        told.map(|one| one.json()["requestId"].to_string())
            .collect::<BTreeSet<_>>()
            .len()
    };
    replay().await;
    assert_eq!(told().await, 2);
    app.post(&format!("/v1/webhook/{endpoint}/approve"))
        .with_key()
        .send()
        .await
        .expect(200);
    replay().await;
    assert_eq!(told().await, 6);
}

#[tokio::test]
async fn pagination_and_totals_cover_only_visible_payments() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let mut shown = Vec::new();
    for policy in [
        json!({}),
        json!({ "hideUntilApproved": true }),
        json!({}),
        json!({ "hidePayeeAddress": true }),
        json!({ "hidePayeeAddress": true }),
        json!({}),
        json!({ "hideUntilApproved": true }),
    ] {
        let mut body = link_of(&["1"]);
        body["reference"] = json!("order-7");
        body["accessPolicy"] = policy.clone();
        let link = forged(&app, Method::POST, "/v2/secure-payments");
        let made = link.json(&body).send().await.expect(201);
        app.pay_link(&token_of(&made)).await;
        app.settle().await;
        if policy == json!({}) {
            shown.insert(0, made["requestIds"][0].clone());
        }
    }
    let reference = app.read_request(shown[0].as_str().expect("an id")).await["paymentReference"].clone();
    let reference = reference.as_str().expect("a reference");
    let searched = |found: &Value| -> Vec<Value> {
        let payments = found["payments"].as_array().expect("payments").iter();
        payments
            .map(|payment| payment["request"]["requestId"].clone())
            .collect()
    };
    for (filter, wanted, all) in [
        ("type=direct".to_owned(), &shown[..], 7),
        ("paymentCurrency=FAU-sepolia".to_owned(), &shown, 7),
        (format!("walletAddress={PAYEE}"), &shown, 7),
        ("reference=order-7".to_owned(), &shown, 7),
        (format!("reference=order-7&walletAddress={PAYEE}"), &shown, 7),
        ("type=direct&fromDate=2000-01-01T00:00:00Z".to_owned(), &shown, 7),
        (format!("paymentReference={reference}"), &shown[..1], 1),
    ] {
        let path = |page: &str| format!("/v2/payments?{filter}&{page}");
        let of_key = app.get(&path("limit=2")).with_key().send().await.expect(200);
        assert_eq!(of_key["pagination"]["total"], all, "{filter}");
        for size in [1, 2, 3] {
            let (mut by_cursor, mut by_row, mut next) = (Vec::new(), Vec::new(), String::new());
            for page in 0..=wanted.len() / size {
                let cursor = format!("limit={size}{next}");
                let paged = forged(&app, Method::GET, &path(&cursor)).send().await.expect(200);
                assert_eq!(paged["pagination"]["total"], wanted.len(), "{filter} {cursor}");
                by_cursor.extend(searched(&paged));
                assert_eq!(
                    paged["pagination"]["hasMore"],
                    by_cursor.len() < wanted.len(),
                    "{filter} {cursor}"
                );
                let row = format!("limit={size}&offset={}", page * size);
                let found = forged(&app, Method::GET, &path(&row)).send().await.expect(200);
                assert_eq!(found["pagination"]["total"], wanted.len(), "{filter} {row}");
                by_row.extend(searched(&found));
                if by_cursor.len() < wanted.len() {
                    assert_eq!(by_cursor.len(), (page + 1) * size, "a short page: {filter} {cursor}")
                } else {
                    break;
                }
                next = format!("&cursor={}", paged["nextCursor"].as_str().expect("a cursor"));
            }
            assert_eq!((&by_cursor[..], &by_row[..]), (wanted, wanted), "{filter} by {size}");
        }
    }
}

#[tokio::test]
async fn payouts_combined_with_a_hidden_one_become_hidden() {
    let app = TestApp::on_chain().await;
    let mut made = Vec::new();
    for policy in [json!({ "hidePayeeAddress": true }), json!({}), json!({})] {
        let mut body = payout_of(UNLISTED, "1");
        body["accessPolicy"] = policy;
        let payout = forged(&app, Method::POST, "/v2/secure-payments/payouts");
        made.push(payout.json(&body).send().await.expect(201));
    }
    let id = |index: usize| made[index]["requestIds"][0].clone();
    let listed = async || {
        let mut seen = Vec::new();
        for path in [
            "/v2/request?limit=10",
            &format!("/v2/request?limit=10&walletAddress={UNLISTED}"),
        ] {
            let page = forged(&app, Method::GET, path).send().await.expect(200);
            let requests = page["requests"].as_array().expect("a list").iter();
            let ids: Vec<Value> = requests.map(|request| request["requestId"].clone()).collect();
            assert_eq!(page["pagination"]["total"], ids.len(), "{page}");
            seen.push(ids);
        }
        assert_eq!(seen[0], seen[1]);
        seen.swap_remove(0)
    };
    assert_eq!(listed().await, [id(2), id(1)]);
    // Calldata issued before is paid afterwards.
    let payer = app.account(PAYER);
    let early = app.calldata_of(&token_of(&made[1]), Some(&payer)).await.expect(200);
    let tokens: Vec<String> = made[..2].iter().map(token_of).collect();
    let combining = app.post("/v2/secure-payments/batch-payouts").with_key();
    combining.json(&json!({ "tokens": tokens })).send().await.expect(201);
    assert_eq!(listed().await, [id(2)]);
    app.send_calldata(&early).await;
    app.pay_link(&token_of(&made[2])).await;
    app.settle().await;
    let searched = app.get("/v2/payments?type=direct").with_key().send().await.expect(200);
    assert_eq!(searched["pagination"]["total"], 2, "{searched}");
    let found = forged(&app, Method::GET, "/v2/payments?type=direct")
        .send()
        .await
        .expect(200);
    assert_eq!(found["pagination"]["total"], 1, "{found}");
    assert_eq!(found["payments"][0]["request"]["requestId"], id(2));
    for (index, status) in [(0, 404), (1, 404), (2, 200)] {
        let path = format!("/v2/request/{}", id(index).as_str().expect("an id"));
        forged(&app, Method::GET, &path).send().await.expect(status);
        app.get(&path).with_key().send().await.expect(200);
    }
    // No other endpoint reveals whether it exists, its status or its payee.
    let hidden = id(0);
    let path = format!("/v2/request/{}", hidden.as_str().expect("an id"));
    let unknown = forged(&app, Method::GET, &path).send().await.expect(404);
    let asked = forged(&app, Method::GET, &format!("{path}/pay?wallet={payer}"));
    assert_eq!(asked.send().await.expect(404)["message"], unknown["message"]);
    let stopped = forged(&app, Method::PATCH, &path).json(&json!({ "isRecurrenceStopped": true }));
    assert_eq!(stopped.send().await.expect(404)["message"], unknown["message"]);
    for payer in [UNLISTED, payer.as_str()] {
        let batch = forged(&app, Method::POST, "/v2/payouts/batch");
        let refused = batch
            .json(&json!({ "requestIds": [hidden], "payer": payer }))
            .send()
            .await
            .expect(404);
        assert_eq!(refused["message"], unknown["message"], "{refused}");
    }
}

#[tokio::test]
async fn a_masked_link_hides_network_token_and_redirect() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let mut body = link_of(&["777.25"]);
    body["redirectUrl"] = json!("https://hidden.example.com/order-555");
    body["redirectLabel"] = json!("hidden-label");
    body["accessPolicy"] = json!({ "hideUntilApproved": true, "allowedPayerAddresses": [LISTED] });
    let link = token_of(&app.link(&body).await.expect(201));
    let secrets = [
        "777.25",
        PAYEE,
        "order-555",
        "hidden-label",
        "FAU",
        "Sepolia",
        "SEPOLIA",
        "sepolia",
        "11155111",
    ];
    let tells = |text: &str| {
        secrets
            .into_iter()
            .filter(|secret| text.contains(secret))
            .collect::<Vec<_>>()
    };
    let wallet = format!("wallet={UNLISTED}");
    let mut leaks = Vec::new();
    for path in [
        "?chain=BASE&token=USDC".to_owned(),
        "?chain=SEPOLIA&token=USDC".to_owned(),
        format!("?{wallet}&chain=BASE&token=USDC"),
        "?wallet=TJRabPrwbZy45sbavfcjinPJC18kjpRTv8".to_owned(),
        "/pay?chain=BASE&token=USDC".to_owned(),
        format!("/pay?{wallet}&chain=BASE&token=USDC"),
    ] {
        let answer = app.open_link(&link, &path).send().await;
        assert!(matches!(answer.status, 200 | 400 | 403), "{path}: {}", answer.text);
        leaks.extend(
            tells(&answer.text)
                .into_iter()
                .map(|secret| format!("{path}: {secret}")),
        );
    }
    let sent = json!({ "txHash": format!("0x{}", "8f".repeat(32)), "chain": "BASE", "token": "USDC" });
    let path = format!("/v2/secure-payments/{link}/intent");
    for payer in [Value::Null, json!(UNLISTED)] {
        let mut answers = Vec::new();
        for (chain, token) in [("BASE", "USDC"), ("SEPOLIA", "FAU")] {
            let mut sent = sent.clone();
            (sent["chain"], sent["token"], sent["payerAddress"]) = (json!(chain), json!(token), payer.clone());
            let answer = app.post(&path).with_client().json(&sent).send().await;
            assert!(matches!(answer.status, 400 | 403), "{}", answer.text);
            leaks.extend(
                tells(&answer.text)
                    .into_iter()
                    .map(|secret| format!("intent: {secret}")),
            );
            answers.push((answer.status, answer.json()["message"].clone(), answer.wrong_fields()));
        }
        assert_eq!(answers[0], answers[1], "the responses reveal the right pair");
    }
    for path in ["", "/state", &format!("/state?{wallet}"), "/receipt"] {
        let answer = app.get(&format!("/pay/{link}{path}")).send().await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        leaks.extend(
            tells(&answer.text)
                .into_iter()
                .map(|secret| format!("page {path}: {secret}")),
        );
    }
    assert!(leaks.is_empty(), "{leaks:#?}");
    let state = app
        .get(&format!("/pay/{link}/state?wallet={LISTED}"))
        .send()
        .await
        .expect(200);
    assert_eq!(
        (&state["network"]["chainId"], &state["redirect"]["origin"]),
        (&json!(11_155_111), &json!("https://hidden.example.com"))
    );
    let wrong = format!("?wallet={LISTED}&chain=BASE&token=USDC");
    assert_eq!(app.open_link(&link, &wrong).send().await.wrong_fields(), ["chain"]);
    let wrong = format!("/pay?wallet={LISTED}&chain=BASE&token=USDC");
    assert_eq!(app.open_link(&link, &wrong).send().await.wrong_fields(), ["chain"]);
    let open = app
        .open_link(&link, &format!("?wallet={LISTED}"))
        .send()
        .await
        .expect(200);
    assert_eq!(open["network"], "sepolia");
}

#[tokio::test]
async fn a_guessed_idempotency_key_shows_no_token() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    for (path, body) in [
        ("/v2/secure-payments", link_of(&["1"])),
        ("/v2/secure-payments/payouts", payout_of(UNLISTED, "1")),
    ] {
        let call = || forged(&app, Method::POST, path).header("idempotency-key", "order-1");
        let made = call().json(&body).send().await.expect(201);
        let guessed = call().json(&body).send().await;
        guessed.expect(409);
        assert!(!guessed.text.contains(&token_of(&made)), "{}", guessed.text);
        let by_key = || app.post(path).with_key().header("idempotency-key", "order-1");
        let made = by_key().json(&body).send().await.expect(201);
        assert_eq!(by_key().json(&body).send().await.expect(201), made);
        let open = token_of(&made);
        let kept =
            crate::support::screening::rows(&app, &format!("idempotency_keys WHERE response LIKE '%{open}%'")).await;
        assert_eq!(kept, 0, "the database contains a readable token");
    }
}
