//! The payments table beside the chain: every difference is found, and mended when asked.

use crate::support::{
    TestApp,
    bent::Bent,
    chain::{PAYER, transactions},
    receiver::Receiver,
    requests::fau,
};
use prs::{
    domain::{
        network::Network,
        reconciliation::{Difference, DifferenceKind},
    },
    flows::payments::{reconcile, rescan},
};
use sea_orm::ConnectionTrait;
use serde_json::json;
use std::sync::atomic::AtomicUsize;

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

/// What a comparison said, and what it told of on the way.
#[derive(Debug)]
struct Compared {
    same: usize,
    failures: usize,
    differences: Vec<Difference>,
}

async fn compare(app: &TestApp, fix: bool) -> Compared {
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let end = app.follow().await.confirmed;
    let mut differences = Vec::new();
    let mut tell = |found: &Difference| differences.push(found.clone());
    let report = reconcile::run(&app.ctx, chain.as_ref(), (0, end), fix, &mut tell).await;
    let report = report.expect("compared");
    assert_eq!(report.differences, differences.len());
    Compared {
        same: report.same,
        failures: report.failures,
        differences,
    }
}

async fn count(app: &TestApp, sql: &str) -> i64 {
    value(app, sql, "count").await
}

async fn text(app: &TestApp, sql: &str) -> String {
    value(app, sql, "text").await
}

async fn value<T: sea_orm::TryGetable>(app: &TestApp, sql: &str, column: &str) -> T {
    let writer = app.ctx.db.writer();
    let rows = writer.query_all_raw(sea_orm::Statement::from_string(writer.get_database_backend(), sql));
    rows.await.expect("a statement")[0]
        .try_get("", column)
        .expect("a value")
}

async fn run_sql(app: &TestApp, sql: String) {
    app.ctx.db.writer().execute_unprepared(&sql).await.expect("a statement");
}

fn kinds(report: &Compared) -> Vec<(DifferenceKind, &str)> {
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

/// One row that cannot be mended once left the payments after it reversed: reversal and credit were two commits.
#[tokio::test]
async fn a_row_that_cannot_be_mended_is_named_and_takes_no_true_payment_along() {
    let (app, _, paid) = start().await;
    let lie = "UPDATE payments SET units = '1', credited = '1'";
    run_sql(
        &app,
        format!("{lie} WHERE request_id IN ('{}', '{}')", paid[0], paid[1]),
    )
    .await;
    let row = format!("(SELECT id FROM requests WHERE request_id = '{}')", paid[1]);
    let odd = format!("units = 'odd', request_row = {row}, request_id = '{}'", paid[1]);
    run_sql(
        &app,
        format!("UPDATE payments SET {odd} WHERE request_id = '{}'", paid[2]),
    )
    .await;
    let report = compare(&app, true).await;
    let failed = |found: &&Difference| found.unmended.is_some() || found.kind == DifferenceKind::Uncompared;
    let failures: Vec<&Difference> = report.differences.iter().filter(failed).collect();
    let kinds_of = |found: &[&Difference]| {
        let mut kinds: Vec<(&str, String)> = found
            .iter()
            .map(|one| (one.kind.wire(), one.request_id.clone()))
            .collect();
        kinds.sort();
        kinds
    };
    let expected = [("different", paid[1].clone()), ("uncompared", paid[1].clone())];
    assert_eq!(kinds_of(&failures), expected);
    assert_eq!(report.failures, 2);
    assert_paid_once(&app, &paid[..1]).await;
    let reversed = "SELECT COUNT(*) AS count FROM payments WHERE reversed_at IS NOT NULL";
    assert_eq!(count(&app, reversed).await, 0, "nothing stays reversed");
    // Once the row is put right, the rest is mended too.
    let row = format!("(SELECT id FROM requests WHERE request_id = '{}')", paid[2]);
    let right = format!(
        "units = '5000000000000000000', request_row = {row}, request_id = '{}'",
        paid[2]
    );
    run_sql(&app, format!("UPDATE payments SET {right} WHERE units = 'odd'")).await;
    assert_eq!(compare(&app, true).await.failures, 0);
    assert_eq!(compare(&app, false).await.differences, []);
    assert_paid_once(&app, &paid).await;
}

/// Has the database refuse that a payment is credited, for the first time or again.
async fn refuse_credits(app: &TestApp) {
    let is_credited_again = "OLD.reversed_at IS NOT NULL AND NEW.reversed_at IS NULL";
    let statements = match app.ctx.db.is_postgres() {
        true => {
            let refuse = "FOR EACH ROW WHEN (true) EXECUTE FUNCTION refuse_credit()";
            let refuse_again = refuse.replace("(true)", &format!("({is_credited_again})"));
            vec![
                "CREATE FUNCTION refuse_credit() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN RAISE EXCEPTION ''no credit''; END'"
                    .to_owned(),
                format!("CREATE TRIGGER no_credit BEFORE INSERT ON payments {refuse}"),
                format!("CREATE TRIGGER no_credit_again BEFORE UPDATE ON payments {refuse_again}"),
            ]
        }
        false => {
            let refuse = "BEGIN SELECT RAISE(ABORT, 'no credit'); END";
            vec![
                format!("CREATE TRIGGER no_credit BEFORE INSERT ON payments {refuse}"),
                format!("CREATE TRIGGER no_credit_again BEFORE UPDATE ON payments WHEN {is_credited_again} {refuse}"),
            ]
        }
    };
    for statement in statements {
        run_sql(app, statement).await;
    }
}

async fn admit_credits(app: &TestApp) {
    let of_table = if app.ctx.db.is_postgres() { " ON payments" } else { "" };
    for trigger in ["no_credit", "no_credit_again"] {
        run_sql(app, format!("DROP TRIGGER {trigger}{of_table}")).await;
    }
}

#[tokio::test]
async fn a_payment_that_cannot_be_credited_again_is_not_taken_back() {
    let (app, _, paid) = start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let end = app.follow().await.confirmed.to_string();
    let exit_code = async |further: &[&str]| {
        let mut command = app.command(folder.path());
        command.args(["reconcile", "--network", "sepolia", "--from", "0", "--to", &end]);
        command.args(further);
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output = output.expect("no panic").expect("prs runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, errors) = exit_code(&[]).await;
    assert_eq!(code, Some(0), "{errors}");
    let lie = "UPDATE payments SET units = '1', credited = '1'";
    run_sql(&app, format!("{lie} WHERE request_id = '{}'", paid[1])).await;
    let (code, errors) = exit_code(&[]).await;
    assert_eq!(code, Some(1), "{errors}");
    let before = compare(&app, false).await;
    refuse_credits(&app).await;
    let (code, errors) = exit_code(&["--fix"]).await;
    assert_eq!(code, Some(2), "{errors}");
    assert_eq!(kinds(&compare(&app, false).await), kinds(&before));
    admit_credits(&app).await;
    let (code, errors) = exit_code(&["--fix"]).await;
    assert_eq!(code, Some(0), "{errors}");
    assert_paid_once(&app, &paid).await;
}

#[tokio::test]
async fn a_payment_that_differs_is_mended_once_the_nodes_are_gone() {
    let (app, receiver, paid) = start().await;
    let lie = "UPDATE payments SET units = '1', credited = '1'";
    run_sql(&app, format!("{lie} WHERE request_id = '{}'", paid[1])).await;
    let told = receiver.received().await.len();
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let end = app.follow().await.confirmed;
    // The nodes are gone once the blocks were compared.
    let leaving = Bent {
        lists_left: AtomicUsize::new(1),
        ..Bent::of(chain)
    };
    let report = reconcile::run(&app.ctx, &leaving, (0, end), true, &mut |_| {})
        .await
        .expect("compared");
    assert_eq!((report.differences, report.failures), (1, 0));
    assert_paid_once(&app, &paid).await;
    app.deliver().await;
    assert_eq!(receiver.received().await.len() - told, 2);
}

/// Bytes as the database writes them.
fn bytes(app: &TestApp, hex: &str) -> String {
    match app.ctx.db.is_postgres() {
        true => format!("'\\x{hex}'"),
        false => format!("X'{hex}'"),
    }
}

/// The row of each of two requests records the payment of the other one, and one of them cannot be rewritten.
#[tokio::test]
async fn rows_that_record_payments_of_each_other_are_mended_together_or_not_at_all() {
    let (app, _, paid) = start().await;
    let mut hashes = Vec::new();
    for id in &paid[..2] {
        let hash = app.read_request(id).await["txHash"].as_str().expect("text").to_owned();
        hashes.push(bytes(&app, hash.trim_start_matches("0x")));
    }
    let record = async |id: &str, hash: &str| {
        run_sql(
            &app,
            format!("UPDATE payments SET tx_hash = {hash} WHERE request_id = '{id}'"),
        )
        .await;
    };
    record(&paid[0], &bytes(&app, &"cd".repeat(32))).await;
    record(&paid[1], &hashes[0]).await;
    record(&paid[0], &hashes[1]).await;
    let before = compare(&app, false).await;
    assert_eq!(before.differences.len(), 2);
    refuse_credits(&app).await;
    let report = compare(&app, true).await;
    assert_eq!((report.differences.len(), report.failures), (2, 2));
    admit_credits(&app).await;
    assert_eq!(kinds(&compare(&app, false).await), kinds(&before));
    assert_eq!(compare(&app, true).await.failures, 0);
    assert_eq!(compare(&app, false).await.differences, []);
    assert_paid_once(&app, &paid).await;
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_named_and_keeps_no_other_payment_waiting() {
    let (app, _, paid) = start().await;
    let payee = |id: &str, payee: &str| format!("UPDATE requests SET payee = '{payee}' WHERE request_id = '{id}'");
    let right = text(
        &app,
        &format!("SELECT payee AS text FROM requests WHERE request_id = '{}'", paid[1]),
    )
    .await;
    run_sql(&app, payee(&paid[1], "zz")).await;
    run_sql(
        &app,
        format!("UPDATE payments SET units = '1' WHERE request_id = '{}'", paid[0]),
    )
    .await;
    let report = compare(&app, true).await;
    let expected = [
        (DifferenceKind::Different, paid[0].as_str()),
        (DifferenceKind::Uncompared, paid[1].as_str()),
    ];
    assert_eq!((kinds(&report), report.failures), (expected.to_vec(), 1));
    run_sql(&app, payee(&paid[1], &right)).await;
    assert_eq!(compare(&app, false).await.differences, []);
    assert_paid_once(&app, &paid).await;
    // The same while the chain is followed: what was paid waits for the operator.
    let (broken, other) = (app.create_request(&fau("5")).await, app.create_request(&fau("5")).await);
    let steps = transactions(&app.calldata(&broken, "").await);
    run_sql(&app, payee(&broken, "zz")).await;
    app.devnet().pay(PAYER, &steps).await.expect("mined");
    app.pay(&other, "").await;
    app.settle().await;
    assert_eq!(app.read_request(&other).await["status"], "paid");
    let waiting = format!(
        "SELECT COUNT(*) AS count FROM chain_quarantine WHERE state = 'open' AND detail LIKE '%{broken} cannot be read%'"
    );
    assert_eq!(count(&app, &waiting).await, 1);
}

#[tokio::test]
async fn a_payment_that_is_put_elsewhere_has_its_request_counted_again() {
    let (app, _, paid) = start().await;
    let of = |table: &str, change: &str| format!("UPDATE {table} SET {change} WHERE request_id = '{}'", paid[0]);
    run_sql(&app, of("payments", "block_number = block_number + 1")).await;
    run_sql(&app, of("requests", "credited = '3', payment_count = 9")).await;
    let expected = [
        (DifferenceKind::Different, paid[0].as_str()),
        (DifferenceKind::Miscounted, paid[0].as_str()),
    ];
    assert_eq!(kinds(&compare(&app, false).await), expected);
    assert_eq!(kinds(&compare(&app, true).await), expected);
    assert_eq!(compare(&app, false).await.differences, []);
    assert_paid_once(&app, &paid).await;
}

#[tokio::test]
async fn payments_of_a_contract_that_the_settings_do_not_name_are_not_taken_back() {
    let (app, _, paid) = start().await;
    let without = app
        .beside(|settings| {
            let chain = settings.chains.get_mut("sepolia").expect("enabled");
            chain.contracts.remove("ERC20FeeProxy").expect("named");
        })
        .await;
    let report = compare(&without, true).await;
    assert!(
        report
            .differences
            .iter()
            .all(|one| one.kind == DifferenceKind::Uncompared),
        "{report:?}"
    );
    assert_eq!((report.differences.len(), report.failures), (3, 3));
    assert_eq!(compare(&app, false).await.differences, []);
    assert_paid_once(&app, &paid).await;
}

#[tokio::test]
async fn a_payment_that_the_chain_does_not_hold_is_reversed() {
    let (app, receiver, paid) = start().await;
    let before = receiver.received().await.len();
    let hash = bytes(&app, &"ab".repeat(32));
    let invented = format!("UPDATE payments SET tx_hash = {hash} WHERE request_id = '{}'", paid[2]);
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
    app.deliver().await;
    let events: Vec<_> = receiver.received().await[before..]
        .iter()
        .map(|one| one.json())
        .map(|event| (event["event"].clone(), event["totalAmountPaid"].clone()))
        .collect();
    let expected = [
        (json!("payment.reversed"), json!("0")),
        (json!("payment.confirmed"), json!("5")),
    ];
    assert_eq!(events, expected, "the last event says what the request says");
}

#[tokio::test]
async fn a_range_that_is_not_settled_is_refused() {
    let (app, _, _) = start().await;
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    for range in [(0, 1_000_000), (5, 4)] {
        let refused = reconcile::run(&app.ctx, chain.as_ref(), range, false, &mut |_| {}).await;
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

/// The recorded time is that of a block that a reorganisation dropped.
#[tokio::test]
async fn a_time_that_is_wrong_is_mended_without_a_reversal() {
    let (app, receiver, paid) = start().await;
    let time = app.payments_of(&paid[0]).await[0]["timestamp"].clone();
    let told = receiver.received().await.len();
    for table in ["payments", "payment_parties"] {
        let payment = format!("SELECT id FROM payments WHERE request_id = '{}'", paid[0]);
        let key = if table == "payments" { "id" } else { "payment_id" };
        run_sql(
            &app,
            format!("UPDATE {table} SET paid_at = '2026-01-01 00:00:00+00:00' WHERE {key} IN ({payment})"),
        )
        .await;
    }
    let report = compare(&app, true).await;
    assert_eq!(kinds(&report), [(DifferenceKind::Different, paid[0].as_str())]);
    assert_eq!(compare(&app, false).await.differences, []);
    let payments = app.payments_of(&paid[0]).await;
    assert_eq!((payments.len(), &payments[0]["timestamp"]), (1, &time));
    assert!(payments[0].get("reversal").is_none());
    app.deliver().await;
    assert_eq!(
        receiver.received().await.len(),
        told,
        "no money moved, so nothing is told"
    );
    assert_paid_once(&app, &paid).await;
}

#[tokio::test]
async fn a_payment_under_another_request_is_found_and_put_back() {
    let (app, _, paid) = start().await;
    let other = app.create_request(&fau("5")).await;
    let row = format!("(SELECT id FROM requests WHERE request_id = '{other}')");
    run_sql(
        &app,
        format!(
            "UPDATE payments SET request_row = {row}, request_id = '{other}' WHERE request_id = '{}'",
            paid[0]
        ),
    )
    .await;
    let stolen = "SET status = 'paid', credited = '5000000000000000000', payment_count = 1";
    run_sql(&app, format!("UPDATE requests {stolen} WHERE request_id = '{other}'")).await;
    let report = compare(&app, true).await;
    assert!(
        report.differences.iter().any(|found| found.detail.contains("request")),
        "{report:?}"
    );
    assert_eq!(compare(&app, false).await.differences, []);
    assert_paid_once(&app, &paid).await;
    let read = app.read_request(&other).await;
    assert_eq!((&read["status"], &read["paidAmount"]), (&json!("pending"), &json!("0")));
    assert!(app.payments_of(&other).await.is_empty());
}

#[tokio::test]
async fn a_state_that_its_payments_do_not_make_is_found_and_mended() {
    let (app, _, paid) = start().await;
    let unpaid = app.create_request(&fau("5")).await;
    let forged = "UPDATE requests SET status = 'paid' WHERE request_id";
    run_sql(&app, format!("{forged} = '{unpaid}'")).await;
    let lost = "UPDATE requests SET status = 'pending', credited = '0', payment_count = 0 WHERE request_id";
    run_sql(&app, format!("{lost} = '{}'", paid[1])).await;
    let report = compare(&app, false).await;
    let mut found: Vec<&str> = kinds(&report).into_iter().map(|(_, id)| id).collect();
    found.sort_unstable();
    let mut expected = [unpaid.as_str(), paid[1].as_str()];
    expected.sort_unstable();
    assert_eq!(found, expected, "{report:?}");
    compare(&app, true).await;
    assert_eq!(compare(&app, false).await.differences, []);
    assert_paid_once(&app, &paid).await;
    let read = app.read_request(&unpaid).await;
    assert_eq!((&read["status"], &read["paidAmount"]), (&json!("pending"), &json!("0")));
}

#[tokio::test]
async fn a_row_that_was_deleted_is_credited_once_by_a_rescan() {
    let (app, _, paid) = start().await;
    let of = format!("(SELECT id FROM payments WHERE request_id = '{}')", paid[0]);
    run_sql(&app, format!("DELETE FROM payment_parties WHERE payment_id IN {of}")).await;
    run_sql(&app, format!("DELETE FROM payments WHERE request_id = '{}'", paid[0])).await;
    rescan::run(&app.ctx, Network::Sepolia, 0).await.expect("queued");
    app.settle().await;
    assert_paid_once(&app, &paid).await;
    assert_eq!(compare(&app, false).await.differences, []);
}

#[tokio::test]
async fn what_was_found_is_told_also_when_the_rest_cannot_be_read() {
    let (app, _, paid) = start().await;
    let lie = "UPDATE payments SET units = '1', credited = '1'";
    run_sql(&app, format!("{lie} WHERE request_id = '{}'", paid[0])).await;
    app.devnet().mine(2_100).await.expect("mined");
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let end = app.follow().await.confirmed;
    let leaving = Bent {
        lists_left: AtomicUsize::new(1),
        ..Bent::of(chain)
    };
    let mut told = Vec::new();
    let mut tell = |found: &Difference| told.push(found.request_id.clone());
    let cut = reconcile::run(&app.ctx, &leaving, (0, end), false, &mut tell).await;
    assert!(cut.is_err(), "{cut:?}");
    assert_eq!(told, [paid[0].clone()]);
}
