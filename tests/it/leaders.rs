//! Several workers on one network: what one of them or the operator did is not undone by a step of another in flight.

use crate::support::{TestApp, bent::Bent};
use prs::{
    domain::network::Network,
    flows::payments::watch::{self, Step},
    ports::chain::Chain,
    store::{self, cursors::Cursor},
};
use std::sync::Arc;

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

/// Halts the chain behind the back of whoever looks at it.
async fn halt(db: store::Db) {
    let stored = store::cursors::load(db.reader(), NETWORK).await.expect("a read");
    let stored = stored.expect("the chain was followed");
    let halted = Cursor {
        halted_reason: Some("by hand".to_owned()),
        ..stored.clone()
    };
    assert!(
        store::cursors::replace(db.writer(), &stored, &halted)
            .await
            .expect("a write")
    );
}

#[tokio::test]
async fn a_halt_in_the_middle_of_a_step_sticks_and_finality_stands_still() {
    let app = TestApp::on_chain_with(2).await;
    app.follow().await;
    let id = app.paid_request("1").await;
    app.devnet().mine(1).await.expect("mined");
    let before = cursor(&app).await;
    let bent = Bent::of(&chain(&app));
    *bent.before_list.lock().expect("unpoisoned") = Some(Box::pin(halt(app.ctx.db.clone())));
    watch::run(&app.ctx, &bent).await.expect("a step that changes nothing");
    let after = cursor(&app).await;
    assert_eq!(after.halted_reason.as_deref(), Some("by hand"));
    assert_eq!((after.finalized, after.seen), (before.finalized, before.seen));
    assert!(
        app.payments_of(&id).await.is_empty(),
        "nothing is confirmed while it is halted"
    );
    let next = watch::run(&app.ctx, &bent).await.expect("a step");
    assert!(matches!(next, Step::Halted(_)), "{next:?}");
}

#[tokio::test]
async fn a_halt_while_blocks_near_the_head_are_noted_sticks() {
    let app = TestApp::on_chain_with(3).await;
    app.follow().await;
    app.paid_request("1").await;
    let bent = Bent::of(&chain(&app));
    *bent.before_blocks.lock().expect("unpoisoned") = Some(Box::pin(halt(app.ctx.db.clone())));
    watch::run(&app.ctx, &bent).await.expect("a step that notes nothing");
    assert!(
        bent.before_blocks.lock().expect("unpoisoned").is_none(),
        "it was halted on the way"
    );
    assert_eq!(cursor(&app).await.halted_reason.as_deref(), Some("by hand"));
}
