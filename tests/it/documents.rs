//! The published documents: what is served is what is committed, and answers fit what is documented.

use crate::{payments::fau, support::TestApp};
use serde_json::{Value, json};

fn committed(name: &str) -> String {
    let path = format!("{}/openapi/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}; run `cargo xtask openapi generate`"))
}

#[tokio::test]
async fn the_served_documents_are_the_committed_files() {
    let app = TestApp::start().await;
    for name in ["v2", "auth", "webhooks"] {
        let served = app.get(&format!("/openapi/{name}.json")).send().await;
        assert_eq!(served.status, 200);
        assert!(
            served.text == committed(name),
            "{name}: run `cargo xtask openapi generate`"
        );
    }
}

/// A validator of the answer of an operation with a status.
fn validator(document: &Value, method: &str, path: &str, status: &str) -> jsonschema::Validator {
    let response = &document["paths"][path][method]["responses"][status];
    let mut schema = response["content"]["application/json"]["schema"].clone();
    assert!(!schema.is_null(), "{method} {path} {status} has a schema");
    schema["components"] = document["components"].clone();
    nullable_as_type(&mut schema);
    jsonschema::options().build(&schema).expect("a schema")
}

/// What 3.0 calls `nullable` is a type in JSON Schema.
fn nullable_as_type(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.remove("nullable") == Some(Value::Bool(true)) {
                if let Some(kind) = members.get("type").cloned() {
                    members.insert("type".to_owned(), json!([kind, "null"]));
                }
                if let Some(Value::Array(values)) = members.get_mut("enum") {
                    values.push(Value::Null);
                }
            }
            members.values_mut().for_each(nullable_as_type);
        }
        Value::Array(items) => items.iter_mut().for_each(nullable_as_type),
        _ => {}
    }
}

#[tokio::test]
async fn answers_fit_their_documented_schemas() {
    let app = TestApp::on_chain().await;
    let v2: Value = serde_json::from_str(&committed("v2")).expect("JSON");
    let check = |method: &str, path: &str, status: &str, body: &Value| {
        let validator = validator(&v2, method, path, status);
        let errors: Vec<String> = validator
            .iter_errors(body)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{method} {path} {status}: {errors:?} in {body}");
    };
    let mut input = fau("1");
    input["customerInfo"] = json!({ "firstName": "Ada" });
    let created = app
        .post("/v2/request")
        .with_client()
        .json(&input)
        .send()
        .await
        .expect(201);
    check("post", "/v2/request", "201", &created);
    let id = created["requestId"].as_str().expect("text").to_owned();
    check("get", "/v2/request/{requestId}", "200", &app.read_request(&id).await);
    check(
        "get",
        "/v2/request/{requestId}/pay",
        "200",
        &app.calldata(&id, "").await,
    );
    app.pay(&id, "").await;
    app.settle().await;
    check("get", "/v2/request/{requestId}", "200", &app.read_request(&id).await);
    let found = app
        .get(&format!("/v2/payments?requestId={id}"))
        .with_key()
        .send()
        .await
        .expect(200);
    check("get", "/v2/payments", "200", &found);
    check(
        "get",
        "/v2/request",
        "200",
        &app.get("/v2/request").with_key().send().await.expect(200),
    );
    check(
        "get",
        "/v2/currencies",
        "200",
        &app.get("/v2/currencies").with_key().send().await.expect(200),
    );
    let routes = app
        .get("/v2/currencies/USD/conversion-routes")
        .with_key()
        .send()
        .await
        .expect(200);
    check("get", "/v2/currencies/{currencyId}/conversion-routes", "200", &routes);
    check(
        "get",
        "/v2/client-ids",
        "200",
        &app.get("/v2/client-ids").with_key().send().await.expect(200),
    );
    let wrong = app.get("/v2/payments").with_key().send().await.expect(400);
    check("get", "/v2/payments", "400", &wrong);
    let unknown = app.get("/v2/payments").send().await.expect(401);
    check("get", "/v2/payments", "401", &unknown);
}

/// Checks a body against the committed schema of its kind.
#[track_caller]
pub fn event_fits_its_schema(body: &Value) {
    let kind = body["event"].as_str().expect("a kind");
    let schema: Value = serde_json::from_str(&committed(&format!("events/{kind}"))).expect("JSON");
    let validator = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .expect("a schema");
    let errors: Vec<String> = validator.iter_errors(body).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{kind}: {errors:?}");
}

#[tokio::test]
async fn events_fit_their_documented_schemas() {
    let app = TestApp::on_chain().await;
    let receiver = crate::support::receiver::Receiver::start().await;
    app.register(&receiver.url()).await;
    let id = app.create_request(&fau("2")).await;
    app.pay(&id, "&amount=1").await;
    app.settle().await;
    app.pay(&id, "").await;
    app.settle().await;
    let events = receiver.received().await;
    assert_eq!(events.len(), 2);
    for event in events {
        event_fits_its_schema(&event.json());
    }
}

#[tokio::test]
async fn swagger_ui_shows_three_documents() {
    let app = TestApp::start().await;
    let page = app.get("/docs/").send().await;
    assert_eq!(page.status, 200);
    let settings = app.get("/docs/swagger-initializer.js").send().await;
    for name in ["/openapi/v2.json", "/openapi/auth.json", "/openapi/webhooks.json"] {
        assert!(settings.text.contains(name), "{name} in {}", settings.text);
    }
}

#[tokio::test]
async fn health_and_metrics_are_served() {
    let app = TestApp::on_chain().await;
    assert_eq!(app.get("/health/live").send().await.status, 200);
    let ready = app.get("/health/ready").send().await;
    assert_eq!(ready.json()["database"], "ok", "{}", ready.text);
    let metrics = app.get("/metrics").send().await;
    assert_eq!(metrics.status, 200);
}
