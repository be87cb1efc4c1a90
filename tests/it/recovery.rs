//! Deliveries that failed four times, and endpoints that accept nothing.

use crate::support::{
    TestApp, app,
    events::{tell, tell_of},
    receiver::Receiver,
};
use chrono::TimeDelta;
use prs::{
    domain::{
        ids::{DeliveryId, EndpointId, EventId},
        recovery::Recovery,
    },
    flows::webhooks::{cancel, recover},
    store::{outbox, recovery},
    worker::deliver_webhooks,
};
use sea_orm::{ConnectionTrait, DbBackend};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Advances the clock in steps of a second. At each step, due recovery rounds begin and due deliveries are sent, as the
/// workers do.
async fn pass(app: &TestApp, seconds: i64) {
    for _ in 0..seconds {
        app.advance_ms(1_000);
        while cancel::run(&app.ctx).await.expect("cancels") {}
        while recover::run(&app.ctx).await.expect("rounds begin") {}
        app.deliver().await;
    }
}

/// Advances the clock by this number of seconds. All but the last 25 seconds are one jump. The last 25 are steps of a
/// second, which is enough for one recovery round.
async fn jump(app: &TestApp, seconds: i64) {
    app.advance_ms((seconds - 25) * 1_000);
    pass(app, 25).await;
}

/// Publishes an event and sends the first attempt of its delivery.
async fn told(app: &TestApp) {
    tell(app, "payment.confirmed", "01r").await;
    app.deliver().await;
}

/// Registers an endpoint whose receiver responds with `status`; returns the receiver and the endpoint's id.
async fn refusing(app: &TestApp, status: u16) -> (Receiver, String) {
    let receiver = Receiver::start().await;
    receiver.answer(status);
    let (id, _) = app.register(&receiver.url()).await;
    (receiver, id)
}

async fn deliveries(app: &TestApp) -> Vec<Value> {
    let list = app.get("/v2/deliveries?limit=100").with_key().send().await.expect(200);
    list["deliveries"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn recovery_rounds_follow_the_fourth_attempt() {
    let app = TestApp::start().await;
    let (receiver, _) = refusing(&app, 500).await;
    told(&app).await;
    pass(&app, 21).await;
    assert_eq!(receiver.received().await.len(), 4, "the four attempts of the contract");
    let failed = deliveries(&app).await.remove(0);
    assert_eq!(
        (&failed["state"], &failed["recoveryRounds"]),
        (&"failed".into(), &0.into())
    );
    let next = failed["nextRoundAt"].as_str().expect("a time").to_owned();
    pass(&app, 59).await;
    assert_eq!(receiver.received().await.len(), 4, "no round before its time");
    pass(&app, 1).await;
    let all = receiver.received().await;
    assert_eq!(
        all.len(),
        5,
        "the first round begins a minute after the fourth attempt, at {next}"
    );
    let (first, again) = (&all[0], &all[4]);
    assert_eq!(first.header("x-service-delivery"), again.header("x-service-delivery"));
    assert_eq!(first.body, again.body);
    assert_eq!(again.header("x-service-replay"), Some("true"));
    assert_eq!(again.header("x-service-retry-count"), Some("0"));
    assert!(all[..4].iter().all(|one| one.header("x-service-replay").is_none()));
    pass(&app, 21).await;
    assert_eq!(receiver.received().await.len(), 8, "a round has four attempts");
    let mut passed = 60 + 21;
    for (round, due) in [300, 1_800, 7_200, 21_600, 86_400, 172_800].into_iter().enumerate() {
        app.advance_ms((due - passed - 1) * 1_000);
        assert!(!recover::run(&app.ctx).await.expect("looks"));
        app.deliver().await;
        assert_eq!(receiver.received().await.len(), 8 + 4 * round, "not before {due} s");
        pass(&app, 22).await;
        assert_eq!(receiver.received().await.len(), 12 + 4 * round, "at {due} s");
        passed = due + 21;
    }
    let ended = deliveries(&app).await.remove(0);
    assert_eq!(
        (&ended["state"], &ended["recoveryRounds"], &ended["nextRoundAt"]),
        (&"failed".into(), &7.into(), &Value::Null)
    );
    let path = format!("/v2/deliveries/{}", ended["id"].as_str().expect("an id"));
    let detail = app.get(&path).with_key().send().await.expect(200);
    let tries = detail["tries"].as_array().expect("attempts");
    let last = tries.last().expect("an attempt");
    assert_eq!(
        (tries.len(), &last["round"], &last["number"]),
        (32, &8.into(), &4.into())
    );
    jump(&app, 400_000).await;
    assert_eq!(receiver.received().await.len(), 32, "no round after the last one");
}

#[tokio::test]
async fn a_receiver_down_for_ten_minutes_then_gets_every_delivery() {
    let app = TestApp::start().await;
    let (receiver, _) = refusing(&app, 503).await;
    for _ in 0..6 {
        told(&app).await;
        pass(&app, 100).await;
    }
    assert!(deliveries(&app).await.iter().all(|one| one["state"] != "delivered"));
    receiver.answer(200);
    told(&app).await;
    pass(&app, 2).await;
    let states = deliveries(&app).await;
    let delivered = states.iter().filter(|one| one["state"] == "delivered").count();
    assert_eq!(
        (states.len(), delivered),
        (7, 7),
        "all at once, as soon as the endpoint responds: {states:?}"
    );
    let all = receiver.received().await;
    let taken: std::collections::BTreeSet<_> = all[all.len() - 7..].iter().map(|one| one.body.clone()).collect();
    assert_eq!(taken.len(), 7, "each delivery once");
}

#[tokio::test]
async fn a_receiver_without_new_events_recovers_with_the_next_round() {
    let app = TestApp::start().await;
    let (receiver, _) = refusing(&app, 503).await;
    told(&app).await;
    pass(&app, 30).await;
    told(&app).await;
    pass(&app, 30).await;
    receiver.answer(200);
    // The recovery round of the first delivery is due after 21 + 60 seconds, and that of the second delivery half a
    // minute later. Once the first delivery succeeds, the second is sent without waiting for its round.
    pass(&app, 23).await;
    assert!(deliveries(&app).await.iter().all(|one| one["state"] == "delivered"));
}

#[tokio::test]
async fn a_single_refused_delivery_keeps_its_recovery_rounds() {
    let app = TestApp::start().await;
    let (receiver, _) = refusing(&app, 500).await;
    told(&app).await;
    pass(&app, 21).await;
    let refused = receiver.received().await[0].body.clone();
    receiver.refuse(&refused);
    receiver.answer(200);
    for _ in 0..20 {
        told(&app).await;
        pass(&app, 30).await;
    }
    let states = deliveries(&app).await;
    let failed: Vec<_> = states.iter().filter(|one| one["state"] != "delivered").collect();
    assert_eq!(failed.len(), 1);
    let rounds = failed[0]["recoveryRounds"].as_u64().expect("a number");
    assert!((2..=3).contains(&rounds), "{rounds} rounds in ten minutes");
    assert!(failed[0]["nextRoundAt"].is_string());
}

#[tokio::test]
async fn an_empty_list_of_rounds_leaves_the_four_attempts() {
    let mut settings = app::settings();
    settings.webhooks.recovery_rounds_s = Vec::new();
    let app = TestApp::with(settings, None).await;
    let (receiver, _) = refusing(&app, 500).await;
    told(&app).await;
    pass(&app, 21).await;
    jump(&app, 200_000).await;
    assert_eq!(receiver.received().await.len(), 4);
    assert_eq!(deliveries(&app).await[0]["nextRoundAt"], Value::Null);
}

#[tokio::test]
async fn a_disabled_endpoint_has_no_further_rounds() {
    let app = TestApp::start().await;
    let (receiver, id) = refusing(&app, 500).await;
    told(&app).await;
    pass(&app, 21).await;
    let path = format!("/v1/webhook/{id}");
    for is_active in [false, true] {
        let answer = app.call(poem::http::Method::PUT, &path).with_client().send().await;
        assert_eq!(answer.expect(200)["isActive"], is_active);
    }
    receiver.answer(200);
    jump(&app, 400).await;
    assert_eq!(receiver.received().await.len(), 4);
    assert_eq!(deliveries(&app).await[0]["state"], "failed");
}

#[tokio::test]
async fn an_endpoint_failing_for_five_days_is_disabled_and_reported() {
    let app = TestApp::start().await;
    let (dead, other) = (Receiver::start().await, Receiver::start().await);
    dead.answer(500);
    let (id, _) = app.register(&dead.url()).await;
    app.register(&other.url()).await;
    let is_active = async || {
        let list = app.get("/v1/webhook").with_client().send().await.expect(200);
        list["webhooks"][0]["isActive"].clone()
    };
    for _ in 0..5 {
        told(&app).await;
        pass(&app, 25).await;
        jump(&app, 86_375).await;
        assert_eq!(is_active().await, true);
    }
    told(&app).await;
    pass(&app, 25).await;
    assert_eq!(is_active().await, false);
    let all = other.received().await;
    let event = all.last().expect("a delivery").json();
    assert_eq!(
        (&event["event"], &event["webhookId"]),
        (&"webhook.disabled".into(), &id.as_str().into())
    );
    assert_eq!(
        (&event["host"], &event["clientId"]),
        (&"127.0.0.1".into(), &app.backend_client.as_str().into())
    );
    let log = app
        .get("/v2/events?event=webhook.disabled")
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(log["events"].as_array().map(Vec::len), Some(1));
    assert!(
        dead.received()
            .await
            .iter()
            .all(|one| one.json()["event"] != "webhook.disabled")
    );
    let seen = dead.received().await.len();
    jump(&app, 200_000).await;
    assert_eq!(dead.received().await.len(), seen, "nothing more is sent to it");
    let answer = app
        .call(poem::http::Method::PUT, &format!("/v1/webhook/{id}"))
        .with_client()
        .send()
        .await;
    assert_eq!(answer.expect(200)["isActive"], true);
    told(&app).await;
    pass(&app, 25).await;
    assert_eq!(
        (dead.received().await.len(), is_active().await),
        (seen + 4, true.into()),
        "its failure count starts again"
    );
}

#[tokio::test]
async fn unapproved_endpoints_learn_of_no_disabled_endpoint_of_the_owner() {
    let app = TestApp::start().await;
    let (dead, strange, dead_strange) = (
        Receiver::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    dead.answer(500);
    dead_strange.answer(500);
    let body = json!({ "url": dead.url(), "clientId": app.page_client });
    app.post("/v1/webhook").with_key().json(&body).send().await.expect(201);
    let register = async |receiver: &Receiver| {
        let call = app.post("/v1/webhook").header("x-client-id", &app.page_client);
        let call = call.header("origin", app::PAGE).json(&json!({ "url": receiver.url() }));
        call.send().await.expect(201)["id"].clone()
    };
    register(&strange).await;
    let its_own = register(&dead_strange).await;
    for _ in 0..6 {
        tell_of(&app, &app.page_client, "payment.confirmed", "01r").await;
        app.deliver().await;
        pass(&app, 25).await;
        jump(&app, 86_375).await;
    }
    let log = app.get("/v2/events?event=webhook.disabled").with_key().send().await;
    assert_eq!(log.expect(200)["events"].as_array().map(Vec::len), Some(2));
    let heard = strange.received().await.into_iter().map(|one| one.json());
    let heard: Vec<Value> = heard.filter(|body| body["event"] == "webhook.disabled").collect();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(heard[0]["webhookId"], its_own);
}

#[tokio::test]
async fn an_endpoint_that_responds_occasionally_stays_enabled() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    for day in 0..7 {
        receiver.answer(500);
        told(&app).await;
        jump(&app, 43_200).await;
        receiver.answer(if day == 3 { 200 } else { 500 });
        told(&app).await;
        jump(&app, 43_200).await;
    }
    let list = app.get("/v1/webhook").with_client().send().await.expect(200);
    assert_eq!(list["webhooks"][0]["isActive"], true);
}

/// Queues one delivery to an endpoint for each of this number of events.
async fn queue(app: &TestApp, endpoint: &str, count: usize) -> Vec<DeliveryId> {
    let now = app.ctx.clock.now();
    let events: Vec<_> = std::iter::repeat_with(|| EventId(app.ctx.ids.ulid()))
        .take(count)
        .collect();
    let told = events.iter().map(|id| outbox::NewEvent {
        id: id.clone(),
        owner: (&app.platform).into(),
        client: None,
        kind: "payment.confirmed".to_owned(),
        deduplication_key: id.to_string(),
        request_id: None,
        body: "{}".to_owned(),
        payer: None,
        now,
    });
    let deliveries = events.iter().map(|id| outbox::NewDelivery {
        id: DeliveryId(app.ctx.ids.ulid()),
        event: id.clone(),
        endpoint: EndpointId(endpoint.to_owned()),
        owner: (&app.platform).into(),
        is_test: false,
        is_replay: false,
        now,
    });
    let tx = app.ctx.db.begin("queue").await.expect("begins");
    let told: Vec<_> = told.collect();
    outbox::insert_events(&tx, &told).await.expect("writes");
    let deliveries: Vec<_> = deliveries.collect();
    outbox::insert_deliveries(&tx, &deliveries).await.expect("writes");
    tx.commit().await.expect("commits");
    deliveries.into_iter().map(|delivery| delivery.id).collect()
}

#[tokio::test]
async fn a_long_backlog_delays_no_round_of_other_endpoints() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    let (greedy, _) = app.register(&format!("{}/greedy", receiver.url())).await;
    let (modest, _) = app.register(&format!("{}/modest", receiver.url())).await;
    let mut waiting = queue(&app, &greedy, 1_300).await;
    waiting.extend(queue(&app, &modest, 5).await);
    let db = app.ctx.db.writer();
    let answering = "UPDATE deliveries SET state = 'failed', missed = 'failed'; DELETE FROM delivery_queue; \
                     UPDATE webhook_endpoints SET is_recovering = TRUE";
    db.execute_unprepared(answering).await.expect("both respond again");
    let now = app.ctx.clock.now();
    let round = Recovery {
        from: now,
        at: now + TimeDelta::hours(1),
    };
    let owned = |id| ((&app.platform).into(), id);
    let planned: Vec<_> = waiting.into_iter().map(|id| (owned(id), Some(round))).collect();
    recovery::plan(db, &planned).await.expect("rounds are planned");

    assert!(recover::run(&app.ctx).await.expect("rounds begin"), "much is left");
    let begun = app
        .get("/v2/deliveries?state=queued&limit=100")
        .with_key()
        .send()
        .await
        .expect(200);
    let of_modest = begun["deliveries"].as_array().expect("a list").iter();
    let of_modest = of_modest.filter(|one| one["endpointId"] == modest.as_str()).count();
    assert_eq!(of_modest, 5);
}

#[tokio::test]
async fn disabling_an_endpoint_with_a_long_backlog_is_a_short_transaction() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    for method in [poem::http::Method::PUT, poem::http::Method::DELETE] {
        let (id, _) = app.register(&receiver.url()).await;
        queue(&app, &id, 1_300).await;
        let queued = async || recovery::queued(app.ctx.db.reader()).await.expect("counts").0;
        let path = format!("/v1/webhook/{id}");
        let answer = app.call(method.clone(), &path).with_client().send().await;
        assert!((200..300).contains(&answer.status), "{method}: {}", answer.status);
        assert_eq!(queued().await, 800, "one batch ends with the call");
        while cancel::run(&app.ctx).await.expect("cancels") {}
        assert_eq!(queued().await, 0, "the others end afterwards");
        if method == poem::http::Method::PUT {
            app.call(poem::http::Method::DELETE, &path).with_client().send().await;
        }
    }
    app.deliver().await;
    assert!(receiver.received().await.is_empty());
    let cancelled = "/v2/deliveries?state=cancelled&limit=1";
    let list = app.get(cancelled).with_key().send().await.expect(200);
    assert_eq!(list["deliveries"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unrecordable_results_of_one_endpoint_delay_no_other() {
    let app = TestApp::start().await;
    let (broken, good) = (Receiver::start().await, Receiver::start().await);
    let (id, _) = app.register(&broken.url()).await;
    app.register(&good.url()).await;
    let db = app.ctx.db.writer();
    let ended = format!("NEW.endpoint_id = '{id}' AND NEW.state <> 'queued'");
    let refuse = match db.get_database_backend() {
        // A trigger makes every such update fail with the error of a timed-out statement.
        DbBackend::Postgres => format!(
            "CREATE FUNCTION too_slow() RETURNS trigger LANGUAGE plpgsql AS \
               $$ BEGIN RAISE EXCEPTION 'slow' USING ERRCODE = '57014'; END $$; \
             CREATE TRIGGER slow BEFORE UPDATE ON deliveries FOR EACH ROW WHEN ({ended}) EXECUTE FUNCTION too_slow()"
        ),
        _ => format!(
            "CREATE TRIGGER slow BEFORE UPDATE ON deliveries WHEN {ended} BEGIN SELECT RAISE(ABORT, 'refused'); END"
        ),
    };
    db.execute_unprepared(&refuse).await.expect("a trigger");
    for _ in 0..40 {
        tell(&app, "payment.confirmed", "01r").await;
    }
    let stop = CancellationToken::new();
    let options = deliver_webhooks::DeliveryOptions {
        concurrency: 32,
        concurrency_per_endpoint: 16,
    };
    let worker = tokio::spawn(deliver_webhooks::run(app.ctx.clone(), options, stop.clone()));
    let delivered = async || {
        deliveries(&app)
            .await
            .iter()
            .filter(|one| one["state"] == "delivered")
            .count()
    };
    for _ in 0..200 {
        if delivered().await == 40 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(delivered().await, 40, "all deliveries of the other endpoint");
    stop.cancel();
    worker.await.expect("it stops");
}
