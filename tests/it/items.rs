//! Calls for several payments: rate limits that count items, the cap on open items, the limit on the sum of amounts,
//! and retention.

use crate::support::{
    Answer, TestApp,
    app::{forged, settings},
    chain::PAYER,
    links::{link_of, payout_of, token_of},
    receiver::Receiver,
    requests::fau,
    screening::rows,
};
use futures_util::future::join_all;
use poem::http::Method;
use prs::{
    flows::{
        requests::repeat,
        secure_payments::{expire, forget},
    },
    settings::{ChainSettings, Settings},
};
use serde_json::{Value, json};

const OTHER: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";

const DAY_MS: i64 = 86_400_000;

/// Settings with one network whose node is down; `change` modifies them.
fn changed(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = settings();
    let chain = ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    change(&mut settings);
    settings
}

/// A service with low caps.
async fn capped(change: impl FnOnce(&mut Settings)) -> TestApp {
    let app = TestApp::with(changed(change), None).await;
    app.is_paid_in("FAU-sepolia").await;
    app
}

async fn batch(app: &TestApp, body: &Value) -> Answer {
    app.post("/v2/payouts/batch").with_key().json(body).send().await
}

fn link_with(items: usize) -> Value {
    link_of(&vec!["1"; items])
}

/// Creates a link or a request with the public client ID.
async fn by_page(app: &TestApp, path: &str, body: &Value) -> Answer {
    forged(app, Method::POST, path).json(body).send().await
}

fn refused_for(answer: &Answer) -> (u16, Option<&str>) {
    (answer.status, answer.header("retry-after"))
}

#[tokio::test]
async fn link_items_are_rate_limited_separately_from_calls() {
    let settings = changed(|settings| settings.rate_limits.factor_outside_production = 1);
    let app = TestApp::limited(settings, None).await;
    app.is_paid_in("FAU-sepolia").await;
    let largest = link_with(200);
    by_page(&app, "/v2/secure-payments", &largest).await.expect(201);
    let refused = by_page(&app, "/v2/secure-payments", &largest).await;
    assert_eq!(refused_for(&refused), (429, Some("20")), "{}", refused.text);
    let message = refused.json()["message"].to_string();
    assert!(
        message.contains("200 items;")
            && message.contains("600 items per minute")
            && message.contains("200 items at once"),
        "{message}"
    );
    assert_eq!(refused.header("ratelimit-limit"), Some("600"));
    // A rejected call creates nothing, single items still work, and other credentials have their own limit.
    assert_eq!(by_page(&app, "/v2/secure-payments", &link_with(2)).await.status, 429);
    by_page(&app, "/v2/secure-payments", &link_with(1)).await.expect(201);
    by_page(&app, "/v2/request", &fau("1")).await.expect(201);
    app.link(&largest).await.expect(201);
    app.advance_ms(19_000);
    assert_eq!(by_page(&app, "/v2/secure-payments", &largest).await.status, 429);
    app.advance_ms(1_000);
    by_page(&app, "/v2/secure-payments", &largest).await.expect(201);
    assert_eq!(rows(&app, "requests").await, 602);
}

#[tokio::test]
async fn batches_links_and_combinations_share_a_credentials_item_limit() {
    let mut settings = settings();
    settings.rate_limits.factor_outside_production = 1;
    let (settings, chain) = TestApp::local_chain(settings, 1).await;
    let app = TestApp::limited(settings, Some(chain)).await;
    app.is_paid_in("FAU-sepolia").await;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        tokens.push(token_of(&app.payout_link(&payout_of(OTHER, "1")).await.expect(201)));
    }
    let combine = async || {
        let call = app.post("/v2/secure-payments/batch-payouts").with_key();
        call.json(&json!({ "tokens": tokens })).send().await
    };
    let made = batch(&app, &json!({ "requests": vec![fau("1"); 100] }))
        .await
        .expect(201);
    let known = |count: usize| json!({ "requestIds": made["requestIds"].as_array().expect("ids")[..count] });
    batch(&app, &known(99)).await.expect(201);
    // One of 200 items is left.
    let answers = [
        batch(&app, &json!({ "requests": vec![fau("1"); 2] })).await,
        batch(&app, &known(2)).await,
        app.link(&link_with(2)).await,
        combine().await,
    ];
    for answer in &answers {
        assert_eq!(refused_for(answer), (429, Some("1")), "{}", answer.text);
    }
    app.advance_ms(100);
    combine().await.expect(201);
    assert_eq!(app.link(&link_with(2)).await.status, 429);
}

#[tokio::test]
async fn credentials_of_a_platform_share_four_times_the_item_limit() {
    let settings = changed(|settings| settings.rate_limits.factor_outside_production = 1);
    let app = TestApp::limited(settings, None).await;
    app.is_paid_in("FAU-sepolia").await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        let key = prs::flows::keys::create(&app.ctx, &app.platform, None)
            .await
            .expect("a key");
        let call = app.post("/v2/secure-payments").header("x-api-key", key.key.reveal());
        statuses.push(call.json(&link_with(200)).send().await.status);
    }
    assert_eq!(statuses, [201, 201, 201, 201, 429]);
}

#[tokio::test]
async fn items_and_requests_awaiting_payment_share_a_cap() {
    let app = capped(|settings| {
        settings.caps.public_open_requests = 10;
        settings.caps.open_requests = 5;
    })
    .await;
    let link = by_page(&app, "/v2/secure-payments", &link_with(8)).await.expect(201);
    let single = by_page(&app, "/v2/request", &fau("1")).await.expect(201);
    let refused = by_page(&app, "/v2/secure-payments", &link_with(2)).await;
    assert_eq!(refused_for(&refused), (429, Some("60")), "{}", refused.text);
    let message = refused.json()["message"].to_string();
    for part in ["caps.public_open_requests", "10 ", "cancel", "withdraw", "30 days"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    by_page(&app, "/v2/secure-payments", &link_with(1)).await.expect(201);
    assert_eq!(by_page(&app, "/v2/request", &fau("1")).await.status, 429);
    // Another public client ID has its own cap. The platform has a cap of five for its own requests, which the requests
    // of strangers do not use up.
    let shop = app.shop_client(&json!({})).await;
    let by_shop = app
        .post("/v2/request")
        .header("x-client-id", shop["clientId"].as_str().expect("text"))
        .header("origin", "https://shop.example.com");
    by_shop.json(&fau("1")).send().await.expect(201);
    let backend = app.another_client(&[]).await;
    let by_backend = || app.post("/v2/request").header("x-client-id", &backend);
    app.link(&link_with(3)).await.expect(201);
    by_backend().json(&fau("1")).send().await.expect(201);
    app.payout_link(&payout_of(OTHER, "1")).await.expect(201);
    for answer in [
        app.link(&link_with(1)).await,
        app.payout_link(&payout_of(OTHER, "1")).await,
        app.post("/v2/request").with_key().json(&fau("1")).send().await,
        app.post("/v2/payouts").with_key().json(&fau("1")).send().await,
        by_backend().json(&fau("1")).send().await,
    ] {
        assert_eq!(refused_for(&answer), (429, Some("60")), "{}", answer.text);
        assert!(answer.text.contains("caps.open_requests"), "{}", answer.text);
    }
    // Cancelling, withdrawing and the expiry of a link free capacity.
    let id = single["requestId"].as_str().expect("an id");
    let cancelled = app.post(&format!("/v2/request/{id}/cancel")).with_key();
    cancelled.send().await.expect(200);
    let token = token_of(&link);
    let withdrawn = app.post(&format!("/v2/secure-payments/{token}/withdraw")).with_key();
    withdrawn.send().await.expect(200);
    by_page(&app, "/v2/secure-payments", &link_with(8)).await.expect(201);
    assert_eq!(app.link(&link_with(2)).await.status, 429);
    app.advance_ms(8 * DAY_MS);
    by_page(&app, "/v2/secure-payments", &link_with(9)).await.expect(201);
}

#[tokio::test]
async fn a_request_without_a_link_counts_for_a_limited_number_of_days() {
    let app = capped(|settings| {
        settings.caps.public_open_requests = 1;
        settings.caps.open_requests = 1;
        settings.caps.open_request_days = 2;
    })
    .await;
    let body = fau("1");
    let by_key = || app.post("/v2/request").with_key().json(&body).send();
    let abandoned = by_page(&app, "/v2/request", &body).await.expect(201);
    by_key().await.expect(201);
    app.advance_ms(2 * DAY_MS - 1);
    for refused in [by_page(&app, "/v2/request", &body).await, by_key().await] {
        assert!(
            refused.expect(429)["message"].to_string().contains("for 2 days"),
            "{}",
            refused.text
        );
    }
    app.advance_ms(1);
    by_page(&app, "/v2/request", &body).await.expect(201);
    by_key().await.expect(201);
    // A link counts for as long as it can be paid.
    assert_eq!(app.link(&link_with(1)).await.status, 429);
    let read = app.read_request(abandoned["requestId"].as_str().expect("an id")).await;
    assert_eq!(read["status"], "pending");
    app.advance_ms(2 * DAY_MS);
    app.link(&link_with(1)).await.expect(201);
    app.advance_ms(3 * DAY_MS);
    by_key().await.expect(429);
}

#[tokio::test]
async fn a_recurrence_over_the_open_request_cap_is_postponed() {
    let app = capped(|settings| settings.caps.open_requests = 2).await;
    let mut daily = fau("1");
    daily["recurrence"] = json!({ "startDate": "2026-01-31", "frequency": "DAILY" });
    app.create_request(&daily).await;
    let single = app.create_request(&fau("1")).await;
    let (other, _) = app.other_tenant().await;
    app.create_request_as(("x-api-key", &other), &daily).await;
    app.advance_ms(DAY_MS);
    assert!(
        repeat::run(&app.ctx).await.expect("repeats"),
        "the other tenant is below its cap"
    );
    assert_eq!(rows(&app, "requests").await, 4);
    assert!(!repeat::run(&app.ctx).await.expect("repeats"));
    let cancelled = app.post(&format!("/v2/request/{single}/cancel")).with_key();
    cancelled.send().await.expect(200);
    assert!(
        !repeat::run(&app.ctx).await.expect("repeats"),
        "not before the next attempt"
    );
    app.advance_ms(600_000);
    assert!(repeat::run(&app.ctx).await.expect("repeats"));
    assert_eq!(rows(&app, "requests").await, 5);
}

/// The client ID of a page, and the body of a request that repeats daily.
async fn daily_of_a_page(app: &TestApp) -> (Value, Value) {
    let client = app.shop_client(&json!({})).await;
    let mut daily = fau("1");
    daily["recurrence"] = json!({ "startDate": "2026-01-31", "frequency": "DAILY" });
    (client, daily)
}

async fn made_by_page(app: &TestApp, client: &Value, body: &Value) -> Value {
    let call = app
        .post("/v2/request")
        .header("x-client-id", client["clientId"].as_str().expect("text"));
    let call = call.header("origin", "https://shop.example.com").json(body);
    call.send().await.expect(201)
}

#[tokio::test]
async fn recurrences_stop_when_their_public_client_id_is_revoked() {
    let app = capped(|_| {}).await;
    let (client, daily) = daily_of_a_page(&app).await;
    let made = made_by_page(&app, &client, &daily).await;
    let path = format!("/v2/client-ids/{}", client["id"].as_str().expect("an id"));
    app.call(Method::DELETE, &path).with_key().send().await.expect(200);
    app.advance_ms(2 * DAY_MS);
    for _ in 0..2 {
        assert!(!repeat::run(&app.ctx).await.expect("repeats"));
    }
    assert_eq!(rows(&app, "requests").await, 1);
    let read = app.read_request(made["requestId"].as_str().expect("an id")).await;
    assert_eq!(read["isRecurrenceStopped"], true, "{read}");
}

#[tokio::test]
async fn capped_requests_of_a_page_do_not_delay_those_of_its_platform() {
    let app = capped(|settings| settings.caps.public_open_requests = 60).await;
    let (client, daily) = daily_of_a_page(&app).await;
    for _ in 0..60 {
        made_by_page(&app, &client, &daily).await;
    }
    app.create_request(&daily).await;
    app.advance_ms(DAY_MS);
    assert!(
        repeat::run(&app.ctx).await.expect("repeats"),
        "the platform is below its cap"
    );
    assert_eq!(rows(&app, "requests").await, 62);
    assert!(
        !repeat::run(&app.ctx).await.expect("repeats"),
        "all others are postponed"
    );
}

/// The number of calls that created something. All other calls must have returned 429.
fn made(answers: &[Answer]) -> usize {
    assert!(
        answers.iter().all(|answer| matches!(answer.status, 201 | 429)),
        "{answers:?}"
    );
    answers.iter().filter(|answer| answer.status == 201).count()
}

#[tokio::test]
async fn concurrent_large_links_cannot_share_the_same_headroom() {
    let app = capped(|settings| settings.caps.open_requests = 3_000).await;
    let largest = link_with(200);
    let mut links = 0;
    loop {
        let wave = (0..40).map(|_| app.link(&largest));
        match made(&join_all(wave).await) {
            0 => break,
            more => links += more,
        }
    }
    assert_eq!(links, 15);
    assert_eq!(rows(&app, "requests").await, 3_000);
}

#[tokio::test]
async fn a_stored_response_uses_no_items() {
    let settings = changed(|settings| settings.rate_limits.factor_outside_production = 1);
    let app = TestApp::limited(settings, None).await;
    app.is_paid_in("FAU-sepolia").await;
    let largest = link_with(200);
    let link = |key: &'static str| {
        let call = app.post("/v2/secure-payments").with_key();
        call.header("idempotency-key", key).json(&largest).send()
    };
    let first = link("one").await;
    first.expect(201);
    let again = link("one").await;
    assert_eq!((again.status, &again.text), (201, &first.text));
    assert_eq!(link("two").await.status, 429);
    app.advance_ms(20_000);
    link("two").await.expect(201);
}

#[tokio::test]
async fn fifty_concurrent_calls_cannot_exceed_the_open_request_cap() {
    let app = capped(|settings| {
        settings.caps.public_open_requests = 20;
        settings.caps.open_requests = 30;
    })
    .await;
    // A call that waits too long returns 429 too, so calls are repeated until none creates anything.
    let single = fau("1");
    let mut by_strangers = 0;
    loop {
        let wave = (0..50).map(|_| by_page(&app, "/v2/request", &single));
        match made(&join_all(wave).await) {
            0 => break,
            more => by_strangers += more,
        }
    }
    assert_eq!(by_strangers, 20);
    let three = link_with(3);
    let mut by_key = 0;
    loop {
        let wave = (0..50).map(|_| app.link(&three));
        match made(&join_all(wave).await) {
            0 => break,
            more => by_key += more,
        }
    }
    assert_eq!(by_key, 10);
    assert_eq!(rows(&app, "requests WHERE status = 'pending'").await, 50);
}

#[tokio::test]
async fn client_id_limits_apply_to_the_sum_of_a_link_or_batch() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let client = app
        .shop_client(&json!({ "maxAmount": { "amount": "100", "currency": "FAU-sepolia" } }))
        .await;
    let by_client = async |path: &str, body: &Value| {
        let call = app
            .post(path)
            .header("x-client-id", client["clientId"].as_str().expect("text"));
        call.header("origin", "https://shop.example.com")
            .json(body)
            .send()
            .await
    };
    let batch_of =
        |amounts: &[&str]| json!({ "requests": amounts.iter().map(|amount| fau(amount)).collect::<Vec<_>>() });
    by_client("/v2/secure-payments", &link_of(&["60", "40"]))
        .await
        .expect(201);
    by_client("/v2/payouts/batch", &batch_of(&["60", "40"]))
        .await
        .expect(201);
    for (path, body) in [
        ("/v2/secure-payments", link_of(&["60", "40.000000000000000001"])),
        ("/v2/payouts/batch", batch_of(&["60", "40.000000000000000001"])),
    ] {
        let refused = by_client(path, &body).await;
        assert_eq!(
            (refused.status, refused.wrong_fields()),
            (400, vec!["requests".to_owned()]),
            "{path}"
        );
        let says = "must add up to at most 100 FAU-sepolia with this client ID, but add up to 100.000000000000000001";
        assert!(refused.text.contains(says), "{}", refused.text);
    }
}

#[tokio::test]
async fn client_id_limits_apply_to_the_sum_of_combined_links() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let listed = app.get("/v2/client-ids").with_key().send().await.expect(200);
    let mut listed = listed.as_array().expect("a list").iter();
    let backend = listed.find(|client| client["clientId"] == app.backend_client.as_str());
    let path = format!(
        "/v2/client-ids/{}",
        backend.expect("the client ID")["id"].as_str().expect("an id")
    );
    let limited = app.call(Method::PUT, &path).with_key();
    let limit = json!({ "maxAmount": { "amount": "100", "currency": "FAU-sepolia" } });
    limited.json(&limit).send().await.expect(200);
    let combined = async |amounts: [&str; 2]| {
        let mut tokens = Vec::new();
        for amount in amounts {
            let call = app.post("/v2/secure-payments/payouts").with_client();
            tokens.push(token_of(&call.json(&payout_of(OTHER, amount)).send().await.expect(201)));
        }
        let call = app.post("/v2/secure-payments/batch-payouts").with_client();
        call.json(&json!({ "tokens": tokens })).send().await
    };
    combined(["60", "40"]).await.expect(201);
    let refused = combined(["60", "40.000000000000000001"]).await;
    assert_eq!(
        (refused.status, refused.wrong_fields()),
        (400, vec!["tokens".to_owned()])
    );
    let says = "must add up to at most 100 FAU-sepolia with this client ID, but add up to 100.000000000000000001";
    assert!(refused.text.contains(says), "{}", refused.text);
}

/// The status of the request of a link, and the number of payments in the quarantine.
async fn became(app: &TestApp, request: &Value) -> (Value, i64) {
    let read = app.read_request(request.as_str().expect("an id")).await;
    (read["status"].clone(), rows(app, "chain_quarantine").await)
}

#[tokio::test]
async fn a_late_payment_to_a_deleted_link_is_credited_normally() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let receiver = Receiver::start().await;
    let endpoint = app.post("/v1/webhook").with_key();
    endpoint
        .json(&json!({ "url": receiver.url() }))
        .send()
        .await
        .expect(201);
    let mut body = link_of(&["1", "2"]);
    body["payerIdentifier"] = json!("Ada Lovelace");
    body["expiresIn"] = json!(600);
    let (unswept, swept) = (app.link(&body).await.expect(201), app.link(&body).await.expect(201));
    let payer = app.account(PAYER);
    let calldata = [
        app.calldata_of(&token_of(&unswept), Some(&payer)).await.expect(200),
        app.calldata_of(&token_of(&swept), Some(&payer)).await.expect(200),
    ];
    // Expired and not yet deleted.
    app.advance_ms(DAY_MS);
    expire::run(&app.ctx).await.expect("a sweep");
    app.send_calldata(&calldata[0]).await;
    app.settle().await;
    let expected = became(&app, &unswept["requestIds"][0]).await;
    assert_eq!(expected, (json!("paid"), 0));
    // Expired for 91 days.
    app.advance_ms(88 * DAY_MS);
    assert!(!forget::run(&app.ctx).await.expect("a sweep"));
    assert_eq!(
        rows(&app, "secure_payments").await,
        2,
        "not before the retention period ends"
    );
    app.advance_ms(2 * DAY_MS);
    assert!(!forget::run(&app.ctx).await.expect("a sweep"));
    for (table, left) in [("secure_payments", 1), ("secure_payment_items", 2), ("requests", 4)] {
        assert_eq!(rows(&app, table).await, left, "{table}");
    }
    let token = token_of(&swept);
    let gone = app.open_link(&token, "").send().await;
    assert_eq!(gone.expect(404)["message"], "Secure payment not found");
    assert_eq!(app.get(&format!("/pay/{token}")).send().await.status, 404);
    // The requests still belong to a link, so their ids return no calldata.
    let id = swept["requestIds"][0].as_str().expect("an id");
    let by_id = app.get(&format!("/v2/request/{id}/pay")).with_key().send().await;
    assert!(
        by_id.expect(400)["message"]
            .to_string()
            .contains("belongs to a secure payment")
    );
    app.send_calldata(&calldata[1]).await;
    app.settle().await;
    for request in swept["requestIds"].as_array().expect("ids") {
        assert_eq!(became(&app, request).await, expected);
    }
    let told = rows(&app, "events WHERE kind = 'payment.confirmed'").await;
    assert_eq!(told, 4, "each request is reported as paid");
}
