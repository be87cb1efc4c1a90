//! If a node omits an event log, no payment changes. The service looks up every payment that it detected, quarantined
//! or credited in the payment's block, even if the node's final logs do not list the payment.

use crate::support::{
    TestApp,
    bent::{Bent, Withheld},
    chain::{PAYER, step, transactions},
    requests::{fau, request},
};
use alloy::{primitives::U256, sol_types::SolCall};
use chrono::TimeDelta;
use prs::{
    domain::{
        oddity::{OperatorDecision, QuarantineState},
        paying::fee_proxy::Erc20ConversionProxy,
    },
    flows::payments::{
        quarantine::{self, QuarantineEntry, QuarantineQuery},
        rescan,
        watch::{WatchPosition, WatchResult},
    },
};
use sea_orm::ConnectionTrait;

/// Number of steps of a run, more than any test here needs.
const STEPS: usize = 8;

/// Makes the service read a chain whose node withholds data, in several steps. The clock advances before each step, so
/// that postponed work becomes due.
async fn follow_without(app: &TestApp, withheld: Withheld) -> WatchPosition {
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let bent = Bent {
        withheld,
        ..Bent::of(chain)
    };
    let mut reached = None;
    for _ in 0..STEPS {
        app.clock.advance(TimeDelta::minutes(6));
        match step(&app.ctx, &bent).await {
            Ok(WatchResult::At(position)) => reached = Some(position),
            step => panic!("{step:?}"),
        }
    }
    reached.expect("a step")
}

const NO_EVENTS: Withheld = Withheld {
    head: false,
    events: true,
    proofs: false,
    pace: false,
};

async fn set_aside(app: &TestApp) -> QuarantineEntry {
    let mut all = quarantine::list(&app.ctx, &QuarantineQuery::default(), true, None)
        .await
        .expect("a list");
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Pays a request by a conversion that accepts older rates than the issued calldata does.
async fn pay_on_other_terms(app: &TestApp) -> String {
    let id = app.create_request(&request("10", "USD", "FAU-sepolia")).await;
    let mut steps = transactions(&app.calldata(&id, "").await);
    let payment = &mut steps.last_mut().expect("a payment").1;
    let mut call =
        Erc20ConversionProxy::transferFromWithReferenceAndFeeCall::abi_decode(payment).expect("a conversion");
    call.maxRateTimespan = U256::from(1_000_000_000);
    *payment = call.abi_encode();
    app.devnet().pay(PAYER, &steps).await.expect("mined");
    id
}

#[tokio::test]
async fn noted_payments_missing_from_final_logs_are_still_credited() {
    const CONFIRMATIONS: u64 = 4;
    let app = TestApp::on_chain_with(CONFIRMATIONS).await;
    app.follow().await;
    let id = app.create_request(&fau("5")).await;
    app.pay(&id, "").await;
    app.follow().await;
    assert_eq!(app.read_request(&id).await["detectedAmount"], "5");
    app.devnet().mine(CONFIRMATIONS).await.expect("mined");
    follow_without(&app, NO_EVENTS).await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
    assert_eq!(app.payments_of(&id).await.len(), 1);
}

#[tokio::test]
async fn unproven_blocks_are_reread_even_if_final_logs_omit_their_payment() {
    let app = TestApp::on_chain().await;
    app.follow().await;
    let id = app.create_request(&fau("5")).await;
    app.pay(&id, "").await;
    let no_proofs = Withheld {
        proofs: true,
        ..Withheld::default()
    };
    follow_without(&app, no_proofs).await;
    assert_eq!(set_aside(&app).await.state, QuarantineState::Open);
    follow_without(&app, NO_EVENTS).await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
    assert_eq!(set_aside(&app).await.state, QuarantineState::Settled);
}

#[tokio::test]
async fn accepted_payments_missing_from_final_logs_are_still_credited() {
    let app = TestApp::on_chain().await;
    app.follow().await;
    let id = pay_on_other_terms(&app).await;
    app.settle().await;
    let row = set_aside(&app).await;
    quarantine::decide(&app.ctx, &row.id, OperatorDecision::Accept, None)
        .await
        .expect("accepted");
    follow_without(&app, NO_EVENTS).await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
}

#[tokio::test]
async fn quarantined_payments_stay_open_after_a_reread_that_omits_them() {
    let app = TestApp::on_chain().await;
    let begin = app.follow().await.confirmed;
    pay_on_other_terms(&app).await;
    app.settle().await;
    rescan::run(&app.ctx, set_aside(&app).await.oddity.network, begin)
        .await
        .expect("queued");
    follow_without(&app, NO_EVENTS).await;
    assert_eq!(set_aside(&app).await.state, QuarantineState::Open);
}

#[tokio::test]
async fn an_unavailable_head_delays_only_notes_and_not_the_rescan() {
    let app = TestApp::on_chain_with(2).await;
    let begin = app.follow().await;
    let id = app.create_request(&fau("5")).await;
    app.pay(&id, "").await;
    app.devnet().mine(2).await.expect("mined");
    app.settle().await;
    for rows in ["payment_parties", "payments"] {
        let lose = format!("DELETE FROM {rows}");
        app.ctx
            .db
            .writer()
            .execute_unprepared(&lose)
            .await
            .expect("a statement");
    }
    // A request still awaits payment, so the head is read.
    app.create_request(&fau("7")).await;
    app.devnet().mine(1).await.expect("mined");
    let network = app.ctx.partners.chains.followed.keys().next().expect("enabled");
    rescan::run(&app.ctx, *network, begin.confirmed).await.expect("queued");
    let no_head = Withheld {
        head: true,
        ..Withheld::default()
    };
    let reached = follow_without(&app, no_head).await;
    assert_eq!(reached.confirmed, reached.finalized);
    assert_eq!(app.payments_of(&id).await.len(), 1, "the rescan continues");
    assert!(!reached.moved, "a failed read of the head is no progress");
}
