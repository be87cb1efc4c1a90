//! Callers that stop waiting, for any reason: a deadline, the end of a task, or a shutdown.

use super::{
    run,
    samples::{request, scope},
};
use crate::support::database::TestDatabase;
use futures_util::poll;
use prs::store::{
    Db, StoreError,
    requests::{RequestFilter, insert, list},
};
use sea_orm::{ConnectionTrait, Statement};
use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Polls a future at most this number of times and then drops it; returns whether the future was ready.
async fn look<T>(looks: usize, answer: impl Future<Output = Result<T, StoreError>>) -> bool {
    let mut answer = pin!(answer);
    for _ in 0..looks {
        if poll!(answer.as_mut()).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

async fn gives_up_at_any_moment(database: TestDatabase) {
    let url = database.url.clone();
    run(database, async |db| {
        let other = Db::connect(&url).await.unwrap();
        let number = AtomicU64::new(0);
        let next = || request("a", number.fetch_add(1, Relaxed));
        let transaction = async || {
            let tx = db.begin("given up").await?;
            insert(&tx, &next()).await?;
            tx.commit().await
        };
        let read = async || list(db.reader(), &scope("a"), RequestFilter::All, None, 1, 0).await;
        for what in ["transaction", "write", "read"] {
            for looks in (0..).map(|step: usize| step * step) {
                let was_answered = match what {
                    "transaction" => look(looks, transaction()).await,
                    "write" => look(looks, insert(db.writer(), &next())).await,
                    _ => look(looks, read()).await,
                };
                // One write for each connection that the pool of PostgreSQL keeps, and one more.
                for _ in 0..3 {
                    let kept = next();
                    insert(db.writer(), &kept).await.unwrap();
                    let sql = format!("SELECT 1 AS found FROM requests WHERE request_id = '{}'", kept.id.0);
                    let wanted = Statement::from_string(other.reader().get_database_backend(), sql);
                    let found = other.reader().query_one_raw(wanted).await.unwrap();
                    assert!(found.is_some(), "after a {what} that was dropped after {looks} polls");
                }
                if was_answered {
                    break;
                }
            }
        }
        other.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_calls_never_block_later_writes_on_sqlite() {
    gives_up_at_any_moment(TestDatabase::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_calls_never_block_later_writes_on_postgres() {
    gives_up_at_any_moment(TestDatabase::postgres().await).await;
}
