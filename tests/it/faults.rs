//! What is around the service fails: the clock of the machine jumps, the database falls silent.

use crate::{
    payments::fau,
    support::{TestApp, database::TestDatabase, receiver::Receiver},
};
use chrono::TimeDelta;
use prs::{
    flows::webhooks::follow_clock,
    store::{Db, StoreError, cursors},
};
use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
};

/// An application whose one delivery failed once; the second try is due in a second.
async fn once_refused() -> (TestApp, Receiver) {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    receiver.answer(500);
    app.register(&receiver.url()).await;
    let id = app.create_request(&fau("1")).await;
    app.pay(&id, "").await;
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
        follow_clock::run(&app.ctx, before, by).await.expect("followed");
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

/// A wire to the test server that can fall silent for all connections that it has.
struct Wire {
    url: String,
    is_silent: Arc<AtomicBool>,
}

impl Wire {
    async fn to(address: &str) -> Self {
        let mut url = url::Url::parse(address).expect("a URL");
        let server = (url.host_str().expect("a host").to_owned(), url.port().expect("a port"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        url.set_host(Some("127.0.0.1")).expect("a host");
        url.set_port(Some(listener.local_addr().expect("an address").port()))
            .expect("a port");
        let is_silent = Arc::new(AtomicBool::new(false));
        let silence = is_silent.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect((server.0.as_str(), server.1))
                    .await
                    .expect("connected");
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                tokio::spawn(pump(near_in, far_out, silence.clone()));
                tokio::spawn(pump(far_in, near_out, silence.clone()));
            }
        });
        Self {
            url: url.to_string(),
            is_silent,
        }
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, silence: Arc<AtomicBool>) {
    let mut bytes = [0; 8_192];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        while silence.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if to.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_silent_database_is_given_up_in_time_and_heard_again() {
    let database = TestDatabase::create().await;
    if !database.url.starts_with("postgres") {
        // An embedded database has no wire that could fall silent.
        return;
    }
    let wire = Wire::to(&database.url).await;
    let limit = Duration::from_millis(400);
    let db = Db::connect(&wire.url).await.expect("connected").answering_within(limit);
    db.migrate_up().await.expect("migrated");
    let network = prs::domain::network::Network::from_id("sepolia").expect("known");
    cursors::load(db.reader(), network).await.expect("heard");

    wire.is_silent.store(true, Ordering::SeqCst);
    // More calls than connections: each of these would stay busy for ever.
    for call in 0..20 {
        let asked = Instant::now();
        let outcome = if call % 2 == 0 {
            cursors::load(db.reader(), network).await.map(|_| ())
        } else {
            db.begin("silence").await.map(|_| ())
        };
        assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
        assert!(asked.elapsed() < limit * 2, "{:?}", asked.elapsed());
    }

    wire.is_silent.store(false, Ordering::SeqCst);
    let heard = async { while cursors::load(db.reader(), network).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(5), heard)
        .await
        .expect("heard again without a restart");
}
