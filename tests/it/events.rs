//! The event log: reading, replaying, following and sweeping.

use crate::support::{
    TestApp,
    events::{exhaust, tell},
    receiver::Receiver,
};
use chrono::{DateTime, FixedOffset};
use poem::http::Method;
use prs::{domain::ids::EventId, flows, flows::webhooks::opened::OpenedSecrets, store};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use std::{
    collections::BTreeSet,
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// Number of events that are queued for a reader that reads none of them.
const QUEUED: usize = 100;

/// Time limit for the end of a stream after its key was revoked.
const CUT_WITHIN: Duration = Duration::from_secs(15);

fn ids(page: &Value, list: &str) -> Vec<String> {
    let rows = page[list].as_array().expect("a list").iter();
    rows.map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
}

async fn events(app: &TestApp, query: &str) -> Value {
    app.get(&format!("/v2/events{query}"))
        .with_key()
        .send()
        .await
        .expect(200)
}

async fn replay(app: &TestApp, body: &Value) -> Value {
    let call = app.post("/v2/events/replay").with_key().json(body);
    call.send().await.expect(202)
}

#[tokio::test]
async fn a_settled_payment_is_logged_exactly_as_sent() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    let (endpoint, _) = app.register(&receiver.url()).await;
    let request = app.paid_request("1").await;
    app.settle().await;
    let received = receiver.received().await;
    let page = events(&app, "").await;
    let event = &page["events"][0];
    assert_eq!(page["events"].as_array().map(Vec::len), Some(1));
    assert_eq!(event["event"], "payment.confirmed");
    assert_eq!(event["requestId"], request.as_str());
    assert_eq!(event["clientId"], app.backend_client.as_str());
    assert_eq!(event["isTest"], false);
    assert_eq!(event["body"], received[0].body.as_str(), "byte for byte");
    let path = format!("/v2/events/{}", event["id"].as_str().expect("an id"));
    let read = app.get(&path).with_client().send().await.expect(200);
    assert_eq!(&read["event"], event);
    let delivery = &read["deliveries"][0];
    assert_eq!(delivery["endpointId"], endpoint.as_str());
    assert_eq!(delivery["url"], receiver.url().as_str());
    assert_eq!(delivery["state"], "delivered");
    assert_eq!(delivery["nextAttemptAt"], Value::Null);
    assert_eq!(
        delivery["id"].as_str(),
        received[0].header("x-service-delivery"),
        "the log and the receiver have the same id"
    );
    let path = format!("/v2/deliveries/{}", delivery["id"].as_str().expect("an id"));
    let read = app.get(&path).with_key().send().await.expect(200);
    assert_eq!(read["tries"].as_array().map(Vec::len), Some(1));
    assert_eq!(read["tries"][0]["status"], 200);
    assert_eq!(read["tries"][0]["response"], "ok");
}

#[tokio::test]
async fn cursors_page_through_events_and_filters_combine() {
    let app = TestApp::start().await;
    let mut told = Vec::new();
    for number in 0..7 {
        let kind = if number % 2 == 0 {
            "payment.confirmed"
        } else {
            "payment.partial"
        };
        told.push(tell(&app, kind, &format!("01r{}", number / 2)).await);
        app.advance_ms(1_000);
    }
    told.reverse();
    let mut walked = Vec::new();
    let mut query = "?limit=3".to_owned();
    loop {
        let page = events(&app, &query).await;
        walked.extend(ids(&page, "events"));
        match page["nextCursor"].as_str() {
            Some(cursor) => query = format!("?limit=3&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(walked, told, "newest first, each once");
    assert_eq!(ids(&events(&app, "?event=payment.partial").await, "events").len(), 3);
    assert_eq!(ids(&events(&app, "?requestId=01r1").await, "events"), told[3..5]);
    assert_eq!(
        ids(&events(&app, "?requestId=01r1&event=payment.partial").await, "events"),
        told[3..4]
    );
    let third = &events(&app, "").await["events"][2]["createdAt"];
    let third = third.as_str().expect("a time");
    assert_eq!(
        ids(&events(&app, &format!("?since={third}")).await, "events"),
        told[..3]
    );
    assert_eq!(
        ids(&events(&app, &format!("?until={third}")).await, "events"),
        told[2..]
    );
    let elsewhere = DateTime::parse_from_rfc3339(third).expect("a time");
    let elsewhere = elsewhere.with_timezone(&FixedOffset::east_opt(19_800).expect("an offset"));
    let elsewhere = elsewhere.to_rfc3339().replace('+', "%2B");
    assert_eq!(
        ids(&events(&app, &format!("?since={elsewhere}")).await, "events"),
        told[..3],
        "another offset means the same instant: {elsewhere}"
    );
    assert_eq!(
        ids(&events(&app, &format!("?until={elsewhere}")).await, "events"),
        told[2..]
    );
    for (query, field) in [
        ("?limit=0", "limit"),
        ("?since=2026-02-01T00:00:00%2B0100", "since"),
        ("?until=2026-02-01T00:00:00", "until"),
        ("?limit=101", "limit"),
        ("?cursor=1", "cursor"),
        ("?since=yesterday", "since"),
        ("?event=Payment", "event"),
        ("?since=2026-02-02T00:00:00Z&until=2026-02-01T00:00:00Z", "until"),
    ] {
        let wrong = app.get(&format!("/v2/events{query}")).with_key().send().await;
        assert_eq!(wrong.status, 400, "{query}");
        assert_eq!(wrong.wrong_fields(), [field], "{query}");
    }
}

#[tokio::test]
async fn a_summary_counts_deliveries_by_endpoint_and_state() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let (endpoint, _) = app.register(&receiver.url()).await;
    tell(&app, "payment.confirmed", "01one").await;
    tell(&app, "payment.confirmed", "01two").await;
    app.deliver().await;
    tell(&app, "payment.confirmed", "01waits").await;
    let summary = async |query: &str| {
        let path = format!("/v2/deliveries/summary{query}");
        app.get(&path).with_key().send().await
    };
    let count = |state, count| json!({ "endpointId": endpoint, "state": state, "count": count });
    let counts = json!({ "counts": [count("delivered", 2), count("queued", 1)] });
    assert_eq!(summary("").await.expect(200), counts);
    app.advance_ms(24 * 3_600_000 + 1);
    assert_eq!(
        summary("").await.expect(200),
        json!({ "counts": [] }),
        "the default is one day"
    );
    for since in ["12:00:00.000Z", "12:00:00%2B00:00", "10:30:00-01:30"] {
        assert_eq!(
            summary(&format!("?since=2026-01-31T{since}")).await.expect(200),
            counts,
            "{since}"
        );
    }
    for (since, field) in [("31T12:00:00.001Z", "until"), ("01T11:59:59.999Z", "since")] {
        let wrong = summary(&format!("?since=2026-01-{since}&until=2026-01-31T12:00:00.000Z")).await;
        assert_eq!((wrong.status, wrong.wrong_fields()), (400, vec![field.to_owned()]));
    }
}

#[tokio::test]
async fn strangers_see_and_change_nothing() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let (endpoint, _) = app.register(&receiver.url()).await;
    let event = tell(&app, "payment.confirmed", "01r").await;
    app.deliver().await;
    let delivery = ids(
        &app.get("/v2/deliveries").with_key().send().await.expect(200),
        "deliveries",
    )[0]
    .clone();
    let (key, client) = app.other_tenant().await;
    let backend_client = app.another_client(&[]).await;
    let strangers = [
        vec![("x-api-key", key.as_str())],
        vec![("x-client-id", client.as_str())],
        vec![("x-client-id", backend_client.as_str())],
    ];
    for headers in strangers {
        let call = |method: Method, path: &str, body: Option<Value>| {
            let call = headers
                .iter()
                .fold(app.call(method, path), |call, (name, value)| call.header(name, value));
            match body {
                Some(body) => call.json(&body),
                None => call,
            }
        };
        let empty = call(Method::GET, "/v2/events", None).send().await.expect(200);
        assert_eq!(empty, json!({ "events": [], "nextCursor": null }));
        let empty = call(Method::GET, "/v2/deliveries", None).send().await.expect(200);
        assert_eq!(empty, json!({ "deliveries": [], "nextCursor": null }));
        let empty = call(Method::GET, "/v2/deliveries/summary", None)
            .send()
            .await
            .expect(200);
        assert_eq!(empty, json!({ "counts": [] }));
        let unknown = "01JZX4T9QK3M7N8P2R5S6V0WYB";
        for (event, delivery) in [(event.as_str(), delivery.as_str()), (unknown, unknown)] {
            let answers = [
                call(Method::GET, &format!("/v2/events/{event}"), None).send().await,
                call(Method::POST, &format!("/v2/events/{event}/replay"), Some(json!({})))
                    .send()
                    .await,
            ];
            for answer in answers {
                assert_eq!(answer.expect(404)["message"], "Event not found");
            }
            let answers = [
                call(Method::GET, &format!("/v2/deliveries/{delivery}"), None)
                    .send()
                    .await,
                call(Method::POST, &format!("/v2/deliveries/{delivery}/retry"), None)
                    .send()
                    .await,
            ];
            for answer in answers {
                assert_eq!(answer.expect(404)["message"], "Delivery not found");
            }
        }
        let all = json!({ "since": "2020-01-01T00:00:00Z" });
        let nothing = call(Method::POST, "/v2/events/replay", Some(all))
            .send()
            .await
            .expect(202);
        assert_eq!(nothing, json!({ "replayed": 0, "skipped": 0, "nextCursor": null }));
        let foreign = json!({ "since": "2020-01-01T00:00:00Z", "endpointId": endpoint });
        call(Method::POST, "/v2/events/replay", Some(foreign))
            .send()
            .await
            .expect(404);
    }
    app.get("/v2/events").send().await.expect(401);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 1, "nothing was sent again");
}

#[tokio::test]
async fn a_replay_carries_the_original_identity_and_bytes() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let (_, secret) = app.register(&receiver.url()).await;
    receiver.answer(500);
    let event = tell(&app, "payment.confirmed", "01r").await;
    exhaust(&app).await;
    let path = format!("/v2/events/{event}");
    let failed = app.get(&path).with_key().send().await.expect(200);
    assert_eq!(failed["deliveries"][0]["state"], "failed");
    receiver.answer(200);
    let path = format!("/v2/events/{event}/replay");
    let result = app.post(&path).with_key().json(&json!({})).send().await.expect(202);
    assert_eq!(result, json!({ "replayed": 1, "skipped": 0, "nextCursor": null }));
    let waiting = app.post(&path).with_key().json(&json!({})).send().await.expect(202);
    assert_eq!(waiting["skipped"], 1, "a pending delivery is skipped");
    app.deliver().await;
    let all = receiver.received().await;
    assert_eq!(all.len(), 5);
    let (first, last) = (&all[0], &all[4]);
    assert_eq!(first.header("x-service-delivery"), last.header("x-service-delivery"));
    assert_eq!(first.body, last.body);
    assert_eq!(
        last.header("x-service-signature"),
        Some(prs::domain::webhook::sign(&secret, last.body.as_bytes()).as_str())
    );
    assert_eq!(last.header("x-service-replay"), Some("true"));
    assert_eq!(
        last.header("x-service-retry-count"),
        Some("0"),
        "a new round of attempts"
    );
    assert!(all[..4].iter().all(|one| one.header("x-service-replay").is_none()));
    let delivery = failed["deliveries"][0]["id"].as_str().expect("an id");
    let read = app
        .get(&format!("/v2/deliveries/{delivery}"))
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(read["delivery"]["state"], "delivered");
    assert_eq!(read["delivery"]["isReplay"], true);
    let statuses: Vec<_> = read["tries"]
        .as_array()
        .expect("tries")
        .iter()
        .map(|one| &one["status"])
        .collect();
    assert_eq!(statuses, [500, 500, 500, 500, 200]);
}

#[tokio::test]
async fn a_replay_after_a_ten_minute_outage_delivers_everything() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let before = tell(&app, "payment.confirmed", "01before").await;
    app.deliver().await;
    app.advance_ms(1_000);
    let down_since = prs::http::forms::wire::Instant(app.ctx.clock.now()).to_string();
    receiver.answer(503);
    let mut told = vec![before];
    for minute in 0..10 {
        told.push(tell(&app, "payment.confirmed", &format!("01m{minute}")).await);
        exhaust(&app).await;
        app.advance_ms(39_000);
    }
    receiver.answer(200);
    let count = receiver.received().await.len();
    let result = replay(&app, &json!({ "since": down_since, "failedOnly": true })).await;
    assert_eq!(result, json!({ "replayed": 10, "skipped": 0, "nextCursor": null }));
    app.deliver().await;
    let all = receiver.received().await;
    assert_eq!(all.len(), count + 10, "each missed event once, and no delivered one");
    let arrived: BTreeSet<String> = all[..1]
        .iter()
        .chain(&all[count..])
        .map(|one| one.json()["n"].as_str().expect("an id").to_owned())
        .collect();
    let log: BTreeSet<String> = ids(&events(&app, "?limit=100").await, "events").into_iter().collect();
    assert_eq!(arrived, log);
    assert_eq!(log, told.into_iter().collect());
    let states = app
        .get("/v2/deliveries?state=failed")
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(states["deliveries"], json!([]));
}

#[tokio::test]
async fn a_new_endpoint_can_replay_earlier_events() {
    let app = TestApp::start().await;
    let (early, late) = (Receiver::start().await, Receiver::start().await);
    app.register(&early.url()).await;
    let told = [
        tell(&app, "payment.confirmed", "01a").await,
        tell(&app, "payment.partial", "01b").await,
    ];
    app.deliver().await;
    let (endpoint, _) = app.register(&late.url()).await;
    let body =
        json!({ "since": "2020-01-01T00:00:00+14:00", "until": "2040-01-01T00:00:00-12:00", "endpointId": endpoint });
    assert_eq!(replay(&app, &body).await["replayed"], 2);
    app.deliver().await;
    assert_eq!(
        replay(&app, &body).await["replayed"],
        2,
        "a second replay repeats the same deliveries"
    );
    app.deliver().await;
    let all = late.received().await;
    let deliveries: BTreeSet<_> = all.iter().filter_map(|one| one.header("x-service-delivery")).collect();
    assert_eq!((all.len(), deliveries.len()), (4, 2));
    assert_eq!(
        early.received().await.len(),
        2,
        "the other endpoint receives nothing again"
    );
    let read = app
        .get(&format!("/v2/events/{}", told[0]))
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(read["deliveries"].as_array().map(Vec::len), Some(2));
    app.call(Method::PUT, &format!("/v1/webhook/{endpoint}"))
        .with_client()
        .send()
        .await
        .expect(200);
    app.post("/v2/events/replay")
        .with_key()
        .json(&body)
        .send()
        .await
        .expect(409);
}

#[tokio::test]
async fn a_reenabled_endpoint_gets_missed_events_once() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let (endpoint, _) = app.register(&receiver.url()).await;
    let switch = async || {
        let path = format!("/v1/webhook/{endpoint}");
        app.call(Method::PUT, &path).with_client().send().await.expect(200);
    };
    let arrived = tell(&app, "payment.confirmed", "01arrived").await;
    app.deliver().await;
    receiver.answer(500);
    let failed = tell(&app, "payment.confirmed", "01failed").await;
    exhaust(&app).await;
    let cancelled = tell(&app, "payment.confirmed", "01cancelled").await;
    switch().await;
    let missed = tell(&app, "payment.confirmed", "01missed").await;
    switch().await;
    receiver.answer(200);
    let count = receiver.received().await.len();
    let since = "2020-01-01T00:00:00Z";
    let body = json!({ "since": since, "endpointId": endpoint, "failedOnly": true });
    assert_eq!(replay(&app, &body).await["replayed"], 3);
    app.deliver().await;
    let all = receiver.received().await;
    let told: BTreeSet<String> = all[count..]
        .iter()
        .map(|one| one.json()["n"].as_str().expect("an id").to_owned())
        .collect();
    assert_eq!(all.len(), count + 3);
    assert_eq!(told, BTreeSet::from([failed, cancelled, missed]));
    assert!(!told.contains(&arrived));
    assert_eq!(replay(&app, &body).await["replayed"], 0, "every event was delivered");
}

#[tokio::test]
async fn a_replay_can_exceed_one_transaction() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    for number in 0..230 {
        tell(&app, "payment.confirmed", &format!("01n{number}")).await;
    }
    app.deliver().await;
    let result = replay(&app, &json!({ "since": "2020-01-01T00:00:00Z" })).await;
    assert_eq!(result, json!({ "replayed": 230, "skipped": 0, "nextCursor": null }));
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 460);
}

#[tokio::test]
async fn only_a_finished_delivery_can_be_retried() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let (endpoint, _) = app.register(&receiver.url()).await;
    receiver.answer(500);
    tell(&app, "payment.confirmed", "01r").await;
    let list = app.get("/v2/deliveries").with_client().send().await.expect(200);
    assert_eq!(list["deliveries"][0]["state"], "queued");
    assert!(list["deliveries"][0]["nextAttemptAt"].is_string());
    let path = format!("/v2/deliveries/{}/retry", ids(&list, "deliveries")[0]);
    app.post(&path).with_client().send().await.expect(409);
    exhaust(&app).await;
    let queued = app.post(&path).with_client().send().await.expect(202);
    assert_eq!(queued["delivery"]["state"], "queued");
    assert_eq!(queued["delivery"]["retryCount"], 0);
    exhaust(&app).await;
    assert_eq!(receiver.received().await.len(), 8, "a new round has four attempts");
    receiver.answer(200);
    for _ in 0..2 {
        app.post(&path).with_key().send().await.expect(202);
        app.deliver().await;
    }
    assert_eq!(
        receiver.received().await.len(),
        10,
        "a delivered event can be sent again"
    );
    app.call(Method::DELETE, &format!("/v1/webhook/{endpoint}"))
        .with_client()
        .send()
        .await
        .expect(200);
    app.post(&path).with_key().send().await.expect(409);
}

#[tokio::test]
async fn sample_deliveries_are_marked_as_tests_and_cannot_be_replayed() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    app.send_sample("payment.confirmed").await;
    let page = events(&app, "").await;
    assert_eq!(page["events"][0]["isTest"], true);
    let event = ids(&page, "events")[0].clone();
    let path = format!("/v2/events/{event}/replay");
    app.post(&path).with_key().json(&json!({})).send().await.expect(409);
    let list = app.get("/v2/deliveries").with_key().send().await.expect(200);
    let path = format!("/v2/deliveries/{}/retry", ids(&list, "deliveries")[0]);
    app.post(&path).with_key().send().await.expect(409);
    assert_eq!(
        replay(&app, &json!({ "since": "2020-01-01T00:00:00Z" })).await["replayed"],
        0
    );
}

#[tokio::test]
async fn the_sweeper_deletes_old_events_but_no_pending_deliveries() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let old = tell(&app, "payment.confirmed", "01old").await;
    let replayed = tell(&app, "payment.confirmed", "01replayed").await;
    app.deliver().await;
    let waiting = tell(&app, "payment.confirmed", "01waiting").await;
    app.advance_ms(29 * 86_400_000);
    let path = format!("/v2/events/{replayed}/replay");
    app.post(&path).with_key().json(&json!({})).send().await.expect(202);
    for delivery in app
        .claim()
        .await
        .into_iter()
        .filter(|one| one.event.as_str() == replayed)
    {
        let tried = flows::webhooks::deliver::send(&app.ctx, &OpenedSecrets::default(), delivery)
            .await
            .expect("sent");
        flows::webhooks::deliver::record(&app.ctx, &[tried])
            .await
            .expect("records");
    }
    let fresh = tell(&app, "payment.confirmed", "01fresh").await;
    while flows::events::sweep::run(&app.ctx).await.expect("sweeps") {}
    assert_eq!(
        ids(&events(&app, "").await, "events").len(),
        4,
        "nothing is 30 days old"
    );
    app.advance_ms(2 * 86_400_000);
    while flows::events::sweep::run(&app.ctx).await.expect("sweeps") {}
    let kept: BTreeSet<String> = ids(&events(&app, "").await, "events").into_iter().collect();
    assert_eq!(kept, BTreeSet::from([replayed, waiting, fresh]));
    app.get(&format!("/v2/events/{old}"))
        .with_key()
        .send()
        .await
        .expect(404);
    app.advance_ms(31 * 86_400_000);
    app.deliver().await;
    while flows::events::sweep::run(&app.ctx).await.expect("sweeps") {}
    assert_eq!(
        ids(&events(&app, "").await, "events").len(),
        2,
        "a recent delivery stays for the retention time"
    );
}

#[tokio::test]
async fn a_stream_resumes_after_an_event_and_sends_new_ones() {
    let app = TestApp::start().await;
    let (key, _) = app.other_tenant().await;
    let first = tell(&app, "payment.confirmed", "01a").await;
    let second = tell(&app, "payment.partial", "01b").await;
    let third = tell(&app, "payment.confirmed", "01c").await;
    let mut all = app
        .get("/v2/events/stream")
        .with_key()
        .header("last-event-id", &first)
        .open()
        .await;
    let mut some = app
        .get(&format!("/v2/events/stream?after={first}&events=payment.confirmed"))
        .with_client()
        .open()
        .await;
    let mut new = app.get("/v2/events/stream").with_key().open().await;
    let mut foreign = app
        .get(&format!("/v2/events/stream?after={first}"))
        .header("x-api-key", &key)
        .open()
        .await;
    let shown = all.next().await;
    let body = format!("{{\"event\":\"payment.partial\",\"requestId\":\"01b\",\"n\":\"{second}\"}}");
    assert_eq!(shown, format!("id: {second}\nevent: payment.partial\ndata: {body}\n\n"));
    assert!(all.next().await.starts_with(&format!("id: {third}\n")));
    assert!(some.next().await.starts_with(&format!("id: {third}\n")));
    let fourth = tell(&app, "payment.confirmed", "01d").await;
    for stream in [&mut all, &mut some, &mut new] {
        assert!(stream.next().await.starts_with(&format!("id: {fourth}\n")));
    }
    let silence = tokio::time::timeout(std::time::Duration::from_millis(600), foreign.next()).await;
    assert!(silence.is_err(), "another tenant sees nothing");
    app.get("/v2/events/stream").send().await.expect(401);
    let wrong = app.get("/v2/events/stream?after=x").with_key().send().await;
    assert_eq!(wrong.wrong_fields(), ["after"]);
}

/// A caller of the tests' platform, with the id of an API key that does not exist.
fn platform_caller(app: &TestApp) -> prs::domain::caller::PlatformCaller {
    prs::domain::caller::PlatformCaller {
        platform: app.platform.clone(),
        credential: prs::domain::caller::Credential::ApiKey {
            id: prs::domain::ids::KeyId(String::new()),
        },
    }
}

/// Writes an event whose id was generated earlier.
async fn appear(app: &TestApp, id: &str, kind: &str) {
    let event = store::outbox::NewEvent {
        id: EventId(id.to_owned()),
        owner: (&app.platform).into(),
        client: None,
        kind: kind.to_owned(),
        deduplication_key: id.to_owned(),
        request_id: None,
        body: "{}".to_owned(),
        payer: None,
        now: app.ctx.clock.now(),
    };
    store::outbox::insert_event(app.ctx.db.writer(), &event)
        .await
        .expect("writes");
}

#[tokio::test]
async fn a_follower_of_rare_kinds_skips_settled_common_events() {
    let app = TestApp::start().await;
    let start = tell(&app, "payment.confirmed", "01start").await;
    let kinds = ["payment.partial", "payment.failed"].map(str::to_owned).to_vec();
    let mut follower =
        flows::events::follow::LogFollower::start(&app.ctx, &platform_caller(&app), kinds, Some(EventId(start)))
            .await
            .expect("starts");
    let seen = async |follower: &mut flows::events::follow::LogFollower| -> Vec<String> {
        let events = follower.look().await.expect("looks");
        events.into_iter().map(|event| event.id.0).collect()
    };
    let mut rare = Vec::new();
    for kind in ["payment.failed", "payment.partial", "payment.failed"] {
        rare.push(tell(&app, kind, &format!("01rare{}", rare.len())).await);
        app.clock.advance(chrono::TimeDelta::milliseconds(1));
    }
    assert_eq!(
        seen(&mut follower).await,
        rare,
        "in the order of the log, for every kind"
    );
    let drawn = [app.ctx.ids.ulid(), app.ctx.ids.ulid()];
    app.clock.advance(chrono::TimeDelta::milliseconds(1));
    tell(&app, "payment.confirmed", "01common").await;
    app.clock.advance(chrono::TimeDelta::milliseconds(9_900));
    appear(&app, &drawn[0], "payment.failed").await;
    assert_eq!(
        seen(&mut follower).await,
        [drawn[0].as_str()],
        "ten seconds have not passed"
    );
    app.clock.advance(chrono::TimeDelta::milliseconds(101));
    assert!(seen(&mut follower).await.is_empty());
    appear(&app, &drawn[1], "payment.failed").await;
    assert!(
        seen(&mut follower).await.is_empty(),
        "events before a settled one are not read again"
    );
    let new = tell(&app, "payment.failed", "01new").await;
    assert_eq!(seen(&mut follower).await, [new]);
}

#[tokio::test]
async fn a_follower_returns_events_that_were_committed_late() {
    let app = TestApp::start().await;
    let start = tell(&app, "payment.confirmed", "01start").await;
    let caller = platform_caller(&app);
    let after = Some(EventId(start));
    let mut follower = flows::events::follow::LogFollower::start(&app.ctx, &caller, Vec::new(), after)
        .await
        .expect("starts");
    let drawn_early = app.ctx.ids.ulid();
    let later = tell(&app, "payment.confirmed", "01later").await;
    let seen = follower.look().await.expect("looks");
    assert_eq!(
        seen.iter().map(|event| event.id.as_str()).collect::<Vec<_>>(),
        [later.as_str()]
    );
    appear(&app, &drawn_early, "payment.confirmed").await;
    let seen = follower.look().await.expect("looks");
    assert_eq!(
        seen.iter().map(|event| event.id.as_str()).collect::<Vec<_>>(),
        [drawn_early.as_str()]
    );
    assert!(follower.look().await.expect("looks").is_empty(), "each event once");
}

/// A reader that opens a stream and reads nothing, with a small receive buffer.
fn idle_reader(address: SocketAddr, path: &str, key: &str) -> TcpStream {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(2048).expect("set");
    socket.connect(&address.into()).expect("connected");
    let mut stream = TcpStream::from(socket);
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    stream
}

#[tokio::test]
async fn a_stream_ends_within_seconds_after_its_key_was_revoked() {
    let app = TestApp::start().await;
    let key = flows::keys::create(&app.ctx, &app.platform, None).await.expect("a key");
    let address = app.listen().await;
    let first = tell(&app, "payment.confirmed", "01first").await;
    for number in 0..QUEUED {
        // Far more than the receive buffer of the reader.
        tell(&app, "payment.confirmed", &format!("{number:0>1000}")).await;
    }
    let path = format!("/v2/events/stream?after={first}");
    let mut idle = idle_reader(address, &path, key.key.reveal());
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let call = client.get(format!("http://{address}/v2/events/stream"));
    let stream = call.header("x-api-key", key.key.reveal()).send().await.expect("opens");
    assert_eq!(stream.status(), 200);
    flows::keys::revoke(&app.ctx, &app.platform, &key.row.id)
        .await
        .expect("revoked");
    let ended = tokio::time::timeout(CUT_WITHIN, stream.bytes()).await;
    assert!(ended.expect("it ends").is_err(), "the connection is cut");
    // Each stream ends on its own, so the reader stays idle until its connection is cut.
    let cut = tokio::task::spawn_blocking(move || {
        let begun = Instant::now();
        let end = loop {
            match idle.take_error().expect("an open socket") {
                None if begun.elapsed() < CUT_WITHIN => std::thread::sleep(Duration::from_millis(20)),
                end => break end,
            }
        };
        let mut taken = Vec::new();
        if end.is_some() {
            // The connection has ended; only its receive buffer may still contain something.
            let _ = idle.read_to_end(&mut taken);
        }
        (end, taken)
    });
    let (end, taken) = cut.await.expect("no panic");
    assert_eq!(end.map(|error| error.kind()), Some(ErrorKind::ConnectionReset));
    let taken = String::from_utf8_lossy(&taken).matches("data:").count();
    assert!(taken < QUEUED, "{taken} events were sent after the revocation");
}
