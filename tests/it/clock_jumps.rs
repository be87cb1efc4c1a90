//! Jumps of the system clock.

use crate::support::{TestApp, events::tell, receiver::Receiver};
use chrono::TimeDelta;
use prs::flows::webhooks::{
    deliver,
    follow_clock::{self, Jump},
    opened::OpenedSecrets,
    recover,
};

/// An application with one delivery. Its first attempt has failed, and the second is due in a second.
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

/// Moves the clock, and runs the flow that follows a clock jump twice.
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
async fn clock_jumps_do_not_change_pauses_between_attempts() {
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
async fn an_attempt_recorded_after_two_clock_jumps_is_repeated_in_time() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    app.register(&receiver.url()).await;
    app.paid_request("1").await;
    app.follow().await;
    let claimed = app.claim().await.remove(0);
    let tried = deliver::send(&app.ctx, &OpenedSecrets::default(), claimed)
        .await
        .expect("sent");
    jump(&app, -TimeDelta::hours(2)).await;
    jump(&app, -TimeDelta::hours(3)).await;
    deliver::record(&app.ctx, &[tried]).await.expect("recorded");
    app.advance_ms(999);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 1, "not earlier");
    app.advance_ms(1);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 2, "not later");
}

#[tokio::test]
async fn a_clock_set_back_while_stopped_delays_no_delivery() {
    let (app, receiver) = once_refused().await;
    app.clock.advance(-TimeDelta::hours(2));
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 1, "two hours to wait");
    follow_clock::begin(&app.ctx).await.expect("begun");
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 2);
}

/// Advances the clock in steps of a second. At each step, due recovery rounds begin and due deliveries are sent, as the
/// workers do.
async fn pass(app: &TestApp, seconds: i64) {
    for _ in 0..seconds {
        app.advance_ms(1_000);
        while recover::run(&app.ctx).await.expect("rounds begin") {}
        app.deliver().await;
    }
}

/// An application with a delivery whose four attempts failed. Its first recovery round is due in a minute.
async fn refused() -> (TestApp, Receiver) {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    app.register(&receiver.url()).await;
    refuse(&app).await;
    assert_eq!(receiver.received().await.len(), 4);
    (app, receiver)
}

/// Publishes an event whose four attempts fail.
async fn refuse(app: &TestApp) {
    tell(app, "payment.confirmed", "01r").await;
    app.deliver().await;
    pass(app, 21).await;
}

async fn is_active(app: &TestApp) -> bool {
    let list = app.get("/v1/webhook").with_client().send().await.expect(200);
    list["webhooks"][0]["isActive"] == true
}

#[tokio::test]
async fn clock_jumps_do_not_move_recovery_rounds() {
    let (app, receiver) = refused().await;
    jump(&app, TimeDelta::days(400)).await;
    pass(&app, 59).await;
    assert_eq!(receiver.received().await.len(), 4, "no round before its time");
    pass(&app, 1).await;
    assert_eq!(receiver.received().await.len(), 5, "the first round");
    pass(&app, 21).await;
    jump(&app, -TimeDelta::days(400)).await;
    pass(&app, 218).await;
    assert_eq!(receiver.received().await.len(), 8, "the second round is not early");
    pass(&app, 1).await;
    assert_eq!(receiver.received().await.len(), 9, "and not late");
}

#[tokio::test]
async fn a_clock_set_back_while_stopped_delays_no_round() {
    let (app, receiver) = refused().await;
    app.clock.advance(-TimeDelta::days(400));
    pass(&app, 1).await;
    assert_eq!(receiver.received().await.len(), 4, "400 days to wait");
    follow_clock::begin(&app.ctx).await.expect("begun");
    pass(&app, 1).await;
    assert_eq!(receiver.received().await.len(), 5);
}

#[tokio::test]
async fn clock_jumps_and_downtime_do_not_disable_an_endpoint() {
    let (app, _receiver) = refused().await;
    jump(&app, TimeDelta::days(6)).await;
    refuse(&app).await;
    assert!(is_active(&app).await, "the clock jumped");
    jump(&app, -TimeDelta::days(12)).await;
    jump(&app, TimeDelta::days(6)).await;
    refuse(&app).await;
    assert!(is_active(&app).await, "the clock jumped back and forth");
    app.clock.advance(TimeDelta::days(6));
    refuse(&app).await;
    assert!(is_active(&app).await, "the service was stopped");
    for _ in 0..5 {
        refuse(&app).await;
        app.clock.advance(TimeDelta::days(1));
    }
    refuse(&app).await;
    assert!(!is_active(&app).await, "attempts failed on five days");
}
