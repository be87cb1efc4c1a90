//! Repeated calls with an `Idempotency-Key`.

use crate::support::{
    Answer, TestApp,
    requests::{PAYEE, fau},
    session::sign_in,
    wallet::{TestWallet, token, typed_hash},
};
use futures_util::future::join_all;
use prs::flows::orchestrators;
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

#[tokio::test]
async fn a_repeated_call_returns_the_stored_response_and_creates_nothing() {
    let app = TestApp::start().await;
    let body = fau("1");
    let first = app
        .post("/v2/request")
        .with_key()
        .header("idempotency-key", "order-1")
        .json(&body)
        .send()
        .await;
    let again = app
        .post("/v2/request")
        .with_key()
        .header("idempotency-key", "order-1")
        .json(&body)
        .send()
        .await;
    assert_eq!(first.expect(201), again.expect(201));
    assert_eq!(first.text, again.text, "byte for byte");
    assert_eq!(first.header("idempotency-replayed"), None);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let mut other = body.clone();
    other["amount"] = json!("2");
    let clash = app
        .post("/v2/request")
        .with_key()
        .header("idempotency-key", "order-1")
        .json(&other)
        .send()
        .await;
    assert_eq!(clash.expect(409)["error"], "Conflict");
    let (other_key, _) = app.other_tenant().await;
    let foreign = app
        .post("/v2/request")
        .header("x-api-key", &other_key)
        .header("idempotency-key", "order-1")
        .json(&body);
    assert_ne!(
        foreign.send().await.expect(201),
        first.json(),
        "keys of different tenants do not conflict"
    );
    let total = app.get("/v2/request").with_key().send().await.expect(200)["pagination"]["total"].clone();
    assert_eq!(total, 1);
}

#[tokio::test]
async fn a_repeated_registration_returns_the_same_secret() {
    let app = TestApp::start().await;
    let body = json!({ "url": "http://127.0.0.1:9/hook" });
    let call = || {
        app.post("/v1/webhook")
            .with_client()
            .header("idempotency-key", "hook-1")
            .json(&body)
            .send()
    };
    let first = call().await.expect(201);
    assert_eq!(call().await.expect(201), first);
    let list = app.get("/v1/webhook").with_client().send().await.expect(200);
    assert_eq!(list["webhooks"].as_array().expect("a list").len(), 1);
}

#[tokio::test]
async fn concurrent_calls_with_one_key_create_one_request() {
    let app = TestApp::start().await;
    let body = fau("1");
    let calls = (0..10).map(|_| {
        app.post("/v2/request")
            .with_key()
            .header("idempotency-key", "once")
            .json(&body)
            .send()
    });
    let answers = join_all(calls).await;
    assert!(
        answers
            .iter()
            .all(|answer| answer.status == 201 || answer.status == 409),
        "{answers:?}"
    );
    let created: std::collections::HashSet<_> = answers
        .iter()
        .filter(|answer| answer.status == 201)
        .map(|answer| answer.text.clone())
        .collect();
    assert_eq!(created.len(), 1);
    let total = app.get("/v2/request").with_key().send().await.expect(200)["pagination"]["total"].clone();
    assert_eq!(total, 1);
}

/// Makes the call twenty times at once with one key: all calls return the response of the first.
async fn twenty_at_once(app: &TestApp, path: &str, credential: (&str, &str), body: &Value) -> Answer {
    let calls = (0..20).map(|_| {
        let call = app.post(path).header(credential.0, credential.1);
        call.header("idempotency-key", "once").json(body).send()
    });
    let answers = join_all(calls).await;
    for answer in &answers {
        let is_in_flight = answer.text.contains("is still in progress");
        assert!(
            answer.status < 300 || (answer.status == 409 && is_in_flight),
            "{path} {}: {}",
            answer.status,
            answer.text
        );
    }
    let made = answers.iter().filter(|answer| answer.status < 300);
    let texts: BTreeSet<&str> = made.clone().map(|answer| answer.text.as_str()).collect();
    assert_eq!(texts.len(), 1, "{path}: {texts:?}");
    let fresh = made
        .filter(|answer| answer.header("idempotency-replayed").is_none())
        .count();
    assert_eq!(fresh, 1, "{path}");
    answers.into_iter().find(|answer| answer.status < 300).expect("one")
}

#[tokio::test]
async fn concurrent_repeats_of_a_one_time_operation_get_its_response() {
    let app = TestApp::start().await;
    let wallet = TestWallet::new(7);
    let client = ("x-client-id", app.backend_client.as_str());

    let query = format!(
        "walletAddress={}&action=add&tokenAddress={}&chainId=11155111",
        wallet.address(),
        token(&app, "FAU-sepolia")
    );
    let data = app.get(&format!("/v2/payee-destination/signing-data?{query}"));
    let data = data.with_client().send().await.expect(200);
    let signed = json!({ "signature": wallet.sign(&typed_hash(&data)), "nonce": data["nonce"] });
    let added = twenty_at_once(&app, "/v2/payee-destination", client, &signed).await;
    assert_eq!(added.json()["active"], true);

    let hook = json!({ "url": "https://shop.example.com/hooks" });
    twenty_at_once(&app, "/v1/webhook", client, &hook).await;
    let other = json!({ "url": "https://shop.example.com/others" });
    let call = app.post("/v1/webhook").with_client().header("idempotency-key", "once");
    let clash = call.json(&other).send().await.expect(409);
    assert_eq!(
        clash["message"],
        "Idempotency-Key was already used with a different body; use a new key"
    );

    let bearer = format!("Bearer {}", sign_in(&app, &wallet).await);
    let made = app.post("/v1/api-keys").header("authorization", &bearer);
    let made = made.json(&json!({ "label": "Shop" })).send().await.expect(201);
    let path = format!("/v1/api-keys/{}/rotate", made["id"].as_str().expect("text"));
    let now = json!({ "overlapSeconds": 0 });
    let rotated = twenty_at_once(&app, &path, ("authorization", &bearer), &now).await;
    assert_ne!(rotated.json()["apiKey"], made["apiKey"]);
    let keys = app.get("/v1/api-keys").header("authorization", &bearer).send().await;
    let keys = keys.expect(200)["apiKeys"].clone();
    assert_eq!(
        keys.as_array().expect("a list").len(),
        2,
        "the rotation created one key"
    );
}

#[tokio::test]
async fn concurrent_orchestrator_calls_with_one_key_register_one_endpoint() {
    let app = TestApp::start().await;
    let created = prs::flows::orchestrators::create::run(&app.ctx, "Partner").await;
    let key = created.expect("an orchestrator").key.reveal().to_owned();
    let hook = json!({ "url": "https://partner.example.com/hooks" });
    twenty_at_once(&app, "/v2/orchestrators/webhooks", ("x-orchestrator-key", &key), &hook).await;
    let refused = app
        .post("/v2/orchestrators/webhooks")
        .header("x-orchestrator-key", &key);
    let refused = refused.header("idempotency-key", "other").json(&hook).send().await;
    assert_eq!(
        refused.expect(409)["message"],
        "This URL is already registered",
        "a call with another key is a new call"
    );
}

#[tokio::test]
async fn an_invalid_or_repeated_key_header_creates_nothing() {
    let app = TestApp::start().await;
    let body = fau("1");
    let call = || app.post("/v2/request").with_key().json(&body);
    for wrong in [
        call().raw_header("idempotency-key", b"order-\xff"),
        call().raw_header("idempotency-key", "bestellung-ü".as_bytes()),
        call()
            .header("idempotency-key", "one")
            .header("idempotency-key", "other"),
        call().header("idempotency-key", "one").header("idempotency-key", "one"),
        call()
            .raw_header("idempotency-key", b"\xff")
            .header("idempotency-key", "one"),
    ] {
        let answer = wrong.send().await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert_eq!(answer.wrong_fields(), ["Idempotency-Key"], "{}", answer.text);
    }
    let total = app.get("/v2/request").with_key().send().await.expect(200)["pagination"]["total"].clone();
    assert_eq!(total, 0);
}

#[tokio::test]
async fn keys_are_swept_after_a_day() {
    let app = TestApp::start().await;
    let body = json!({ "url": "https://shop.example.com/hooks" });
    let call = app.post("/v1/webhook").with_key().header("idempotency-key", "once");
    call.json(&body).send().await.expect(201);
    let key = prs::store::idempotency::IdempotencyKey {
        owner: (&app.platform).into(),
        scope: "createWebhook:platform".to_owned(),
        key: "once".to_owned(),
    };
    let is_kept = async || {
        let found = prs::store::idempotency::find(app.ctx.db.reader(), &key).await;
        found.expect("reads").is_some()
    };
    let sweep = async || {
        let stop = tokio_util::sync::CancellationToken::new();
        let worker = tokio::spawn(prs::worker::sweep_events::run(app.ctx.clone(), stop.clone()));
        for _ in 0..50 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            if !is_kept().await {
                break;
            }
        }
        stop.cancel();
        worker.await.expect("the worker ends");
    };
    app.advance_ms(24 * 3_600_000);
    sweep().await;
    assert!(is_kept().await, "a day is not over yet");
    app.advance_ms(1);
    sweep().await;
    assert!(!is_kept().await);
}

#[tokio::test]
async fn an_expired_key_is_reusable_and_calls_do_not_sweep_other_keys() {
    let app = TestApp::start().await;
    let call = async |key: &str| {
        let call = app.post("/v2/request").with_key().header("idempotency-key", key);
        call.json(&fau("1")).send().await.expect(201)
    };
    let (first, _) = (call("once").await, call("another").await);
    app.advance_ms(24 * 3_600_000 + 1);
    assert_ne!(call("once").await, first, "a day later the key makes another request");
    let other = prs::store::idempotency::IdempotencyKey {
        owner: (&app.platform).into(),
        scope: "createRequest:platform".to_owned(),
        key: "another".to_owned(),
    };
    let other = prs::store::idempotency::find(app.ctx.db.reader(), &other).await;
    assert!(other.expect("reads").is_some());
}

/// The stored hash of the body of the call with this key.
async fn stored_hash(app: &TestApp, key: &str) -> String {
    let reader = app.ctx.db.reader();
    let statement = format!("SELECT body_hash FROM idempotency_keys WHERE key = '{key}'");
    let statement = Statement::from_string(reader.get_database_backend(), statement);
    let row = reader.query_one_raw(statement).await.expect("reads").expect("a key");
    row.try_get("", "body_hash").expect("text")
}

fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

/// The hash of a body must stay the same in every version. Otherwise a call that is repeated after an upgrade does not
/// find its stored response.
#[tokio::test]
async fn body_hashes_match_those_of_earlier_versions() {
    let app = TestApp::start().await;
    let partner = orchestrators::create::run(&app.ctx, "Partner").await.expect("created");
    let person = format!("Bearer {}", sign_in(&app, &TestWallet::new(7)).await);
    let key = ("x-api-key", app.key.as_str());
    let partner = ("x-orchestrator-key", partner.key.reveal());
    let person = ("authorization", person.as_str());
    let used = std::cell::Cell::new(0);
    let call = async |credential: (&str, &str), path: &str, body: &str| {
        used.set(used.get() + 1);
        let name = format!("key-{}", used.get());
        let call = app.post(path).header(credential.0, credential.1);
        let answer = call.header("idempotency-key", &name).text(body).send().await;
        assert!(answer.status < 300, "{path}: {}", answer.text);
        (answer.json(), stored_hash(&app, &name).await)
    };
    let destination = format!(
        r#"{{"tokenAddress":"{}","chainId":11155111}}"#,
        token(&app, "FAU-sepolia")
    );
    let request = format!(
        r#"{{"payee":"{PAYEE}","amount":"1","invoiceCurrency":"FAU-sepolia","paymentCurrency":"FAU-sepolia"}}"#
    );
    let creations = [
        (key, "/v2/request", request.as_str()),
        (
            key,
            "/v2/client-ids",
            r#"{"label":"Shop","allowedDomains":["https://shop.example.com"]}"#,
        ),
        (person, "/v1/client-ids", r#"{"label":"Shop"}"#),
        (person, "/v1/payee-destination", &destination),
    ];
    for (credential, path, body) in creations {
        let (_, hash) = call(credential, path, body).await;
        assert_eq!(hash, sha256(body), "{path}");
    }
    let hook = r#"{"url":"https://shop.example.com/hooks"}"#;
    let rotation = r#"{"overlapSeconds":60}"#;
    for (credential, path, rotate) in [
        (key, "/v1/webhook", "rotate-secret"),
        (partner, "/v2/orchestrators/webhooks", "rotate-secret"),
        (person, "/v1/api-keys", "rotate"),
    ] {
        let body = if rotate == "rotate" {
            r#"{"label":"Shop"}"#
        } else {
            hook
        };
        let (made, hash) = call(credential, path, body).await;
        assert_eq!(hash, sha256(body), "{path}");
        let id = ["/id", "/webhook/id"]
            .iter()
            .find_map(|place| made.pointer(place)?.as_str());
        let id = id.expect("an id");
        let (_, hash) = call(credential, &format!("{path}/{id}/{rotate}"), rotation).await;
        let expected = match rotate {
            "rotate" => format!("{}:{id}", sha256(rotation)),
            _ => sha256(&format!("{id} {}", sha256(rotation))),
        };
        assert_eq!(hash, expected, "{path}");
    }
}
