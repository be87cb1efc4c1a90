//! The database itself: migrations, writers at the same time, failures to connect.

use super::{
    on_both, run,
    samples::{request, scope},
};
use crate::support::database::TestDatabase;
use prs::store::{self, Db, StoreError};
use sea_orm::{ConnectionTrait, Statement};

on_both! {
    migrations_can_be_undone_and_applied_again
    two_processes_can_migrate_at_once
    concurrent_writers_do_not_fail_as_busy
}

async fn migrations_can_be_undone_and_applied_again(db: &Db) {
    let schema = db.dump_schema().await.unwrap();
    assert!(schema.contains("requests_reference_key"));
    assert!(!schema.contains("seaql_migrations"));
    let states = db.migrate_status().await.unwrap();
    assert!(states.iter().all(|state| state.is_applied));
    db.migrate_down(1).await.unwrap();
    let left = db.migrate_status().await.unwrap();
    assert_eq!(left.iter().filter(|state| !state.is_applied).count(), 1);
    db.migrate_down(u32::try_from(states.len()).unwrap()).await.unwrap();
    assert_eq!(db.dump_schema().await.unwrap(), "");
    db.migrate_up().await.unwrap();
    assert_eq!(db.dump_schema().await.unwrap(), schema);
    db.migrate_up().await.unwrap();
    db.ping().await.unwrap();
}

async fn two_processes_can_migrate_at_once(db: &Db) {
    db.migrate_down(100).await.unwrap();
    let (one, other) = tokio::join!(db.migrate_up(), db.migrate_up());
    // SQLite lets one of them fail on the table of the other; whoever comes second finds everything done.
    assert!(one.is_ok() || other.is_ok());
    if db.is_postgres() {
        one.unwrap();
        other.unwrap();
    }
    db.migrate_up().await.unwrap();
    assert!(db.migrate_status().await.unwrap().iter().all(|state| state.is_applied));
}

async fn concurrent_writers_do_not_fail_as_busy(db: &Db) {
    let writers = (0..8).map(|writer| {
        let db = db.clone();
        tokio::spawn(async move {
            for round in 0..10 {
                let tx = db.begin("read then write").await.unwrap();
                store::requests::list(&tx, &scope("a"), None, 1, 0).await.unwrap();
                store::requests::insert(&tx, &request("a", writer * 100 + round))
                    .await
                    .unwrap();
                tx.commit().await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let count = Statement::from_string(db.reader().get_database_backend(), "SELECT count(*) AS n FROM requests");
    let row = db.reader().query_one_raw(count).await.unwrap().unwrap();
    assert_eq!(row.try_get::<i64>("", "n").unwrap(), 80);
}

#[tokio::test]
async fn a_database_that_is_not_there_is_unavailable() {
    let refused = Db::connect("postgres://nobody@127.0.0.1:1/nothing").await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    let refused = Db::connect("mysql://localhost/prs").await;
    assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
    let refused = Db::connect("sqlite::memory:").await;
    assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
}

#[tokio::test]
async fn readers_of_sqlite_cannot_write() {
    run(TestDatabase::sqlite(), async |db| {
        let refused = store::requests::insert(db.reader(), &request("a", 1)).await;
        assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
    })
    .await;
}
