//! Calls that are answered once.

use crate::support::{TestApp, requests::fau};
use serde_json::json;

#[tokio::test]
async fn a_repeated_call_gets_the_stored_answer_and_makes_nothing() {
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
        "keys of tenants do not meet"
    );
    let total = app.get("/v2/request").with_key().send().await.expect(200)["pagination"]["total"].clone();
    assert_eq!(total, 1);
}

#[tokio::test]
async fn a_repeated_registration_shows_the_same_secret() {
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
async fn calls_with_one_key_at_the_same_time_make_one_request() {
    let app = TestApp::start().await;
    let body = fau("1");
    let calls = (0..10).map(|_| {
        app.post("/v2/request")
            .with_key()
            .header("idempotency-key", "once")
            .json(&body)
            .send()
    });
    let answers = futures_util::future::join_all(calls).await;
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

#[tokio::test]
async fn keys_are_swept_when_their_day_is_over() {
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
