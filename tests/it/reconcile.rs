//! Compares the payments table with the chain: every difference is found, and fixed on request.

use crate::support::{
    TestApp,
    bent::Bent,
    chain::{PAYER, transactions},
    receiver::Receiver,
    requests::{fau, request},
    tron_calls::{self, TronPayment},
};
use alloy::primitives::{Address as EvmAddress, B256, U256};
use devnet::tron::{TronDevnet, TronOptions};
use prs::{
    domain::{
        address::Address,
        block_range::BlockRange,
        network::Network,
        reconciliation::{DifferenceKind, RecordDifference},
    },
    flows::payments::{reconcile, rescan},
    store,
};
use sea_orm::ConnectionTrait;
use serde_json::json;
use std::sync::atomic::AtomicUsize;

/// Starts a service with three requests of 5 FAU each, paid and settled.
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

/// Like [`start`], with three requests of 5 USDT on Tron.
async fn start_on_tron() -> (TestApp, TronDevnet, Vec<String>) {
    let options = TronOptions {
        nodes: 2,
        ..TronOptions::default()
    };
    let devnet = TronDevnet::start(options).await.expect("the stand-in starts");
    let app = TestApp::with(tron_calls::tron_settings(&devnet), None).await;
    app.follow().await;
    tron_calls::approve(&devnet, 0).await;
    let mut body = request("5", "USDT-tron", "USDT-tron");
    body["payee"] = json!(devnet.summary().accounts[1].address);
    let mut paid = Vec::new();
    for _ in 0..3 {
        let id = app.create_request(&body).await;
        let reference = app.read_request(&id).await["paymentReference"].clone();
        let payment = TronPayment {
            to: tron_calls::account(&devnet, 1),
            units: U256::from(5_000_000),
            reference: hex::decode(reference.as_str().expect("text")).expect("hexadecimal"),
            fee: U256::ZERO,
            fee_address: EvmAddress::ZERO,
        };
        tron_calls::pay(&devnet, 0, payment).await;
        paid.push(id);
    }
    devnet.mine(3).await.expect("mined");
    app.follow().await;
    (app, devnet, paid)
}

/// The result of a comparison, and the differences that it reported while it ran.
#[derive(Debug)]
pub struct Compared {
    same: usize,
    failures: usize,
    pub differences: Vec<RecordDifference>,
}

pub async fn compare(app: &TestApp, fix: bool) -> Compared {
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let end = app.follow().await.confirmed;
    let mut differences = Vec::new();
    let mut tell = |found: &RecordDifference| differences.push(found.clone());
    let report = reconcile::run(
        &app.ctx,
        chain.as_ref(),
        BlockRange { from: 0, to: end },
        fix,
        &mut tell,
    )
    .await;
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

pub async fn run_sql(app: &TestApp, sql: String) {
    app.ctx.db.writer().execute_unprepared(&sql).await.expect("a statement");
}

fn kinds(report: &Compared) -> Vec<(DifferenceKind, &str)> {
    let differences = report.differences.iter();
    differences
        .map(|difference: &RecordDifference| (difference.kind, difference.request_id.as_str()))
        .collect()
}

async fn assert_paid_once(app: &TestApp, ids: &[String]) {
    for id in ids {
        let read = app.read_request(id).await;
        assert_eq!((&read["status"], &read["paidAmount"]), (&json!("paid"), &json!("5")));
        assert_eq!(app.payments_of(id).await.len(), 1);
    }
}

/// The recorded payments on Tron, without the ids of their rows.
async fn recorded(app: &TestApp) -> Vec<(String, B256, u32, B256, U256, U256, Option<Address>)> {
    let blocks = BlockRange { from: 0, to: u64::MAX };
    let payments = store::payments::in_blocks(app.ctx.db.reader(), Network::Tron, blocks).await;
    let payments = payments.expect("payments are read").0.into_iter();
    let payments = payments.filter(|payment| payment.reversal.is_none()).map(|payment| {
        (
            payment.request_id,
            payment.tx_hash,
            payment.position,
            payment.block_hash,
            payment.units,
            payment.credited,
            payment.payer,
        )
    });
    let mut payments: Vec<_> = payments.collect();
    payments.sort();
    payments
}

#[tokio::test]
async fn tables_that_match_the_chain_show_no_difference() {
    let (app, _, paid) = start().await;
    let report = compare(&app, true).await;
    assert_eq!((report.same, report.differences.len()), (3, 0));
    assert_paid_once(&app, &paid).await;
}

#[tokio::test]
async fn missing_and_changed_rows_are_found_and_fixed() {
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
    assert_eq!(
        kinds(&compare(&app, false).await),
        expected,
        "a comparison changes nothing"
    );

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
        "the differing payment was reversed and reported again"
    );
}

/// If one row of a payment cannot be fixed, the fix must not leave later payments reversed. That happened when the
/// reversal and the new credit were two commits.
#[tokio::test]
async fn an_unfixable_row_is_reported_and_reverses_no_valid_payment() {
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
    let failed = |found: &&RecordDifference| found.unmended.is_some() || found.kind == DifferenceKind::Uncompared;
    let failures: Vec<&RecordDifference> = report.differences.iter().filter(failed).collect();
    let kinds_of = |found: &[&RecordDifference]| {
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
    // Once the row is correct, the rest is fixed too.
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

/// Makes the database refuse to credit a payment, for the first time or again.
async fn refuse_credits(app: &TestApp) {
    let is_credited_again = "OLD.reversed_at IS NOT NULL AND NEW.reversed_at IS NULL";
    let statements = if app.ctx.db.is_postgres() {
        let refuse = "FOR EACH ROW WHEN (true) EXECUTE FUNCTION refuse_credit()";
        let refuse_again = refuse.replace("(true)", &format!("({is_credited_again})"));
        vec![
            "CREATE FUNCTION refuse_credit() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN RAISE EXCEPTION ''no credit''; END'"
                .to_owned(),
            format!("CREATE TRIGGER no_credit BEFORE INSERT ON payments {refuse}"),
            format!("CREATE TRIGGER no_credit_again BEFORE UPDATE ON payments {refuse_again}"),
        ]
    } else {
        let refuse = "BEGIN SELECT RAISE(ABORT, 'no credit'); END";
        vec![
            format!("CREATE TRIGGER no_credit BEFORE INSERT ON payments {refuse}"),
            format!("CREATE TRIGGER no_credit_again BEFORE UPDATE ON payments WHEN {is_credited_again} {refuse}"),
        ]
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
async fn a_payment_that_cannot_be_credited_again_is_not_reversed() {
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
async fn a_differing_payment_is_fixed_although_the_nodes_disappeared() {
    let (app, receiver, paid) = start().await;
    let lie = "UPDATE payments SET units = '1', credited = '1'";
    run_sql(&app, format!("{lie} WHERE request_id = '{}'", paid[1])).await;
    let told = receiver.received().await.len();
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let end = app.follow().await.confirmed;
    // The nodes disappear after the blocks were compared.
    let leaving = Bent {
        lists_left: AtomicUsize::new(1),
        ..Bent::of(chain)
    };
    let report = reconcile::run(&app.ctx, &leaving, BlockRange { from: 0, to: end }, true, &mut |_| {})
        .await
        .expect("compared");
    assert_eq!((report.differences, report.failures), (1, 0));
    assert_paid_once(&app, &paid).await;
    app.deliver().await;
    assert_eq!(receiver.received().await.len() - told, 2);
}

/// A literal of bytes in the syntax of the database.
fn bytes(app: &TestApp, hex: &str) -> String {
    if app.ctx.db.is_postgres() {
        format!("'\\x{hex}'")
    } else {
        format!("X'{hex}'")
    }
}

/// Two payments are swapped: each is recorded for the request of the other. One of the two rows cannot be rewritten, so
/// neither may change until it can.
#[tokio::test]
async fn swapped_payment_rows_are_fixed_together_or_not_at_all() {
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
async fn an_unreadable_request_is_reported_and_delays_no_other_payment() {
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
    // A stored row has such an error while the chain is followed: the payment of this row waits for the operator.
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
async fn a_moved_payment_has_its_request_recounted() {
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
async fn payments_of_unconfigured_contracts_are_not_reversed() {
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
async fn a_payment_missing_from_the_chain_is_reversed() {
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
    assert_eq!(events, expected, "the last event matches the request");
}

#[tokio::test]
async fn an_unsettled_range_is_refused() {
    let (app, _, _) = start().await;
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    for (from, to) in [(0, 1_000_000), (5, 4)] {
        let range = BlockRange { from, to };
        let refused = reconcile::run(&app.ctx, chain.as_ref(), range, false, &mut |_| {}).await;
        assert!(refused.is_err(), "{range:?}");
    }
}

#[tokio::test]
async fn rescanned_blocks_credit_missing_payments_exactly_once() {
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
        .expect_err("the block is not settled");
}

/// The stored time of a payment is the time of a block that a reorganisation removed.
#[tokio::test]
async fn a_wrong_time_is_fixed_without_a_reversal() {
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
        "no money moved, so no event is sent"
    );
    assert_paid_once(&app, &paid).await;
}

#[tokio::test]
async fn deleted_and_changed_rows_are_found_and_fixed_on_tron() {
    let (app, _devnet, paid) = start_on_tron().await;
    assert_paid_once(&app, &paid).await;
    let before = recorded(&app).await;
    assert_eq!(before.len(), 3);
    let of = format!("(SELECT id FROM payments WHERE request_id = '{}')", paid[0]);
    run_sql(&app, format!("DELETE FROM payment_parties WHERE payment_id IN {of}")).await;
    run_sql(&app, format!("DELETE FROM payments WHERE request_id = '{}'", paid[0])).await;
    let lie = "UPDATE payments SET units = '1', credited = '1'";
    run_sql(&app, format!("{lie} WHERE request_id = '{}'", paid[1])).await;
    let report = compare(&app, false).await;
    assert_eq!(
        (report.same, report.failures, report.differences.len()),
        (1, 0, 2),
        "{report:?}"
    );
    let report = compare(&app, true).await;
    assert_eq!((report.failures, report.differences.len()), (0, 2), "{report:?}");
    let report = compare(&app, false).await;
    assert_eq!((report.same, report.differences), (3, Vec::new()));
    assert_eq!(recorded(&app).await, before, "the tables equal the chain");
    assert_paid_once(&app, &paid).await;
}

#[tokio::test]
async fn a_payment_under_the_wrong_request_is_found_and_moved_back() {
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
async fn a_state_that_contradicts_its_payments_is_found_and_fixed() {
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
async fn a_rescan_credits_a_deleted_row_once() {
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
async fn differences_are_reported_even_if_later_blocks_are_unreadable() {
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
    let mut tell = |found: &RecordDifference| told.push(found.request_id.clone());
    let cut = reconcile::run(&app.ctx, &leaving, BlockRange { from: 0, to: end }, false, &mut tell).await;
    assert!(cut.is_err(), "{cut:?}");
    assert_eq!(told, [paid[0].clone()]);
}
