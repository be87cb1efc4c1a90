//! A server that falls silent in the middle of everything.

use crate::support::database::TestDatabase;
use prs::store::{Db, StoreError, cursors};
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
    // An embedded database has no wire that could fall silent.
    let database = TestDatabase::postgres().await;
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
