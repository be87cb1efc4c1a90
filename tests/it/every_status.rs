//! The answers that operations have in common, of every operation that documents them: a body that is too large or comes too
//! slowly, too many calls, a database that is away, and one that is not what this program expects.

use crate::{
    access::{Operation, Tenant, operations, tenant, unknown},
    support::{Answer, TestApp, app::Call, off_ramp::payer_news, payers::with_partner},
};
use futures_util::future::join_all;
use prs::http::gate::scheme::{Mark, Scheme};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// More than a body may have.
const TOO_MUCH: usize = 65 * 1024;

/// Every table by which somebody is known or signs in.
const IDENTITY: [&str; 8] = [
    "keys",
    "client_ids",
    "sessions",
    "accounts",
    "wallets",
    "wallet_challenges",
    "invites",
    "known_devices",
];

/// Where the off-ramp partner tells what changed.
const CALLBACKS: &str = "/v2/provider-callbacks/offramp";

/// The operations that document a status. No credential opens what is signed: it has a test of its own.
fn documented(status: &str) -> Vec<Operation> {
    let mut found = operations();
    found.retain(|one| one.responses[status].is_object() && !one.row.marks.contains(&Mark::Signed));
    found
}

/// A call with the first credential that opens the operation; its objects are unknown.
fn call_as<'a>(app: &'a TestApp, tenant: &Tenant, operation: &Operation) -> Call<'a> {
    // Who signs out without a session is told at once that nobody is signed in.
    let signs_out = (operation.row.operation == "logOut").then_some(&Scheme::SessionBearer);
    let scheme = operation.row.any_of.first().or(signs_out);
    let credential = scheme.map(|scheme| (*scheme, tenant.good[scheme.id()].as_str()));
    operation.call_as(app, credential, &operation.needed_address(&unknown()))
}

async fn send(app: &TestApp, tenant: &Tenant, operation: &Operation) -> Answer {
    let call = call_as(app, tenant, operation);
    match operation.example {
        Value::Null => call.send().await,
        _ => call.json(&operation.example).send().await,
    }
}

/// Which answers have another status.
fn surprises(status: u16, answers: &BTreeMap<&str, Answer>) -> Vec<String> {
    let others = answers.iter().filter(|(_, answer)| answer.status != status);
    others
        .map(|(name, answer)| format!("{name} {}: {}", answer.status, answer.text))
        .collect()
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_by_every_operation_that_reads_one() {
    let app = TestApp::start().await;
    let tenant = tenant(&app, 7).await;
    let mut answers = BTreeMap::new();
    for operation in &documented("413") {
        let call = call_as(&app, &tenant, operation).json(&json!("x".repeat(TOO_MUCH)));
        answers.insert(operation.row.operation, call.send().await);
    }
    assert!(answers.len() > 35, "{}", answers.len());
    assert_eq!(surprises(413, &answers), [""; 0]);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_a_408_of_every_operation_that_reads_one() {
    let app = TestApp::start().await;
    let tenant = tenant(&app, 7).await;
    let hasty = app.beside(|settings| settings.http.body_timeout_ms = 100).await;
    let operations = documented("408");
    let (hasty, tenant) = (&hasty, &tenant);
    let calls = operations.iter().map(|operation| async move {
        let answer = call_as(hasty, tenant, operation).stalled().send().await;
        (operation.row.operation, answer)
    });
    let answers: BTreeMap<_, _> = join_all(calls).await.into_iter().collect();
    assert!(answers.len() > 35, "{}", answers.len());
    assert_eq!(surprises(408, &answers), [""; 0]);
}

#[tokio::test]
async fn too_many_calls_are_refused_by_every_operation() {
    let app = TestApp::start().await;
    let tenant = tenant(&app, 7).await;
    let limited = app.beside(|settings| {
        settings.rate_limits.enabled = true;
        settings.rate_limits.factor_outside_production = 1;
        settings.rate_limits.default_per_minute = 1;
        settings.rate_limits.basic_per_minute = 1;
        settings.rate_limits.sign_in_per_minute = 1;
    });
    let limited = limited.await;
    let mut answers = BTreeMap::new();
    for operation in &documented("429") {
        let mut answer = send(&limited, &tenant, operation).await;
        for _ in 0..3 {
            if answer.status != 429 {
                answer = send(&limited, &tenant, operation).await;
            }
        }
        answers.insert(operation.row.operation, answer);
    }
    assert!(answers.len() > 80, "{}", answers.len());
    assert_eq!(surprises(429, &answers), [""; 0]);
}

#[tokio::test]
async fn without_its_database_every_operation_says_that_it_is_away() {
    let app = TestApp::start().await;
    let tenant = tenant(&app, 7).await;
    let cut_off = app.beside(|_| {}).await;
    cut_off.ctx.db.clone().close().await.expect("closes");
    let mut answers = BTreeMap::new();
    for operation in &documented("503") {
        // Nobody sends samples without a database either.
        if operation.path.ends_with("/test") {
            let call = call_as(&cut_off, &tenant, operation).json(&operation.example);
            assert_eq!(call.without_worker().await, 503, "{}", operation.row.operation);
            continue;
        }
        answers.insert(operation.row.operation, send(&cut_off, &tenant, operation).await);
    }
    assert!(answers.len() > 80, "{}", answers.len());
    assert_eq!(surprises(503, &answers), [""; 0]);
    assert!(answers.values().all(|answer| answer.header("retry-after") == Some("1")));
}

#[tokio::test]
async fn in_a_database_that_is_another_one_every_operation_fails_and_says_no_more() {
    let app = TestApp::start().await;
    let tenant = tenant(&app, 7).await;
    let other = app.beside(|_| {}).await;
    for table in IDENTITY {
        let renamed = format!("ALTER TABLE {table} RENAME TO other_{table}");
        let writer = app.ctx.db.writer();
        writer.execute_unprepared(&renamed).await.expect("renamed");
    }
    let mut answers = BTreeMap::new();
    for operation in &documented("500") {
        answers.insert(operation.row.operation, send(&other, &tenant, operation).await);
    }
    assert!(answers.len() > 80, "{}", answers.len());
    assert_eq!(surprises(500, &answers), [""; 0]);
    let said = |answer: &Answer| {
        IDENTITY
            .iter()
            .any(|table| answer.text.contains(&format!("other_{table}")))
    };
    assert!(!answers.values().any(said));
}

#[tokio::test]
async fn what_the_partner_tells_is_answered_in_the_same_ways() {
    let (app, partner) = with_partner().await;
    let news = payer_news("payer_1", 1, "approved", "completed");
    let large = app.post(CALLBACKS).json(&json!("x".repeat(TOO_MUCH)));
    large.send().await.expect(413);
    let hasty = app.beside(|settings| settings.http.body_timeout_ms = 100).await;
    hasty.post(CALLBACKS).stalled().send().await.expect(408);
    let limited = app.beside(|settings| {
        settings.rate_limits.enabled = true;
        settings.rate_limits.factor_outside_production = 1;
        settings.rate_limits.unknown_per_minute = 1;
    });
    let limited = limited.await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(limited.post(CALLBACKS).json(&news).send().await.status);
    }
    assert_eq!((statuses[0], statuses[3]), (401, 429), "{statuses:?}");
    let cut_off = app.beside(|_| {}).await;
    cut_off.ctx.db.clone().close().await.expect("closes");
    partner.tell(&cut_off, &news).await.expect(503);
    let other = app.beside(|_| {}).await;
    let renamed = "ALTER TABLE payers RENAME TO other_payers";
    app.ctx.db.writer().execute_unprepared(renamed).await.expect("renamed");
    let failed = partner.tell(&other, &news).await;
    assert_eq!(failed.status, 500, "{}", failed.text);
    assert!(!failed.text.contains("payers"), "{}", failed.text);
}
