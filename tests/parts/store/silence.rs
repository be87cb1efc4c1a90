//! A database server that stops responding at any moment.

use crate::support::{database::TestDatabase, wire::Wire};
use prs::store::{Db, StoreError, cursors};
use std::time::{Duration, Instant};

#[tokio::test]
async fn an_unresponsive_database_times_out_and_recovers() {
    // An embedded database has no connection that could stop responding.
    let database = TestDatabase::postgres().await;
    let wire = Wire::to(&database.url).await;
    let limit = Duration::from_millis(400);
    let db = Db::connect(&wire.url).await.expect("connected").answering_within(limit);
    db.migrate_up().await.expect("migrated");
    let network = prs::domain::network::Network::from_id("sepolia").expect("known");
    cursors::load(db.reader(), network).await.expect("a response");

    wire.fall_silent();
    // More calls than connections: each of these would stay busy forever.
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

    wire.let_go();
    let heard = async { while cursors::load(db.reader(), network).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(5), heard)
        .await
        .expect("the database responds again without a restart");
}
