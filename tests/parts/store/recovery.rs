//! Recovery rounds of failed deliveries, and endpoints that respond again.

use super::{
    on_both,
    samples::{at, cancel, claim, finish, holder, outcome, publish, with_endpoint},
};
use prs::{
    domain::{recovery::Recovery, webhook::AfterTry},
    store::{
        Db, endpoints,
        endpoints::Endpoint,
        outbox,
        recovery::{self, OwnedDelivery},
    },
};

on_both! {
    a_round_is_planned_and_begins_at_its_time
    an_endpoint_that_responds_again_gets_its_waiting_deliveries
    waiting_deliveries_end_with_their_endpoint
    a_long_backlog_of_a_disabled_endpoint_ends_in_batches
}

/// A delivery whose fourth attempt failed at second 4.
async fn failed(db: &Db, number: u32, endpoint: &Endpoint) -> OwnedDelivery {
    publish(db, number, &[endpoint]).await;
    let held = claim(db, 0, &format!("claim-{number}")).await.remove(0);
    let id = (held.owner.clone(), held.id.clone());
    finish(
        db,
        &[(held, outcome(500, 4), AfterTry::Exhausted, format!("try-{number}"))],
    )
    .await;
    id
}

async fn plan(db: &Db, id: &OwnedDelivery, from: i64, until: i64) {
    let next = Recovery {
        from: at(from),
        at: at(until),
    };
    recovery::plan(db.writer(), &[(id.clone(), Some(next))]).await.unwrap();
}

async fn a_round_is_planned_and_begins_at_its_time(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    let id = failed(db, 1, &endpoint).await;
    let rounds = recovery::rounds(db.reader(), std::slice::from_ref(&id)).await.unwrap();
    assert_eq!((rounds[0].begun, rounds[0].last), (0, None));
    assert_eq!(recovery::failed(db.reader()).await.unwrap(), (1, 0));
    plan(db, &id, 4, 64).await;
    assert_eq!(recovery::failed(db.reader()).await.unwrap(), (1, 1));
    let due = async |second| recovery::due(db.reader(), at(second), 10).await.unwrap();
    assert!(due(63).await.is_empty());
    assert_eq!(due(64).await, std::slice::from_ref(&id));
    recovery::begin(db.writer(), &due(64).await, at(64)).await.unwrap();
    assert!(due(64).await.is_empty(), "it is queued");
    assert_eq!(recovery::queued(db.reader()).await.unwrap(), (1, Some(at(64))));
    let again = claim(db, 64, "again").await.remove(0);
    assert_eq!((&again.id, again.retry_count, again.is_replay), (&id.1, 0, true));
    finish(db, &[(again, outcome(500, 70), AfterTry::Exhausted, "again".into())]).await;
    let rounds = recovery::rounds(db.reader(), std::slice::from_ref(&id)).await.unwrap();
    assert_eq!((rounds[0].begun, rounds[0].last), (1, Some(at(64))));
    recovery::plan(db.writer(), &[(id, None)]).await.unwrap();
    assert!(due(1_000_000).await.is_empty(), "there are no more");
}

async fn an_endpoint_that_responds_again_gets_its_waiting_deliveries(db: &Db) {
    let endpoints = [with_endpoint(db, 1).await, with_endpoint(db, 2).await];
    let first = failed(db, 1, &endpoints[0]).await;
    let second = failed(db, 2, &endpoints[0]).await;
    let other = failed(db, 3, &endpoints[1]).await;
    plan(db, &first, 4, 64).await;
    plan(db, &second, 64, 300).await;
    plan(db, &other, 4, 64).await;
    let ids = endpoints.each_ref().map(|endpoint| endpoint.id.clone());
    recovery::failing(db.writer(), &ids, None, at(4)).await.unwrap();
    let ready = async |second| recovery::ready(db.reader(), at(second), 10).await.unwrap();
    assert!(ready(10).await.is_empty(), "no endpoint responds");
    recovery::answered(db.writer(), &ids[..1]).await.unwrap();
    assert_eq!(ready(10).await, ids[..1]);
    let due = async |second| {
        recovery::due_of_endpoint(db.reader(), &ids[0], at(second), 10)
            .await
            .unwrap()
    };
    assert_eq!(due(10).await, std::slice::from_ref(&first));
    assert_eq!(due(64).await, [first.clone(), second.clone()]);
    assert!(recovery::settled(db.reader(), 10).await.unwrap().is_empty());
    recovery::begin(db.writer(), &[first, second], at(64)).await.unwrap();
    let settled = recovery::settled(db.reader(), 10).await.unwrap();
    assert_eq!(settled, ids[..1]);
    recovery::end(db.writer(), &settled).await.unwrap();
    assert!(recovery::settled(db.reader(), 10).await.unwrap().is_empty());
}

async fn waiting_deliveries_end_with_their_endpoint(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    let id = failed(db, 1, &endpoint).await;
    plan(db, &id, 4, 64).await;
    assert_eq!(cancel(db, "a", &endpoint.id, 5).await, 0, "it stays failed");
    assert!(recovery::due(db.reader(), at(1_000), 10).await.unwrap().is_empty());
    assert_eq!(recovery::failed(db.reader()).await.unwrap(), (1, 0));
}

async fn a_long_backlog_of_a_disabled_endpoint_ends_in_batches(db: &Db) {
    let (off, on) = (with_endpoint(db, 1).await, with_endpoint(db, 2).await);
    let gone = with_endpoint(db, 3).await;
    let id = failed(db, 1, &off).await;
    plan(db, &id, 4, 64).await;
    for number in 2..7 {
        publish(db, number, &[&off, &on]).await;
    }
    publish(db, 7, &[&gone]).await;
    let abandoned = async || {
        let found = outbox::abandoned(db.reader(), 10).await.unwrap();
        found.into_iter().map(|(_, endpoint)| endpoint).collect::<Vec<_>>()
    };
    assert!(abandoned().await.is_empty(), "all endpoints are enabled");
    assert_eq!(recovery::due(db.reader(), at(64), 10).await.unwrap(), [id]);
    assert!(
        endpoints::set_active(db.writer(), &holder("a"), &off.id, false)
            .await
            .unwrap()
    );
    assert!(endpoints::delete(db.writer(), &holder("a"), &gone.id).await.unwrap());
    assert!(recovery::due(db.reader(), at(64), 10).await.unwrap().is_empty());
    assert_eq!(recovery::queued(db.reader()).await.unwrap().0, 11);
    assert_eq!(abandoned().await, [off.id.clone(), gone.id.clone()]);
    for (endpoint, parts) in [(&off, [2, 2, 1, 0].as_slice()), (&gone, &[1, 0])] {
        for part in parts {
            assert_eq!(cancel(db, "a", &endpoint.id, 5).await, *part);
        }
    }
    assert!(abandoned().await.is_empty(), "no delivery waits for them");
    assert_eq!(
        claim(db, 6, "rest").await.len(),
        5,
        "the other endpoint keeps its waiting deliveries"
    );
}
