//! A database that reads and does not write: it refuses to, as after a fail-over to a standby, or it answers no commit, as a
//! primary whose standby is gone.

use crate::support::{
    TestApp,
    app::{Answer, settings},
    requests::fau,
};
use prs::{
    boot::{
        health::{Health, Report},
        process::Process,
        role::Role,
    },
    worker::{Workers, try_writes},
};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

async fn create(app: &TestApp, key: Option<&str>) -> Answer {
    let call = app.post("/v2/request").with_client().json(&fau("1"));
    match key {
        Some(key) => call.header("idempotency-key", key).send().await,
        None => call.send().await,
    }
}

/// Readiness as it is after a try to write.
async fn readiness(app: &TestApp, workers: &Workers) -> Report {
    try_writes::once(&app.ctx, &workers.writes).await;
    let process = Process {
        workers: workers.clone(),
        ..Process::new(Role::Api)
    };
    Health::new(&settings(), &app.ctx, &process).look().await
}

/// Runs SQL on the database of PostgreSQL, whatever others may do there.
async fn as_operator(app: &TestApp, sql: String) {
    let mut admin = PgConnection::connect(app.database_url()).await.unwrap();
    // What is sent together is one transaction, which has begun as one that reads.
    let own = [
        "SET default_transaction_read_only = off",
        "SET synchronous_commit = off",
    ];
    for sql in own.into_iter().chain([sql.as_str()]) {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await.unwrap();
    }
    admin.close().await.unwrap();
}

/// Sets what new sessions may do.
async fn set(app: &TestApp, setting: &str) {
    let sql = format!("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I {setting}', current_database()); END $$");
    as_operator(app, sql).await;
}

/// An instance whose database refuses to write.
async fn refused(app: &TestApp) -> TestApp {
    if !app.ctx.db.is_postgres() {
        return app.beside(|settings| settings.database.url.push_str("?mode=ro")).await;
    }
    let reading = app.beside(|_| {}).await;
    set(app, "SET default_transaction_read_only = on").await;
    replace_sessions(app, &reading).await;
    reading
}

/// Ends all sessions of the database, so that those that an instance opens afterwards are as new ones are.
async fn replace_sessions(app: &TestApp, instance: &TestApp) {
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    as_operator(app, cut.to_owned()).await;
    // Each call comes upon one of the sessions that are gone, of which there are at most as many as the pool has.
    for _ in 0..16 {
        let answer = instance.get("/v2/request/01none").with_key().send().await;
        assert!(matches!(answer.status, 404 | 503), "{}", answer.text);
    }
}

/// Sessions of the service at the server.
async fn sessions(app: &TestApp) -> i64 {
    let mut admin = PgConnection::connect(app.database_url()).await.unwrap();
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let count = sqlx::query_scalar(count).fetch_one(&mut admin).await.unwrap();
    admin.close().await.unwrap();
    count
}

#[tokio::test]
async fn a_database_that_only_reads_is_unavailable_for_writes_until_it_writes_again() {
    let app = TestApp::start().await;
    let workers = Workers::default();
    let known = app.create_request(&fau("1")).await;
    assert!(readiness(&app, &workers).await.is_ready);

    let reading = refused(&app).await;
    for number in 0..6 {
        let key = format!("refused-{number}");
        let answer = create(&reading, (number % 2 == 0).then_some(key.as_str())).await;
        assert_eq!(answer.status, 503, "{}", answer.text);
        assert_eq!(answer.header("retry-after"), Some("1"));
        let read = reading.get(&format!("/v2/request/{known}")).with_key().send().await;
        assert_eq!(read.status, 200, "{}", read.text);
    }
    let report = readiness(&reading, &workers).await;
    assert!(!report.is_ready);
    assert_eq!(
        report.body["database"],
        "takes no writes: look at what database.url leads to"
    );
    assert_eq!(report.body["status"], "not ready");

    if app.ctx.db.is_postgres() {
        // Sessions that are there stay as they are: they have to be replaced.
        set(&app, "RESET default_transaction_read_only").await;
        let written = async { while create(&reading, None).await.status != 201 {} };
        tokio::time::timeout(Duration::from_secs(10), written)
            .await
            .expect("writes go on");
        // Each session that was opened meanwhile is refused once, and there are at most as many as the pool has.
        for _ in 0..16 {
            let answer = create(&reading, None).await;
            assert!(matches!(answer.status, 201 | 503), "{}", answer.text);
        }
        for _ in 0..20 {
            create(&reading, None).await.expect(201);
        }
        let report = readiness(&reading, &workers).await;
        assert!(report.is_ready, "{}", report.body);
        assert_eq!(report.body["database"], "ok");
    }
}

#[tokio::test]
async fn commits_that_are_not_answered_cost_no_reader_and_leave_few_sessions() {
    let app = TestApp::start().await;
    // A commit of an embedded database waits for no other machine.
    if !app.ctx.db.is_postgres() {
        return;
    }
    let known = app.create_request(&fau("1")).await;
    let waiting = app.beside(|settings| settings.database.answer_timeout_ms = 300).await;
    let workers = Workers::default();
    let stop = CancellationToken::new();
    let tries = try_writes::run(waiting.ctx.clone(), workers.writes.clone(), stop.clone());
    set(&app, "SET synchronous_commit = on").await;
    replace_sessions(&app, &waiting).await;
    let tries = tokio::spawn(tries);

    let refused = async {
        while workers.writes.are_taken(app.ctx.clock.steady()) {
            assert_eq!(create(&waiting, None).await.status, 503);
        }
    };
    tokio::time::timeout(Duration::from_secs(10), refused)
        .await
        .expect("the instance tells that commits are not answered");
    let before = sessions(&app).await;
    for number in 0..40 {
        let key = format!("hanging-{number}");
        let answer = create(&waiting, (number % 2 == 0).then_some(key.as_str())).await;
        assert_eq!(answer.status, 503, "{}", answer.text);
        let read = waiting.get(&format!("/v2/request/{known}")).with_key().send().await;
        assert_eq!(read.status, 200, "{}", read.text);
    }
    let after = sessions(&app).await;
    // The pools of both instances open a few again.
    assert!(after <= before + 8, "{before} sessions became {after}");

    set(&app, "RESET synchronous_commit").await;
    replace_sessions(&app, &waiting).await;
    let written = async { while create(&waiting, None).await.status != 201 {} };
    tokio::time::timeout(Duration::from_secs(10), written)
        .await
        .expect("writes go on");
    stop.cancel();
    tries.await.unwrap();
}
