//! Common responses, checked for every operation that documents them: a body that is too large or too slow, too many
//! calls, an unavailable database, and a database with an unexpected schema.

use crate::{
    access::{Operation, Tenant, operations, tenant, unknown},
    support::{Answer, TestApp, app::Call, off_ramp::payer_news, payers::with_partner},
};
use futures_util::future::join_all;
use prs::http::gate::scheme::{PolicyMark, Scheme};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// More bytes than a request body may have.
const TOO_MUCH: usize = 65 * 1024;

/// Every table that is read to identify a caller or to sign in.
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

/// The path of the off-ramp partner's callbacks.
const CALLBACKS: &str = "/v2/provider-callbacks/offramp";

/// The operations that document this status. Operations with a signature have no credential, so another test covers
/// them.
fn documented(status: &str) -> Vec<Operation> {
    let mut found = operations();
    found.retain(|one| one.responses[status].is_object() && !one.row.marks.contains(&PolicyMark::Signed));
    found
}

/// A call of an operation with the first credential that it accepts, and with ids of unknown objects.
fn call_as<'a>(app: &'a TestApp, tenant: &Tenant, operation: &Operation) -> Call<'a> {
    // A sign-out without a session returns early because no user is signed in.
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

/// The operations that returned another status than this one, each with its response.
fn surprises(status: u16, answers: &BTreeMap<&str, Answer>) -> Vec<String> {
    let others = answers.iter().filter(|(_, answer)| answer.status != status);
    others
        .map(|(name, answer)| format!("{name} {}: {}", answer.status, answer.text))
        .collect()
}

#[tokio::test]
async fn every_operation_with_a_body_rejects_one_that_is_too_large() {
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
async fn every_operation_with_a_body_returns_408_if_it_never_arrives() {
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
async fn every_operation_is_rate_limited() {
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
async fn every_operation_returns_503_without_its_database() {
    let app = TestApp::start().await;
    let tenant = tenant(&app, 7).await;
    let cut_off = app.beside(|_| {}).await;
    cut_off.ctx.db.clone().close().await.expect("closes");
    let mut answers = BTreeMap::new();
    for operation in &documented("503") {
        // No test delivery is sent without a database either.
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
async fn unexpected_schemas_make_every_operation_fail_without_details() {
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
async fn partner_callbacks_return_the_same_errors() {
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
