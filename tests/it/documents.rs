//! The published documents: what is served is what is committed, and answers fit what is documented.

use crate::support::{TestApp, requests::fau};
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
    let schema = &response["content"]["application/json"]["schema"];
    assert!(!schema.is_null(), "{method} {path} {status} has a schema");
    executable(document, schema)
}

/// A validator of a schema of the document, formats included.
fn executable(document: &Value, schema: &Value) -> jsonschema::Validator {
    let mut schema = schema.clone();
    schema["components"] = json!({ "schemas": document["components"]["schemas"] });
    as_json_schema(&mut schema);
    jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .expect("a schema")
}

/// What 3.0 calls `nullable` is a type in JSON Schema, and its exclusive bounds are flags.
fn as_json_schema(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (bound, flag) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
                if members.get(flag) == Some(&Value::Bool(true)) {
                    members.insert(flag.to_owned(), members[bound].clone());
                }
            }
            if members.remove("nullable") == Some(Value::Bool(true)) {
                if let Some(kind) = members.get("type").cloned() {
                    members.insert("type".to_owned(), json!([kind, "null"]));
                }
                if let Some(Value::Array(values)) = members.get_mut("enum") {
                    values.push(Value::Null);
                }
            }
            members.values_mut().for_each(as_json_schema);
        }
        Value::Array(items) => items.iter_mut().for_each(as_json_schema),
        _ => {}
    }
}

/// What a `$ref` stands for, or the value itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let reference = value["$ref"].as_str().map(|text| text.trim_start_matches('#'));
    reference.map_or(value, |pointer| document.pointer(pointer).expect("a target"))
}

#[test]
fn every_documented_example_fits_its_schema() {
    for name in ["v2", "auth"] {
        let document: Value = serde_json::from_str(&committed(name)).expect("JSON");
        let mut count = 0;
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                let body = operation.get("requestBody").map(|body| ("body", body));
                let answers = operation["responses"].as_object().expect("responses");
                let answers = answers.iter().map(|(status, response)| (status.as_str(), response));
                for (what, holder) in body.into_iter().chain(answers) {
                    let media = &resolved(&document, holder)["content"]["application/json"];
                    let Some(example) = media.get("example") else {
                        continue;
                    };
                    let validator = executable(&document, &media["schema"]);
                    let errors: Vec<String> = validator.iter_errors(example).map(|error| error.to_string()).collect();
                    assert!(errors.is_empty(), "{method} {path} {what}: {errors:?} in {example}");
                    count += 1;
                }
            }
        }
        assert!(count > 100, "{name} has only {count} examples");
    }
}

/// Every schema of a value, at any depth, and everything else in it.
fn each<'a>(value: &'a Value, visit: &mut impl FnMut(&'a Value)) {
    visit(value);
    match value {
        Value::Object(members) => members.values().for_each(|member| each(member, visit)),
        Value::Array(items) => items.iter().for_each(|item| each(item, visit)),
        _ => {}
    }
}

#[test]
fn the_framework_leaves_no_trace_of_what_it_cannot_say() {
    for name in ["v2", "auth"] {
        let document: Value = serde_json::from_str(&committed(name)).expect("JSON");
        assert_eq!(document["openapi"], "3.0.3");
        assert_eq!(document["servers"][0]["url"], "/");
        assert_eq!(document["info"]["license"]["name"], "Apache-2.0");
        for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
            assert!(schema.get("title").is_none(), "{name}");
            assert_eq!(name.ends_with("OrNull"), schema["nullable"] == true, "{name}");
            each(schema, &mut |inner| {
                let is_reference = inner.get("$ref").is_some();
                assert!(!is_reference || inner.as_object().is_some_and(|members| members.len() == 1));
                assert!(
                    inner["allOf"].as_array().is_none_or(|parts| parts.len() > 1),
                    "{name}: {inner}"
                );
                let values = inner["enum"].as_array();
                let may_be_null = values.is_none_or(|values| values.contains(&Value::Null));
                assert!(inner["nullable"] != true || may_be_null, "{name}: {inner}");
                let is_known = |format: &str| !format.starts_with("uint");
                assert!(inner["format"].as_str().is_none_or(is_known), "{name}: {inner}");
                let bounds = ["minimum", "maximum"].map(|bound| &inner[bound]);
                assert!(bounds.iter().all(|bound| !bound.is_f64()), "{name}: {inner}");
            });
        }
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
