//! Recurring requests: a separate request for each period of the calendar.

use crate::support::{TestApp, receiver::Receiver, requests::fau};
use chrono::{DateTime, TimeDelta, Utc};
use poem::http::Method;
use prs::{flows::requests::repeat, store};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

const DAY_MS: i64 = 86_400_000;

/// The fixed clock begins at noon of 31 January 2026.
const TODAY: &str = "2026-01-31";

fn recurring(frequency: &str) -> Value {
    let mut body = fau("1.5");
    body["recurrence"] = json!({ "startDate": TODAY, "frequency": frequency });
    body
}

/// Moves the clock to a moment.
fn go_to(app: &TestApp, moment: &str) {
    let moment: DateTime<Utc> = moment.parse().expect("a moment");
    app.clock.advance(moment - app.ctx.clock.now());
}

/// Runs the worker until nothing is due.
async fn repeat(app: &TestApp) {
    for _ in 0..1_000 {
        let before = total(app).await;
        repeat::run(&app.ctx).await.expect("repeats");
        if total(app).await == before {
            return;
        }
    }
    panic!("the worker never finishes");
}

async fn total(app: &TestApp) -> u64 {
    let list = app.get("/v2/request?limit=1").with_key().send().await.expect(200);
    list["pagination"]["total"].as_u64().expect("a number")
}

/// Every request of the tenant, the oldest first.
async fn all(app: &TestApp) -> Vec<Value> {
    let mut found = Vec::new();
    loop {
        let path = format!("/v2/request?limit=100&offset={}", found.len());
        let page = app.get(&path).with_key().send().await.expect(200);
        found.extend(page["requests"].as_array().expect("a list").iter().cloned());
        if page["pagination"]["hasMore"] == false {
            break;
        }
    }
    found.reverse();
    found
}

/// Days on which requests were created for a recurring request, whose id is `original`.
async fn days(app: &TestApp, original: &str) -> Vec<String> {
    let made = all(app).await.into_iter().filter(|row| row["requestId"] != original);
    made.map(|row| row["createdAt"].as_str().expect("a time")[..10].to_owned())
        .collect()
}

async fn set_stopped(app: &TestApp, id: &str, is_stopped: bool) -> crate::support::Answer {
    let call = app.call(Method::PATCH, &format!("/v2/request/{id}")).with_key();
    call.json(&json!({ "isRecurrenceStopped": is_stopped })).send().await
}

/// Stored periods of all requests that were created for recurring requests.
async fn periods(app: &TestApp) -> Vec<i64> {
    let reader = app.ctx.db.reader();
    let statement =
        "SELECT CAST(period AS BIGINT) AS period FROM requests WHERE parent_row IS NOT NULL ORDER BY period";
    let statement = Statement::from_string(reader.get_database_backend(), statement);
    let rows = reader.query_all_raw(statement).await.expect("reads");
    rows.iter()
        .map(|row| row.try_get("", "period").expect("a number"))
        .collect()
}

#[tokio::test]
async fn a_request_recurs_by_the_calendar_with_the_same_terms() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let mut body = recurring("MONTHLY");
    body["reference"] = json!("RENT");
    body["payer"] = json!("0x90F79bf6EB2c4f870365E785982E1f101E93b906");
    body["customerInfo"] = json!({ "firstName": "Ada", "email": "ada@example.com" });
    let id = app.create_request(&body).await;
    for (before, moment) in [
        ("2026-02-27T23:59:59.999Z", "2026-02-28T00:00:00Z"),
        ("2026-03-30T23:59:59.999Z", "2026-03-31T00:00:00Z"),
        ("2026-04-29T23:59:59.999Z", "2026-04-30T00:00:00Z"),
    ] {
        go_to(&app, before);
        let known = total(&app).await;
        repeat(&app).await;
        assert_eq!(total(&app).await, known, "nothing before its time");
        go_to(&app, moment);
        repeat(&app).await;
        assert_eq!(total(&app).await, known + 1, "{moment}");
    }
    assert_eq!(days(&app, &id).await, ["2026-02-28", "2026-03-31", "2026-04-30"]);
    let original = app.read_request(&id).await;
    app.deliver().await;
    let told = receiver.received().await;
    assert_eq!(told.len(), 3);
    let mut references = BTreeSet::new();
    for event in told.iter().map(|one| one.json()) {
        let made = app.read_request(event["requestId"].as_str().expect("an id")).await;
        for member in [
            "payee",
            "requestAmount",
            "invoiceCurrency",
            "paymentCurrency",
            "reference",
            "customerInfo",
        ] {
            assert_eq!(made[member], original[member], "{member}");
        }
        assert_eq!((&made["status"], made.get("recurrence")), (&json!("pending"), None));
        assert_eq!(made["originalRequestId"], id.as_str());
        assert_eq!(made["originalRequestPaymentReference"], original["paymentReference"]);
        assert_eq!(event["event"], "request.recurring");
        assert_eq!(event["requestID"], event["requestId"]);
        assert_eq!(event["originalRequestId"], id.as_str());
        assert_eq!(event["originalRequestPaymentReference"], original["paymentReference"]);
        assert_eq!(event["paymentReference"], made["paymentReference"]);
        assert_eq!(event["timestamp"], made["createdAt"]);
        references.insert(made["paymentReference"].to_string());
        let row = all(&app)
            .await
            .into_iter()
            .find(|row| row["requestId"] == made["requestId"]);
        assert_eq!(row.expect("listed")["payer"], body["payer"]);
    }
    assert_eq!(references.len(), 3, "each request has its own reference");
}

#[tokio::test]
async fn a_request_created_for_a_period_is_paid_like_any_other() {
    let app = TestApp::on_chain().await;
    app.create_request(&recurring("DAILY")).await;
    app.advance_ms(DAY_MS);
    repeat(&app).await;
    let made = all(&app).await.pop().expect("one")["requestId"]
        .as_str()
        .expect("an id")
        .to_owned();
    app.pay(&made, "").await;
    app.follow().await;
    assert_eq!(app.read_request(&made).await["status"], "paid");
    assert_eq!(app.payments_of(&made).await[0]["type"], "recurring");
}

#[tokio::test]
async fn two_crashing_instances_make_up_missed_periods_exactly_once() {
    const DAYS: i64 = 120;
    let app = TestApp::start().await;
    let id = app.create_request(&recurring("DAILY")).await;
    app.create_request(&recurring("DAILY")).await;
    let twin = app.beside(|_| {}).await;
    app.advance_ms(DAYS * DAY_MS);
    let mut deaths = 0;
    for round in 0..50_u64 {
        let limit = Duration::from_micros(400 * (round % 23));
        let work = |ctx: prs::ctx::Ctx| async move { tokio::time::timeout(limit, repeat::run(&ctx)).await };
        let both = [app.ctx.clone(), twin.ctx.clone()].map(|ctx| tokio::spawn(work(ctx)));
        for one in both {
            deaths += u32::from(one.await.expect("no panic").is_err());
        }
    }
    repeat(&app).await;
    println!("repeats: {deaths} of 100 passes were interrupted");
    assert!(deaths > 0);
    let expected: Vec<i64> = (1..=DAYS).flat_map(|period| [period, period]).collect();
    assert_eq!(periods(&app).await, expected);
    let statement = "SELECT CAST(COUNT(*) AS BIGINT) AS told FROM events WHERE kind = 'request.recurring'";
    let statement = Statement::from_string(app.ctx.db.reader().get_database_backend(), statement);
    let row = app
        .ctx
        .db
        .reader()
        .query_one_raw(statement)
        .await
        .expect("reads")
        .expect("a row");
    assert_eq!(row.try_get::<i64>("", "told").expect("a number"), 2 * DAYS);
    assert_eq!(total(&app).await, 2 * u64::try_from(DAYS).expect("positive") + 2);
    assert_eq!(app.read_request(&id).await["isRecurrenceStopped"], false);
}

#[tokio::test]
async fn a_stopped_recurrence_skips_periods_that_began_meanwhile() {
    let app = TestApp::start().await;
    let id = app.create_request(&recurring("DAILY")).await;
    app.advance_ms(DAY_MS);
    repeat(&app).await;
    set_stopped(&app, &id, true).await.expect(200);
    set_stopped(&app, &id, true).await.expect(200);
    app.advance_ms(5 * DAY_MS);
    repeat(&app).await;
    assert_eq!(days(&app, &id).await, ["2026-02-01"]);
    set_stopped(&app, &id, false).await.expect(200);
    repeat(&app).await;
    assert_eq!(days(&app, &id).await, ["2026-02-01"], "periods of the stop are skipped");
    app.advance_ms(DAY_MS);
    // Resuming an active recurrence changes nothing: the current period is not lost.
    set_stopped(&app, &id, false).await.expect(200);
    repeat(&app).await;
    assert_eq!(days(&app, &id).await, ["2026-02-01", "2026-02-07"]);
    set_stopped(&app, &id, true).await.expect(200);
    set_stopped(&app, &id, false).await.expect(200);
    repeat(&app).await;
    assert_eq!(days(&app, &id).await.len(), 2, "no period is repeated");
}

#[tokio::test]
async fn a_stop_during_catch_up_takes_effect_at_once() {
    let app = TestApp::start().await;
    let id = app.create_request(&recurring("DAILY")).await;
    app.advance_ms(30 * DAY_MS);
    repeat::run(&app.ctx).await.expect("repeats");
    assert_eq!(periods(&app).await, [1], "one for each pass");
    set_stopped(&app, &id, true).await.expect(200);
    repeat(&app).await;
    assert_eq!(periods(&app).await, [1]);
}

#[tokio::test]
async fn a_cancelled_request_no_longer_recurs() {
    let app = TestApp::start().await;
    let id = app.create_request(&recurring("DAILY")).await;
    let cancelled = app.post(&format!("/v2/request/{id}/cancel")).with_key().send().await;
    cancelled.expect(200);
    app.advance_ms(3 * DAY_MS);
    repeat(&app).await;
    assert_eq!(total(&app).await, 1);
    assert_eq!(app.read_request(&id).await["isRecurrenceStopped"], true);
    let refused = set_stopped(&app, &id, false).await;
    assert_eq!(
        (refused.status, refused.wrong_fields()),
        (400, vec!["isRecurrenceStopped".to_owned()])
    );
    set_stopped(&app, &id, true).await.expect(200);
}

#[tokio::test]
async fn owners_take_turns() {
    let app = TestApp::start().await;
    for _ in 0..70 {
        app.create_request(&recurring("DAILY")).await;
    }
    let (other, _) = app.other_tenant().await;
    let modest = app.create_request_as(("x-api-key", &other), &recurring("DAILY")).await;
    app.advance_ms(DAY_MS);
    assert!(repeat::run(&app.ctx).await.expect("repeats"), "more is due");
    let list = app
        .get("/v2/request")
        .header("x-api-key", &other)
        .send()
        .await
        .expect(200);
    assert_eq!(list["pagination"]["total"], 2, "{modest} does not wait for the others");
}

#[tokio::test]
async fn a_period_created_meanwhile_is_not_postponed() {
    let app = TestApp::start().await;
    app.create_request(&recurring("DAILY")).await;
    let due_on = async |moment: &str| {
        let now = moment.parse().expect("a moment");
        store::repeats::due(app.ctx.db.reader(), now, 10).await.expect("a read")
    };
    app.advance_ms(DAY_MS);
    let due = due_on("2026-02-01T12:00:00Z").await;
    let (owner, row) = due.first().expect("one is due");
    // Another instance creates it before this one records its own failure.
    repeat(&app).await;
    assert_eq!(periods(&app).await, [1]);
    let put_off = async |now: DateTime<Utc>| {
        let put_off = store::repeats::put_off(app.ctx.db.writer(), owner, row, now, now + TimeDelta::days(7));
        put_off.await.expect("a write");
    };
    put_off(app.ctx.clock.now()).await;
    assert_eq!(
        due_on("2026-02-02T00:00:00Z").await.len(),
        1,
        "its next day is unchanged"
    );
    put_off("2026-02-02T00:00:00Z".parse().expect("a moment")).await;
    assert_eq!(
        due_on("2026-02-08T23:59:59Z").await.len(),
        0,
        "a due period is postponed"
    );
    assert_eq!(due_on("2026-02-09T00:00:00Z").await.len(), 1);
}
