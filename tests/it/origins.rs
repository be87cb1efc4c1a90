//! The pages from which a client ID works, and what another site can do with a session cookie.

use crate::support::{TestApp, session::sign_in, wallet::TestWallet};
use serde_json::json;

async fn client(app: &TestApp, domain: &str) -> String {
    let body = json!({ "label": "Shop", "allowedDomains": [domain] });
    let created = app.post("/v2/client-ids").with_key().json(&body).send().await;
    created.expect(201)["clientId"].as_str().expect("text").to_owned()
}

#[tokio::test]
async fn only_the_exact_listed_origin_is_accepted() {
    let app = TestApp::start().await;
    let plain = client(&app, "https://example.com").await;
    let port = client(&app, "https://example.com:8443").await;
    let local = client(&app, "http://localhost:8090").await;
    let unicode = client(&app, "https://XN--mnchen-3ya.example").await;
    for (client, origin, status) in [
        (&plain, "https://example.com", 200),
        (&plain, "https://EXAMPLE.com", 200),
        (&plain, "https://example.com:443", 200),
        (&plain, "HTTPS://example.com", 200),
        (&plain, "http://example.com", 403),
        (&plain, "https://example.com:8443", 403),
        (&plain, "https://evil-example.com", 403),
        (&plain, "https://example.com.evil.com", 403),
        (&plain, "https://example.comevil.com", 403),
        (&plain, "https://sub.example.com", 403),
        (&plain, "https://example.com.", 403),
        (&plain, "https://example.co", 403),
        (&plain, "https://evil.com/https://example.com", 403),
        (&plain, "https://evil.com?https://example.com", 403),
        (&plain, "https://evil.com#https://example.com", 403),
        (&plain, "https://example.com@evil.com", 403),
        (&plain, "https://evil.com@example.com", 403),
        (&plain, "https://example.com, https://evil.com", 403),
        (&plain, "https://xn--exmple-cua.com", 403),
        (&plain, "null", 403),
        (&plain, "file://", 403),
        (&plain, "example.com", 403),
        (&port, "https://example.com:8443", 200),
        (&port, "https://example.com", 403),
        (&port, "https://example.com:443", 403),
        (&local, "http://localhost:8090", 200),
        (&local, "https://localhost:8090", 403),
        (&local, "http://localhost:80", 403),
        (&local, "http://127.0.0.1:8090", 403),
        (&local, "http://localhost.evil.com:8090", 403),
        (&unicode, "https://xn--mnchen-3ya.example", 200),
        (&unicode, "https://munchen.example", 403),
    ] {
        let call = app
            .get("/v2/currencies")
            .header("x-client-id", client)
            .header("origin", origin);
        let answer = call.send().await;
        assert_eq!(answer.status, status, "{origin}: {}", answer.text);
    }
    let silent = app.get("/v2/currencies").header("x-client-id", &plain).send().await;
    assert_eq!(
        (silent.status, &silent.json()["message"]),
        (401, &json!("Origin header is required"))
    );
}

#[tokio::test]
async fn a_backend_client_id_needs_no_origin() {
    let app = TestApp::start().await;
    assert_eq!(app.get("/v2/currencies").with_client().send().await.status, 200);
    let from_a_page = app
        .get("/v2/currencies")
        .with_client()
        .header("origin", "https://anywhere.example.com");
    assert_eq!(from_a_page.send().await.status, 200);
}

#[tokio::test]
async fn a_form_posted_with_the_session_cookie_changes_nothing() {
    let app = TestApp::start().await;
    let session = sign_in(&app, &TestWallet::new(7)).await;
    let own = app.ctx.own_pages.origin.clone();
    for origin in [Some("https://evil.example"), Some("null"), Some(own.as_str()), None] {
        let mut call = app
            .post("/v1/api-keys")
            .header("cookie", &format!("session_token={session}"));
        if let Some(origin) = origin {
            call = call.header("origin", origin);
        }
        let answer = call.form("label=Stolen").send().await;
        assert_eq!(answer.status, 403, "{origin:?}: {}", answer.text);
    }
    // A caller with an unknown session learns nothing about pages.
    let unknown = app.post("/v1/api-keys").header("cookie", "session_token=unknown");
    let unknown = unknown.header("origin", "https://evil.example").json(&json!({}));
    unknown.send().await.expect(401);
    let keys = app
        .get("/v1/api-keys")
        .header("authorization", &format!("Bearer {session}"));
    let keys = keys.send().await.expect(200);
    assert!(!keys.to_string().contains("Stolen"), "{keys}");
}

#[tokio::test]
async fn a_malformed_or_duplicate_credential_fails_despite_a_valid_one() {
    let app = TestApp::start().await;
    let session = sign_in(&app, &TestWallet::new(7)).await;
    let cookie = format!("session_token={session}");
    let by_client = || app.get("/v2/request").with_client();
    let by_cookie = || app.get("/v2/request").header("cookie", &cookie);
    assert_eq!(by_client().send().await.status, 200);
    assert_eq!(by_cookie().send().await.status, 200);
    for call in [
        by_client().raw_header("x-api-key", b"\xff"),
        by_client()
            .header("x-api-key", &app.key)
            .header("x-api-key", "sk_other"),
        by_client().header("x-client-id", "cli_other"),
        by_cookie().raw_header("authorization", b"Bearer \xff"),
        by_cookie()
            .header("authorization", &format!("Bearer {session}"))
            .header("authorization", "Bearer other"),
        by_cookie().raw_header("x-client-id", b"cli_\xff"),
        by_cookie().header("cookie", "session_token=other"),
        app.get("/v2/request").raw_header("cookie", b"session_token=\xff"),
    ] {
        let answer = call.send().await;
        assert_eq!(answer.status, 401, "{}", answer.text);
    }
    // Credentials of other services do not interfere.
    let basic = by_cookie().header("authorization", "Basic dTpw");
    assert_eq!(basic.send().await.status, 200);
    let crumbs = app.get("/v2/request").raw_header("cookie", b"theme=\xff");
    assert_eq!(crumbs.header("cookie", &cookie).send().await.status, 200);
}

#[tokio::test]
async fn an_invalid_credential_next_to_a_valid_one_returns_401() {
    let app = TestApp::start().await;
    let session = sign_in(&app, &TestWallet::new(7)).await;
    let (cookie, bearer) = (format!("session_token={session}"), format!("Bearer {session}"));
    let wrong = [
        ("x-api-key", "sk_unknown"),
        ("x-client-id", "cli_unknown"),
        ("x-orchestrator-key", "orc_unknown"),
        ("authorization", "Bearer unknown"),
    ];
    let good = [
        ("/v1/api-keys", "cookie", &cookie),
        ("/v1/api-keys", "authorization", &bearer),
        ("/v2/request", "cookie", &cookie),
        ("/v2/client-ids", "x-api-key", &app.key),
        ("/v2/currencies", "x-api-key", &app.key),
        ("/v2/currencies", "x-client-id", &app.backend_client),
    ];
    for (path, name, value) in good {
        let call = || app.get(path).header(name, value);
        assert_eq!(call().send().await.status, 200, "{path} with {name}");
        for (other, credential) in wrong.into_iter().filter(|(other, _)| *other != name) {
            let answer = call().header(other, credential).send().await;
            assert_eq!(answer.status, 401, "{path} with {name} and {other}");
        }
    }
    // An additional valid credential does not interfere, whatever its origins; and browsers add old cookies on their
    // own.
    let beside = app
        .get("/v1/api-keys")
        .header("cookie", &cookie)
        .header("x-api-key", &app.key);
    assert_eq!(beside.send().await.status, 200);
    let page = app.page_client.clone();
    let beside = app.get("/v2/currencies").with_key().header("x-client-id", &page);
    assert_eq!(beside.send().await.status, 200);
    let crumbs = app
        .get("/v2/currencies")
        .with_key()
        .header("cookie", "session_token=old");
    assert_eq!(crumbs.send().await.status, 200);
}

#[tokio::test]
async fn a_malformed_or_duplicate_origin_is_never_a_listed_page() {
    let app = TestApp::start().await;
    let shop = client(&app, "https://example.com").await;
    let call = || app.get("/v2/currencies").header("x-client-id", &shop);
    for wrong in [
        call().raw_header("origin", b"https://example.com\xff"),
        call()
            .header("origin", "https://example.com")
            .header("origin", "https://evil.example"),
        call()
            .header("origin", "https://evil.example")
            .header("origin", "https://example.com"),
        call()
            .raw_header("origin", b"\xff")
            .header("sec-fetch-site", "same-origin"),
    ] {
        let answer = wrong.send().await;
        assert_eq!(answer.status, 403, "{}", answer.text);
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}
