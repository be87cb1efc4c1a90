//! Payouts: one call creates a request and returns its calldata.

use crate::support::{
    Answer, TestApp,
    chain::{PAYER, transactions},
    requests::{PAYEE, fau, request},
    wallet::token,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const OTHER: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";

async fn ask(app: &TestApp, body: &Value) -> Answer {
    app.post("/v2/payouts").with_client().json(body).send().await
}

fn with(mut body: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

async fn requests_in(app: &TestApp) -> Value {
    let list = app.get("/v2/request").with_key().send().await.expect(200);
    list["pagination"]["total"].clone()
}

#[tokio::test]
async fn one_call_creates_a_request_and_its_calldata() {
    let app = TestApp::on_chain().await;
    let payer = app.account(PAYER);
    for (amount, invoice, payment, steps) in [
        ("1.5", "FAU-sepolia", "FAU-sepolia", 2),
        ("2", "ETH-sepolia-sepolia", "ETH-sepolia-sepolia", 1),
        ("10", "USD", "FAU-sepolia", 2),
        ("3", "EUR", "ETH-sepolia-sepolia", 1),
    ] {
        let body = with(
            request(amount, invoice, payment),
            &json!({ "payerWallet": payer, "reference": "order-7", "customerInfo": { "firstName": "Ada" } }),
        );
        let made = ask(&app, &body).await.expect(201);
        let id = made["requestId"].as_str().expect("an id");
        assert_eq!(made["metadata"]["stepsRequired"], steps, "{made}");
        assert_eq!(
            (&made["metadata"]["hasEnoughBalance"], &made["metadata"]["hasEnoughGas"]),
            (&json!(true), &json!(true))
        );
        let read = app.read_request(id).await;
        assert_eq!(read["paymentReference"], made["paymentReference"]);
        assert_eq!(
            (&read["status"], &read["isListening"], &read["reference"]),
            (&json!("pending"), &json!(true), &json!("order-7"))
        );
        assert_eq!(read["customerInfo"]["firstName"], "Ada");
        let receipts = app.devnet().pay(PAYER, &transactions(&made)).await.expect("mined");
        assert!(receipts.iter().all(|receipt| receipt.status), "{payment}");
        app.settle().await;
        let read = app.read_request(id).await;
        assert_eq!(
            (&read["status"], &read["payerAddress"]),
            (&json!("paid"), &json!(payer))
        );
        assert_eq!(read["payments"].as_array().expect("a list").len(), 1);
        assert_eq!(read["payments"][0].get("feeShortfall"), None);
    }
}

#[tokio::test]
async fn a_node_outage_costs_at_most_three_seconds_and_stores_nothing() {
    let app = TestApp::start().await;
    let payer = json!({ "payerWallet": OTHER });
    for body in [
        with(fau("1"), &payer),
        request("10", "USD", "FAU-sepolia"),
        with(request("10", "USD", "FAU-sepolia"), &payer),
    ] {
        let begun = Instant::now();
        let call = app.post("/v2/payouts").with_client().header("idempotency-key", "down");
        let answer = call.json(&body).send().await;
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert_eq!(answer.expect(502)["error"], "Bad Gateway");
        assert_eq!(requests_in(&app).await, 0);
    }
    let call = app.post("/v2/payouts").with_client().header("idempotency-key", "down");
    let made = call.json(&fau("1")).send().await.expect(201);
    assert_eq!(
        made["metadata"]["needsApproval"], true,
        "without a payer no node is queried"
    );
    assert_eq!(requests_in(&app).await, 1, "the key was not used up");
}

#[tokio::test]
async fn an_idempotency_key_creates_one_payout() {
    let app = TestApp::start().await;
    let send = async |body: Value| {
        let call = app.post("/v2/payouts").with_key().header("idempotency-key", "payout-1");
        call.json(&body).send().await
    };
    let (first, again) = (send(fau("1")).await, send(fau("1")).await);
    assert_eq!(first.expect(201), again.expect(201));
    assert_eq!(first.text, again.text, "byte for byte");
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(send(fau("2")).await.expect(409)["error"], "Conflict");
    assert_eq!(requests_in(&app).await, 1);
}

#[tokio::test]
async fn both_parameter_names_of_the_payer_are_equivalent() {
    let app = TestApp::on_chain().await;
    let stranger = "0x00000000000000000000000000000000000000aa";
    for body in [
        json!({ "payerWallet": stranger }),
        json!({ "payerAddress": stranger }),
        json!({ "payerWallet": stranger, "payerAddress": stranger.to_uppercase().replace("0X", "0x") }),
    ] {
        let made = ask(&app, &with(fau("1"), &body)).await.expect(201);
        assert_eq!(made["metadata"]["hasEnoughBalance"], false, "{body}");
    }
}

#[tokio::test]
async fn a_wrong_value_is_named_with_its_field() {
    let app = TestApp::start().await;
    let fee_token = token(&app, "FAU-sepolia");
    let schedule = json!({ "startDate": "2030-01-01", "frequency": "DAILY", "totalPayments": 2, "payer": OTHER });
    for (members, fields) in [
        (json!({ "payee": null }), vec!["payee"]),
        (json!({ "payee": fee_token }), vec!["payee"]),
        (json!({ "payee": "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t" }), vec!["payee"]),
        (json!({ "amount": "0" }), vec!["amount"]),
        (json!({ "amount": "1.0000000000000000001" }), vec!["amount"]),
        (json!({ "invoiceCurrency": "DOGE" }), vec!["invoiceCurrency"]),
        (json!({ "paymentCurrency": "USD" }), vec!["paymentCurrency"]),
        (json!({ "paymentCurrency": "USDC-sepolia" }), vec!["paymentCurrency"]),
        (json!({ "feePercentage": "2.5" }), vec!["feeAddress"]),
        (json!({ "feeAddress": OTHER }), vec!["feePercentage"]),
        (
            json!({ "feePercentage": "101", "feeAddress": OTHER }),
            vec!["feePercentage"],
        ),
        (
            json!({ "feePercentage": "1", "feeAddress": fee_token }),
            vec!["feeAddress"],
        ),
        (json!({ "payerWallet": "nobody" }), vec!["payerWallet"]),
        (
            json!({ "payerAddress": "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8" }),
            vec!["payerAddress"],
        ),
        (json!({ "payerWallet": PAYEE }), vec!["payerWallet"]),
        (json!({ "payerAddress": PAYEE }), vec!["payerAddress"]),
        (
            json!({ "payerWallet": OTHER, "payerAddress": fee_token }),
            vec!["payerAddress"],
        ),
        (json!({ "recurrence": schedule }), vec!["recurrence"]),
        (json!({ "reference": "" }), vec!["reference"]),
        (
            json!({ "customerInfo": { "email": "no-address" } }),
            vec!["customerInfo.email"],
        ),
        (
            json!({ "payee": fee_token, "feePercentage": "1", "feeAddress": fee_token, "payerWallet": fee_token }),
            vec!["payerWallet", "feeAddress", "payee"],
        ),
    ] {
        let answer = ask(&app, &with(fau("1"), &members)).await;
        assert_eq!(answer.status, 400, "{members}: {}", answer.text);
        assert_eq!(answer.wrong_fields(), fields, "{members}: {}", answer.text);
    }
    assert_eq!(requests_in(&app).await, 0);
}

#[tokio::test]
async fn the_limits_of_a_client_id_apply_to_payouts_too() {
    let app = TestApp::start().await;
    let (fau_id, dollars) = ("FAU-sepolia", json!({ "amount": "5", "currency": "FAU-sepolia" }));
    for (limits, beyond, field) in [
        (json!({ "allowedPayees": [PAYEE] }), json!({ "payee": OTHER }), "payee"),
        (
            json!({ "allowedCurrencies": [fau_id] }),
            json!({ "invoiceCurrency": "USDC-sepolia", "paymentCurrency": "USDC-sepolia" }),
            "invoiceCurrency",
        ),
        (json!({ "allowedNetworks": ["base"] }), json!({}), "paymentCurrency"),
        (json!({ "maxAmount": dollars }), json!({ "amount": "5.01" }), "amount"),
    ] {
        let client = app.shop_client(&limits).await;
        let call = app.post("/v2/payouts").header("origin", "https://shop.example.com");
        let call = call.header("x-client-id", client["clientId"].as_str().expect("text"));
        let answer = call.json(&with(fau("1"), &beyond)).send().await;
        assert_eq!(answer.status, 400, "{limits}: {}", answer.text);
        assert!(
            answer.wrong_fields().contains(&field.to_owned()),
            "{limits}: {}",
            answer.text
        );
    }
    assert_eq!(requests_in(&app).await, 0);
}
