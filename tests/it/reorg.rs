//! Reorganisations on a real node: a payment counts exactly once, or not at all.

use crate::support::{
    TestApp,
    bent::Bent,
    chain::{PAYER, look, transactions},
    receiver::Receiver,
    requests::{fau, request},
};
use alloy::primitives::B256;
use devnet::ReorgTransaction;
use prs::{
    domain::{block_range::BlockRange, network::Network},
    flows::payments::{reconcile, resume, watch::WatchResult},
    store,
};
use sea_orm::ConnectionTrait;
use serde_json::json;
use std::sync::Mutex;

/// Number of blocks after which a payment is final in these tests.
const CONFIRMATIONS: u64 = 6;

/// Depth of a reorganisation that is too deep to be undone without the operator.
const TOO_DEEP: u64 = 70;

struct Paid {
    id: String,
    tx_hash: B256,
}

async fn start() -> (TestApp, Receiver) {
    let app = TestApp::on_chain_with(CONFIRMATIONS).await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    (app, receiver)
}

/// Pays a request, so that the payment is in the newest block, and lets the service detect the payment.
async fn pay_and_see(app: &TestApp) -> Paid {
    let id = app.create_request(&fau("5")).await;
    let receipt = app.pay(&id, "").await;
    app.follow().await;
    assert_eq!(app.read_request(&id).await["detectedAmount"], "5", "seen");
    Paid {
        id,
        tx_hash: receipt.tx_hash,
    }
}

async fn finish(app: &TestApp) {
    app.devnet().mine(CONFIRMATIONS + 1).await.expect("mined");
    app.settle().await;
}

async fn assert_credited_once(app: &TestApp, receiver: &Receiver, paid: &Paid) {
    let read = app.read_request(&paid.id).await;
    assert_eq!(read["status"], "paid");
    assert_eq!(read["paidAmount"], "5");
    assert_eq!(app.payments_of(&paid.id).await.len(), 1);
    let told = receiver.received().await;
    assert_eq!(
        told.iter()
            .filter(|one| one.json()["requestId"] == paid.id.as_str())
            .count(),
        1
    );
}

async fn assert_not_credited(app: &TestApp, receiver: &Receiver, paid: &Paid) {
    let read = app.read_request(&paid.id).await;
    assert_eq!(read["status"], "pending");
    assert!(
        read.get("detectedAmount").is_none(),
        "the detected payment is forgotten: {read}"
    );
    assert!(app.payments_of(&paid.id).await.is_empty());
    assert!(receiver.received().await.is_empty());
}

#[tokio::test]
async fn no_event_is_sent_before_finality() {
    let (app, receiver) = start().await;
    let paid = pay_and_see(&app).await;
    for _ in 1..CONFIRMATIONS {
        app.settle().await;
        assert_eq!(app.read_request(&paid.id).await["status"], "pending");
        assert!(receiver.received().await.is_empty());
        app.devnet().mine(1).await.expect("mined");
    }
    app.settle().await;
    assert_credited_once(&app, &receiver, &paid).await;
}

#[tokio::test]
async fn a_reincluded_payment_counts_once_at_every_reorg_depth() {
    for depth in 1..CONFIRMATIONS {
        let (app, receiver) = start().await;
        let paid = pay_and_see(&app).await;
        let raw = app.devnet().raw_transaction(paid.tx_hash).await.expect("a transaction");
        app.devnet().mine(depth - 1).await.expect("mined");
        app.follow().await;
        // Another proxy payment comes first, so that the log index of ours changes.
        let noise = noise(&app).await;
        let transactions = vec![(noise, 0), (ReorgTransaction::Raw(raw), 0)];
        app.devnet().reorg_with(depth, transactions).await.expect("reorganised");
        app.follow().await;
        finish(&app).await;
        assert_credited_once(&app, &receiver, &paid).await;
    }
}

#[tokio::test]
async fn a_dropped_payment_never_counts_at_any_reorg_depth() {
    for depth in 1..CONFIRMATIONS {
        let (app, receiver) = start().await;
        let paid = pay_and_see(&app).await;
        app.devnet().mine(depth - 1).await.expect("mined");
        app.follow().await;
        app.devnet().reorg(depth).await.expect("reorganised");
        forget(&app, &paid).await;
        app.follow().await;
        finish(&app).await;
        assert_not_credited(&app, &receiver, &paid).await;
    }
}

#[tokio::test]
async fn a_restart_in_the_middle_of_a_reorganisation_changes_nothing() {
    let (app, receiver) = start().await;
    let kept = pay_and_see(&app).await;
    let raw = app.devnet().raw_transaction(kept.tx_hash).await.expect("a transaction");
    let app = app.restarted().await;
    app.devnet()
        .reorg_with(1, vec![(noise(&app).await, 0), (ReorgTransaction::Raw(raw), 0)])
        .await
        .expect("reorganised");
    let app = app.restarted().await;
    app.follow().await;
    let app = app.restarted().await;
    finish(&app).await;
    let app = app.restarted().await;
    app.settle().await;
    assert_credited_once(&app, &receiver, &kept).await;
}

#[tokio::test]
async fn a_restart_after_a_dropped_payment_does_not_bring_it_back() {
    let (app, receiver) = start().await;
    let paid = pay_and_see(&app).await;
    app.devnet().reorg(1).await.expect("reorganised");
    forget(&app, &paid).await;
    let app = app.restarted().await;
    finish(&app).await;
    assert_not_credited(&app, &receiver, &paid).await;
}

#[tokio::test]
async fn a_too_deep_reorganisation_halts_the_chain_until_it_is_resumed() {
    let (app, receiver) = start().await;
    app.devnet().mine(CONFIRMATIONS).await.expect("mined");
    app.settle().await;
    let paid = pay_and_see(&app).await;
    finish(&app).await;
    app.devnet().mine(TOO_DEEP).await.expect("mined");
    app.settle().await;
    assert_credited_once(&app, &receiver, &paid).await;
    app.devnet()
        .rollback(TOO_DEEP + CONFIRMATIONS + 3)
        .await
        .expect("rolled back");
    app.devnet().mine(TOO_DEEP + 2 * CONFIRMATIONS).await.expect("mined");
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    for _ in 0..2 {
        let step = look(&app.ctx, chain.as_ref()).await.expect("a step");
        assert!(matches!(step, WatchResult::Halted(_)), "{step:?}");
        app.deliver().await;
        assert_credited_once(&app, &receiver, &paid).await;
    }

    let network = chain.network();
    let reason = resume::run(&app.ctx, network).await.expect("resumed");
    assert!(reason.contains("final"), "{reason}");
    resume::run(&app.ctx, network)
        .await
        .expect_err("a chain that is not halted");
    app.settle().await;
    let read = app.read_request(&paid.id).await;
    assert_eq!((&read["status"], &read["paidAmount"]), (&json!("pending"), &json!("0")));
    let payments = app.payments_of(&paid.id).await;
    assert_eq!(payments.len(), 1, "nothing is deleted");
    assert_eq!(payments[0]["reversal"]["reason"], "reorganised");
    let told = receiver.received().await;
    assert_eq!(told.last().expect("an event").json()["event"], "payment.reversed");
}

/// The chain is reorganised in the middle of a step: the step has found its cursor on the old chain, and reads the rest
/// from the new chain.
#[tokio::test]
async fn a_reorganisation_within_a_step_is_detected() {
    let app = TestApp::on_chain_with(2).await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    app.devnet().mine(3).await.expect("mined");
    app.follow().await;
    let left = pay_and_see(&app).await;
    app.devnet().mine(1).await.expect("mined");
    app.settle().await;
    assert_credited_once(&app, &receiver, &left).await;
    app.devnet().mine(3).await.expect("mined");
    let devnet = app.chain.clone().expect("a chain");
    let dropped = left.tx_hash;
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let bent = Bent {
        before_list: Mutex::new(Some(Box::pin(async move {
            devnet.reorg(5).await.expect("reorganised");
            let _ = devnet.drop_transaction(dropped).await;
        }))),
        ..Bent::of(chain)
    };
    // Whether this step fails or continues, the data that it read is not kept.
    drop(look(&app.ctx, &bent).await);
    app.devnet().mine(2).await.expect("mined");
    app.settle().await;
    let read = app.read_request(&left.id).await;
    assert_eq!((&read["status"], &read["paidAmount"]), (&json!("pending"), &json!("0")));
    let payments = app.payments_of(&left.id).await;
    assert_eq!(payments[0]["reversal"]["reason"], "reorganised");
}

#[tokio::test]
async fn observations_of_lost_blocks_are_deleted_on_a_shorter_chain() {
    // In the first case, the chain lost more blocks than a node may lag behind. In the second case, the chain lost
    // fewer blocks and grew again with other blocks.
    for (lost, grown) in [(TOO_DEEP + 1, 0), (6, 3)] {
        let app = TestApp::on_chain_with(200).await;
        app.follow().await;
        let paid = pay_and_see(&app).await;
        app.devnet().mine(lost - 1).await.expect("mined");
        app.follow().await;
        app.devnet().rollback(lost).await.expect("rolled back");
        forget(&app, &paid).await;
        app.devnet().mine(grown).await.expect("mined");
        app.follow().await;
        let read = app.read_request(&paid.id).await;
        assert!(read.get("detectedAmount").is_none(), "{lost} {grown}: {read}");
    }
}

/// The chain was halted because nodes returned false data, not because of a reorganisation, so nothing has to be
/// undone.
#[tokio::test]
async fn the_permission_to_roll_back_ends_once_the_chain_advances() {
    let (app, receiver) = start().await;
    app.devnet().mine(CONFIRMATIONS).await.expect("mined");
    app.settle().await;
    let halt = "UPDATE chain_cursors SET halted_reason = 'the nodes returned false data'";
    app.ctx.db.writer().execute_unprepared(halt).await.expect("halted");
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    resume::run(&app.ctx, chain.network()).await.expect("resumed");
    let paid = pay_and_see(&app).await;
    finish(&app).await;
    app.devnet().mine(TOO_DEEP).await.expect("mined");
    app.settle().await;
    app.devnet()
        .rollback(TOO_DEEP + CONFIRMATIONS + 3)
        .await
        .expect("rolled back");
    app.devnet().mine(TOO_DEEP + 2 * CONFIRMATIONS).await.expect("mined");
    let step = look(&app.ctx, chain.as_ref()).await.expect("a step");
    assert!(matches!(step, WatchResult::Halted(_)), "{step:?}");
    app.deliver().await;
    assert_credited_once(&app, &receiver, &paid).await;
}

/// If no payment is awaited, the service polls the network so rarely that hundreds of blocks pass between two polls.
#[tokio::test]
async fn a_short_reorganisation_is_undone_despite_infrequent_polling() {
    let (app, receiver) = start().await;
    app.settle().await;
    let paid = pay_and_see(&app).await;
    finish(&app).await;
    assert_credited_once(&app, &receiver, &paid).await;
    for _ in 0..2 {
        app.devnet().mine(3 * TOO_DEEP).await.expect("mined");
        app.settle().await;
    }
    let other = vec![(noise(&app).await, 0)];
    let depth = CONFIRMATIONS + 2;
    app.devnet().reorg_with(depth, other).await.expect("reorganised");
    app.devnet().mine(3).await.expect("mined");
    app.settle().await;
    assert_credited_once(&app, &receiver, &paid).await;
    // Payments on the new branch count as before.
    let next = app.paid_request("5").await;
    finish(&app).await;
    assert_eq!(app.read_request(&next).await["status"], "paid");
}

#[tokio::test]
async fn resuming_a_halted_chain_reverses_every_payment_that_left_it() {
    let (app, receiver) = start().await;
    let kept = pay_and_see(&app).await;
    app.devnet().mine(TOO_DEEP).await.expect("mined");
    app.settle().await;
    let left = pay_and_see(&app).await;
    app.devnet().mine(2 * TOO_DEEP).await.expect("mined");
    app.settle().await;
    assert_credited_once(&app, &receiver, &left).await;
    // Simulates that the stored block hashes do not reach back to the blocks of the payments.
    let window = "DELETE FROM chain_blocks";
    app.ctx
        .db
        .writer()
        .execute_unprepared(window)
        .await
        .expect("a statement");
    app.devnet().rollback(2 * TOO_DEEP + 1).await.expect("rolled back");
    forget(&app, &left).await;
    app.devnet().mine(3 * TOO_DEEP).await.expect("mined");
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let step = look(&app.ctx, chain.as_ref()).await.expect("a step");
    assert!(matches!(step, WatchResult::Halted(_)), "{step:?}");
    assert_credited_once(&app, &receiver, &left).await;
    resume::run(&app.ctx, chain.network()).await.expect("resumed");
    app.settle().await;
    assert_credited_once(&app, &receiver, &kept).await;
    let read = app.read_request(&left.id).await;
    assert_eq!((&read["status"], &read["paidAmount"]), (&json!("pending"), &json!("0")));
    assert_eq!(app.payments_of(&left.id).await[0]["reversal"]["reason"], "reorganised");
}

#[tokio::test]
async fn few_block_hashes_are_stored_while_no_payment_is_awaited() {
    let (app, _) = start().await;
    app.settle().await;
    for _ in 0..150 {
        app.devnet().mine(1).await.expect("mined");
        app.follow().await;
    }
    let window = store::cursors::window(app.ctx.db.reader(), Network::Sepolia).await;
    let count = window.expect("a window").len();
    assert!((90..=110).contains(&count), "{count} hashes");
}

/// Compares the tables with the chain after a reorganisation that removed final blocks.
#[tokio::test]
async fn a_comparison_fixes_the_tables_after_a_reorg_below_finality() {
    let (app, receiver) = start().await;
    app.devnet().mine(CONFIRMATIONS).await.expect("mined");
    app.settle().await;
    let (stays, moves, leaves) = (
        pay_and_see(&app).await,
        pay_and_see(&app).await,
        pay_and_see(&app).await,
    );
    let raw = app
        .devnet()
        .raw_transaction(moves.tx_hash)
        .await
        .expect("a transaction");
    app.devnet().mine(TOO_DEEP + CONFIRMATIONS).await.expect("mined");
    app.settle().await;
    for paid in [&stays, &moves, &leaves] {
        assert_credited_once(&app, &receiver, paid).await;
    }
    let first = app
        .devnet()
        .receipt(moves.tx_hash)
        .await
        .expect("an answer")
        .expect("a receipt");
    let head = app.devnet().block_number().await.expect("a height");
    let depth = head - first.block_number.expect("mined") + 1;
    // Another proxy payment comes first, so that the log index of ours changes; its own first step is in its block.
    let transactions = vec![(noise(&app).await, 1), (ReorgTransaction::Raw(raw), 1)];
    app.devnet().reorg_with(depth, transactions).await.expect("reorganised");
    forget(&app, &leaves).await;
    app.devnet().mine(1).await.expect("mined");
    let chain = app.ctx.partners.chains.followed.values().next().expect("enabled");
    let step = look(&app.ctx, chain.as_ref()).await.expect("a step");
    assert!(
        matches!(step, WatchResult::Halted(_)),
        "too deep to be undone without the operator: {step:?}"
    );

    let cursor = store::cursors::load(app.ctx.db.reader(), chain.network()).await;
    let settled = cursor.expect("an answer").expect("a cursor").finalized.number;
    let compare = async |to, fix| {
        let report = reconcile::run(&app.ctx, chain.as_ref(), BlockRange { from: 0, to }, fix, &mut |_| {}).await;
        report.expect("compared").differences
    };
    assert!(compare(settled, true).await > 0);
    assert_eq!(compare(settled, false).await, 0);
    for paid in [&stays, &moves] {
        let read = app.read_request(&paid.id).await;
        assert_eq!((&read["status"], &read["paidAmount"]), (&json!("paid"), &json!("5")));
        assert_eq!(app.payments_of(&paid.id).await.len(), 1);
    }
    let read = app.read_request(&leaves.id).await;
    assert_eq!((&read["status"], &read["paidAmount"]), (&json!("pending"), &json!("0")));
    let payments = app.payments_of(&leaves.id).await;
    assert_eq!(payments.len(), 1, "nothing is deleted");
    assert!(payments[0].get("reversal").is_some());
    // The operator resumes the chain: nothing more changes.
    resume::run(&app.ctx, chain.network()).await.expect("resumed");
    app.settle().await;
    let end = app.follow().await.confirmed;
    assert_eq!(compare(end, false).await, 0);
    assert_eq!(app.read_request(&leaves.id).await["status"], "pending");
}

/// An unrelated payment to another request, ready to be mined first.
async fn noise(app: &TestApp) -> ReorgTransaction {
    let other = app
        .create_request(&request("0.001", "ETH-sepolia-sepolia", "ETH-sepolia-sepolia"))
        .await;
    let steps = transactions(&app.calldata(&other, "").await);
    let (to, data, value) = steps.last().expect("a payment").clone();
    ReorgTransaction::Request {
        from_index: PAYER + 1,
        to,
        call: data,
        value,
    }
}

/// Removes a dropped transaction from the pool, in case the node put it back.
async fn forget(app: &TestApp, paid: &Paid) {
    let _ = app.devnet().drop_transaction(paid.tx_hash).await;
}
