//! Calls that stop waiting for the database: later calls still get correct responses.

use crate::support::{TestApp, app::Call, requests::fau};
use serde_json::Value;
use std::time::Duration;

/// Number of requests that the test creates after each abandoned call. It is larger than the number of idle connections
/// in the pool, so every connection is used.
const CREATIONS: usize = 6;

fn creation<'a>(app: &'a TestApp, key: Option<&str>) -> Call<'a> {
    let call = app.post("/v2/request").with_client().json(&fau("1"));
    match key {
        Some(key) => call.header("idempotency-key", key),
        None => call,
    }
}

fn id(created: &Value) -> String {
    created["requestId"].as_str().expect("an id").to_owned()
}

/// Creates requests without a key, and looks up each of them on another instance.
async fn create_and_find(app: &TestApp, other: &TestApp, context: &str) {
    for number in 0..CREATIONS {
        let made = id(&creation(app, None).send().await.expect(201));
        let found = other.get(&format!("/v2/request/{made}")).with_key().send().await;
        assert_eq!(
            found.status, 200,
            "{context}: request {number} was acknowledged and is missing"
        );
    }
}

#[tokio::test]
async fn a_delayed_database_response_loses_no_acknowledged_request() {
    let app = TestApp::start().await;
    // An embedded database has no connection on which a response could be late.
    let Some((slow, wire)) = app.over_wire().await else {
        return;
    };
    let insert = "INSERT INTO \"requests\"";
    let held = [
        ("BEGIN", true),
        (insert, true),
        (insert, false),
        ("COMMIT", true),
        ("SELECT", false),
    ];
    for (number, (statement, is_keyed)) in held.into_iter().enumerate() {
        let context = format!("{statement}, with a key: {is_keyed}");
        let key = format!("late-{number}");
        let key = is_keyed.then_some(key.as_str());
        let call = match statement {
            "SELECT" => slow.get("/v2/request/01none").with_key(),
            _ => creation(&slow, key),
        };
        wire.hold(statement);
        assert_eq!(call.send().await.status, 503, "{context}");
        wire.let_go();
        create_and_find(&slow, &app, &context).await;
        if is_keyed {
            let repeated = creation(&slow, key).send().await.expect(201);
            let again = creation(&app, key).send().await.expect(201);
            assert_eq!(id(&repeated), id(&again), "{context}");
        }
        let closed = tokio::time::timeout(Duration::from_secs(5), wire.asked_until_closed()).await;
        let asked = closed.unwrap_or_else(|_| panic!("{context}: the connection stays open"));
        assert!(asked.iter().all(|asked| asked.len() == 1), "{context}: {asked:?}");
    }
}
