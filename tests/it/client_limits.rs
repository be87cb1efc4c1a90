//! Lists of payees, currencies and networks, and a largest amount, for each client ID.

use crate::support::{
    Answer, TestApp,
    requests::{PAYEE, fau, request},
    wallet::token,
};
use poem::http::Method;
use serde_json::{Value, json};

const ORIGIN: &str = "https://shop.example.com";
const OTHER: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";

async fn create(app: &TestApp, limits: &Value) -> Answer {
    let mut body = json!({ "label": "Shop", "allowedDomains": [ORIGIN] });
    for (name, value) in limits.as_object().expect("an object") {
        body[name] = value.clone();
    }
    app.post("/v2/client-ids").with_key().json(&body).send().await
}

async fn change(app: &TestApp, client: &Value, limits: &Value) -> Answer {
    let path = format!("/v2/client-ids/{}", client["id"].as_str().expect("text"));
    app.call(Method::PUT, &path).with_key().json(limits).send().await
}

async fn ask(app: &TestApp, client: &Value, body: &Value) -> Answer {
    let call = app.post("/v2/request").header("origin", ORIGIN);
    let call = call.header("x-client-id", client["clientId"].as_str().expect("text"));
    call.json(body).send().await
}

#[tokio::test]
async fn limits_are_stored_shown_changed_and_removed() {
    let app = TestApp::start().await;
    let limits = json!({
        "allowedPayees": [PAYEE.to_lowercase()], "allowedCurrencies": ["usd", "FAU-sepolia"],
        "allowedNetworks": ["sepolia"], "maxAmount": { "amount": "250.50", "currency": "usd" },
    });
    let shown = json!({
        "allowedPayees": [PAYEE], "allowedCurrencies": ["USD", "FAU-sepolia"],
        "allowedNetworks": ["sepolia"], "maxAmount": { "amount": "250.5", "currency": "USD" },
    });
    let client = create(&app, &limits).await.expect(201);
    let path = format!("/v2/client-ids/{}", client["id"].as_str().expect("text"));
    let read = app.get(&path).with_key().send().await.expect(200);
    for (member, value) in shown.as_object().expect("an object") {
        assert_eq!((&client[member], &read[member]), (value, value), "{member}");
    }
    let renamed = change(&app, &client, &json!({ "label": "Other" })).await.expect(200);
    assert_eq!(
        renamed["allowedPayees"], shown["allowedPayees"],
        "absent members are kept"
    );
    let lifted = json!({
        "allowedPayees": null, "allowedCurrencies": null, "allowedNetworks": null, "maxAmount": null,
    });
    let free = change(&app, &client, &lifted).await.expect(200);
    for member in ["allowedPayees", "allowedCurrencies", "allowedNetworks", "maxAmount"] {
        assert_eq!(free.get(member), Some(&Value::Null), "{member}");
    }
    let unlimited = create(&app, &json!({})).await.expect(201);
    assert_eq!(unlimited.get("maxAmount"), Some(&Value::Null));
}

#[tokio::test]
async fn invalid_limits_are_named() {
    let app = TestApp::start().await;
    let client = create(&app, &json!({})).await.expect(201);
    let fau = token(&app, "FAU-sepolia");
    let amount = |amount: &str, currency: &str| json!({ "maxAmount": { "amount": amount, "currency": currency } });
    for (limits, field) in [
        (json!({ "allowedPayees": [] }), "allowedPayees"),
        (json!({ "allowedPayees": ["nobody"] }), "allowedPayees[0]"),
        (json!({ "allowedPayees": [PAYEE, fau] }), "allowedPayees[1]"),
        (
            json!({ "allowedPayees": [PAYEE, PAYEE.to_lowercase()] }),
            "allowedPayees[1]",
        ),
        (json!({ "allowedPayees": vec![PAYEE; 21] }), "allowedPayees"),
        (json!({ "allowedCurrencies": ["DOGE"] }), "allowedCurrencies[0]"),
        (json!({ "allowedCurrencies": ["USD", "usd"] }), "allowedCurrencies[1]"),
        (json!({ "allowedNetworks": ["ethereum"] }), "allowedNetworks[0]"),
        (
            json!({ "allowedNetworks": ["sepolia", "sepolia"] }),
            "allowedNetworks[1]",
        ),
        (amount("0", "USD"), "maxAmount.amount"),
        (amount("0.001", "USD"), "maxAmount.amount"),
        (amount("1", "DOGE"), "maxAmount.currency"),
    ] {
        for answer in [create(&app, &limits).await, change(&app, &client, &limits).await] {
            assert_eq!(answer.status, 400, "{limits}: {}", answer.text);
            assert_eq!(answer.wrong_fields(), [field], "{limits}");
        }
    }
}

#[tokio::test]
async fn a_request_over_a_limit_names_the_limit() {
    let app = TestApp::start().await;
    let usdc = "USDC-sepolia";
    let to_other = |mut body: Value| {
        body["payee"] = json!(OTHER);
        body
    };
    let amount = |amount: &str, currency: &str| json!({ "maxAmount": { "amount": amount, "currency": currency } });
    for (limits, within, beyond, field, says) in [
        (
            json!({ "allowedPayees": [PAYEE] }),
            fau("1"),
            to_other(fau("1")),
            "payee",
            "must be an allowed payee of this client ID (allowedPayees)",
        ),
        (
            json!({ "allowedCurrencies": ["FAU-sepolia"] }),
            fau("1"),
            request("1", usdc, usdc),
            "invoiceCurrency",
            "FAU-sepolia",
        ),
        (
            json!({ "allowedCurrencies": ["FAU-sepolia"] }),
            fau("1"),
            request("1", usdc, usdc),
            "paymentCurrency",
            "FAU-sepolia",
        ),
        (
            amount("100", "FAU-sepolia"),
            fau("100"),
            fau("100.000001"),
            "amount",
            "at most 100 FAU-sepolia",
        ),
        (
            amount("100", "USD"),
            request("99.99", usdc, usdc),
            request("100.01", usdc, usdc),
            "amount",
            "at most 100 USD",
        ),
        (
            amount("100", "USD"),
            request("1", usdc, usdc),
            fau("0.01"),
            "invoiceCurrency",
            "must be USD or a dollar token: this client ID may request at most 100 USD, which cannot be compared",
        ),
        (
            amount("100", usdc),
            request("1", usdc, usdc),
            fau("0.01"),
            "invoiceCurrency",
            "must be USDC-sepolia, USD or another dollar token: ",
        ),
    ] {
        let client = create(&app, &limits).await.expect(201);
        ask(&app, &client, &within).await.expect(201);
        let refused = ask(&app, &client, &beyond).await;
        assert_eq!(refused.status, 400, "{limits}");
        let errors = refused.json()["errors"].as_array().cloned().unwrap_or_default();
        let named = errors.iter().find(|error| error["field"] == field);
        let message = named.map(|error| error["message"].to_string()).unwrap_or_default();
        assert!(message.contains(says), "{limits} {field}: {}", refused.text);
        // The limit does not apply to the owner.
        app.post("/v2/request")
            .with_key()
            .json(&beyond)
            .send()
            .await
            .expect(201);
    }
    let elsewhere = create(&app, &json!({ "allowedNetworks": ["base"] })).await.expect(201);
    let refused = ask(&app, &elsewhere, &fau("1")).await;
    assert_eq!(refused.wrong_fields(), ["paymentCurrency"], "{}", refused.text);
    assert!(
        refused.text.contains("must be on a network of this client ID: base"),
        "{}",
        refused.text
    );
}
