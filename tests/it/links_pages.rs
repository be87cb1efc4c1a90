//! What payers see of the pages of links while something is wrong with the service or it is being changed.

use crate::support::{
    TestApp,
    links::{link_of, token_of},
};

/// Languages, and how each begins to say that the page cannot be shown.
const AWAY: [(&str, &str); 5] = [
    ("en", "This page cannot be shown"),
    ("de", "Diese Seite lässt sich gerade nicht anzeigen"),
    ("es", "Esta página no se puede mostrar"),
    ("fr", "Cette page ne peut pas être affichée"),
    ("ar", "لا يمكن عرض هذه الصفحة الآن"),
];

#[tokio::test]
async fn without_a_database_payers_read_in_their_language_that_they_may_come_again() {
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

/// Where a page says that its style is.
fn style_of(page: &str) -> &str {
    let (_, from) = page.split_once("href=\"/pay/style/").expect("a style");
    from.split('"').next().expect("an edition")
}

#[tokio::test]
async fn the_style_of_another_instance_is_answered_with_the_own_one_that_nobody_keeps() {
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
