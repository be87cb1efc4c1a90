//! The process dies between any two commits; the database is all that is left.

use crate::support::{TestApp, chain::lead, receiver::Receiver};
use prs::flows::{
    payments::watch,
    webhooks::{deliver, opened::OpenedSecrets},
};

#[tokio::test]
async fn a_payment_that_was_only_seen_is_confirmed_after_a_restart() {
    let app = TestApp::on_chain_with(2).await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let id = app.paid_request("1").await;
    app.follow().await;
    let app = app.restarted().await;
    assert_eq!(app.read_request(&id).await["detectedAmount"], "1");
    app.devnet().mine(1).await.expect("mined");
    app.settle().await;
    assert_eq!(app.payments_of(&id).await.len(), 1);
    assert_eq!(receiver.received().await.len(), 1);
}

#[tokio::test]
async fn a_claimed_delivery_is_sent_again_with_the_same_identity_after_its_lease() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    app.paid_request("1").await;
    app.follow().await;
    let claimed = app.claim().await;
    assert_eq!(claimed.len(), 1);
    // The receiver has it, the service dies before it can write that down.
    deliver::send(&app.ctx, &OpenedSecrets::default(), claimed[0].clone()).await;
    let app = app.restarted().await;
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 1, "the lease still holds");
    app.advance_ms(15_001);
    app.deliver().await;
    let all = receiver.received().await;
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].body, all[1].body);
    for header in ["x-service-delivery", "x-service-retry-count", "x-service-signature"] {
        assert_eq!(all[0].header(header), all[1].header(header), "{header}");
    }
}

#[tokio::test]
async fn two_watchers_of_one_term_credit_once() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let id = app.paid_request("1").await;
    let chain = app
        .ctx
        .partners
        .chains
        .followed
        .values()
        .next()
        .expect("enabled")
        .clone();
    // Their leases do not keep them apart, and neither does harm.
    let leadership = lead(&app.ctx, chain.network()).await;
    for _ in 0..3 {
        let (first, second) = tokio::join!(
            watch::run(&app.ctx, chain.as_ref(), &leadership),
            watch::run(&app.ctx, chain.as_ref(), &leadership)
        );
        first.expect("a step");
        second.expect("a step");
    }
    app.settle().await;
    assert_eq!(app.payments_of(&id).await.len(), 1);
    assert_eq!(receiver.received().await.len(), 1);
}

#[tokio::test]
async fn a_stale_worker_cannot_overwrite_what_a_newer_one_recorded() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    app.paid_request("1").await;
    app.follow().await;
    let stale = app.claim().await.remove(0);
    app.advance_ms(15_001);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 1, "the newer worker delivered");
    receiver.answer(500);
    let late = deliver::send(&app.ctx, &OpenedSecrets::default(), stale)
        .await
        .expect("sent");
    deliver::record(&app.ctx, &[late]).await.expect("records nothing");
    app.advance_ms(60_000);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 2, "nothing was queued again");
}
