//! Deletes old rows of the event log over months; on PostgreSQL, whole partitions are dropped.

use crate::support::{Answer, TestApp, events::tell, receiver::Receiver};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use prs::{
    ctx::Ctx,
    domain::{ids::EventId, partitions::Partition},
    flows,
    ports::clock::Clock,
    store,
    store::partitions::{MonthlyTable, list},
};
use sea_orm::{ConnectionTrait, Statement};
use std::{sync::Arc, time::Duration};

const DAY_MS: i64 = 86_400_000;

async fn months(app: &TestApp, table: MonthlyTable) -> Option<Vec<Partition>> {
    list(app.ctx.db.reader(), table).await.expect("reads")
}

/// One maintenance pass of the worker.
async fn look(app: &TestApp) {
    flows::partitions::look_ahead(&app.ctx).await.expect("looks ahead");
    while flows::events::sweep::run(&app.ctx).await.expect("sweeps") {}
    flows::partitions::retire(&app.ctx).await.expect("retires");
}

/// Moves the clock to three days after the end of the last partition; returns that end.
async fn enter_a_month(app: &TestApp) -> DateTime<Utc> {
    let begin = match months(app, MonthlyTable::Events).await {
        Some(all) => all.iter().map(|month| month.until).max().expect("a partition"),
        None => app.ctx.clock.now() + TimeDelta::days(400),
    };
    app.advance_ms((begin - app.ctx.clock.now()).num_milliseconds() + 3 * DAY_MS);
    begin
}

async fn is_kept(app: &TestApp, id: &str) -> bool {
    let scope = store::Scope {
        platform: app.platform.clone(),
        client: None,
    };
    let id = EventId(id.to_owned());
    let found = store::event_log::find_event(app.ctx.db.reader(), &scope, &id).await;
    found.expect("reads").is_some()
}

async fn count(app: &TestApp, table: &str) -> i64 {
    let sql = format!("SELECT CAST(COUNT(*) AS BIGINT) AS n FROM {table}");
    let statement = Statement::from_string(app.ctx.db.reader().get_database_backend(), sql);
    let row = app.ctx.db.reader().query_one_raw(statement).await.expect("counts");
    row.expect("a row").try_get("", "n").expect("a number")
}

#[tokio::test]
async fn month_partitions_are_created_ahead_and_dropped_when_old() {
    let app = TestApp::start().await;
    let beside = app.beside(|_| {}).await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let begin = enter_a_month(&app).await;
    let (one, other) = tokio::join!(
        flows::partitions::look_ahead(&app.ctx),
        flows::partitions::look_ahead(&beside.ctx)
    );
    one.expect("looks ahead");
    other.expect("looks ahead, or leaves it to the other instance");
    if let Some(all) = months(&app, MonthlyTable::Events).await {
        let ahead = all.iter().filter(|month| month.from.is_some_and(|from| from >= begin));
        assert_eq!(ahead.count(), 3, "this month and the next two: {all:?}");
    }
    if let Some(made) = months(&app, MonthlyTable::Events).await {
        let analyze = app.ctx.db.writer().execute_unprepared("ANALYZE events");
        analyze.await.expect("analyzes, as an operator may");
        assert!(
            months(&app, MonthlyTable::Events)
                .await
                .expect("some")
                .iter()
                .any(|month| month.is_found_empty)
        );
        look(&app).await;
        let mut anew = months(&app, MonthlyTable::Events).await.expect("some");
        anew.retain(|month| made.contains(month));
        assert_eq!(
            anew.iter()
                .filter(|month| month.from.is_some_and(|from| from > begin))
                .count(),
            2
        );
    }
    let old = tell(&app, "payment.confirmed", "01old").await;
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 1);
    look(&app).await;
    app.advance_ms(40 * DAY_MS);
    let fresh = tell(&app, "payment.confirmed", "01fresh").await;
    app.deliver().await;
    app.advance_ms(20 * DAY_MS);
    look(&app).await;
    look(&app).await;
    assert!(!is_kept(&app, &old).await);
    assert!(is_kept(&app, &fresh).await);
    for table in MonthlyTable::ALL {
        let Some(left) = months(&app, table).await else {
            continue;
        };
        let cutoff = app.ctx.clock.now() - TimeDelta::days(30);
        assert!(left.iter().all(|month| month.until > cutoff), "{left:?}");
        assert!(left.len() >= 3, "{left:?}");
        let strays = store::partitions::strays(app.ctx.db.reader(), table)
            .await
            .expect("counts");
        assert_eq!(strays, 0);
    }
    let path = "/v2/deliveries";
    let page = app.get(path).with_key().send().await.expect(200);
    assert_eq!(page["deliveries"].as_array().map(Vec::len), Some(1));
    assert_eq!(page["deliveries"][0]["eventId"], fresh.as_str());
    for (table, left) in [
        ("events", 1),
        ("event_keys", 1),
        ("deliveries", 1),
        ("delivery_attempts", 0),
    ] {
        assert_eq!(count(&app, table).await, left, "{table}");
    }
}

#[tokio::test]
async fn an_event_from_the_future_does_not_stop_partitions_being_dropped() {
    let app = TestApp::start().await;
    enter_a_month(&app).await;
    look(&app).await;
    let old = tell(&app, "payment.confirmed", "01old").await;
    app.advance_ms(600 * DAY_MS);
    let ahead = tell(&app, "payment.confirmed", "01ahead").await;
    app.advance_ms(-540 * DAY_MS);
    while flows::events::sweep::run(&app.ctx).await.expect("sweeps") {}
    assert_eq!(is_kept(&app, &old).await, app.ctx.db.is_postgres());
    flows::partitions::retire(&app.ctx).await.expect("retires");
    assert!(!is_kept(&app, &old).await);
    assert!(is_kept(&app, &ahead).await);
}

#[tokio::test]
async fn a_pending_delivery_survives_the_sweep_of_its_month() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    enter_a_month(&app).await;
    look(&app).await;
    let old = tell(&app, "payment.confirmed", "01old").await;
    app.deliver().await;
    let waiting = tell(&app, "payment.confirmed", "01waiting").await;
    app.advance_ms(60 * DAY_MS);
    look(&app).await;
    assert_eq!(is_kept(&app, &old).await, app.ctx.db.is_postgres());
    assert!(is_kept(&app, &waiting).await);
    app.advance_ms(40 * DAY_MS);
    look(&app).await;
    assert!(!is_kept(&app, &old).await);
    assert!(is_kept(&app, &waiting).await);
    assert_eq!(count(&app, "deliveries").await, 1);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 2);
    app.advance_ms(31 * DAY_MS);
    look(&app).await;
    look(&app).await;
    for table in ["events", "event_keys", "deliveries"] {
        assert_eq!(count(&app, table).await, 0, "{table}");
    }
}

#[tokio::test]
async fn concurrent_replays_create_one_delivery_of_an_event() {
    let app = TestApp::start().await;
    let beside = app.beside(|_| {}).await;
    let told: Vec<String> = [
        tell(&app, "payment.confirmed", "01a").await,
        tell(&app, "payment.confirmed", "01b").await,
    ]
    .into();
    let receiver = Receiver::start().await;
    let (endpoint, _) = app.register(&receiver.url()).await;
    let since = (app.ctx.clock.now() - TimeDelta::hours(1)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let body = serde_json::json!({ "since": since, "endpointId": endpoint });
    let one = app.post("/v2/events/replay").with_key().json(&body);
    let other = beside.post("/v2/events/replay").with_key().json(&body);
    let (one, other) = tokio::join!(one.send(), other.send());
    let replayed = |answer: &Answer| answer.expect(202)["replayed"].as_u64().expect("a number");
    assert_eq!(replayed(&one) + replayed(&other), 2);
    assert_eq!(count(&app, "deliveries").await, 2);
    app.deliver().await;
    let mut received: Vec<String> = receiver.received().await.iter().map(|one| one.body.clone()).collect();
    received.sort_unstable();
    received.dedup();
    assert_eq!(received.len(), told.len());
}

/// A clock that jumped, next to one that did not.
struct Jumped(Arc<dyn Clock>);

impl Clock for Jumped {
    fn now(&self) -> DateTime<Utc> {
        self.0.now() + TimeDelta::days(400)
    }

    fn earliest(&self) -> DateTime<Utc> {
        self.0.now()
    }

    fn steady(&self) -> Duration {
        self.0.steady()
    }
}

#[tokio::test]
async fn nothing_is_deleted_while_two_clocks_disagree() {
    let app = TestApp::start().await;
    let told = tell(&app, "payment.confirmed", "01told").await;
    let jumped = Ctx {
        clock: Arc::new(Jumped(app.ctx.clock.clone())),
        ..app.ctx.clone()
    };
    while flows::events::sweep::run(&jumped).await.expect("sweeps") {}
    flows::partitions::retire(&jumped).await.expect("retires");
    assert!(is_kept(&app, &told).await);
    app.advance_ms(400 * DAY_MS);
    look(&app).await;
    assert!(!is_kept(&app, &told).await, "it is old by both clocks");
}
