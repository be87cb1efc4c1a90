//! Errors: all have the same body format, with every invalid field reported at once.

use super::{ID, KEY, app, error_of};
use prs::http::forms::wire::{TxHash, UlidText};
use serde_json::{Value, json};

#[tokio::test]
async fn every_failure_has_the_same_body_format() {
    let app = app();
    let read = |outcome: &str| format!("/v2/things/{ID}?outcome={outcome}");
    let table = [
        (read("missing"), 404, "refused", "Not Found"),
        (read("conflict"), 409, "refused", "Conflict"),
        (read("other"), 409, "taken", "Conflict"),
        (read("many"), 429, "refused", "Too Many Requests"),
        (read("upstream"), 502, "refused", "Bad Gateway"),
        (
            read("away"),
            503,
            "The service is temporarily unavailable; retry shortly",
            "Service Unavailable",
        ),
        (read("fault"), 500, "Internal server error", "Internal Server Error"),
        (read("panic"), 500, "Internal server error", "Internal Server Error"),
        ("/nowhere?a=b".to_owned(), 404, "Cannot GET /nowhere", "Not Found"),
        ("/v2/nowhere".to_owned(), 404, "Cannot GET /v2/nowhere", "Not Found"),
        (
            "/docs/nothing.js".to_owned(),
            404,
            "Cannot GET /docs/nothing.js",
            "Not Found",
        ),
        ("/v2/things/short".to_owned(), 400, "Validation failed", "Bad Request"),
        ("/v2/things".to_owned(), 401, "Unauthorized", "Unauthorized"),
    ];
    for (path, status, message, error) in table {
        let (found, body) = error_of(app.get(&path).send().await).await;
        assert_eq!(
            (found, &body["message"], &body["error"]),
            (status, &json!(message), &json!(error)),
            "{path}"
        );
        let text = body.to_string();
        assert!(
            !text.contains("10.1.2.3") && !text.contains("select") && !text.contains("secret"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn too_many_calls_report_when_to_retry() {
    let response = app().get(format!("/v2/things/{ID}?outcome=many")).send().await;
    response.assert_header("retry-after", "1");
}

#[tokio::test]
async fn an_invalid_path_parameter_is_reported_as_documented() {
    let (_, body) = error_of(app().get("/v2/things/short").send().await).await;
    assert_eq!(
        body["errors"],
        json!([{ "field": "thingId", "message": UlidText::HINT }])
    );
}

#[tokio::test]
async fn every_invalid_query_parameter_is_reported_at_once() {
    let path = "/v2/things?txHash=0x1&pace=crawl&limit=1&limit=2";
    let (status, body) = error_of(app().get(path).header("x-api-key", KEY).send().await).await;
    assert_eq!(status, 400);
    assert_eq!(
        body["errors"],
        json!([
            { "field": "txHash", "message": TxHash::HINT },
            { "field": "pace", "message": "must be one of slow, fast" },
            { "field": "limit", "message": "must be given only once" },
        ])
    );
}

async fn posted(path: &str, body: impl Into<poem::Body>) -> (u16, Value) {
    let app = app();
    let request = app.post(path).header("x-api-key", KEY).content_type("application/json");
    error_of(request.body(body).send().await).await
}

#[tokio::test]
async fn every_invalid_body_field_is_reported_at_once() {
    let wrong_fields = async |prices: &str| {
        let body = format!(r#"{{"amount":7,"prices":{prices},"count":100,"wrapping":{{}},"unknown":"ignored"}}"#);
        let (status, body) = posted("/v2/things", body).await;
        assert_eq!((status, &body["message"]), (400, &json!("Validation failed")));
        let errors = body["errors"].as_array().unwrap();
        let mut fields: Vec<String> = errors
            .iter()
            .filter_map(|error| Some(error["field"].as_str()?.to_owned()))
            .collect();
        fields.sort_unstable();
        fields
    };
    let of_three = wrong_fields(r#"["x","1","2"]"#).await;
    assert_eq!(of_three, ["amount", "count", "prices[0]", "wrapping.label"]);
    let of_too_many = wrong_fields(r#"["x","1","2","3"]"#).await;
    assert_eq!(
        of_too_many,
        ["amount", "count", "prices", "wrapping.label"],
        "the entries of a too long list are not checked"
    );
}

#[tokio::test]
async fn malicious_bodies_are_refused_with_a_reason() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let table = [
        (
            r#"{"amount":"1","prices":[],"amount":"2"}"#.to_owned(),
            "The body contains the member `amount` twice: send it once",
        ),
        (deep, "The body is nested more deeply than 64 levels"),
        ("{".to_owned(), "The body is not valid JSON (line 1, column 1)"),
        (String::new(), "The body is not valid JSON (line 1, column 0)"),
        (
            r#"{"amount":"1\u0000"}"#.to_owned(),
            "The body contains the character U+0000 in `amount`: remove that character",
        ),
    ];
    for (text, message) in table {
        let (status, body) = posted("/v2/things", text).await;
        assert_eq!((status, &body["message"]), (400, &json!(message)));
    }
    let (status, body) = posted("/v2/things", vec![b'"', 0xff, b'"']).await;
    assert_eq!((status, &body["message"]), (400, &json!("The body is not valid UTF-8")));
}

#[tokio::test]
async fn a_body_of_another_content_type_is_refused() {
    let app = app();
    let posted = async |headers: &[(&str, &str)]| {
        let mut call = app.post("/v2/things").header("x-api-key", KEY).body("{}");
        for (name, value) in headers {
            call = call.header(*name, *value);
        }
        error_of(call.send().await).await
    };
    let refused = [
        "text/plain",
        "application/xml",
        "application/problem+json",
        "application/json; charset=utf-16",
        "application/json; charset",
        "application/json; charset=utf-8; charset=utf-16",
        "application/json; profile=x",
    ];
    let kinds = refused.map(|kind| vec![("content-type", kind)]);
    for headers in kinds.into_iter().chain([Vec::new()]) {
        let (status, body) = posted(&headers).await;
        assert_eq!((status, &body["error"]), (400, &json!("Bad Request")), "{headers:?}");
        let message = "The content-type header must be application/json, optionally with charset=utf-8";
        assert_eq!(body["message"], message);
    }
    for kind in [
        "application/json",
        "Application/JSON;charset=UTF-8",
        "application/json; charset=\"utf-8\"",
    ] {
        assert_eq!(
            posted(&[("content-type", kind)]).await.1["message"],
            "Validation failed"
        );
    }
}

#[tokio::test]
async fn a_compressed_body_is_refused_and_not_read_as_json() {
    let app = app();
    let posted = async |encoding: &str| {
        let call = app
            .post("/v2/things")
            .header("x-api-key", KEY)
            .content_type("application/json");
        let call = call.header("content-encoding", encoding).body("{}");
        error_of(call.send().await).await
    };
    for encoding in ["gzip", "br", "identity, gzip"] {
        let (status, body) = posted(encoding).await;
        assert_eq!(status, 400, "{encoding}");
        let message = "The content-encoding header must be absent: send the body uncompressed";
        assert_eq!(body["message"], message);
    }
    assert_eq!(posted("identity").await.1["message"], "Validation failed");
}

#[tokio::test]
async fn credentials_are_checked_before_the_body() {
    let response = app()
        .post("/v2/things")
        .content_type("application/json")
        .body("{")
        .send()
        .await;
    let (status, body) = error_of(response).await;
    assert_eq!(status, 401);
    assert_eq!(body["hint"], "This operation requires x-api-key");
}
