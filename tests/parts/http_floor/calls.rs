//! Valid calls: their headers, their methods and their metrics.

use super::{ID, KEY, app, error_of};
use poem::http::StatusCode;

#[tokio::test]
async fn a_valid_call_gets_the_standard_response_headers() {
    let response = app()
        .post("/v2/things")
        .header("x-api-key", KEY)
        .content_type("application/json; charset=utf-8")
        .body(r#"{"amount":"2","prices":[],"note":1}"#)
        .send()
        .await;
    response.assert_status(StatusCode::CREATED);
    response.assert_header("x-request-id", ID);
    response.assert_header("cache-control", "no-store");
    response.assert_header("x-content-type-options", "nosniff");
    let body = response.json().await;
    body.value().object().get("amount").assert_string("2");
}

#[tokio::test]
async fn a_valid_request_id_is_kept_and_an_invalid_one_replaced() {
    let app = app();
    let kept = app.get("/health/live").header("x-request-id", "abc-123").send().await;
    kept.assert_header("x-request-id", "abc-123");
    let replaced = app.get("/health/live").header("x-request-id", "a b").send().await;
    replaced.assert_header("x-request-id", ID);
}

#[tokio::test]
async fn unsupported_methods_are_405_with_allow() {
    let app = app();
    for method in ["DELETE", "PUT", "TRACE", "BREW"] {
        let method = poem::http::Method::from_bytes(method.as_bytes()).unwrap();
        let response = app.request(method, "/v2/things").send().await;
        response.assert_header("allow", "GET, HEAD, POST, OPTIONS");
        assert_eq!(error_of(response).await.0, 405);
    }
    let response = app.post("/health/live").send().await;
    response.assert_header("allow", "GET, HEAD");
    assert_eq!(error_of(response).await.0, 405);
}

#[tokio::test]
async fn head_responds_like_get_without_a_body() {
    let response = app().head(format!("/v2/things/{ID}")).send().await;
    response.assert_status_is_ok();
    assert_eq!(response.0.into_body().into_string().await.unwrap(), "");
}

#[test]
fn calls_are_counted_by_operation_method_and_status() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let app = app();
            app.get(format!("/v2/things/{ID}")).send().await.assert_status_is_ok();
            app.get(format!("/v2/things/{ID}?outcome=conflict")).send().await;
        });
    });
    let text = handle.render();
    for status in ["200", "409"] {
        let line = format!(r#"prs_http_requests_total{{operation="getThing",method="GET",status="{status}"}} 1"#);
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(text.contains("prs_http_request_duration_seconds"));
}
