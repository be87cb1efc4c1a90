//! What payers see of the pages of links while something is wrong with the service or it is being changed.

use crate::support::{
    TestApp,
    links::{link_of, token_of},
};

/// Where a page says that its style is.
fn style_of(page: &str) -> &str {
    let (_, from) = page.split_once("href=\"/pay/style/").expect("a style");
    from.split('"').next().expect("an edition")
}

#[tokio::test]
async fn the_style_of_another_instance_is_answered_with_the_own_one_that_nobody_keeps() {
    let app = TestApp::start().await;
    let page = app.get("/pay/unknown").send().await;
    page.header("cache-control").filter(|cache| *cache == "no-store").expect("a page is not kept");
    let edition = style_of(&page.text);
    let own = app.get(&format!("/pay/style/{edition}")).send().await;
    assert_eq!(own.status, 200);
    let cache = own.header("cache-control").expect("a header");
    assert!(cache.contains("immutable"), "{cache}");
    let other = app.get("/pay/style/0123456789abcdef").send().await;
    assert_eq!((other.status, other.header("cache-control")), (200, Some("no-store")));
    assert_eq!(other.text, own.text);
}
