//! Rows of a version that counted the payments of a transaction: each becomes the payment that it records, or nothing.

use crate::support::{TestApp, chain::PAYER, requests::PAYEE, requests::fau};
use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};
use devnet::batch::{MetaDetail, RequestDetail, batchPaymentsCall};
use prs::{
    domain::network::Network,
    flows::payments::{
        reconcile::{self, Difference, DifferenceKind},
        rescan,
    },
    store,
};
use sea_orm::ConnectionTrait;
use serde_json::json;

/// Number by which the batch contract knows payments in one token.
const TOKENS: u64 = 1;

async fn run_sql(app: &TestApp, sql: &str) {
    app.ctx.db.writer().execute_unprepared(sql).await.expect("a statement");
}

async fn read_again(app: &TestApp) {
    rescan::run(&app.ctx, Network::Sepolia, 0).await.expect("queued");
    app.settle().await;
}

async fn compare(app: &TestApp, fix: bool) -> Vec<Difference> {
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let end = app.follow().await.confirmed;
    let mut differences = Vec::new();
    let mut tell = |found: &Difference| differences.push(found.clone());
    let report = reconcile::run(&app.ctx, chain.as_ref(), (0, end), fix, &mut tell).await;
    report.expect("compared");
    differences
}

/// Pays so many units of each token for one request, in one transaction and in this order.
async fn pay_batch(app: &TestApp, id: &str, tokens: &[Address], units: U256) {
    let devnet = app.devnet();
    let batch = devnet.contracts().batch_conversion_payments;
    let reference = app.read_request(id).await["paymentReference"].clone();
    let reference = hex::decode(reference.as_str().expect("text")).expect("hexadecimal");
    let mut details = Vec::new();
    for token in tokens {
        let payer = devnet.accounts()[PAYER].address;
        devnet.mint(*token, payer, units).await.expect("minted");
        devnet.approve(PAYER, *token, batch, U256::MAX).await.expect("approved");
        details.push(RequestDetail {
            recipient: PAYEE.parse().expect("an address"),
            requestAmount: units,
            path: vec![*token],
            paymentReference: reference.clone().into(),
            feeAmount: U256::ZERO,
            maxToSpend: U256::ZERO,
            maxRateTimespan: U256::ZERO,
        });
    }
    let groups = details.into_iter().map(|detail| MetaDetail {
        paymentNetworkId: U256::from(TOKENS),
        requestDetails: vec![detail],
    });
    let call = batchPaymentsCall {
        metaDetails: groups.collect(),
        pathsToUSD: Vec::new(),
        feeAddress: devnet.accounts()[6].address,
    };
    let receipt = devnet.send(PAYER, batch, call.abi_encode(), U256::ZERO).await;
    assert!(receipt.expect("mined").status, "the batch succeeds");
}

fn whole(tokens: u64) -> U256 {
    U256::from(tokens) * U256::from(10).pow(U256::from(18))
}

#[tokio::test]
async fn an_old_row_takes_the_place_of_the_event_with_its_own_token() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&fau("5")).await;
    let tokens = app.devnet().tokens();
    // Anybody can emit the same reference, payee and amount in a token of nothing before the real payment.
    pay_batch(&app, &id, &[tokens.worthless, tokens.fau], whole(5)).await;
    app.settle().await;
    run_sql(&app, "UPDATE payments SET counts_payments = TRUE, position = 0").await;
    for _ in 0..2 {
        read_again(&app).await;
        let read = app.read_request(&id).await;
        assert_eq!((&read["status"], &read["paidAmount"]), (&json!("paid"), &json!("5")));
        assert_eq!(app.payments_of(&id).await.len(), 1);
    }
}

#[tokio::test]
async fn an_old_row_takes_no_place_that_another_row_has() {
    let app = TestApp::on_chain().await;
    let id = app.create_request(&fau("5")).await;
    let fau = app.devnet().tokens().fau;
    pay_batch(&app, &id, &[fau, fau], whole(2)).await;
    app.settle().await;
    assert_eq!(app.read_request(&id).await["paidAmount"], "4");
    let last = "SELECT MAX(position) FROM payments";
    run_sql(
        &app,
        &format!("UPDATE payments SET counts_payments = TRUE, position = 1 WHERE position = ({last})"),
    )
    .await;
    read_again(&app).await;
    assert_eq!(app.read_request(&id).await["paidAmount"], "4");
    assert_eq!(app.payments_of(&id).await.len(), 2);
    let rows = store::payments::in_blocks(app.ctx.db.reader(), Network::Sepolia, 0, u64::MAX).await;
    let (rows, _) = rows.expect("payments are read");
    assert!(
        rows.iter().all(|row| !row.counts_payments),
        "both have their places: {rows:?}"
    );
    assert_eq!(compare(&app, false).await, []);
}

/// Makes the rows those of the version before, which believed a node that put another amount under the payment of one
/// request.
async fn forge(app: &TestApp, request: &str) {
    run_sql(app, "UPDATE payments SET counts_payments = TRUE, position = 0").await;
    let lie =
        format!("UPDATE payments SET event_units = '9', units = '9', credited = '9' WHERE request_id = '{request}'");
    run_sql(app, &lie).await;
}

#[tokio::test]
async fn nothing_is_credited_beside_an_old_row_that_fits_no_event() {
    let app = TestApp::on_chain().await;
    let (forged, true_one) = (app.paid_request("5").await, app.paid_request("7").await);
    app.settle().await;
    forge(&app, &forged).await;
    for _ in 0..2 {
        read_again(&app).await;
        assert_eq!(app.payments_of(&forged).await.len(), 1, "the old row alone");
        assert_eq!(app.payments_of(&true_one).await.len(), 1);
        assert_eq!(app.read_request(&true_one).await["paidAmount"], "7");
    }
    let open = store::quarantine::count_open(app.ctx.db.reader())
        .await
        .expect("counted");
    assert_eq!(open.get(&Network::Sepolia), Some(&1));
    compare(&app, true).await;
    assert_eq!(compare(&app, false).await, []);
    assert_eq!(app.read_request(&forged).await["paidAmount"], "5");
    let open = store::quarantine::count_open(app.ctx.db.reader())
        .await
        .expect("counted");
    assert_eq!(open.get(&Network::Sepolia), None, "what was beside it is settled");
}

#[tokio::test]
async fn an_old_row_that_the_chain_does_not_hold_is_found_and_reversed() {
    let app = TestApp::on_chain().await;
    let (forged, true_one) = (app.paid_request("5").await, app.paid_request("7").await);
    app.settle().await;
    forge(&app, &forged).await;
    let found = compare(&app, false).await;
    let kinds: Vec<_> = found
        .iter()
        .map(|found| (found.kind, found.request_id.as_str()))
        .collect();
    let expected = [
        (DifferenceKind::Missing, forged.as_str()),
        (DifferenceKind::Gone, forged.as_str()),
    ];
    let mut kinds_sorted = kinds.clone();
    kinds_sorted.sort_by_key(|(kind, _)| *kind == DifferenceKind::Gone);
    assert_eq!(kinds_sorted, expected, "{found:?}");
    compare(&app, true).await;
    assert_eq!(compare(&app, false).await, []);
    for (id, amount) in [(&forged, "5"), (&true_one, "7")] {
        let read = app.read_request(id).await;
        assert_eq!((&read["status"], &read["paidAmount"]), (&json!("paid"), &json!(amount)));
    }
}
