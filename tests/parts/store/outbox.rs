//! Events, and the claims and attempts of their deliveries.

use super::{
    on_both,
    samples::{at, claim, deliveries, endpoint, finish, outcome, platform, publish, scope, wanted, with_endpoint},
};
use prs::{
    domain::{
        ids::{ClientRowId, EventId},
        webhook::{AfterTry, ClaimRequest, DeliveryState},
    },
    store::{self, Db, endpoints::Endpoint, event_log::EventFilter, outbox::NewEvent},
};
use std::collections::HashSet;

on_both! {
    an_event_is_recorded_once
    only_new_facts_of_a_batch_are_recorded
    four_workers_claim_each_delivery_once
    a_stale_holder_records_nothing
    retries_wait_and_end
    a_released_delivery_is_due_at_once
    busy_endpoints_are_skipped
    a_claim_takes_a_share_of_each_endpoint_in_turn
    owners_take_turns_in_a_claim
    a_claim_finds_an_owner_behind_the_backlog_of_another
    an_owner_that_is_already_served_is_skipped
    an_owner_with_too_many_endpoints_delays_no_other_owner
    the_next_due_time_is_known
    a_claim_skips_a_backlog_that_cannot_be_sent
    the_log_shows_every_attempt_across_replays
}

async fn an_event_is_recorded_once(db: &Db) {
    let event = NewEvent {
        id: EventId("event-1".into()),
        owner: (&platform("a")).into(),
        client: Some(ClientRowId("client-1".into())),
        kind: "payment.confirmed".into(),
        deduplication_key: "payment.confirmed:sepolia:0x1:0".into(),
        request_id: Some("01ff".into()),
        body: "{}".into(),
        payer: None,
        now: at(0),
    };
    assert!(store::outbox::insert_event(db.writer(), &event).await.unwrap());
    let again = NewEvent {
        id: EventId("event-2".into()),
        ..event
    };
    assert!(!store::outbox::insert_event(db.writer(), &again).await.unwrap());
}

async fn only_new_facts_of_a_batch_are_recorded(db: &Db) {
    let event = |id: &str, fact: &str| NewEvent {
        id: EventId(id.into()),
        owner: (&platform("a")).into(),
        client: None,
        kind: "payment.confirmed".into(),
        deduplication_key: fact.into(),
        request_id: None,
        body: format!("{{\"id\":\"{id}\",\"text\":\"\\u0000 ' \\\" ü\"}}"),
        payer: None,
        now: at(0),
    };
    let ids = |ids: &[&str]| -> HashSet<EventId> { ids.iter().map(|id| EventId((*id).into())).collect() };
    let first = [
        event("event-1", "one"),
        event("event-2", "two"),
        event("event-3", "one"),
    ];
    let written = store::outbox::insert_events(db.writer(), &first).await.unwrap();
    assert_eq!(written, ids(&["event-1", "event-2"]));
    let second = [event("event-4", "two"), event("event-5", "three")];
    let written = store::outbox::insert_events(db.writer(), &second).await.unwrap();
    assert_eq!(written, ids(&["event-5"]));
    let none = store::outbox::insert_events(db.writer(), &[]).await.unwrap();
    assert!(none.is_empty());
    let filter = EventFilter {
        limit: 10,
        ..EventFilter::default()
    };
    let stored = store::event_log::events(db.reader(), &scope("a"), &filter)
        .await
        .unwrap();
    let texts = stored
        .into_iter()
        .rev()
        .map(|event| (event.id, event.body.text().unwrap()));
    let stored: Vec<_> = texts.collect();
    let told = [&first[0], &first[1], &second[1]].map(|event| (event.id.clone(), event.body.clone()));
    assert_eq!(stored, told);
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
                let wanted = ClaimRequest {
                    limit: 7,
                    ..wanted(1, &token)
                };
                let batch = store::outbox::claim(db.writer(), &wanted).await.unwrap();
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
    let late = (first, outcome(200, 16), AfterTry::Delivered, "try-1".to_owned());
    assert!(finish(db, &[late]).await.is_empty());
    let records = async || deliveries(db, &event).await;
    assert_eq!(records().await[0].state, DeliveryState::Queued);
    assert!(records().await[0].tries.is_empty());
    let good = (
        second.clone(),
        outcome(204, 17),
        AfterTry::Delivered,
        "try-2".to_owned(),
    );
    assert_eq!(
        finish(db, std::slice::from_ref(&good)).await,
        HashSet::from([second.id])
    );
    // Recording the same attempt again also changes nothing.
    assert!(finish(db, &[good]).await.is_empty());
    let record = records().await.remove(0);
    assert_eq!(
        (record.state, record.finished_at),
        (DeliveryState::Delivered, Some(at(17)))
    );
    assert_eq!(record.tries.len(), 1);
    assert_eq!(record.tries[0].outcome, outcome(204, 17));
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
        .map(|(number, (delivery, after))| (delivery, outcome(500, 4), after, format!("try-{number}")))
        .collect();
    assert_eq!(finish(db, &tries).await.len(), 3);
    let records = deliveries(db, &event).await;
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
        "try-9".to_owned(),
    );
    finish(db, &[second]).await;
    let records = deliveries(db, &event).await;
    let tried: Vec<_> = records[1].tries.iter().map(|tried| tried.number).collect();
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

async fn busy_endpoints_are_skipped(db: &Db) {
    let slow = with_endpoint(db, 1).await;
    let quick = with_endpoint(db, 2).await;
    publish(db, 1, &[&slow, &quick]).await;
    let wanted = ClaimRequest {
        busy: vec![slow.id],
        ..wanted(0, "one")
    };
    let claimed = store::outbox::claim(db.writer(), &wanted).await.unwrap();
    let endpoints: Vec<_> = claimed.iter().map(|delivery| &delivery.endpoint).collect();
    assert_eq!(endpoints, [&quick.id]);
    let next = store::outbox::next_due(db.reader(), at(-5), &wanted.busy)
        .await
        .unwrap();
    assert_eq!(next, Some(at(15)), "only the quick one's lease counts");
}

async fn a_claim_takes_a_share_of_each_endpoint_in_turn(db: &Db) {
    let endpoints = [with_endpoint(db, 1).await, with_endpoint(db, 2).await];
    for event in 0..6 {
        publish(db, event, &[&endpoints[0]]).await;
    }
    publish(db, 6, &[&endpoints[1]]).await;
    let wanted = |limit, share, token| ClaimRequest {
        limit,
        share,
        ..wanted(0, token)
    };
    let claim = async |wanted: ClaimRequest| {
        let claimed = store::outbox::claim(db.writer(), &wanted).await.unwrap();
        let of = |endpoint: &Endpoint| claimed.iter().filter(|one| one.endpoint == endpoint.id).count();
        (of(&endpoints[0]), of(&endpoints[1]), wanted.may_be_more(&claimed))
    };
    assert_eq!(claim(wanted(4, 4, "one")).await, (3, 1, true), "the limit is reached");
    assert_eq!(claim(wanted(50, 2, "two")).await, (2, 0, true), "the share is reached");
    assert_eq!(claim(wanted(50, 2, "three")).await, (1, 0, false));
}

async fn owners_take_turns_in_a_claim(db: &Db) {
    let mut crowd = Vec::new();
    for number in 0..8 {
        crowd.push(with_endpoint(db, number).await);
    }
    let lonely = endpoint("b", None, 8);
    store::endpoints::insert(db.writer(), &lonely).await.unwrap();
    publish(db, 1, &crowd.iter().collect::<Vec<_>>()).await;
    publish(db, 2, &[&lonely]).await;
    publish(db, 3, &[&lonely]).await;
    let wanted = ClaimRequest {
        limit: 5,
        ..wanted(0, "one")
    };
    let claimed = store::outbox::claim(db.writer(), &wanted).await.unwrap();
    let of_lonely = claimed.iter().filter(|one| one.owner == lonely.owner).count();
    assert_eq!(
        (claimed.len(), of_lonely),
        (5, 2),
        "many endpoints do not outweigh an owner"
    );
}

async fn a_claim_finds_an_owner_behind_the_backlog_of_another(db: &Db) {
    let greedy = with_endpoint(db, 1).await;
    for event in 0..60 {
        publish(db, event, &[&greedy]).await;
    }
    let late: Vec<Endpoint> = ["b", "c"]
        .map(|owner| endpoint(owner, None, u32::from(owner.as_bytes()[0])))
        .into();
    for (number, endpoint) in (60..).zip(late.iter().cycle().take(6)) {
        if number < 62 {
            store::endpoints::insert(db.writer(), endpoint).await.unwrap();
        }
        publish(db, number, &[endpoint]).await;
    }
    let wanted = ClaimRequest {
        limit: 6,
        ..wanted(0, "one")
    };
    let claimed = store::outbox::claim(db.writer(), &wanted).await.unwrap();
    let mut owners: Vec<&str> = claimed.iter().map(|one| one.owner.as_str()).collect();
    owners.sort_unstable();
    let a_part_each = ["platform-a", "platform-b", "platform-c"].map(|owner| [owner; 2]);
    assert_eq!(owners, a_part_each.concat());
}

async fn an_owner_that_is_already_served_is_skipped(db: &Db) {
    let greedy = with_endpoint(db, 1).await;
    let late = endpoint("b", None, 2);
    store::endpoints::insert(db.writer(), &late).await.unwrap();
    publish(db, 1, &[&greedy]).await;
    publish(db, 2, &[&late]).await;
    let wanted = ClaimRequest {
        served: vec![greedy.owner.clone()],
        ..wanted(0, "one")
    };
    let claimed = store::outbox::claim(db.writer(), &wanted).await.unwrap();
    let owners: Vec<_> = claimed.iter().map(|one| &one.owner).collect();
    assert_eq!(owners, [&late.owner]);
}

async fn an_owner_with_too_many_endpoints_delays_no_other_owner(db: &Db) {
    let mut crowd = Vec::new();
    let tx = db.begin("crowd").await.unwrap();
    for number in 0..1_050 {
        let endpoint = endpoint("a", None, number);
        store::endpoints::insert(&tx, &endpoint).await.unwrap();
        crowd.push(endpoint);
    }
    let late = endpoint("b", None, 2_000);
    store::endpoints::insert(&tx, &late).await.unwrap();
    tx.commit().await.unwrap();
    publish(db, 1, &crowd.iter().collect::<Vec<_>>()).await;
    publish(db, 2, &[&late]).await;
    let owners = async |wanted: ClaimRequest| {
        let claimed = store::outbox::claim(db.writer(), &wanted).await.unwrap();
        let mut owners: Vec<_> = claimed.into_iter().map(|one| one.owner).collect();
        owners.sort();
        owners.dedup();
        owners
    };
    let served = ClaimRequest {
        served: vec![crowd[0].owner.clone()],
        limit: 0,
        ..wanted(0, "none")
    };
    assert!(owners(served.clone()).await.is_empty());
    let busy = ClaimRequest {
        limit: 2,
        busy: crowd[..224].iter().map(|endpoint| endpoint.id.clone()).collect(),
        ..wanted(0, "one")
    };
    assert_eq!(owners(busy).await, [crowd[0].owner.clone(), late.owner.clone()]);
    publish(db, 3, &[&late]).await;
    let served = ClaimRequest {
        limit: 5,
        lease_token: "two".to_owned(),
        ..served
    };
    assert_eq!(owners(served).await, [late.owner]);
}

async fn the_next_due_time_is_known(db: &Db) {
    let next = async |now| store::outbox::next_due(db.reader(), at(now), &[]).await.unwrap();
    assert_eq!(next(0).await, None);
    let endpoint = with_endpoint(db, 1).await;
    publish(db, 1, &[&endpoint]).await;
    assert_eq!(next(-5).await, Some(at(0)));
    assert_eq!(next(3).await, Some(at(3)));
    let held = claim(db, 3, "one").await.remove(0);
    assert_eq!(next(3).await, Some(at(18)));
    finish(db, &[(held, outcome(500, 4), AfterTry::RetryAt(at(5)), "try".into())]).await;
    assert_eq!(next(3).await, Some(at(5)));
}

async fn a_claim_skips_a_backlog_that_cannot_be_sent(db: &Db) {
    let (hanging, other) = (with_endpoint(db, 1).await, with_endpoint(db, 2).await);
    for event in 0..40 {
        publish(db, event, &[&hanging]).await;
    }
    publish(db, 40, &[&other]).await;
    let busy = ClaimRequest {
        limit: 4,
        busy: vec![hanging.id.clone()],
        ..wanted(0, "one")
    };
    let claimed = store::outbox::claim(db.writer(), &busy).await.unwrap();
    let endpoints: Vec<_> = claimed.iter().map(|one| &one.endpoint).collect();
    assert_eq!(endpoints, [&other.id]);
    let many = claim(db, 0, "two").await;
    assert_eq!(many.len(), 40, "all of one endpoint, when no other endpoint waits");
}

async fn the_log_shows_every_attempt_across_replays(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    let event = publish(db, 1, &[&endpoint]).await;
    let mut second = 0;
    let mut replays = 0;
    for (round, statuses) in [[500, 200].as_slice(), &[204], &[500, 202]].into_iter().enumerate() {
        for status in statuses {
            second += 10;
            let held = claim(db, second, &format!("at {second}")).await.remove(0);
            assert_eq!(held.is_replay, round > 0);
            let after = match status {
                500 => AfterTry::RetryAt(at(second)),
                _ => AfterTry::Delivered,
            };
            let tried = (held, outcome(*status, second), after, format!("try-{second}"));
            assert_eq!(finish(db, &[tried]).await.len(), 1);
        }
        let record = deliveries(db, &event).await.remove(0);
        assert_eq!((record.state, record.next_at), (DeliveryState::Delivered, None));
        assert_eq!(record.finished_at, Some(at(second)));
        assert_eq!(record.retry_count, u32::try_from(statuses.len()).unwrap() - 1);
        let tx = db.begin("replay").await.unwrap();
        replays += store::delivery_log::requeue(&tx, &platform("a"), &[record.id], at(second))
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(replays, 3);
    let record = deliveries(db, &event).await.remove(0);
    assert_eq!((record.state, record.next_at), (DeliveryState::Queued, Some(at(50))));
    let tries: Vec<_> = record
        .tries
        .iter()
        .map(|one| (one.number, one.outcome.status))
        .collect();
    let expected = [(1, 500), (2, 200), (1, 204), (1, 500), (2, 202)];
    assert_eq!(tries, expected.map(|(number, status)| (number, Some(status))));
}
