//! Creating client IDs.

use crate::support::{
    TestApp,
    wallet::{fee_proxy, token},
};
use serde_json::{Value, json};

#[tokio::test]
async fn a_client_id_is_created_and_listed_without_its_details() {
    let app = TestApp::start().await;
    let body = json!({ "label": "Shop", "allowedDomains": ["https://Shop.example.com", "http://localhost:8080/"] });
    let created = app
        .post("/v2/client-ids")
        .with_key()
        .json(&body)
        .send()
        .await
        .expect(201);
    let client = created["clientId"].as_str().expect("text");
    assert!(client.starts_with("cli_") && client.len() == 34, "{client}");
    assert_eq!(
        created["allowedDomains"],
        json!(["https://shop.example.com", "http://localhost:8080"])
    );
    assert_eq!(
        (&created["status"], &created["feePercentage"], &created["feeAddress"]),
        (&json!("active"), &json!(null), &json!(null))
    );
    let list = app.get("/v2/client-ids").with_key().send().await.expect(200);
    let newest = list.as_array().expect("a list")[0].clone();
    assert_eq!(newest["clientId"], client);
    assert_eq!(newest["lastUsedAt"], json!(null));
    assert!(newest.get("feePercentage").is_none());
    let call = app
        .get("/v2/currencies")
        .header("x-client-id", client)
        .header("origin", "https://shop.example.com");
    call.send().await.expect(200);
    let used: Value = app.get("/v2/client-ids").with_key().send().await.expect(200);
    assert!(used[0]["lastUsedAt"].is_string());
}

#[tokio::test]
async fn invalid_client_id_fields_are_named() {
    let app = TestApp::start().await;
    let many: Vec<String> = (0..11)
        .map(|index| format!("https://shop-{index}.example.com"))
        .collect();
    let (fau, proxy) = (token(&app, "FAU-sepolia"), fee_proxy(&app));
    for (change, field) in [
        (json!({ "label": "" }), "label"),
        (json!({ "label": "x".repeat(101) }), "label"),
        (json!({ "allowedDomains": [] }), "allowedDomains"),
        (
            json!({ "payeeDestinationId": "01K9Z0T3G9R5M1N2P3Q4R5S6T7" }),
            "payeeDestinationId",
        ),
        (json!({ "allowedDomains": many }), "allowedDomains"),
        (
            json!({ "allowedDomains": ["http://shop.example.com"] }),
            "allowedDomains[0]",
        ),
        (
            json!({ "allowedDomains": ["https://shop.example.com/path"] }),
            "allowedDomains[0]",
        ),
        (
            json!({ "allowedDomains": ["https://a.example.com", "https://A.example.com/"] }),
            "allowedDomains[1]",
        ),
        (json!({ "feePercentage": "2" }), "feeAddress"),
        (
            json!({ "feePercentage": "101", "feeAddress": "0x90F79bf6EB2c4f870365E785982E1f101E93b906" }),
            "feePercentage",
        ),
        (json!({ "feePercentage": "1", "feeAddress": "nobody" }), "feeAddress"),
        (json!({ "feePercentage": "1", "feeAddress": fau }), "feeAddress"),
        (json!({ "feePercentage": "1", "feeAddress": proxy }), "feeAddress"),
        (json!({ "defaultPreApprovalExpiry": 0 }), "defaultPreApprovalExpiry"),
    ] {
        let mut body = json!({ "label": "Shop", "allowedDomains": ["https://shop.example.com"] });
        for (name, value) in change.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let answer = app.post("/v2/client-ids").with_key().json(&body).send().await;
        assert_eq!(answer.status, 400, "{change}");
        assert_eq!(answer.wrong_fields(), [field], "{change}");
    }
}

#[tokio::test]
async fn preflights_succeed_for_all_active_domains() {
    let app = TestApp::start().await;
    let ask = |origin: &'static str| {
        app.call(poem::http::Method::OPTIONS, "/v2/request")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "x-client-id,content-type")
            .send()
    };
    let known = ask("http://localhost:3000").await;
    assert!(known.status == 200 || known.status == 204, "{}", known.status);
    assert_eq!(
        known.header("access-control-allow-origin"),
        Some("http://localhost:3000")
    );
    let headers = known
        .header("access-control-allow-headers")
        .unwrap_or_default()
        .to_lowercase();
    for name in [
        "content-type",
        "x-client-id",
        "x-api-key",
        "x-orchestrator-key",
        "authorization",
        "idempotency-key",
    ] {
        assert!(headers.contains(name), "{name} in {headers}");
    }
    let unknown = ask("https://evil.example.com").await;
    assert_eq!(unknown.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn unicode_domains_are_stored_as_punycode_and_match_their_pages() {
    let app = TestApp::start().await;
    let create = |domains: Value| {
        let body = json!({ "label": "Bücher", "allowedDomains": domains });
        let call = app.post("/v2/client-ids").with_key().json(&body);
        async move { call.send().await }
    };
    let made = create(json!(["https://bücher.example", "https://пример.испытание"]))
        .await
        .expect(201);
    let plain = ["https://xn--bcher-kva.example", "https://xn--e1afmkfd.xn--80akhbyknj4f"];
    assert_eq!(made["allowedDomains"], json!(plain));
    for origin in plain {
        let call = app.get("/v2/currencies").header("origin", origin);
        let call = call.header("x-client-id", made["clientId"].as_str().expect("text"));
        let answer = call.send().await;
        assert_eq!(
            (answer.status, answer.header("access-control-allow-origin")),
            (200, Some(origin))
        );
    }
    for twice in [
        json!(["https://bücher.example", "https://xn--bcher-kva.example"]),
        json!(["https://a.example", "https://A.EXAMPLE:443"]),
    ] {
        let refused = create(twice).await;
        refused.expect(400);
        assert_eq!(refused.wrong_fields(), ["allowedDomains[1]"]);
    }
    create(json!([format!("https://{}.example", "a".repeat(64))]))
        .await
        .expect(400);
}

#[tokio::test]
async fn an_origin_without_its_slashes_is_rejected() {
    let app = TestApp::start().await;
    let client = app.shop_client(&json!({ "label": "Shop" })).await;
    for (origin, status) in [
        ("https://shop.example.com", 200),
        ("https:shop.example.com", 403),
        ("https:/shop.example.com", 403),
    ] {
        let call = app.get("/v2/currencies").header("origin", origin);
        let call = call.header("x-client-id", client["clientId"].as_str().expect("text"));
        assert_eq!(call.send().await.status, status, "{origin}");
    }
}
