//! The process crashes between any two commits; only the database remains.

use crate::support::{TestApp, chain::lead, receiver::Receiver};
use prs::flows::{
    payments::watch,
    webhooks::{deliver, opened::OpenedSecrets},
};

#[tokio::test]
async fn a_detected_payment_is_confirmed_after_a_restart() {
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
async fn a_delivery_is_resent_with_the_same_id_after_its_lease_expires() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    app.paid_request("1").await;
    app.follow().await;
    let claimed = app.claim().await;
    assert_eq!(claimed.len(), 1);
    // The receiver has the delivery; the service crashes before it records that.
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
async fn two_watchers_with_the_same_lease_credit_once() {
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
    // Two passes run at the same time under the same lease, so the lease does not prevent either. Together they must
    // have the effect of one pass.
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
async fn a_stale_worker_cannot_overwrite_a_newer_record() {
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
