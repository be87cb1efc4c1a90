//! Calls from pages in browsers.

use super::{app, error_of};
use poem::http::StatusCode;

#[tokio::test]
async fn only_registered_pages_may_read_responses() {
    let app = app();
    let header = |response: &poem::test::TestResponse, name: &str| response.0.header(name).map(str::to_owned);
    let allowed = app
        .get("/v2/things")
        .header("origin", "https://shop.example")
        .send()
        .await;
    assert_eq!(
        header(&allowed, "access-control-allow-origin").as_deref(),
        Some("https://shop.example")
    );
    assert_eq!(
        header(&allowed, "access-control-expose-headers").as_deref(),
        Some(
            "retry-after, x-request-id, ratelimit-limit, ratelimit-remaining, ratelimit-reset, idempotency-replayed, content-disposition"
        )
    );
    assert_eq!(header(&allowed, "vary").as_deref(), Some("Origin"));
    assert_eq!(header(&allowed, "access-control-allow-credentials"), None);
    for origin in ["https://evil.example", "null", "https://shop.example.evil.example"] {
        let refused = app.get("/v2/things").header("origin", origin).send().await;
        assert_eq!(header(&refused, "access-control-allow-origin"), None, "{origin}");
        assert_eq!(header(&refused, "vary").as_deref(), Some("Origin"));
    }
    for path in ["/openapi/v2.json", "/health/live"] {
        let open = app.get(path).header("origin", "https://evil.example").send().await;
        assert_eq!(
            header(&open, "access-control-allow-origin").as_deref(),
            Some("*"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn preflights_need_no_credentials() {
    let app = app();
    let preflight = |origin: &str| {
        app.options("/v2/things")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type, x-client-id")
    };
    let good = preflight("https://shop.example").send().await;
    good.assert_status(StatusCode::NO_CONTENT);
    good.assert_header("access-control-allow-origin", "https://shop.example");
    good.assert_header("access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE");
    let headers = good.0.header("access-control-allow-headers").unwrap().to_owned();
    for name in [
        "content-type",
        "x-client-id",
        "x-api-key",
        "x-orchestrator-key",
        "authorization",
        "idempotency-key",
    ] {
        assert!(headers.contains(name), "{name}");
    }
    assert!(good.0.header("vary").unwrap().starts_with("Origin"));
    let bad = preflight("https://evil.example").send().await;
    bad.assert_status(StatusCode::NO_CONTENT);
    assert!(bad.0.header("access-control-allow-origin").is_none());
    assert!(bad.0.header("access-control-allow-methods").is_none());
}

#[tokio::test]
async fn a_page_of_the_service_itself_may_use_a_client_id() {
    let app = app();
    let call = || app.get("/v2/things").header("x-client-id", "cli_1");
    assert_eq!(
        error_of(call().send().await).await.1["message"],
        "Origin header is required"
    );
    call()
        .header("sec-fetch-site", "same-origin")
        .send()
        .await
        .assert_status_is_ok();
}
