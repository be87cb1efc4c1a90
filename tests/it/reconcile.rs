//! The payments table beside the chain: every difference is found, and mended when asked.

use crate::support::{TestApp, receiver::Receiver, requests::fau};
use prs::flows::payments::{
    reconcile::{self, Difference, DifferenceKind, Report},
    rescan,
};
use sea_orm::ConnectionTrait;
use serde_json::json;

/// Three paid requests of 5 FAU each, settled.
async fn start() -> (TestApp, Receiver, Vec<String>) {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let mut paid = Vec::new();
    for _ in 0..3 {
        let id = app.create_request(&fau("5")).await;
        app.pay(&id, "").await;
        paid.push(id);
    }
    app.settle().await;
    (app, receiver, paid)
}

async fn compare(app: &TestApp, fix: bool) -> Report {
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let end = app.follow().await.confirmed;
    reconcile::run(&app.ctx, chain.as_ref(), (0, end), fix)
        .await
        .expect("compared")
}

async fn run_sql(app: &TestApp, sql: String) {
    app.ctx.db.writer().execute_unprepared(&sql).await.expect("a statement");
}

fn kinds(report: &Report) -> Vec<(DifferenceKind, &str)> {
    let differences = report.differences.iter();
    differences
        .map(|difference: &Difference| (difference.kind, difference.request_id.as_str()))
        .collect()
}

async fn assert_paid_once(app: &TestApp, ids: &[String]) {
    for id in ids {
        let read = app.read_request(id).await;
        assert_eq!((&read["status"], &read["paidAmount"]), (&json!("paid"), &json!("5")));
        assert_eq!(app.payments_of(id).await.len(), 1);
    }
}

#[tokio::test]
async fn tables_that_equal_the_chain_show_no_difference() {
    let (app, _, paid) = start().await;
    let report = compare(&app, true).await;
    assert_eq!((report.same, report.differences.len()), (3, 0));
    assert_paid_once(&app, &paid).await;
}

#[tokio::test]
async fn rows_that_are_gone_or_changed_are_found_and_mended() {
    let (app, receiver, paid) = start().await;
    let of = |id: &str| format!("(SELECT id FROM payments WHERE request_id = '{id}')");
    run_sql(
        &app,
        format!("DELETE FROM payment_parties WHERE payment_id IN {}", of(&paid[0])),
    )
    .await;
    run_sql(&app, format!("DELETE FROM payments WHERE request_id = '{}'", paid[0])).await;
    let lie = "UPDATE payments SET units = '1', credited = '1'";
    run_sql(&app, format!("{lie} WHERE request_id = '{}'", paid[1])).await;
    let told = receiver.received().await.len();

    let report = compare(&app, false).await;
    let expected = [
        (DifferenceKind::Missing, paid[0].as_str()),
        (DifferenceKind::Different, paid[1].as_str()),
    ];
    assert_eq!((report.same, kinds(&report)), (1, expected.to_vec()));
    assert!(report.differences[1].detail.contains("units"), "{report:?}");
    assert_eq!(kinds(&compare(&app, false).await), expected, "looking changes nothing");

    assert_eq!(kinds(&compare(&app, true).await), expected);
    assert_eq!(compare(&app, false).await.differences, []);
    assert_paid_once(&app, &paid).await;
    app.deliver().await;
    let events: Vec<String> = receiver.received().await[told..]
        .iter()
        .map(|one| one.json()["event"].as_str().expect("a kind").to_owned())
        .collect();
    assert_eq!(
        events,
        ["payment.reversed", "payment.confirmed"],
        "what differed was taken back and told again"
    );
}

#[tokio::test]
async fn a_payment_that_the_chain_does_not_hold_is_reversed() {
    let (app, _, paid) = start().await;
    let invented = format!(
        "UPDATE payments SET tx_hash = '{}' WHERE request_id = '{}'",
        "ab".repeat(32),
        paid[2]
    );
    run_sql(&app, invented).await;
    let report = compare(&app, true).await;
    let mut found = kinds(&report);
    found.sort_by_key(|(kind, _)| kind.wire());
    let expected = [
        (DifferenceKind::Gone, paid[2].as_str()),
        (DifferenceKind::Missing, paid[2].as_str()),
    ];
    assert_eq!(found, expected);
    assert_eq!(compare(&app, false).await.differences, []);
    let read = app.read_request(&paid[2]).await;
    assert_eq!((&read["status"], &read["paidAmount"]), (&json!("paid"), &json!("5")));
}

#[tokio::test]
async fn a_range_that_is_not_settled_is_refused() {
    let (app, _, _) = start().await;
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    for range in [(0, 1_000_000), (5, 4)] {
        let refused = reconcile::run(&app.ctx, chain.as_ref(), range, false).await;
        assert!(refused.is_err(), "{range:?}");
    }
}

#[tokio::test]
async fn blocks_that_are_read_again_credit_what_is_missing_and_nothing_twice() {
    let (app, _, paid) = start().await;
    let network = app
        .ctx
        .partners
        .chains
        .followed
        .values()
        .next()
        .expect("enabled")
        .network();
    let to = rescan::run(&app.ctx, network, 0).await.expect("queued");
    assert_eq!(to, app.follow().await.confirmed);
    app.settle().await;
    assert_paid_once(&app, &paid).await;
    rescan::run(&app.ctx, network, to + 1_000)
        .await
        .expect_err("a block that is not settled");
}
