//! What nobody tells of is not decided by that: payments that were noted, set aside or accepted are looked for in their
//! block.

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
        oddity::{QuarantineState, Verdict},
        paying::fee_proxy::Erc20ConversionProxy,
    },
    flows::payments::{
        quarantine::{self, Quarantined, Wanted},
        rescan,
        watch::{Position, Step},
    },
};
use sea_orm::ConnectionTrait;

/// More steps than anything here takes.
const STEPS: usize = 8;

/// Steps on a chain that withholds something; the clock moves on so that what waits is due again.
async fn follow_without(app: &TestApp, withheld: Withheld) -> Position {
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let bent = Bent {
        withheld,
        ..Bent::of(chain)
    };
    let mut reached = None;
    for _ in 0..STEPS {
        app.clock.advance(TimeDelta::minutes(6));
        match step(&app.ctx, &bent).await {
            Ok(Step::At(position)) => reached = Some(position),
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

async fn set_aside(app: &TestApp) -> Quarantined {
    let mut all = quarantine::list(&app.ctx, &Wanted::default(), true, None)
        .await
        .expect("a list");
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Pays a request by a conversion that takes older rates than were handed out.
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
async fn a_payment_that_was_noted_is_credited_though_no_list_names_it_at_finality() {
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
async fn a_block_that_could_not_be_proven_is_read_again_though_no_list_names_its_payment() {
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
async fn an_accepted_payment_is_credited_though_no_list_names_it() {
    let app = TestApp::on_chain().await;
    app.follow().await;
    let id = pay_on_other_terms(&app).await;
    app.settle().await;
    let row = set_aside(&app).await;
    quarantine::decide(&app.ctx, &row.id, Verdict::Accept, None)
        .await
        .expect("accepted");
    follow_without(&app, NO_EVENTS).await;
    assert_eq!(app.read_request(&id).await["status"], "paid");
}

#[tokio::test]
async fn what_was_set_aside_stays_open_when_its_block_is_read_again_by_a_list_that_leaves_it_out() {
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
async fn a_head_that_no_node_shows_holds_up_nothing_but_notes() {
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
    // Somebody has to pay still, so the head is looked at.
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
    assert_eq!(app.payments_of(&id).await.len(), 1, "the rescan went on");
    assert!(!reached.moved, "a head that fails is no progress");
}
