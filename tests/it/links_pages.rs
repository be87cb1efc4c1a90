//! Payment pages while the service is failing or being reconfigured.

use crate::support::{
    TestApp,
    links::{link_of, token_of},
};

/// Each language of the page, with the first words of its message that the page is unavailable.
const AWAY: [(&str, &str); 5] = [
    ("en", "This page is temporarily unavailable"),
    ("de", "Diese Seite ist vorübergehend nicht verfügbar"),
    ("es", "Esta página no está disponible"),
    ("fr", "Cette page est temporairement indisponible"),
    ("ar", "هذه الصفحة غير متاحة مؤقتًا"),
];

#[tokio::test]
async fn without_a_database_pages_are_a_localized_503() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let link = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    app.ctx.db.clone().close().await.expect("closes");
    for (language, words) in AWAY {
        for path in [
            link.clone(),
            format!("{link}/receipt"),
            "01K9Z0T3G9R5M1N2P3Q4R5S6T7".to_owned(),
        ] {
            let page = app
                .get(&format!("/pay/{path}"))
                .header("accept-language", language)
                .send()
                .await;
            let kind = page.header("content-type").unwrap_or_default();
            assert!(page.status == 503 && kind.starts_with("text/html"), "{path}: {kind}");
            assert_eq!(page.header("retry-after"), Some("1"));
            let begins = format!("<html lang=\"{language}\"");
            assert!(
                page.text.contains(&begins) && page.text.contains(words),
                "{}",
                page.text
            );
        }
    }
    let state = app.get(&format!("/pay/{link}/state")).send().await.expect(503);
    assert_eq!(state["statusCode"], 503, "scripts read JSON");
}

/// The version in the address of the style sheet that a page links to.
fn style_of(page: &str) -> &str {
    let (_, from) = page.split_once("href=\"/pay/style/").expect("a style");
    from.split('"').next().expect("an edition")
}

#[tokio::test]
async fn an_unknown_style_edition_returns_the_current_style_uncached() {
    let app = TestApp::start().await;
    let page = app.get("/pay/unknown").send().await;
    let edition = style_of(&page.text);
    let own = app.get(&format!("/pay/style/{edition}")).send().await;
    assert_eq!(own.status, 200);
    let cache = own.header("cache-control").expect("a header");
    assert!(cache.contains("immutable"), "{cache}");
    let other = app.get("/pay/style/0123456789abcdef").send().await;
    assert_eq!((other.status, other.header("cache-control")), (200, Some("no-store")));
    assert_eq!(other.text, own.text);
}
