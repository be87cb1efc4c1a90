//! Several workers on one network: one of them leads. A step of a former leader that is still in flight does not undo
//! changes of other workers or of the operator.

use crate::support::{
    TestApp,
    bent::Bent,
    chain::{lead, look},
};
use chrono::TimeDelta;
use prs::{
    ctx::Ctx,
    domain::{block_range::BlockRange, network::Network},
    flows::payments::{
        backlog::{self, BacklogSpeeds},
        lead as leading, reconcile, rescan, resume,
        watch::{self, WatchResult},
    },
    ports::chain::Chain,
    store::{self, cursors::Cursor, leaders::LEASE_MAX},
    worker::{self, Workers, chain_states::ChainOutcome, deliver_webhooks, lead_chains},
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

const NETWORK: Network = Network::Sepolia;

fn chain(app: &TestApp) -> Arc<dyn Chain> {
    app.ctx.partners.chains.followed[&NETWORK].clone()
}

async fn cursor(app: &TestApp) -> Cursor {
    let cursor = store::cursors::load(app.ctx.db.reader(), NETWORK)
        .await
        .expect("a read");
    cursor.expect("the chain was followed")
}

/// Halts the chain while a step is running.
async fn halt(db: store::Db) {
    let stored = store::cursors::load(db.reader(), NETWORK).await.expect("a read");
    let stored = stored.expect("the chain was followed");
    let halted = Cursor {
        halted_reason: Some("by hand".to_owned()),
        ..stored.clone()
    };
    let is_halted = store::cursors::replace(db.writer(), &stored, &halted).await;
    assert!(is_halted.expect("a write"));
}

/// Makes another instance the leader of the network.
async fn take_over(ctx: Ctx) {
    lead(&ctx, NETWORK).await;
}

#[tokio::test]
async fn a_halt_during_a_step_persists_and_stops_finality() {
    let app = TestApp::on_chain_with(2).await;
    app.follow().await;
    let id = app.paid_request("1").await;
    app.devnet().mine(1).await.expect("mined");
    let before = cursor(&app).await;
    let bent = Bent::of(&chain(&app));
    *bent.before_list.lock().expect("unpoisoned") = Some(Box::pin(halt(app.ctx.db.clone())));
    look(&app.ctx, &bent).await.expect("a step that changes nothing");
    let after = cursor(&app).await;
    assert_eq!(after.halted_reason.as_deref(), Some("by hand"));
    assert_eq!((after.finalized, after.seen), (before.finalized, before.seen));
    assert!(
        app.payments_of(&id).await.is_empty(),
        "nothing is confirmed while the chain is halted"
    );
    let next = look(&app.ctx, &bent).await.expect("a step");
    assert!(matches!(next, WatchResult::Halted(_)), "{next:?}");
}

#[tokio::test]
async fn a_halt_while_noting_head_blocks_persists() {
    let app = TestApp::on_chain_with(3).await;
    app.follow().await;
    app.paid_request("1").await;
    let bent = Bent::of(&chain(&app));
    *bent.before_blocks.lock().expect("unpoisoned") = Some(Box::pin(halt(app.ctx.db.clone())));
    look(&app.ctx, &bent).await.expect("a step that notes nothing");
    assert!(
        bent.before_blocks.lock().expect("unpoisoned").is_none(),
        "the chain was halted during the step"
    );
    assert_eq!(cursor(&app).await.halted_reason.as_deref(), Some("by hand"));
}

#[tokio::test]
async fn a_halt_stops_the_backlog() {
    let app = TestApp::on_chain().await;
    let id = app.paid_request("1").await;
    app.follow().await;
    rescan::run(&app.ctx, NETWORK, 0).await.expect("queued");
    let bent = Bent::of(&chain(&app));
    *bent.before_list.lock().expect("unpoisoned") = Some(Box::pin(halt(app.ctx.db.clone())));
    let leadership = lead(&app.ctx, NETWORK).await;
    let filled = backlog::run(&app.ctx, &bent, &leadership, &BacklogSpeeds::default()).await;
    assert!(filled.is_err(), "{filled:?}");
    let due = async || {
        let (reader, now) = (app.ctx.db.reader(), app.ctx.clock.now());
        let due = store::backlogs::due(reader, NETWORK, u64::from(u32::MAX), now, 10).await;
        due.expect("ranges")
    };
    assert_eq!(due().await[0].failures, 0, "a halt does not count as a failure");
    resume::run(&app.ctx, NETWORK).await.expect("the chain resumes");
    app.follow().await;
    assert!(due().await.is_empty());
    assert_eq!(app.payments_of(&id).await.len(), 1);
}

#[tokio::test]
async fn a_former_leader_stops_without_changes() {
    let app = TestApp::on_chain().await;
    app.follow().await;
    let id = app.paid_request("1").await;
    let before = cursor(&app).await;
    let bent = Bent::of(&chain(&app));
    let former = lead(&app.ctx, NETWORK).await;
    *bent.before_list.lock().expect("unpoisoned") = Some(Box::pin(take_over(app.ctx.clone())));
    let stale = watch::run(&app.ctx, &bent, &former).await;
    assert!(stale.is_err(), "{stale:?}");
    assert!(former.ended().is_cancelled(), "it stops");
    assert_eq!(cursor(&app).await, before, "the former leader changed nothing");
    assert!(app.payments_of(&id).await.is_empty());
    app.follow().await;
    assert_eq!(app.payments_of(&id).await.len(), 1, "the next leader continues");
}

#[tokio::test]
async fn a_former_leader_cannot_halt_note_or_fill_the_backlog() {
    let app = TestApp::on_chain_with(2).await;
    app.paid_request("1").await;
    app.devnet().mine(1).await.expect("mined");
    let chain = chain(&app);
    let former = lead(&app.ctx, NETWORK).await;
    lead(&app.ctx, NETWORK).await;
    let begun = watch::run(&app.ctx, chain.as_ref(), &former).await;
    assert!(begun.is_err(), "{begun:?}");
    let stored = store::cursors::load(app.ctx.db.reader(), NETWORK)
        .await
        .expect("a read");
    assert_eq!(stored, None, "a former leader does not start a network");
    app.follow().await;
    let id = app.paid_request("1").await;
    let before = cursor(&app).await;
    watch::run(&app.ctx, chain.as_ref(), &former)
        .await
        .expect_err("a former leader settles nothing");
    rescan::run(&app.ctx, NETWORK, 0).await.expect("queued");
    let filled = backlog::run(&app.ctx, chain.as_ref(), &former, &BacklogSpeeds::default()).await;
    assert!(filled.is_err(), "{filled:?}");
    // A final block leaves the chain, which halts it.
    let forged = Cursor {
        finalized: store::cursors::ReachedBlock {
            hash: alloy::primitives::B256::repeat_byte(1),
            ..before.finalized
        },
        finality: Some(prs::domain::payment::Finality::Tag),
        ..before.clone()
    };
    let is_forged = store::cursors::replace(app.ctx.db.writer(), &before, &forged).await;
    assert!(is_forged.expect("a write"));
    app.devnet().mine(1).await.expect("mined");
    let halted = watch::run(&app.ctx, chain.as_ref(), &former).await;
    assert!(halted.is_err(), "{halted:?}");
    assert_eq!(cursor(&app).await, forged);
    assert!(app.payments_of(&id).await.is_empty());
}

#[tokio::test]
async fn operator_commands_work_while_a_leader_runs() {
    let app = TestApp::on_chain().await;
    let id = app.paid_request("1").await;
    app.follow().await;
    let chain = chain(&app);
    let leadership = lead(&app.ctx, NETWORK).await;
    let to = cursor(&app).await.finalized.number;
    rescan::run(&app.ctx, NETWORK, 0).await.expect("queued");
    let report = reconcile::run(&app.ctx, chain.as_ref(), BlockRange { from: 0, to }, true, &mut |_| {}).await;
    assert_eq!(report.expect("a comparison").differences, 0);
    halt(app.ctx.db.clone()).await;
    resume::run(&app.ctx, NETWORK).await.expect("the chain resumes");
    watch::run(&app.ctx, chain.as_ref(), &leadership)
        .await
        .expect("the leader continues");
    let filled = backlog::run(&app.ctx, chain.as_ref(), &leadership, &BacklogSpeeds::default()).await;
    assert!(filled.expect("filled in"));
    assert_eq!(app.payments_of(&id).await.len(), 1);
}

#[tokio::test]
async fn one_instance_leads_at_a_time_and_each_next_term_is_greater() {
    let app = TestApp::on_chain().await;
    let stop = CancellationToken::new();
    let begin = async |instance: &str, lease_ms| {
        let lease = TimeDelta::milliseconds(lease_ms);
        let begun = leading::begin(&app.ctx, NETWORK, instance, lease, &stop).await;
        begun.expect("an answer")
    };
    let first = begin("a", 1_000).await.expect("no instance leads");
    assert!(begin("b", 1_000).await.is_none(), "a lease keeps others out");
    let again = begin("a", 1_000).await.expect("an instance that was started again");
    assert!(again.number() > first.number());
    let lease = TimeDelta::milliseconds(1_000);
    let is_renewed = leading::renew(&app.ctx, &first, lease).await;
    assert!(!is_renewed.expect("an answer"), "the former term has ended");
    assert!(first.ended().is_cancelled());
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(leading::renew(&app.ctx, &again, lease).await.expect("renewed"));
        assert!(begin("b", 1_000).await.is_none(), "a renewed lease continues");
    }
    let begun = Instant::now();
    let second = loop {
        match begin("b", 60_000).await {
            Some(second) => break second,
            None => assert!(begun.elapsed() < Duration::from_secs(5), "the lease does not end"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(second.number() > again.number());
    leading::resign(&app.ctx, &second).await.expect("handed over");
    let third = begin("a", 60_000).await.expect("at once");
    assert!(third.number() > second.number());
}

fn start(app: &TestApp, instance: &str, stop: &CancellationToken) -> (Workers, TaskTracker) {
    let options = deliver_webhooks::DeliveryOptions {
        concurrency: 1,
        concurrency_per_endpoint: 1,
    };
    let chains = lead_chains::LeadershipOptions {
        instance: instance.to_owned(),
        lease: Duration::from_secs(2),
        polls: HashMap::from([(NETWORK, Duration::from_millis(20))]),
        news: HashMap::new(),
    };
    let tasks = TaskTracker::new();
    let workers = worker::start(&app.ctx, options, chains, stop, stop, &tasks);
    tasks.close();
    (workers, tasks)
}

/// Waits until a worker reports this state of the network.
async fn until(workers: &Workers, holds: impl Fn(&ChainOutcome, Option<u64>) -> bool) -> Duration {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        let states = workers.chains.all();
        if states.get(&NETWORK).is_some_and(|state| holds(&state.look, state.term)) {
            return begun.elapsed();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within ten seconds: {:?}", workers.chains.all());
}

#[tokio::test]
async fn a_standby_takes_over_from_stopped_and_unreachable_leaders() {
    let app = TestApp::on_chain().await;
    let other = app.beside(|_| {}).await;
    let (stop_first, stop_second) = (CancellationToken::new(), CancellationToken::new());
    let (first, first_tasks) = start(&app, "a", &stop_first);
    until(&first, |look, term| {
        matches!(look, ChainOutcome::Followed(_)) && term == Some(1)
    })
    .await;
    let (second, second_tasks) = start(&other, "b", &stop_second);
    until(&second, |look, term| *look == ChainOutcome::Standby && term.is_none()).await;
    stop_first.cancel();
    first_tasks.wait().await;
    let took = until(&second, |look, term| {
        matches!(look, ChainOutcome::Followed(_)) && term == Some(2)
    })
    .await;
    assert!(
        took < Duration::from_millis(1_900),
        "the lease was handed over: {took:?}"
    );
    stop_second.cancel();
    second_tasks.wait().await;
    // A leader that never returns.
    let lease = TimeDelta::seconds(3);
    let gone = leading::begin(&app.ctx, NETWORK, "gone", lease, &CancellationToken::new()).await;
    gone.expect("an answer").expect("handed over");
    let stop = CancellationToken::new();
    let (third, tasks) = start(&app, "a", &stop);
    let took = until(&third, |look, _| matches!(look, ChainOutcome::Followed(_))).await;
    assert!(
        took > Duration::from_secs(2) && took < Duration::from_secs(6),
        "{took:?}"
    );
    stop.cancel();
    tasks.wait().await;
}

#[tokio::test]
async fn a_lease_beyond_the_maximum_end_is_ignored() {
    let app = TestApp::on_chain().await;
    let stop = CancellationToken::new();
    let begin = async |instance: &str, lease| {
        leading::begin(&app.ctx, NETWORK, instance, lease, &stop)
            .await
            .expect("an answer")
    };
    begin("a", LEASE_MAX + TimeDelta::hours(2))
        .await
        .expect("no instance leads");
    // Meanwhile the clock of the database has been set back by two hours.
    begin("b", LEASE_MAX).await.expect("the lease is void");
}
