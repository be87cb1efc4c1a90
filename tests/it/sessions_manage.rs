//! Resources that a signed-in user manages: client IDs, payee destinations, API keys.

use crate::support::{
    Answer, TestApp,
    session::sign_in,
    wallet::{TestWallet, token},
};
use poem::http::Method;
use serde_json::{Value, json};

const SEPOLIA: u64 = 11_155_111;

/// A signed-in user.
struct Person<'a> {
    app: &'a TestApp,
    bearer: String,
}

impl<'a> Person<'a> {
    async fn new(app: &'a TestApp, wallet: &TestWallet) -> Self {
        let bearer = format!("Bearer {}", sign_in(app, wallet).await);
        Self { app, bearer }
    }

    async fn get(&self, path: &str) -> Answer {
        self.app.get(path).header("authorization", &self.bearer).send().await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        let call = self.app.call(method, path).header("authorization", &self.bearer);
        call.json(body).send().await
    }

    async fn destination(&self, currency: &str) -> Value {
        let body = json!({ "tokenAddress": token(self.app, currency), "chainId": SEPOLIA });
        self.send(Method::POST, "/v1/payee-destination", &body)
            .await
            .expect(201)
    }
}

#[tokio::test]
async fn a_session_creates_changes_and_revokes_client_ids() {
    let app = TestApp::start().await;
    let person = Person::new(&app, &TestWallet::new(7)).await;
    let destination = person.destination("FAU-sepolia").await;
    let body = json!({ "label": "Backend", "feePercentage": null, "feeAddress": null,
                       "payeeDestinationId": destination["id"] });
    let created = person.send(Method::POST, "/v1/client-ids", &body).await.expect(201);
    assert_eq!(
        (
            &created["allowedDomains"],
            &created["status"],
            &created["payeeDestinationId"]
        ),
        (&json!([]), &json!("active"), &destination["id"])
    );
    let path = format!("/v1/client-ids/{}", created["id"].as_str().expect("text"));
    assert_eq!(person.get(&path).await.expect(200), created);
    assert_eq!(person.get("/v1/client-ids").await.expect(200), json!([created]));
    let client = created["clientId"].as_str().expect("text");
    let request = json!({ "amount": "1", "invoiceCurrency": "FAU-sepolia", "paymentCurrency": "FAU-sepolia" });
    let call = || app.post("/v2/request").header("x-client-id", client).json(&request);
    let id = call().send().await.expect(201)["requestId"]
        .as_str()
        .expect("text")
        .to_owned();
    let read = app
        .get(&format!("/v2/request/{id}"))
        .header("x-client-id", client)
        .send()
        .await;
    assert_eq!(read.expect(200)["payee"], destination["walletAddress"]);

    let change = json!({ "allowedDomains": ["https://shop.example.com"], "payeeDestinationId": null });
    let changed = person.send(Method::PUT, &path, &change).await.expect(200);
    assert_eq!(
        (
            &changed["allowedDomains"],
            &changed["payeeDestinationId"],
            &changed["label"]
        ),
        (&json!(["https://shop.example.com"]), &json!(null), &json!("Backend"))
    );
    assert_eq!(call().send().await.status, 401, "domains need an Origin from now on");
    let bare = person.send(Method::PUT, &path, &json!({ "allowedDomains": [] })).await;
    assert_eq!(
        (bare.status, bare.wrong_fields()),
        (400, vec!["allowedDomains".to_owned()])
    );
    assert_eq!(
        person.get(&path).await.expect(200)["allowedDomains"],
        changed["allowedDomains"]
    );
    for _ in 0..2 {
        let revoked = app.call(Method::DELETE, &path).header("authorization", &person.bearer);
        assert_eq!(revoked.send().await.expect(200), json!({ "success": true }));
    }
    assert_eq!(call().send().await.status, 403);
    let back = person.send(Method::PUT, &path, &json!({ "status": "active" })).await;
    assert_eq!(
        (back.status, &back.json()["message"]),
        (400, &json!("Cannot reactivate a revoked client ID"))
    );
}

#[tokio::test]
async fn invalid_input_of_a_session_is_reported() {
    let app = TestApp::start().await;
    let person = Person::new(&app, &TestWallet::new(7)).await;
    let other = Person::new(&app, &TestWallet::new(8)).await;
    let foreign = other.destination("FAU-sepolia").await;
    let many: Vec<String> = (0..11)
        .map(|index| format!("https://shop-{index}.example.com"))
        .collect();
    let fau = token(&app, "FAU-sepolia");
    let destination = |changes: Value| {
        let mut body = json!({ "tokenAddress": fau, "chainId": SEPOLIA });
        for (name, value) in changes.as_object().expect("an object") {
            body[name] = value.clone();
        }
        body
    };
    let client_ids = "/v1/client-ids";
    let destinations = "/v1/payee-destination";
    for (path, body, field) in [
        (client_ids, json!({ "label": "" }), "label"),
        (
            client_ids,
            json!({ "label": "Shop", "feePercentage": "1", "feeAddress": fau }),
            "feeAddress",
        ),
        (client_ids, json!({ "label": "x".repeat(101) }), "label"),
        (
            client_ids,
            json!({ "label": "Shop", "allowedDomains": many }),
            "allowedDomains",
        ),
        (
            client_ids,
            json!({ "label": "Shop", "allowedDomains": ["http://shop.example.com"] }),
            "allowedDomains[0]",
        ),
        (
            client_ids,
            json!({ "label": "Shop", "allowedDomains": ["https://shop.example.com/path"] }),
            "allowedDomains[0]",
        ),
        (
            client_ids,
            json!({ "label": "Shop", "feePercentage": "1" }),
            "feeAddress",
        ),
        (
            client_ids,
            json!({ "label": "Shop", "feeAddress": foreign["walletAddress"] }),
            "feePercentage",
        ),
        (
            client_ids,
            json!({ "label": "Shop", "payeeDestinationId": foreign["id"] }),
            "payeeDestinationId",
        ),
        (destinations, destination(json!({ "chainId": 999 })), "chainId"),
        (destinations, destination(json!({ "chainId": "11155111" })), "chainId"),
        (destinations, destination(json!({ "chainId": 728_126_428 })), "chainId"),
        (
            destinations,
            destination(json!({ "tokenAddress": foreign["walletAddress"] })),
            "tokenAddress",
        ),
        (
            destinations,
            destination(json!({ "accessPolicy": { "mode": "kyt_all_wallets" } })),
            "accessPolicy.screeningProvider",
        ),
        (
            destinations,
            destination(json!({ "accessPolicy": { "mode": "off", "screeningProvider": "hypernative" } })),
            "accessPolicy.screeningProvider",
        ),
        (
            destinations,
            destination(json!({ "accessPolicy": { "mode": "inherit" } })),
            "accessPolicy.mode",
        ),
        ("/v1/api-keys", json!({ "label": "" }), "label"),
        ("/v1/api-keys", json!({ "label": "x".repeat(101) }), "label"),
    ] {
        let answer = person.send(Method::POST, path, &body).await;
        assert_eq!(answer.status, 400, "{path} {body}: {}", answer.text);
        assert_eq!(answer.wrong_fields(), [field], "{path} {body}: {}", answer.text);
    }
    assert_eq!(person.get(client_ids).await.expect(200), json!([]));
    assert_eq!(person.get(destinations).await.expect(200), json!(null));
}

#[tokio::test]
async fn a_session_looks_up_and_deactivates_destinations() {
    let app = TestApp::start().await;
    let wallet = TestWallet::new(7);
    let person = Person::new(&app, &wallet).await;
    let other = Person::new(&app, &TestWallet::new(8)).await;
    let created = person.destination("FAU-sepolia").await;
    assert_eq!(
        person.destination("FAU-sepolia").await,
        created,
        "a second time changes nothing"
    );
    assert_eq!(person.get("/v1/payee-destination").await.expect(200), created);
    assert_eq!(other.get("/v1/payee-destination").await.expect(200), json!(null));
    let id = created["destinationId"].as_str().expect("text");
    let lookup = format!("/v1/payee-destination/lookup?destinationId={}", id.replace('#', "%23"));
    assert_eq!(person.get(&lookup).await.expect(200), created);
    assert_eq!(other.get(&lookup).await.status, 404);
    let payout = format!("/v1/payee-destination/payout-lookup?walletAddress={}", wallet.address());
    let mut wanted = json!({});
    for member in ["destinationId", "walletAddress", "tokenAddress", "chainId", "claimed"] {
        wanted[member] = created[member].clone();
    }
    assert_eq!(other.get(&payout).await.expect(200), wanted);

    let policy = json!({ "mode": "kyt_all_wallets", "screeningProvider": "merklescience",
                         "hideUntilApproved": true, "hidePayeeAddress": false });
    let body = json!({ "tokenAddress": token(&app, "FAU-sepolia"), "chainId": SEPOLIA, "accessPolicy": policy });
    let changed = person
        .send(Method::PUT, "/v1/payee-destination", &body)
        .await
        .expect(200);
    assert_eq!((&changed["accessPolicy"], &changed["id"]), (&policy, &created["id"]));
    let end = json!({ "destinationId": id });
    let deactivate = "/v1/payee-destination/deactivate";
    assert_eq!(other.send(Method::PATCH, deactivate, &end).await.status, 404);
    let ended = person.send(Method::PATCH, deactivate, &end).await.expect(200);
    assert_eq!(ended, json!({ "success": true, "message": "Destination deactivated" }));
    assert_eq!(person.send(Method::PATCH, deactivate, &end).await.status, 404);
    assert_eq!(person.get("/v1/payee-destination").await.expect(200), json!(null));
    assert_eq!(other.get(&payout).await.expect(200), json!(null));
    assert_eq!(
        person.send(Method::PUT, "/v1/payee-destination", &body).await.status,
        404
    );
}

#[tokio::test]
async fn api_keys_are_shown_once_rotated_and_revoked() {
    let app = TestApp::start().await;
    let person = Person::new(&app, &TestWallet::new(7)).await;
    let stranger = Person::new(&app, &TestWallet::new(8)).await;
    let works = async |key: &Value| {
        let key = key["apiKey"].as_str().expect("text");
        app.get("/v2/currencies").header("x-api-key", key).send().await.status == 200
    };
    let first = person
        .send(Method::POST, "/v1/api-keys", &json!({ "label": "Server" }))
        .await
        .expect(201);
    assert!(works(&first).await);
    let list = person.get("/v1/api-keys").await;
    assert!(
        !list.text.contains(first["apiKey"].as_str().expect("text")),
        "{}",
        list.text
    );
    assert_eq!(list.json()["apiKeys"][0]["id"], first["id"]);
    assert_eq!(list.json()["apiKeys"][0]["label"], "Server");
    let path = |key: &Value| format!("/v1/api-keys/{}", key["id"].as_str().expect("text"));
    let rotate = format!("{}/rotate", path(&first));
    assert_eq!(stranger.send(Method::POST, &rotate, &json!({})).await.status, 404);
    let long = person
        .send(Method::POST, &rotate, &json!({ "overlapSeconds": 604_801 }))
        .await;
    assert_eq!(
        (long.status, long.wrong_fields()),
        (400, vec!["overlapSeconds".to_owned()])
    );
    let second = person
        .send(Method::POST, &rotate, &json!({ "overlapSeconds": 60 }))
        .await
        .expect(201);
    assert!(works(&first).await && works(&second).await);
    app.advance_ms(60_000);
    assert!(!works(&first).await && works(&second).await);
    let revoke = |person: &Person<'_>| {
        let call = app.call(Method::DELETE, &path(&second));
        call.header("authorization", &person.bearer).send()
    };
    assert_eq!(revoke(&stranger).await.status, 404);
    assert_eq!(revoke(&person).await.expect(200), json!({ "success": true }));
    assert!(!works(&second).await);
    assert_eq!(app.get("/v1/api-keys").with_key().send().await.status, 403);
}

#[tokio::test]
async fn unknown_members_are_rejected_where_a_body_grants_access() {
    let app = TestApp::start().await;
    let person = Person::new(&app, &TestWallet::new(7)).await;
    let client = person
        .send(Method::POST, "/v1/client-ids", &json!({ "label": "Shop" }))
        .await;
    let client = client.expect(201)["id"].as_str().expect("text").to_owned();
    let key = person.send(Method::POST, "/v1/api-keys", &json!({})).await.expect(201)["id"].clone();
    let rotate = format!("/v1/api-keys/{}/rotate", key.as_str().expect("text"));
    for (method, path, body) in [
        (Method::POST, "/v1/api-keys".to_owned(), json!({ "label": "Reader" })),
        (Method::POST, rotate, json!({})),
        (Method::POST, "/v1/client-ids".to_owned(), json!({ "label": "Shop" })),
        (
            Method::PUT,
            format!("/v1/client-ids/{client}"),
            json!({ "label": "Shop" }),
        ),
    ] {
        let mut wider = body.clone();
        wider["scopes"] = json!(["read"]);
        wider["expiresAt"] = json!("2030-01-01T00:00:00Z");
        let refused = person.send(method.clone(), &path, &wider).await;
        refused.expect(400);
        assert_eq!(refused.wrong_fields(), ["scopes", "expiresAt"], "{path}");
        assert!(
            (200..300).contains(&person.send(method, &path, &body).await.status),
            "{path}"
        );
    }
    let made = app.post("/v2/client-ids").with_key();
    let made =
        made.json(&json!({ "label": "Shop", "allowedDomains": ["https://shop.example.com"], "allowedPayee": [] }));
    let refused = made.send().await;
    refused.expect(400);
    assert_eq!(refused.wrong_fields(), ["allowedPayee"]);
}
