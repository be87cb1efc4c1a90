//! Responses that are stored for repeated calls.

use super::{
    on_both,
    samples::{at, platform},
};
use prs::store::{self, Db, StoreError, idempotency::IdempotencyKey};

on_both! {
    idempotency_keys_are_taken_once
    old_keys_are_deleted_in_batches
}

async fn idempotency_keys_are_taken_once(db: &Db) {
    let key = |owner: &str| IdempotencyKey {
        owner: (&platform(owner)).into(),
        scope: "key-1 createRequest".into(),
        key: "once".into(),
    };
    let conn = db.writer();
    assert_eq!(store::idempotency::find(conn, &key("a")).await.unwrap(), None);
    for (owner, time) in [("a", at(0)), ("b", at(10))] {
        store::idempotency::insert(conn, &key(owner), "hash", "{}", time)
            .await
            .unwrap();
        let used = store::idempotency::find(conn, &key(owner)).await.unwrap().unwrap();
        assert_eq!((used.body_hash.as_str(), used.response.as_str()), ("hash", "{}"));
        assert_eq!(used.created_at, time);
    }
    let refused = store::idempotency::insert(conn, &key("b"), "other", "[]", at(10)).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict(store::IDEMPOTENCY_KEY))),
        "{refused:?}"
    );
    let kept = store::idempotency::find(conn, &key("b")).await.unwrap().unwrap();
    assert_eq!((kept.body_hash.as_str(), kept.response.as_str()), ("hash", "{}"));
    store::idempotency::free(conn, &key("a"), at(0)).await.unwrap();
    assert!(store::idempotency::find(conn, &key("a")).await.unwrap().is_some());
    store::idempotency::free(conn, &key("a"), at(1)).await.unwrap();
    assert_eq!(store::idempotency::find(conn, &key("a")).await.unwrap(), None);
    assert!(store::idempotency::find(conn, &key("b")).await.unwrap().is_some());
}

async fn old_keys_are_deleted_in_batches(db: &Db) {
    let key = |number: i64| IdempotencyKey {
        owner: (&platform("a")).into(),
        scope: "key-1 createRequest".into(),
        key: number.to_string(),
    };
    let conn = db.writer();
    for number in 0..8 {
        store::idempotency::insert(conn, &key(number), "hash", "{}", at(number))
            .await
            .unwrap();
    }
    for gone in [3, 2, 0] {
        assert_eq!(store::idempotency::forget(conn, at(5), 3).await.unwrap(), gone);
    }
    for number in 0..8 {
        let kept = store::idempotency::find(conn, &key(number)).await.unwrap();
        assert_eq!(kept.is_some(), number >= 5, "{number}");
    }
}
