//! Rotation of webhook secrets without a gap.

use crate::support::{TestApp, receiver::Receiver};
use prs::{
    ctx::Ctx,
    domain::{
        ids::{DeliveryId, EndpointId, EventId, OwnerId},
        webhook::{sign, sign_standard},
    },
    ports::sealer::EncryptionContext,
    settings::ChainSettings,
    store::{self, Holder, outbox},
    worker::deliver_webhooks::{self, DeliveryOptions},
};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

async fn rotate(app: &TestApp, id: &str, body: &Value) -> Value {
    let path = format!("/v1/webhook/{id}/rotate-secret");
    app.post(&path).with_client().json(body).send().await.expect(200)
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

#[tokio::test]
async fn both_secrets_sign_until_the_overlap_ends() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let (id, old) = app.register(&receiver.url()).await;
    let delivery = async || {
        app.send_sample("payment.confirmed").await;
        receiver.received().await.pop().expect("a delivery")
    };
    let before = delivery().await;
    assert_eq!(
        before.header("x-service-signature"),
        Some(sign(&old, before.body.as_bytes()).as_str())
    );
    assert_eq!(before.header("x-service-signature-next"), None);
    let answer = rotate(&app, &id, &json!({ "overlapSeconds": 60 })).await;
    let new = text(&answer["secret"]);
    assert!(new != old && new.len() == 64 && new.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(answer["id"], id.as_str());
    assert_eq!(answer["previousValidUntil"], "2026-01-31T12:01:00.000Z");
    app.advance_ms(59_999);
    let during = delivery().await;
    let body = during.body.as_bytes();
    assert_eq!(during.header("x-service-signature"), Some(sign(&old, body).as_str()));
    assert_eq!(
        during.header("x-service-signature-next"),
        Some(sign(&new, body).as_str())
    );
    let (delivery_id, time) = (
        during.header("x-service-delivery").expect("an id"),
        app.ctx.clock.now().timestamp(),
    );
    assert_eq!(during.header("webhook-id"), Some(delivery_id));
    assert_eq!(during.header("webhook-timestamp"), Some(time.to_string().as_str()));
    let standard = [&new, &old]
        .map(|secret| sign_standard(secret, delivery_id, time, body))
        .join(" ");
    assert_eq!(during.header("webhook-signature"), Some(standard.as_str()));
    app.advance_ms(1);
    let after = delivery().await;
    assert_eq!(
        after.header("x-service-signature"),
        Some(sign(&new, after.body.as_bytes()).as_str())
    );
    assert_eq!(after.header("x-service-signature-next"), None);
    assert!(!after.header("webhook-signature").expect("signed").contains(' '));
}

#[tokio::test]
async fn a_leaked_secret_can_be_ended_at_once() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let (id, _) = app.register(&receiver.url()).await;
    rotate(&app, &id, &json!({})).await;
    let answer = rotate(&app, &id, &json!({ "overlapSeconds": 0 })).await;
    app.send_sample("payment.confirmed").await;
    let last = receiver.received().await.pop().expect("a delivery");
    let signature = sign(&text(&answer["secret"]), last.body.as_bytes());
    assert_eq!(last.header("x-service-signature"), Some(signature.as_str()));
    assert_eq!(last.header("x-service-signature-next"), None);
}

#[tokio::test]
async fn only_the_owner_rotates_and_only_within_limits() {
    let app = TestApp::start().await;
    let (id, _) = app.register("https://shop.example.com/hooks").await;
    let path = format!("/v1/webhook/{id}/rotate-secret");
    let (other_key, other_client) = app.other_tenant().await;
    let foreign = [("x-api-key", &other_key), ("x-client-id", &other_client)];
    for (name, value) in foreign {
        let call = app.post(&path).header(name, value).json(&json!({}));
        assert_eq!(call.send().await.expect(404)["message"], "Webhook not found");
    }
    app.post(&path).json(&json!({})).send().await.expect(401);
    for overlap in [json!(-1), json!(604_801), json!("60"), json!(1.5)] {
        let body = json!({ "overlapSeconds": overlap });
        let refused = app.post(&path).with_client().json(&body).send().await;
        assert_eq!(
            (refused.status, refused.wrong_fields()),
            (400, vec!["overlapSeconds".to_owned()])
        );
    }
    for _ in 0..3 {
        rotate(&app, &id, &json!({ "overlapSeconds": 604_800 })).await;
    }
    app.post(&path).with_key().json(&json!({})).send().await.expect(409);
    rotate(&app, &id, &json!({ "overlapSeconds": 0 })).await;
    app.post(&path).with_key().json(&json!({})).send().await.expect(200);
}

#[tokio::test]
async fn an_orchestrator_rotates_its_own_secret() {
    let app = TestApp::start().await;
    let partner = prs::flows::orchestrators::create::run(&app.ctx, "Partner")
        .await
        .expect("created");
    let other = prs::flows::orchestrators::create::run(&app.ctx, "Other")
        .await
        .expect("created");
    let receiver = Receiver::start().await;
    let call = async |path: &str, key: &str, body: Value| {
        let path = format!("/v2/orchestrators/webhooks{path}");
        app.post(&path)
            .header("x-orchestrator-key", key)
            .json(&body)
            .send()
            .await
    };
    let key = partner.key.reveal();
    let created = call("", key, json!({ "url": receiver.url() })).await.expect(201);
    let path = format!("/{}/rotate-secret", text(&created["webhook"]["id"]));
    call(&path, other.key.reveal(), json!({})).await.expect(404);
    let rotated = call(&path, key, json!({})).await.expect(200);
    call("/test", key, json!({ "eventType": "client_id.linked" }))
        .await
        .expect(200);
    let last = receiver.received().await.pop().expect("a delivery");
    for (header, secret) in [
        ("x-service-signature", &created),
        ("x-service-signature-next", &rotated),
    ] {
        let signature = sign(&text(&secret["secret"]), last.body.as_bytes());
        assert_eq!(last.header(header), Some(signature.as_str()), "{header}");
    }
}

#[tokio::test]
async fn a_repeated_rotation_returns_the_same_secret_and_rotates_once() {
    let app = TestApp::start().await;
    let (id, old) = app.register("https://shop.example.com/hooks").await;
    let (second, _) = app.register("https://shop.example.com/second").await;
    let call = async |id: &str, body: Value| {
        let path = format!("/v1/webhook/{id}/rotate-secret");
        let call = app.post(&path).with_client().header("idempotency-key", "once");
        call.json(&body).send().await
    };
    let first = call(&id, json!({})).await.expect(200);
    assert_eq!(call(&id, json!({})).await.expect(200), first);
    call(&id, json!({ "overlapSeconds": 1 })).await.expect(409);
    call(&second, json!({})).await.expect(409);
    let holder = Holder {
        owner: (&app.platform).into(),
        client: None,
        is_public: false,
    };
    let kept = store::endpoints::find(app.ctx.db.reader(), &holder, &EndpointId(id)).await;
    let kept = kept.expect("reads").expect("there");
    assert_eq!(kept.former_secrets.len(), 1, "rotated once");
    let place = EncryptionContext {
        column: "webhook_endpoints.secret",
        owner: app.platform.as_str(),
        row: kept.id.as_str(),
    };
    let open = |sealed: &str| app.ctx.sealer.open(sealed, place).expect("opens").reveal().to_owned();
    assert_eq!(open(&kept.secret_sealed), text(&first["secret"]));
    assert_eq!(open(&kept.former_secrets[0].sealed), old);
    let stored = format!("{} {}", kept.secret_sealed, kept.former_secrets[0].sealed);
    assert!(!stored.contains(&old) && !stored.contains(&text(&first["secret"])));
}

#[tokio::test]
async fn the_standard_webhook_headers_can_be_disabled() {
    let mut settings = crate::support::app::settings();
    settings.webhooks.standard_headers = false;
    let chain = ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    let app = TestApp::with(settings, None).await;
    let receiver = Receiver::start().await;
    let (_, secret) = app.register(&receiver.url()).await;
    app.send_sample("payment.confirmed").await;
    let last = receiver.received().await.pop().expect("a delivery");
    assert!(last.headers.iter().all(|(name, _)| !name.starts_with("webhook-")));
    assert_eq!(
        last.header("x-service-signature"),
        Some(sign(&secret, last.body.as_bytes()).as_str())
    );
}

#[tokio::test]
async fn a_replay_keeps_id_and_body_but_has_a_new_timestamp() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let (id, _) = app.register(&receiver.url()).await;
    publish(&app.ctx, &(&app.platform).into(), &EndpointId(id), 1).await;
    receiver.answer(500);
    app.deliver().await;
    app.advance_ms(1_000);
    receiver.answer(200);
    app.deliver().await;
    let delivery = text(&json!(receiver.received().await[0].header("webhook-id")));
    app.advance_ms(60_000);
    let path = format!("/v2/deliveries/{delivery}/retry");
    app.post(&path).with_client().json(&json!({})).send().await;
    app.deliver().await;
    let all = receiver.received().await;
    assert_eq!(all.len(), 3);
    assert!(
        all.iter()
            .all(|one| one.header("webhook-id") == Some(delivery.as_str()))
    );
    let times: Vec<i64> = all
        .iter()
        .map(|one| {
            one.header("webhook-timestamp")
                .expect("a time")
                .parse()
                .expect("a number")
        })
        .collect();
    assert_eq!([times[1] - times[0], times[2] - times[1]], [1, 60]);
    assert_eq!(all[2].header("x-service-replay"), Some("true"));
}

/// A receiver that knows only one secret at a time. It checks the signature of each delivery with this secret on
/// arrival.
#[derive(Clone)]
struct Checker {
    secret: Arc<Mutex<String>>,
    checked: Arc<AtomicUsize>,
    failed: Arc<AtomicUsize>,
}

impl Checker {
    fn knows(&self, secret: &str) {
        *self.secret.lock().expect("unpoisoned") = secret.to_owned();
    }

    fn accepts(&self, request: &Request) -> bool {
        let secret = self.secret.lock().expect("unpoisoned").clone();
        let header = |name: &str| {
            let value = request.headers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let expected = sign(&secret, &request.body);
        let own = header("x-service-signature") == expected
            || header("x-service-signature-next").split(' ').any(|one| one == expected);
        let time = header("webhook-timestamp").parse().unwrap_or_default();
        let standard = sign_standard(&secret, &header("webhook-id"), time, &request.body);
        own && header("webhook-signature").split(' ').any(|one| one == standard)
    }

    /// Waits until the receiver has checked this number of further deliveries; returns the number of failed checks
    /// since its start.
    async fn more(&self, count: usize) -> usize {
        let wanted = self.checked.load(Ordering::SeqCst) + count;
        for _ in 0..2_000 {
            if self.checked.load(Ordering::SeqCst) >= wanted {
                return self.failed.load(Ordering::SeqCst);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the load has stopped");
    }
}

impl Respond for Checker {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        if !self.accepts(request) {
            self.failed.fetch_add(1, Ordering::SeqCst);
        }
        self.checked.fetch_add(1, Ordering::SeqCst);
        // Slow enough that some deliveries are always in flight.
        ResponseTemplate::new(200).set_delay(Duration::from_millis(20))
    }
}

/// Writes this number of events. Each has one delivery to the endpoint, which is due at once.
async fn publish(ctx: &Ctx, owner: &OwnerId, endpoint: &EndpointId, count: usize) {
    let now = ctx.clock.now();
    let tx = ctx.db.begin("publish").await.expect("begins");
    let mut deliveries = Vec::new();
    for _ in 0..count {
        let id = EventId(ctx.ids.ulid());
        let event = outbox::NewEvent {
            id: id.clone(),
            owner: owner.clone(),
            client: None,
            kind: "payment.confirmed".to_owned(),
            deduplication_key: id.to_string(),
            request_id: None,
            body: format!("{{\"event\":\"payment.confirmed\",\"n\":\"{id}\"}}"),
            payer: None,
            now,
        };
        assert!(outbox::insert_event(&tx, &event).await.expect("writes"));
        deliveries.push(outbox::NewDelivery {
            id: DeliveryId(ctx.ids.ulid()),
            event: id,
            endpoint: endpoint.clone(),
            owner: owner.clone(),
            is_test: false,
            is_replay: false,
            now,
        });
    }
    outbox::insert_deliveries(&tx, &deliveries).await.expect("writes");
    tx.commit().await.expect("commits");
    ctx.due.notify_one();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_changing_its_secret_during_the_overlap_rejects_nothing() {
    let app = TestApp::start().await;
    let server = MockServer::start().await;
    let checker = Checker {
        secret: Arc::default(),
        checked: Arc::default(),
        failed: Arc::default(),
    };
    Mock::given(any()).respond_with(checker.clone()).mount(&server).await;
    let (id, first) = app.register(&format!("{}/hook", server.uri())).await;
    checker.knows(&first);
    let stop = CancellationToken::new();
    let options = DeliveryOptions {
        concurrency: 32,
        concurrency_per_endpoint: 16,
    };
    let worker = tokio::spawn(deliver_webhooks::run(app.ctx.clone(), options, stop.clone()));
    let load = tokio::spawn({
        let (ctx, stop, endpoint) = (app.ctx.clone(), stop.clone(), EndpointId(id.clone()));
        let owner = OwnerId::from(&app.platform);
        async move {
            while !stop.is_cancelled() {
                publish(&ctx, &owner, &endpoint, 10).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    assert_eq!(checker.more(50).await, 0);
    // The secret in the rotation's response is valid from the first moment.
    let second = text(&rotate(&app, &id, &json!({ "overlapSeconds": 3_600 })).await["secret"]);
    checker.knows(&second);
    assert_eq!(checker.more(100).await, 0, "changed with the response");
    // The old secret is still valid later, whichever header the receiver checks.
    let third = text(&rotate(&app, &id, &json!({ "overlapSeconds": 3_600 })).await["secret"]);
    assert_eq!(checker.more(100).await, 0, "not changed yet");
    checker.knows(&third);
    assert_eq!(checker.more(100).await, 0, "changed in between");
    app.advance_ms(3_600_000);
    assert_eq!(checker.more(100).await, 0, "after the overlap");
    // The check would detect a gap: without an overlap the old secret fails.
    rotate(&app, &id, &json!({ "overlapSeconds": 0 })).await;
    assert!(checker.more(100).await > 0, "the check notices a wrong secret");
    stop.cancel();
    load.await.expect("the load ends");
    worker.await.expect("the worker ends");
}
