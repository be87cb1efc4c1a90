//! A server that falls silent in the middle of everything.

use crate::support::{database::TestDatabase, wire::Wire};
use prs::store::{Db, StoreError, cursors};
use std::time::{Duration, Instant};

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

    wire.fall_silent();
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

    wire.let_go();
    let heard = async { while cursors::load(db.reader(), network).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(5), heard)
        .await
        .expect("heard again without a restart");
}
