//! The page that shows the documents.

use super::app;

#[tokio::test]
async fn the_documentation_page_chooses_between_all_documents_and_calls_nobody_else() {
    let app = app();
    app.get("/docs").send().await.assert_header("location", "/docs/");
    let page = app.get("/docs/").send().await;
    page.assert_status_is_ok();
    assert!(
        page.0
            .header("content-security-policy")
            .unwrap()
            .starts_with("default-src 'self'")
    );
    let settings = app.get("/docs/swagger-initializer.js").send().await;
    let text = settings.0.into_body().into_string().await.unwrap();
    for part in [
        "/openapi/v2.json",
        "/openapi/auth.json",
        "/openapi/webhooks.json",
        "\"deepLinking\": true",
        "\"persistAuthorization\": true",
        "\"tryItOutEnabled\": true",
        "\"displayRequestDuration\": true",
        "\"filter\": true",
        "\"docExpansion\": \"list\"",
        "\"validatorUrl\": \"none\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
