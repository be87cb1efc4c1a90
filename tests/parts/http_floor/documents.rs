//! The page that shows the documents.

use super::app;

#[tokio::test]
async fn the_documentation_shows_all_documents_and_calls_no_other_host() {
    let app = app();
    app.get("/docs").send().await.assert_header("location", "/docs/");
    for path in ["/docs/", "/docs/swagger/v2", "/docs/scalar/webhooks"] {
        let page = app.get(path).send().await;
        page.assert_status_is_ok();
        let policy = page.0.header("content-security-policy").unwrap().to_owned();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; "),
            "{policy}"
        );
        let text = page.0.into_body().into_string().await.unwrap();
        for name in ["v2", "auth", "webhooks"] {
            assert!(
                text.contains(&format!("/openapi/{name}.json")) || text.contains(&format!("/{name}\"")),
                "{name} in {text}"
            );
        }
    }
}
