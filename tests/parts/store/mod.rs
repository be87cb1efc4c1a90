//! Tests the store on both databases, table by table.

mod backlogs;
mod clocks;
mod cursors;
mod database;
mod endpoints;
mod given_up;
mod handed_out;
mod idempotency;
mod observations;
mod outbox;
mod owners;
mod partitions;
mod payment_search;
mod payments;
mod quarantine;
mod recovery;
mod requests;
mod samples;
mod silence;

use crate::support::database::TestDatabase;
use prs::{
    adapters::{
        clock::SystemClock,
        ids::SystemIds,
        sealer::{EnvelopeSealer, MasterKeys},
    },
    domain::ids::Secret,
    ports::sealer::Sealer,
    store::Db,
};
use std::sync::Arc;

/// The encryption keys of every database in these tests.
pub fn sealer() -> Arc<dyn Sealer> {
    let ids = Arc::new(SystemIds::new(Arc::new(SystemClock)));
    let keys = MasterKeys::new(&Secret::new("master"), &[], ids);
    Arc::new(EnvelopeSealer::new(keys, Secret::new("look-ups")))
}

/// Runs a test on a database and creates its schema if it has none.
pub async fn run(database: TestDatabase, test: impl AsyncFnOnce(&Db)) {
    let db = Db::connect(&database.url).await.unwrap().sealed_with(&sealer());
    if !db.is_schema_complete().await.unwrap_or(false) {
        db.migrate_up().await.unwrap();
    }
    test(&db).await;
    db.close().await.unwrap();
}

/// Runs each test on both databases.
macro_rules! on_both {
    ($($name:ident)+) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::store::run(crate::support::database::TestDatabase::migrated_sqlite().await, super::$name).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::store::run(crate::support::database::TestDatabase::migrated_postgres().await, super::$name).await;
            })+
        }
    };
}
use on_both;
