//! Answers that are kept for a repeated call.

use super::{
    on_both,
    samples::{at, platform},
};
use prs::store::{
    self, Db, StoreError,
    idempotency::{IdempotencyKey, StoredAnswer},
};

on_both! {
    idempotency_keys_are_taken_once
}

async fn idempotency_keys_are_taken_once(db: &Db) {
    let key = |owner: &str| IdempotencyKey {
        owner: (&platform(owner)).into(),
        scope: "key-1 createRequest".into(),
        key: "once".into(),
    };
    let answer = StoredAnswer {
        status: 201,
        response: "{}".into(),
    };
    let conn = db.writer();
    assert_eq!(store::idempotency::find(conn, &key("a")).await.unwrap(), None);
    assert!(store::idempotency::begin(conn, &key("a"), "hash", at(0)).await.unwrap());
    assert!(!store::idempotency::begin(conn, &key("a"), "hash", at(0)).await.unwrap());
    let used = store::idempotency::find(conn, &key("a")).await.unwrap().unwrap();
    assert_eq!((used.body_hash.as_str(), used.answer), ("hash", None));
    assert!(store::idempotency::complete(conn, &key("a"), &answer).await.unwrap());
    assert!(!store::idempotency::complete(conn, &key("a"), &answer).await.unwrap());
    let used = store::idempotency::find(conn, &key("a")).await.unwrap().unwrap();
    assert_eq!(used.answer.as_ref(), Some(&answer));
    store::idempotency::insert(conn, &key("b"), "hash", &answer, at(10))
        .await
        .unwrap();
    let refused = store::idempotency::insert(conn, &key("b"), "hash", &answer, at(10)).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict(store::IDEMPOTENCY_KEY))),
        "{refused:?}"
    );
    assert_eq!(store::idempotency::purge_older_than(conn, at(5)).await.unwrap(), 1);
    assert_eq!(store::idempotency::find(conn, &key("a")).await.unwrap(), None);
}
