//! Endpoints, and what happens to their deliveries when they change.

use super::{
    on_both,
    samples::{cancel, claim, deliveries, endpoint, finish, holder, outcome, platform, publish, with_endpoint},
};
use prs::{
    domain::{
        ids::{ClientRowId, EndpointId, OwnerId},
        webhook::{AfterTry, DeliveryState},
    },
    store::{self, Db, Holder, StoreError, endpoints::Endpoint},
};

on_both! {
    a_disabled_endpoint_receives_no_further_deliveries
    a_deleted_endpoint_keeps_its_log
    endpoint_urls_are_unique_for_each_owner
    events_reach_the_endpoints_of_their_audience
}

async fn a_disabled_endpoint_receives_no_further_deliveries(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    let event = publish(db, 1, &[&endpoint]).await;
    let switch = async |owner: &str, is_active: bool| {
        store::endpoints::set_active(db.writer(), &holder(owner), &endpoint.id, is_active)
            .await
            .unwrap()
    };
    assert!(!switch("b", false).await);
    assert!(switch("a", false).await);
    assert_eq!(cancel(db, "b", &endpoint.id, 1).await, 0);
    assert_eq!(cancel(db, "a", &endpoint.id, 1).await, 1);
    assert!(claim(db, 2, "one").await.is_empty());
    // A delivery that was fanned out while the endpoint was being disabled is found by the claim.
    let late = publish(db, 2, &[&endpoint]).await;
    assert!(claim(db, 2, "two").await.is_empty());
    for event in [event, late] {
        let records = deliveries(db, &event).await;
        assert_eq!(records[0].state, DeliveryState::Cancelled);
        assert!(records[0].finished_at.is_some());
    }
    assert!(switch("a", true).await);
    assert!(claim(db, 4, "three").await.is_empty());
}

async fn a_deleted_endpoint_keeps_its_log(db: &Db) {
    let endpoint = with_endpoint(db, 1).await;
    let told = publish(db, 1, &[&endpoint]).await;
    let held = claim(db, 0, "one").await.remove(0);
    finish(db, &[(held, outcome(200, 1), AfterTry::Delivered, "try".into())]).await;
    let waiting = publish(db, 2, &[&endpoint]).await;
    let delete = async |owner: &str| {
        store::endpoints::delete(db.writer(), &holder(owner), &endpoint.id)
            .await
            .unwrap()
    };
    assert!(!delete("b").await);
    assert!(delete("a").await);
    assert!(!delete("a").await);
    assert_eq!(cancel(db, "a", &endpoint.id, 2).await, 1);
    assert_eq!(
        store::endpoints::find(db.reader(), &holder("a"), &endpoint.id)
            .await
            .unwrap(),
        None
    );
    let state = async |event| {
        let records = deliveries(db, event).await;
        (records[0].state, records[0].tries.len())
    };
    assert_eq!(state(&told).await, (DeliveryState::Delivered, 1));
    assert_eq!(state(&waiting).await, (DeliveryState::Cancelled, 0));
    let late = publish(db, 3, &[&endpoint]).await;
    assert!(claim(db, 5, "two").await.is_empty());
    assert_eq!(state(&late).await, (DeliveryState::Cancelled, 0));
}

async fn endpoint_urls_are_unique_for_each_owner(db: &Db) {
    let mut number = 0;
    let mut insert = async |owner: &str, client: Option<&str>| {
        number += 1;
        let endpoint = Endpoint {
            url: "https://example.com/hook".into(),
            ..endpoint(owner, client, number)
        };
        store::endpoints::insert(db.writer(), &endpoint).await
    };
    for (owner, client) in [
        ("a", None),
        ("a", Some("client-1")),
        ("a", Some("client-2")),
        ("b", None),
    ] {
        insert(owner, client).await.unwrap();
        let refused = insert(owner, client).await;
        assert!(
            matches!(refused, Err(StoreError::Conflict(store::ENDPOINT_URL))),
            "{refused:?}"
        );
    }
}

async fn events_reach_the_endpoints_of_their_audience(db: &Db) {
    for (owner, client, number) in [
        ("a", None, 1),
        ("a", Some("client-1"), 2),
        ("a", Some("client-2"), 3),
        ("b", None, 4),
        ("a", None, 5),
    ] {
        store::endpoints::insert(db.writer(), &endpoint(owner, client, number))
            .await
            .unwrap();
    }
    let off = EndpointId("endpoint-5".into());
    assert!(
        store::endpoints::set_active(db.writer(), &holder("a"), &off, false)
            .await
            .unwrap()
    );
    let active = async |client: Option<&str>| {
        let client = client.map(|client| ClientRowId(client.into()));
        let owners = [OwnerId::from(&platform("b")), OwnerId::from(&platform("a"))];
        let found = store::endpoints::active_of(db.reader(), &owners, false).await.unwrap();
        let heard = found
            .into_iter()
            .filter(|endpoint| endpoint.hears(&owners[1], client.as_ref()));
        heard.map(|endpoint| endpoint.id.0).collect::<Vec<_>>()
    };
    assert_eq!(active(None).await, ["endpoint-1"]);
    assert_eq!(active(Some("client-1")).await, ["endpoint-1", "endpoint-2"]);
    let client = Holder {
        client: Some(ClientRowId("client-2".to_owned())),
        ..holder("a")
    };
    let listed = store::endpoints::list(db.reader(), &client).await.unwrap();
    assert_eq!(listed, [endpoint("a", Some("client-2"), 3)]);
    assert_eq!(
        store::endpoints::list(db.reader(), &holder("a")).await.unwrap().len(),
        4
    );
    let foreign = EndpointId("endpoint-4".into());
    assert_eq!(
        store::endpoints::find(db.reader(), &holder("a"), &foreign)
            .await
            .unwrap(),
        None
    );
}
