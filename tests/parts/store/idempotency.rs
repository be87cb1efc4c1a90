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
    old_keys_are_forgotten_in_batches
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
    store::idempotency::free(conn, &key("a"), at(0)).await.unwrap();
    assert!(store::idempotency::find(conn, &key("a")).await.unwrap().is_some());
    store::idempotency::free(conn, &key("a"), at(1)).await.unwrap();
    assert_eq!(store::idempotency::find(conn, &key("a")).await.unwrap(), None);
    assert!(store::idempotency::find(conn, &key("b")).await.unwrap().is_some());
}

async fn old_keys_are_forgotten_in_batches(db: &Db) {
    let key = |number: i64| IdempotencyKey {
        owner: (&platform("a")).into(),
        scope: "key-1 createRequest".into(),
        key: number.to_string(),
    };
    let answer = StoredAnswer {
        status: 201,
        response: "{}".into(),
    };
    let conn = db.writer();
    for number in 0..8 {
        store::idempotency::insert(conn, &key(number), "hash", &answer, at(number))
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
