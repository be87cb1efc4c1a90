//! Caps on the share of common resources that one owner may use.

use crate::support::{
    Answer, TestApp,
    app::{Call, PAGE, settings},
    receiver::Receiver,
    session::sign_in,
    wallet::TestWallet,
};
use futures_util::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};
use poem::http::Method;
use prs::{
    domain::{caps::Caps, ids::PlatformId},
    flows::{self, FlowError, idempotency::RepeatableCall},
    settings::Settings,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// A service with low caps on what one owner may have.
async fn capped() -> TestApp {
    let mut settings = settings();
    settings.caps.endpoints = 2;
    settings.caps.unapproved_endpoints = 3;
    settings.caps.api_keys = 2;
    settings.caps.client_ids = 4;
    settings.caps.event_streams = 2;
    settings.caps.due_deliveries = 2;
    TestApp::with(settings, None).await
}

#[track_caller]
fn refused(answer: &Answer, status: u16, cap: &str) {
    let body = answer.expect(status);
    let message = body["message"].as_str().expect("a sentence");
    assert!(message.contains(cap), "{message}");
}

fn number_of(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

async fn register(app: &TestApp, number: usize) -> Answer {
    let body = json!({ "url": format!("https://shop.example.com/{number}") });
    app.post("/v1/webhook").with_client().json(&body).send().await
}

#[tokio::test]
async fn concurrent_registrations_cannot_exceed_the_endpoint_cap() {
    let app = capped().await;
    let answers = join_all((0..6).map(|number| register(&app, number))).await;
    assert_eq!((number_of(&answers, 201), number_of(&answers, 409)), (2, 4));
    refused(&register(&app, 7).await, 409, "caps.endpoints");
    let id = answers.iter().find(|answer| answer.status == 201).unwrap().json()["id"].clone();
    let path = format!("/v1/webhook/{}", id.as_str().unwrap());
    // A disabled endpoint still counts; a deleted one does not.
    app.call(Method::PUT, &path).with_client().send().await.expect(200);
    assert_eq!(register(&app, 7).await.status, 409);
    app.call(Method::DELETE, &path).with_client().send().await.expect(200);
    assert_eq!(register(&app, 7).await.status, 201);
    // The API key belongs to the same platform; another platform has its own cap.
    let whole = app.post("/v1/webhook").with_key();
    let whole = whole
        .json(&json!({ "url": "https://shop.example.com/whole" }))
        .send()
        .await;
    refused(&whole, 409, "caps.endpoints");
    let (_, other) = app.other_tenant().await;
    let body = json!({ "url": "https://shop.example.com/0" });
    let call = app.post("/v1/webhook").header("x-client-id", &other).json(&body);
    call.send().await.expect(201);
}

/// A `POST` as any visitor of a web page can send it: with the public client ID and the page's origin.
fn strange<'a>(app: &'a TestApp, path: &str) -> Call<'a> {
    let call = app.post(path).header("x-client-id", &app.page_client);
    call.header("origin", PAGE)
}

#[tokio::test]
async fn public_client_ids_cannot_use_up_the_endpoint_cap_of_their_platform() {
    let app = capped().await;
    let try_one = async |number: usize| {
        let body = json!({ "url": format!("https://stranger.example.com/{number}") });
        strange(&app, "/v1/webhook").json(&body).send().await
    };
    let answers = join_all((0..6).map(try_one)).await;
    assert_eq!((number_of(&answers, 201), number_of(&answers, 409)), (3, 3));
    refused(&try_one(7).await, 409, "caps.unapproved_endpoints");
    let own = [register(&app, 0).await.expect(201), register(&app, 1).await.expect(201)];
    refused(&register(&app, 2).await, 409, "caps.endpoints");
    // An approved endpoint counts towards the cap of the platform.
    let id = answers.iter().find(|answer| answer.status == 201).unwrap().json()["id"].clone();
    let path = format!("/v1/webhook/{}/approve", id.as_str().unwrap());
    refused(&app.post(&path).with_key().send().await, 409, "caps.endpoints");
    let first = format!("/v1/webhook/{}", own[0]["id"].as_str().unwrap());
    app.call(Method::DELETE, &first).with_key().send().await.expect(200);
    for _ in 0..2 {
        app.post(&path).with_key().send().await.expect(200);
    }
    refused(&register(&app, 2).await, 409, "caps.endpoints");
    assert_eq!(try_one(8).await.status, 201, "its slot is free again");
}

#[tokio::test]
async fn a_client_has_one_pending_test_and_does_not_block_others() {
    let app = TestApp::start().await;
    let (own, strangers) = (Receiver::start().await, Receiver::start().await);
    app.register(&own.url()).await;
    let body = json!({ "url": strangers.url() });
    strange(&app, "/v1/webhook").json(&body).send().await.expect(201);
    let sample = json!({ "eventType": "payment.confirmed" });
    let ask = || strange(&app, "/v1/webhook/test").json(&sample);
    let mut asked: FuturesUnordered<_> = (0..4).map(|_| ask().without_worker()).collect();
    for _ in 0..3 {
        assert_eq!(asked.next().await, Some(429));
    }
    let (first, of_another) = tokio::join!(asked.next(), test(&app));
    assert_eq!(first, Some(200));
    assert_eq!(of_another.expect(200), json!({ "sent": 1, "failed": 0 }));
    let again = ask().send().await;
    assert_eq!(again.expect(200), json!({ "sent": 1, "failed": 0 }));
    assert_eq!(strangers.received().await.len(), 2);
}

#[tokio::test]
async fn an_orchestrator_cannot_exceed_its_endpoint_cap() {
    let app = capped().await;
    let new = flows::orchestrators::create::run(&app.ctx, "Partner").await.unwrap();
    let register = |number: usize| {
        let body = json!({ "url": format!("https://partner.example.com/{number}") });
        let call = app.post("/v2/orchestrators/webhooks");
        call.header("x-orchestrator-key", new.key.reveal()).json(&body).send()
    };
    let answers = join_all((0..4).map(register)).await;
    assert_eq!((number_of(&answers, 201), number_of(&answers, 409)), (2, 2));
}

#[tokio::test]
async fn only_active_client_ids_count_towards_the_client_id_cap() {
    let app = capped().await;
    let create = || {
        let body = json!({ "label": "One more", "allowedDomains": ["https://shop.example.com"] });
        app.post("/v2/client-ids").with_key().json(&body).send()
    };
    let first = create().await;
    let answers = join_all((0..4).map(|_| create())).await;
    assert_eq!((number_of(&answers, 201), number_of(&answers, 409)), (1, 3));
    refused(&create().await, 409, "caps.client_ids");
    let path = format!("/v2/client-ids/{}", first.expect(201)["id"].as_str().unwrap());
    app.call(Method::DELETE, &path).with_key().send().await.expect(200);
    assert_eq!(create().await.status, 201);
}

#[tokio::test]
async fn a_platform_at_its_key_cap_can_still_rotate_keys() {
    let app = capped().await;
    let session = sign_in(&app, &TestWallet::new(7)).await;
    let bearer = format!("Bearer {session}");
    let post = |path: String, body: Value| {
        let call = app.post(&path).header("authorization", &bearer).json(&body);
        async move { call.send().await }
    };
    let create = || post("/v1/api-keys".to_owned(), json!({}));
    let answers = [create().await, create().await, create().await];
    assert_eq!((number_of(&answers, 201), number_of(&answers, 409)), (2, 1));
    refused(&answers[2], 409, "caps.api_keys");
    let id = answers[0].json()["id"].as_str().unwrap().to_owned();
    let rotate = |overlap_s: u32| {
        let path = format!("/v1/api-keys/{id}/rotate");
        post(path, json!({ "overlapSeconds": overlap_s }))
    };
    refused(&rotate(3_600).await, 409, "caps.api_keys");
    assert_eq!(rotate(0).await.status, 201, "a rotation without overlap adds no key");
    refused(&create().await, 409, "caps.api_keys");
}

#[tokio::test]
async fn a_platform_cannot_use_up_the_event_streams_of_another() {
    let app = capped().await;
    let follow = || app.get("/v2/events/stream").with_client();
    let open = (follow().open().await, follow().open().await);
    refused(&follow().send().await, 429, "caps.event_streams");
    let by_key = app.get("/v2/events/stream").with_key().send().await;
    refused(&by_key, 429, "caps.event_streams");
    let (other_key, _) = app.other_tenant().await;
    let other = app.get("/v2/events/stream").header("x-api-key", &other_key);
    let other = other.open().await;
    drop(open.0);
    let again = follow().open().await;
    refused(&follow().send().await, 429, "caps.event_streams");
    drop((open.1, other, again));
}

#[tokio::test]
async fn full_platforms_leave_event_streams_for_platforms_without_any() {
    let app = TestApp::start().await;
    let mut open = Vec::new();
    for allowed in [32, 32, 32, 32, 32, 32, 32, 28] {
        let (key, _) = app.other_tenant().await;
        let follow = || app.get("/v2/events/stream").header("x-api-key", &key);
        for _ in 0..allowed {
            open.push(follow().open().await);
        }
        let refused = follow().send().await;
        assert_eq!(refused.status, 429, "{}", refused.text);
    }
    assert_eq!(
        open.len(),
        252,
        "the eighth platform has seven times the streams that stay free"
    );
    let late = || app.get("/v2/events/stream").with_key();
    for _ in 0..3 {
        open.push(late().open().await);
    }
    let refused = late().send().await;
    assert_eq!(
        refused.expect(429)["message"],
        "Too many streams are open; try again later"
    );
    assert_eq!(refused.header("retry-after"), Some("10"));
    let (newcomer, _) = app.other_tenant().await;
    let last = app.get("/v2/events/stream").header("x-api-key", &newcomer);
    open.push(last.open().await);
}

async fn test(app: &TestApp) -> Answer {
    let body = json!({ "eventType": "payment.confirmed" });
    app.post("/v1/webhook/test").with_client().json(&body).send().await
}

#[tokio::test]
async fn only_tests_and_replays_are_held_back_by_due_deliveries() {
    let mut settings: Settings = settings();
    settings.caps.due_deliveries = 2;
    let app = TestApp::on_chain_as(settings, 1).await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    for _ in 0..4 {
        app.paid_request("1").await;
    }
    app.follow().await;
    refused(&test(&app).await, 429, "caps.due_deliveries");
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 4, "events are queued beyond the cap");
    assert_eq!(test(&app).await.expect(200), json!({ "sent": 1, "failed": 0 }));
    // A replay of all events continues up to the cap, and the next call resumes where it stopped.
    let since = json!({ "since": "2020-01-01T00:00:00Z" });
    let replay = |body: Value| {
        let call = app.post("/v2/events/replay").with_key().json(&body);
        async move { call.send().await }
    };
    assert_eq!(replay(since.clone()).await.expect(202)["replayed"], 4);
    refused(&replay(since).await, 429, "caps.due_deliveries");
    let page = app.get("/v2/deliveries?limit=1").with_key().send().await.expect(200);
    let path = format!("/v2/deliveries/{}/retry", page["deliveries"][0]["id"].as_str().unwrap());
    assert!([409, 429].contains(&app.post(&path).with_key().send().await.status));
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 9);
}

#[tokio::test]
async fn deliveries_waiting_for_a_retry_do_not_block_a_test() {
    let mut settings: Settings = settings();
    settings.caps.due_deliveries = 1;
    let app = TestApp::on_chain_as(settings, 1).await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    receiver.answer(500);
    app.paid_request("1").await;
    app.settle().await;
    receiver.answer(200);
    assert_eq!(test(&app).await.expect(200), json!({ "sent": 1, "failed": 0 }));
}

/// A test delivery to many endpoints goes through the queue. The HTTP call itself sends nothing to the endpoints, and
/// the worker claims at most its usual number of these deliveries at once.
#[tokio::test]
async fn a_test_of_many_endpoints_goes_through_the_queue() {
    let app = TestApp::start().await;
    for number in 0..60 {
        register(&app, number).await.expect(201);
    }
    let body = json!({ "eventType": "payment.confirmed" });
    let asking = app.post("/v1/webhook/test").with_client().json(&body).without_worker();
    let claimed = tokio::select! {
        _ = asking => panic!("the call returned before any worker sent a delivery"),
        claimed = first_claim(&app, 7) => claimed,
    };
    assert_eq!(claimed, 7);
}

async fn first_claim(app: &TestApp, limit: u64) -> usize {
    loop {
        let claimed = app.claim_at_most(limit).await;
        if !claimed.is_empty() {
            assert!(claimed.iter().all(|one| one.is_test));
            return claimed.len();
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn the_operator_can_create_keys_beyond_the_cap() {
    let app = capped().await;
    let platform: PlatformId = app.platform.clone();
    for _ in 0..4 {
        flows::keys::create(&app.ctx, &platform, None).await.unwrap();
    }
    let caps: &Arc<Caps> = &app.ctx.caps;
    assert_eq!(flows::keys::list(&app.ctx, &platform).await.unwrap().len(), 5);
    assert_eq!(caps.api_keys, 2);
}

#[tokio::test]
async fn above_the_cap_a_rotation_must_not_add_a_key() {
    let app = capped().await;
    for _ in 0..3 {
        flows::keys::create(&app.ctx, &app.platform, None).await.unwrap();
    }
    let keys = flows::keys::list(&app.ctx, &app.platform).await.unwrap();
    let caller = TestWallet::new(7).session(&app.platform);
    let rotate = |overlap_s: u32| {
        let (id, caller) = (&keys[0].id, &caller);
        flows::keys::replace(&app.ctx, caller, id, overlap_s, RepeatableCall::unkeyed())
    };
    let Err(FlowError::Refused(refusal)) = rotate(60).await else {
        panic!("the rotation added a key");
    };
    assert!(refusal.message.contains("caps.api_keys"), "{}", refusal.message);
    rotate(0).await.expect("the rotation adds no key");
    let keys = flows::keys::list(&app.ctx, &app.platform).await.unwrap();
    assert_eq!(keys.iter().filter(|key| key.revoked_at.is_none()).count(), 4);
}
