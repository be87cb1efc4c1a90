//! Events, and the claims and tries of their deliveries.

use super::{
    on_both,
    samples::{at, claim, finish, outcome, platform, publish, with_endpoint},
};
use prs::{
    domain::{
        ids::{ClientRowId, EventId},
        webhook::{AfterTry, DeliveryState},
    },
    store::{self, Db, outbox::NewEvent},
};
use std::collections::HashSet;

on_both! {
    an_event_is_told_once
    four_workers_claim_each_delivery_once
    a_stale_holder_records_nothing
    retries_wait_and_end
    a_released_delivery_is_due_at_once
    busy_endpoints_are_left_out
    the_next_due_time_is_known
}

async fn an_event_is_told_once(db: &Db) {
    let event = NewEvent {
        id: EventId("event-1".into()),
        owner: (&platform("a")).into(),
        client: Some(ClientRowId("client-1".into())),
        kind: "payment.confirmed".into(),
        deduplication_key: "payment.confirmed:sepolia:0x1:0".into(),
        request_id: Some("01ff".into()),
        body: "{}".into(),
        now: at(0),
    };
    assert!(store::outbox::insert_event(db.writer(), &event).await.unwrap());
    let again = NewEvent {
        id: EventId("event-2".into()),
        ..event
    };
    assert!(!store::outbox::insert_event(db.writer(), &again).await.unwrap());
}

async fn four_workers_claim_each_delivery_once(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    for event in 0..200 {
        publish(db, event, &[&endpoint]).await;
    }
    let workers = (0..4).map(|worker| {
        let db = db.clone();
        tokio::spawn(async move {
            let mut claimed = Vec::new();
            for round in 0.. {
                let token = format!("worker {worker} round {round}");
                let batch = store::outbox::claim_due(db.writer(), at(1), at(16), &token, 7)
                    .await
                    .unwrap();
                assert!(batch.len() <= 7);
                if batch.is_empty() {
                    break;
                }
                claimed.extend(batch.into_iter().map(|delivery| (delivery.id, delivery.body)));
            }
            claimed
        })
    });
    let mut claimed = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        claimed.extend(worker.await.unwrap());
    }
    assert_eq!(claimed.len(), 200);
    assert_eq!(claimed.iter().collect::<HashSet<_>>().len(), 200);
}

async fn a_stale_holder_records_nothing(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    let event = publish(db, 1, &[&endpoint]).await;
    let first = claim(db, 0, "first").await.remove(0);
    assert_eq!(
        (first.url.as_str(), first.secret_sealed.as_str()),
        ("https://example.com/1", "sealed 1")
    );
    assert!(claim(db, 14, "early").await.is_empty());
    // The lease has ended: another worker takes over, and the retry count is the same.
    let second = claim(db, 15, "second").await.remove(0);
    assert_eq!((&second.id, second.retry_count), (&first.id, 0));
    let late = (first, outcome(200, 16), AfterTry::Delivered, "attempt-1".to_owned());
    assert!(finish(db, &[late]).await.is_empty());
    let records = async || store::outbox::deliveries_of_event(db.reader(), &event).await.unwrap();
    assert_eq!(records().await[0].state, DeliveryState::Queued);
    assert!(records().await[0].attempts.is_empty());
    let good = (
        second.clone(),
        outcome(204, 17),
        AfterTry::Delivered,
        "attempt-2".to_owned(),
    );
    assert_eq!(
        finish(db, std::slice::from_ref(&good)).await,
        HashSet::from([second.id])
    );
    // Recording the same try again changes nothing either.
    assert!(finish(db, &[good]).await.is_empty());
    let record = records().await.remove(0);
    assert_eq!(
        (record.state, record.finished_at),
        (DeliveryState::Delivered, Some(at(17)))
    );
    assert_eq!(record.attempts.len(), 1);
    assert_eq!(record.attempts[0].outcome, outcome(204, 17));
}

async fn retries_wait_and_end(db: &Db) {
    let endpoints = [
        with_endpoint(db, 1).await,
        with_endpoint(db, 2).await,
        with_endpoint(db, 3).await,
    ];
    let event = publish(db, 1, &endpoints.iter().collect::<Vec<_>>()).await;
    let claimed = claim(db, 0, "one").await;
    let verdicts = [AfterTry::Delivered, AfterTry::RetryAt(at(9)), AfterTry::Exhausted];
    let tries: Vec<_> = claimed
        .into_iter()
        .zip(verdicts)
        .enumerate()
        .map(|(number, (delivery, after))| (delivery, outcome(500, 4), after, format!("attempt-{number}")))
        .collect();
    assert_eq!(finish(db, &tries).await.len(), 3);
    let records = store::outbox::deliveries_of_event(db.reader(), &event).await.unwrap();
    let states: Vec<_> = records
        .iter()
        .map(|record| (record.state, record.retry_count))
        .collect();
    assert_eq!(
        states,
        [
            (DeliveryState::Delivered, 0),
            (DeliveryState::Queued, 1),
            (DeliveryState::Failed, 0)
        ]
    );
    assert!(claim(db, 8, "two").await.is_empty());
    let again = claim(db, 9, "two").await;
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].retry_count, &again[0].endpoint), (1, &endpoints[1].id));
    let second = (
        again[0].clone(),
        outcome(200, 10),
        AfterTry::Delivered,
        "attempt-9".to_owned(),
    );
    finish(db, &[second]).await;
    let records = store::outbox::deliveries_of_event(db.reader(), &event).await.unwrap();
    let tried: Vec<_> = records[1].attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!(tried, [1, 2]);
}

async fn a_released_delivery_is_due_at_once(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    publish(db, 1, &[&endpoint]).await;
    let held = claim(db, 0, "one").await.remove(0);
    assert_eq!(store::outbox::release(db.writer(), "other").await.unwrap(), 0);
    assert_eq!(store::outbox::release(db.writer(), "one").await.unwrap(), 1);
    assert!(
        finish(db, &[(held, outcome(200, 1), AfterTry::Delivered, "late".into())])
            .await
            .is_empty()
    );
    assert_eq!(claim(db, 1, "two").await.len(), 1);
}

async fn busy_endpoints_are_left_out(db: &Db) {
    let slow = with_endpoint(db, 1).await;
    let quick = with_endpoint(db, 2).await;
    publish(db, 1, &[&slow, &quick]).await;
    let claimed = store::outbox::claim_due_except(db.writer(), at(0), at(15), "one", 50, &[slow.id])
        .await
        .unwrap();
    let endpoints: Vec<_> = claimed.iter().map(|delivery| &delivery.endpoint).collect();
    assert_eq!(endpoints, [&quick.id]);
}

async fn the_next_due_time_is_known(db: &Db) {
    let next = async |now| store::outbox::next_due(db.reader(), at(now)).await.unwrap();
    assert_eq!(next(0).await, None);
    let endpoint = with_endpoint(db, 1).await;
    publish(db, 1, &[&endpoint]).await;
    assert_eq!(next(-5).await, Some(at(0)));
    assert_eq!(next(3).await, Some(at(3)));
    let held = claim(db, 3, "one").await.remove(0);
    assert_eq!(next(3).await, Some(at(18)));
    finish(
        db,
        &[(held, outcome(500, 4), AfterTry::RetryAt(at(5)), "attempt".into())],
    )
    .await;
    assert_eq!(next(3).await, Some(at(5)));
}
