//! The database itself: migrations, concurrent writers, connection failures.

use super::{
    on_both, run,
    samples::{request, scope},
};
use crate::support::database::TestDatabase;
use prs::store::{
    self, Db, StoreError,
    presence::{ANNOUNCED_EVERY, InstancePresence, PresencePurpose},
};
use sea_orm::{ConnectionTrait, Statement};

on_both! {
    migrations_can_be_undone_and_applied_again
    two_processes_can_migrate_at_once
    concurrent_writers_do_not_fail_as_busy
    a_database_of_another_version_is_reported_in_one_sentence
}

async fn a_database_of_another_version_is_reported_in_one_sentence(db: &Db) {
    // The first migrations had the same tables under other keys, and a day less in their names.
    let former = "UPDATE seaql_migrations SET version = 'm20261201' || substr(version, 10)";
    let present = "UPDATE seaql_migrations SET version = 'm20261202' || substr(version, 10)";
    let unknown = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m20200101_0001_other', 1)";
    for made in [former.to_owned(), format!("{present}; {unknown}")] {
        db.writer().execute_unprepared(&made).await.unwrap();
        let said = [
            db.migrate_up().await.unwrap_err().to_string(),
            db.migrate_status().await.unwrap_err().to_string(),
        ];
        for sentence in said {
            assert!(
                sentence.contains("another version of this program created the database")
                    && !sentence.contains("m20200101")
                    && !sentence.contains("m20261201"),
                "{sentence}"
            );
        }
    }
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
    assert!(db.is_schema_complete().await.unwrap());
}

async fn two_processes_can_migrate_at_once(db: &Db) {
    for _ in 0..5 {
        db.migrate_down(100).await.unwrap();
        let (one, other) = (db.clone(), db.clone());
        let both = [
            tokio::spawn(async move { one.migrate_up().await }),
            tokio::spawn(async move { other.migrate_up().await }),
        ];
        for process in both {
            process.await.unwrap().unwrap();
        }
        assert!(db.migrate_status().await.unwrap().iter().all(|state| state.is_applied));
    }
}

async fn concurrent_writers_do_not_fail_as_busy(db: &Db) {
    let writers = (0..8).map(|writer| {
        let db = db.clone();
        tokio::spawn(async move {
            for round in 0..10 {
                let tx = db.begin("read then write").await.unwrap();
                store::requests::list(&tx, &scope("a"), store::requests::RequestFilter::All, None, 1, 0)
                    .await
                    .unwrap();
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
async fn a_missing_database_is_unavailable() {
    let refused = Db::connect("postgres://nobody@127.0.0.1:1/nothing").await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    let refused = Db::connect("mysql://localhost/prs").await;
    assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
    let refused = Db::connect("sqlite::memory:").await;
    assert!(matches!(refused, Err(StoreError::Broken(_))), "{refused:?}");
}

#[tokio::test]
async fn a_full_disk_is_distinguished_from_an_unresponsive_database() {
    run(TestDatabase::sqlite(), async |db| {
        // SQLite treats a file of the maximum size as a full disk; the smallest limit is its current size.
        db.writer()
            .execute_unprepared("PRAGMA max_page_count = 1")
            .await
            .unwrap();
        let mut outcome = Ok(());
        for number in 0..1_000 {
            outcome = store::requests::insert(db.writer(), &request("a", number)).await;
            if outcome.is_err() {
                break;
            }
        }
        assert!(matches!(outcome, Err(StoreError::Full(_))), "{outcome:?}");
        store::requests::list(
            db.reader(),
            &scope("a"),
            store::requests::RequestFilter::All,
            None,
            1,
            0,
        )
        .await
        .unwrap();
    })
    .await;
}

#[tokio::test]
async fn sqlite_readers_cannot_write() {
    run(TestDatabase::sqlite(), async |db| {
        let refused = store::requests::insert(db.reader(), &request("a", 1)).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
        store::requests::list(
            db.reader(),
            &scope("a"),
            store::requests::RequestFilter::All,
            None,
            1,
            0,
        )
        .await
        .unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_endless_sqlite_read_is_interrupted() {
    run(TestDatabase::sqlite(), async |db| {
        let sql = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n";
        let endless = Statement::from_string(db.reader().get_database_backend(), sql);
        let outcome = db.reader().query_one_raw(endless).await;
        let outcome = StoreError::from(outcome.unwrap_err());
        assert!(matches!(outcome, StoreError::Unavailable(_)), "{outcome:?}");
        // The connection still works.
        store::requests::list(
            db.reader(),
            &scope("a"),
            store::requests::RequestFilter::All,
            None,
            1,
            0,
        )
        .await
        .unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_blocks_no_later_commit() {
    run(TestDatabase::sqlite(), async |db| {
        let write = async |sql: &str| db.writer().execute_unprepared(sql).await;
        write("CREATE TABLE notes (text TEXT)").await.unwrap();
        // The file may not grow.
        write("PRAGMA max_page_count = 1").await.unwrap();
        let tx = db.begin("fill the disk").await.unwrap();
        let large = "INSERT INTO notes SELECT hex(zeroblob(1000000))";
        let full = tx.execute_unprepared(large).await.unwrap_err();
        assert!(full.to_string().contains("disk is full"), "{full}");
        drop(tx);
        write("PRAGMA max_page_count = 1073741823").await.unwrap();
        drop(db.begin("refused").await.unwrap());
        let tx = db.begin("acknowledged").await.unwrap();
        tx.execute_unprepared("INSERT INTO notes VALUES ('kept')")
            .await
            .unwrap();
        tx.commit().await.unwrap();
        write("INSERT INTO notes VALUES ('kept too')").await.unwrap();
        let other = Db::connect(&format!("sqlite:{}", db.file().unwrap().display()))
            .await
            .unwrap();
        let notes = Statement::from_string(db.reader().get_database_backend(), "SELECT text FROM notes");
        assert_eq!(other.reader().query_all_raw(notes).await.unwrap().len(), 2);
        other.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_instance_keeps_the_schema_lock_after_a_lost_session() {
    run(TestDatabase::postgres().await, async |db| {
        let serving = InstancePresence::announce(db, PresencePurpose::Serve)
            .await
            .unwrap()
            .unwrap();
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE application_name = 'prs presence' AND datname = current_database()";
        db.writer().execute_unprepared(cut).await.unwrap();
        let again = tokio::spawn(async move {
            loop {
                tokio::time::sleep(ANNOUNCED_EVERY).await;
                let _ = serving.renew().await;
            }
        });
        let taken = InstancePresence::announce(db, PresencePurpose::TakeBack).await.unwrap();
        assert!(taken.is_none(), "an instance serves");
        again.abort();
        let _ = again.await;
        let taken = InstancePresence::announce(db, PresencePurpose::TakeBack).await.unwrap();
        assert!(taken.is_some(), "no instance serves any longer");
    })
    .await;
}
