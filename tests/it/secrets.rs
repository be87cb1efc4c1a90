//! Secrets are shown once and stored as a hash or encrypted. At its end, every test searches its database and its log
//! for the secrets that it received. This test creates a secret of each kind, so that every kind is searched for.

use crate::support::{TestApp, secrets::Issued};
use serde_json::json;

#[tokio::test]
async fn issued_secrets_appear_in_neither_database_nor_log() {
    let app = TestApp::start().await;
    let before = app.secrets_issued();
    let (id, _) = app.register("http://127.0.0.1:9/hook").await;
    app.get("/v1/webhook").with_client().send().await.expect(200);
    app.get("/v2/payments?type=direct").with_key().send().await.expect(200);
    app.call(poem::http::Method::DELETE, &format!("/v1/webhook/{id}"))
        .with_client()
        .send()
        .await
        .expect(200);
    assert!(app.secrets_issued() > before, "a webhook secret");
}

#[test]
fn a_stored_secret_would_be_found() {
    let issued = Issued::default();
    issued.add_from_body(&json!({ "webhook": { "secret": "0123456789abcdef" } }).to_string());
    assert_eq!(
        issued.leaks(b"row 1 0123456789abcdef row 2"),
        ["the database holds the secret 0123456789abcdef"]
    );
    assert_eq!(issued.leaks(b"row 1 0123456789abcdeX row 2"), [""; 0]);
}
