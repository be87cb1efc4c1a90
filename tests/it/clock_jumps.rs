//! The clock of the machine jumps.

use crate::support::{TestApp, receiver::Receiver};
use chrono::TimeDelta;
use prs::flows::webhooks::follow_clock::{self, Jump};

/// An application whose one delivery failed once; the second try is due in a second.
async fn once_refused() -> (TestApp, Receiver) {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    app.register(&receiver.url()).await;
    app.paid_request("1").await;
    app.follow().await;
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 1);
    (app, receiver)
}

/// Makes the jump and lets the worker notice it, as often as it likes.
async fn jump(app: &TestApp, by: TimeDelta) {
    let before = app.ctx.clock.now();
    app.clock.advance(by);
    for _ in 0..2 {
        follow_clock::run(&app.ctx, Jump { before, by })
            .await
            .expect("followed");
    }
}

#[tokio::test]
async fn pauses_between_tries_last_as_long_when_the_clock_jumps() {
    let (app, receiver) = once_refused().await;
    jump(&app, TimeDelta::hours(2)).await;
    app.advance_ms(999);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 1, "not earlier");
    app.advance_ms(1);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 2, "not later");

    jump(&app, -TimeDelta::hours(2)).await;
    app.advance_ms(4_999);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 2, "not earlier");
    app.advance_ms(1);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 3, "not later");
}

#[tokio::test]
async fn a_clock_that_was_set_back_while_nothing_ran_delays_no_delivery() {
    let (app, receiver) = once_refused().await;
    app.clock.advance(-TimeDelta::hours(2));
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 1, "two hours to wait");
    follow_clock::begin(&app.ctx).await.expect("begun");
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 2);
}
