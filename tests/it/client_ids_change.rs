//! Reading, changing and revoking client IDs.

use crate::support::{
    Answer, TestApp,
    wallet::{fee_proxy, token},
};
use poem::http::Method;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

const FEE_ADDRESS: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";

async fn create(app: &TestApp, changes: &Value) -> Value {
    let mut body = json!({ "label": "Shop", "allowedDomains": ["https://shop.example.com"] });
    for (name, value) in changes.as_object().expect("an object") {
        body[name] = value.clone();
    }
    let answer = app.post("/v2/client-ids").with_key().json(&body).send().await;
    answer.expect(201)
}

fn path(client: &Value) -> String {
    format!("/v2/client-ids/{}", client["id"].as_str().expect("text"))
}

async fn put(app: &TestApp, client: &Value, body: &Value) -> Answer {
    app.call(Method::PUT, &path(client)).with_key().json(body).send().await
}

async fn read(app: &TestApp, client: &Value) -> Value {
    app.get(&path(client)).with_key().send().await.expect(200)
}

async fn used_by(app: &TestApp, client: &Value) -> Answer {
    let call = app
        .get("/v2/currencies")
        .header("x-client-id", client["clientId"].as_str().expect("text"))
        .header("origin", "https://shop.example.com");
    call.send().await
}

#[tokio::test]
async fn an_update_keeps_absent_fields_and_null_unsets_them() {
    let app = TestApp::start().await;
    let client = create(
        &app,
        &json!({ "feePercentage": "2.5", "feeAddress": FEE_ADDRESS, "operatorWalletAddress": FEE_ADDRESS,
                 "defaultPreApprovalExpiry": 60, "defaultAuthorizationExpiry": 120 }),
    )
    .await;
    let before = read(&app, &client).await;
    assert_eq!(before["createdAt"], before["updatedAt"]);
    assert_eq!(before["lastUsedAt"], json!(null));
    app.advance_ms(1_000);
    let changed = put(
        &app,
        &client,
        &json!({ "label": "Other", "defaultPreApprovalExpiry": null }),
    )
    .await
    .expect(200);
    assert!(changed.get("createdAt").is_none(), "{changed}");
    assert!(changed["updatedAt"].as_str() > before["updatedAt"].as_str());
    let mut wanted = before.clone();
    wanted["label"] = json!("Other");
    wanted["defaultPreApprovalExpiry"] = json!(null);
    wanted["updatedAt"] = changed["updatedAt"].clone();
    assert_eq!(read(&app, &client).await, wanted);

    let domains = json!({ "allowedDomains": ["https://Next.example.com:443/", "http://[::1]:3000"] });
    let changed = put(&app, &client, &domains).await.expect(200);
    assert_eq!(
        changed["allowedDomains"],
        json!(["https://next.example.com", "http://[::1]:3000"])
    );
    assert_eq!(
        used_by(&app, &client).await.status,
        403,
        "the old page is rejected at once"
    );

    let unset = json!({ "feePercentage": null, "feeAddress": null, "operatorWalletAddress": null,
                        "defaultAuthorizationExpiry": null });
    let changed = put(&app, &client, &unset).await.expect(200);
    for member in unset.as_object().expect("an object").keys() {
        assert_eq!(changed[member], json!(null), "{member}");
    }
    assert_eq!(put(&app, &client, &json!({})).await.status, 200);
}

#[tokio::test]
async fn invalid_updates_name_their_field_and_change_nothing() {
    let app = TestApp::start().await;
    let bare = create(&app, &json!({})).await;
    let with_fee = create(&app, &json!({ "feePercentage": "1", "feeAddress": FEE_ADDRESS })).await;
    let many: Vec<String> = (0..11)
        .map(|index| format!("https://shop-{index}.example.com"))
        .collect();
    let (fau, proxy) = (token(&app, "FAU-sepolia"), fee_proxy(&app));
    for (client, change, field) in [
        (&bare, json!({ "label": "" }), "label"),
        (&bare, json!({ "label": "x".repeat(101) }), "label"),
        (&bare, json!({ "label": null }), "label"),
        (&bare, json!({ "allowedDomains": [] }), "allowedDomains"),
        (
            &bare,
            json!({ "payeeDestinationId": "01K9Z0T3G9R5M1N2P3Q4R5S6T7" }),
            "payeeDestinationId",
        ),
        (&bare, json!({ "allowedDomains": many }), "allowedDomains"),
        (
            &bare,
            json!({ "allowedDomains": ["http://shop.example.com"] }),
            "allowedDomains[0]",
        ),
        (
            &bare,
            json!({ "allowedDomains": ["https://shop.example.com/path"] }),
            "allowedDomains[0]",
        ),
        (
            &bare,
            json!({ "allowedDomains": ["https://shop.example.com?query"] }),
            "allowedDomains[0]",
        ),
        (
            &bare,
            json!({ "allowedDomains": ["https://a.example.com", "https://A.example.com/"] }),
            "allowedDomains[1]",
        ),
        (&bare, json!({ "feePercentage": "2" }), "feeAddress"),
        (&bare, json!({ "feeAddress": FEE_ADDRESS }), "feePercentage"),
        (
            &bare,
            json!({ "feePercentage": "100.5", "feeAddress": FEE_ADDRESS }),
            "feePercentage",
        ),
        (&with_fee, json!({ "feeAddress": null }), "feeAddress"),
        (&with_fee, json!({ "feePercentage": null }), "feePercentage"),
        (&with_fee, json!({ "feePercentage": "1.234" }), "feePercentage"),
        (&with_fee, json!({ "feeAddress": "nobody" }), "feeAddress"),
        (&with_fee, json!({ "feeAddress": fau }), "feeAddress"),
        (
            &bare,
            json!({ "feePercentage": "1", "feeAddress": proxy }),
            "feeAddress",
        ),
        (
            &bare,
            json!({ "operatorWalletAddress": "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t" }),
            "operatorWalletAddress",
        ),
        (
            &bare,
            json!({ "defaultPreApprovalExpiry": 0 }),
            "defaultPreApprovalExpiry",
        ),
        (
            &bare,
            json!({ "defaultAuthorizationExpiry": "60" }),
            "defaultAuthorizationExpiry",
        ),
        (&bare, json!({ "status": "gone" }), "status"),
    ] {
        let before = read(&app, client).await;
        let answer = put(&app, client, &change).await;
        assert_eq!(answer.status, 400, "{change}: {}", answer.text);
        assert_eq!(answer.wrong_fields(), [field], "{change}");
        let body = answer.json();
        let sentence = body["errors"][0]["message"].as_str().expect("text");
        assert!(sentence.len() > 10, "{change}: {sentence}");
        assert_eq!(read(&app, client).await, before, "{change}");
    }
}

#[tokio::test]
async fn status_changes_apply_to_the_next_call_and_revocation_is_permanent() {
    let app = TestApp::start().await;
    let client = create(&app, &json!({})).await;
    assert_eq!(used_by(&app, &client).await.status, 200);
    put(&app, &client, &json!({ "status": "inactive" })).await.expect(200);
    let refused = used_by(&app, &client).await;
    assert_eq!(
        (refused.status, &refused.json()["message"]),
        (403, &json!("Client ID is inactive"))
    );
    put(&app, &client, &json!({ "status": "active" })).await.expect(200);
    assert_eq!(used_by(&app, &client).await.status, 200);
    for _ in 0..2 {
        let answer = app.call(Method::DELETE, &path(&client)).with_key().send().await;
        assert_eq!(answer.expect(200), json!({ "success": true }));
        let refused = used_by(&app, &client).await;
        assert_eq!(
            (refused.status, &refused.json()["message"]),
            (403, &json!("Client ID has been revoked"))
        );
    }
    for status in ["active", "inactive"] {
        let answer = put(&app, &client, &json!({ "status": status })).await;
        assert_eq!(
            (answer.status, &answer.json()["message"]),
            (400, &json!("Cannot reactivate a revoked client ID"))
        );
    }
    assert_eq!(put(&app, &client, &json!({ "status": "revoked" })).await.status, 200);
    assert_eq!(read(&app, &client).await["status"], "revoked");
    let preflight = app
        .call(Method::OPTIONS, "/v2/request")
        .header("origin", "https://shop.example.com")
        .header("access-control-request-method", "POST");
    assert_eq!(preflight.send().await.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn the_origin_list_is_reloaded_only_when_domains_change() {
    let app = TestApp::start().await;
    let client = create(&app, &json!({})).await;
    let is_let_in = async |origin: &str| {
        let preflight = app
            .call(Method::OPTIONS, "/v2/request")
            .header("origin", origin)
            .header("access-control-request-method", "POST");
        let answer = preflight.send().await;
        answer.header("access-control-allow-origin").is_some()
    };
    assert!(is_let_in("https://shop.example.com").await);
    // Another instance changes the domains; this instance gets no notification of the change.
    let late = "UPDATE client_ids SET allowed_domains = '[\"https://late.example.com\"]' WHERE label = 'Shop'";
    app.ctx.db.writer().execute_unprepared(late).await.expect("written");
    assert_eq!(put(&app, &client, &json!({ "label": "Other" })).await.status, 200);
    assert!(
        !is_let_in("https://late.example.com").await,
        "a changed label does not reload the domains"
    );
    let domains = json!({ "allowedDomains": ["https://late.example.com", "https://shop.example.com"] });
    assert_eq!(put(&app, &client, &domains).await.status, 200);
    assert!(is_let_in("https://late.example.com").await);
}

#[tokio::test]
async fn another_tenants_client_id_is_reported_as_unknown() {
    let app = TestApp::start().await;
    let client = create(&app, &json!({})).await;
    let (key, _) = app.other_tenant().await;
    let unknown = json!({ "id": "01K9Z0T3G9R5M1N2P3Q4R5S6T7" });
    for (key, client) in [
        (&key, &client),
        (&app.key, &unknown),
        (&app.key, &json!({ "id": "nobody" })),
    ] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let call = app.call(method.clone(), &path(client)).header("x-api-key", key);
            let answer = match method {
                Method::PUT => call.json(&json!({ "label": "Mine" })).send().await,
                _ => call.send().await,
            };
            assert_eq!(
                (answer.status, &answer.json()["message"]),
                (404, &json!("Client ID not found")),
                "{method}"
            );
        }
    }
    assert_eq!(read(&app, &client).await["label"], "Shop");
    assert_eq!(used_by(&app, &client).await.status, 200);
    assert_eq!(app.get(&path(&client)).with_client().send().await.status, 403);
}
