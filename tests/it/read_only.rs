//! A database that serves reads but completes no write. Either it refuses writes, as a standby does after a fail-over,
//! or it never confirms a commit, as a primary does whose synchronous standby is gone.

use crate::support::{
    TestApp,
    app::{Answer, settings},
    requests::fau,
};
use prs::{
    boot::{
        health::{Health, HealthReport},
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

/// The readiness report of an instance after it has tried to write.
async fn readiness(app: &TestApp, workers: &Workers) -> HealthReport {
    try_writes::once(&app.ctx, &workers.writes).await;
    let process = Process {
        workers: workers.clone(),
        ..Process::new(Role::Api)
    };
    Health::new(&settings(), &app.ctx, &process).look().await
}

/// Runs SQL on the PostgreSQL database, even if the database is read-only by default.
async fn as_operator(app: &TestApp, sql: String) {
    let mut admin = PgConnection::connect(app.database_url()).await.unwrap();
    // Statements that are sent together are one transaction, which starts as read-only.
    let own = [
        "SET default_transaction_read_only = off",
        "SET synchronous_commit = off",
    ];
    for sql in own.into_iter().chain([sql.as_str()]) {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await.unwrap();
    }
    admin.close().await.unwrap();
}

/// Changes a setting for new sessions.
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

/// Ends all sessions of the database, so that an instance opens new ones.
async fn replace_sessions(app: &TestApp, instance: &TestApp) {
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    as_operator(app, cut.to_owned()).await;
    // Each call uses one of the ended sessions and fails. After as many calls as the pool has connections, none of
    // these sessions is left.
    for _ in 0..16 {
        let answer = instance.get("/v2/request/01none").with_key().send().await;
        assert!(matches!(answer.status, 404 | 503), "{}", answer.text);
    }
}

/// Number of sessions of the service on the server.
async fn sessions(app: &TestApp) -> i64 {
    let mut admin = PgConnection::connect(app.database_url()).await.unwrap();
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let count = sqlx::query_scalar(count).fetch_one(&mut admin).await.unwrap();
    admin.close().await.unwrap();
    count
}

#[tokio::test]
async fn a_read_only_database_is_unavailable_until_it_accepts_writes() {
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
        "the database accepts no writes: check the server that database.url points to"
    );
    assert_eq!(report.body["status"], "not ready");

    if app.ctx.db.is_postgres() {
        // Existing sessions keep their setting, so they have to be replaced.
        set(&app, "RESET default_transaction_read_only").await;
        let written = async { while create(&reading, None).await.status != 201 {} };
        tokio::time::timeout(Duration::from_secs(10), written)
            .await
            .expect("writes resume");
        // Each session that was opened while the database was read-only is refused one write. After as many calls as
        // the pool has connections, none of these sessions is left.
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
async fn unanswered_commits_block_no_reader_and_leave_few_sessions() {
    let app = TestApp::start().await;
    // Commits of an embedded database wait for no other machine.
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
        .expect("the instance reports that commits are not confirmed");
    let before = sessions(&app).await;
    for number in 0..40 {
        let key = format!("hanging-{number}");
        let answer = create(&waiting, (number % 2 == 0).then_some(key.as_str())).await;
        assert_eq!(answer.status, 503, "{}", answer.text);
        let read = waiting.get(&format!("/v2/request/{known}")).with_key().send().await;
        assert_eq!(read.status, 200, "{}", read.text);
    }
    let after = sessions(&app).await;
    // The pools of both instances reopen a few sessions.
    assert!(after <= before + 8, "{before} sessions became {after}");

    set(&app, "RESET synchronous_commit").await;
    replace_sessions(&app, &waiting).await;
    let written = async { while create(&waiting, None).await.status != 201 {} };
    tokio::time::timeout(Duration::from_secs(10), written)
        .await
        .expect("writes resume");
    stop.cancel();
    tries.await.unwrap();
}
