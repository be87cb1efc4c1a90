//! Cursors of the payment search, through the router.

use crate::support::{Answer, TestApp};
use serde_json::{Value, json};

async fn search(app: &TestApp, query: &str) -> Answer {
    app.get(&format!("/v2/payments?{query}")).with_key().send().await
}

fn cursor(page: &Value) -> String {
    page["nextCursor"].as_str().expect("there is more").to_owned()
}

#[tokio::test]
async fn a_walk_with_cursors_shows_every_payment_once() {
    let app = TestApp::on_chain().await;
    for _ in 0..3 {
        app.paid_request("5").await;
    }
    app.settle().await;
    let all = search(&app, "type=direct").await.expect(200);
    assert_eq!(
        (all["pagination"]["total"].as_u64(), &all["nextCursor"]),
        (Some(3), &Value::Null)
    );
    let mut page = search(&app, "type=direct&limit=1").await.expect(200);
    let mut walked = Vec::new();
    loop {
        let lies = json!({ "total": 3 + walked.len(), "limit": 1, "offset": 0, "hasMore": walked.len() < 2 });
        assert_eq!(page["pagination"], lies);
        walked.extend(page["payments"].as_array().expect("a list").clone());
        if page["nextCursor"].is_null() {
            break;
        }
        // A payment that arrives is newer than the whole walk, which continues where it was.
        app.paid_request("6").await;
        app.settle().await;
        let path = format!("type=direct&limit=1&cursor={}", cursor(&page));
        page = search(&app, &path).await.expect(200);
    }
    assert_eq!(Value::Array(walked), all["payments"]);
}

#[tokio::test]
async fn a_cursor_is_valid_only_for_its_own_search() {
    let app = TestApp::on_chain().await;
    for _ in 0..2 {
        app.paid_request("5").await;
    }
    app.settle().await;
    let page = search(&app, "type=direct&limit=1").await.expect(200);
    let cursor = cursor(&page);
    let last = if cursor.ends_with('A') { 'E' } else { 'A' };
    let changed = format!("{}{last}", &cursor[..cursor.len() - 1]);
    let other_proof = format!("{}{}", "0".repeat(32), &cursor[32..]);
    for query in [
        format!("type=conversion&limit=1&cursor={cursor}"),
        format!("type=direct&invoiceCurrency=FAU-sepolia&limit=1&cursor={cursor}"),
        format!("type=direct&fromDate=2020-01-01T00:00:00Z&limit=1&cursor={cursor}"),
        format!("type=direct&limit=1&cursor={changed}"),
        format!("type=direct&limit=1&cursor={other_proof}"),
        format!("type=direct&limit=1&cursor={}", &cursor[..cursor.len() - 4]),
        format!("type=direct&limit=1&cursor={}", &cursor[..20]),
        "type=direct&limit=1&cursor=".to_owned(),
        format!("type=direct&limit=1&offset=0&cursor={cursor}"),
    ] {
        let refused = search(&app, &query).await;
        refused.expect(400);
        assert_eq!(refused.wrong_fields(), ["cursor"], "{query}: {}", refused.text);
    }
    let path = format!("/v2/payments?type=direct&limit=5&cursor={cursor}");
    let (other_key, _) = app.other_tenant().await;
    let strangers = [
        app.get(&path).header("x-api-key", &other_key).send().await,
        app.get(&path).with_client().send().await,
    ];
    for refused in strangers {
        refused.expect(400);
        assert_eq!(refused.wrong_fields(), ["cursor"], "{}", refused.text);
    }
    let rest = app.get(&path).with_key().send().await.expect(200);
    assert_eq!(
        rest["payments"].as_array().map(Vec::len),
        Some(1),
        "the page size may change"
    );
}
