//! Records events without a chain, and advances the clock past their deliveries.

use super::TestApp;
use prs::{
    domain::ids::{DeliveryId, EventId},
    store,
};

/// Records an event about an object of the backend client ID, as the settlement of a payment does; returns the id of
/// the event.
pub async fn tell(app: &TestApp, kind: &str, request_id: &str) -> String {
    tell_of(app, &app.backend_client, kind, request_id).await
}

/// Records an event about an object of this client ID; returns the id of the event.
pub async fn tell_of(app: &TestApp, client_id: &str, kind: &str, request_id: &str) -> String {
    let client = store::client_ids::find_by_client_id(app.ctx.db.reader(), client_id)
        .await
        .expect("reads")
        .expect("seeded")
        .row;
    let id = EventId(app.ctx.ids.ulid());
    let now = app.ctx.clock.now();
    let tx = app.ctx.db.begin("tell").await.expect("begins");
    let event = store::outbox::NewEvent {
        id: id.clone(),
        owner: (&app.platform).into(),
        client: Some(client.clone()),
        kind: kind.to_owned(),
        deduplication_key: format!("{kind}:{id}"),
        request_id: Some(request_id.to_owned()),
        body: format!("{{\"event\":\"{kind}\",\"requestId\":\"{request_id}\",\"n\":\"{id}\"}}"),
        payer: None,
        now,
    };
    assert!(store::outbox::insert_event(&tx, &event).await.expect("writes"));
    let endpoints = store::endpoints::active_of(&tx, std::slice::from_ref(&event.owner), true)
        .await
        .expect("reads");
    let deliveries: Vec<_> = endpoints
        .into_iter()
        .filter(|endpoint| endpoint.hears(&event.owner, Some(&client)))
        .map(|endpoint| store::outbox::NewDelivery {
            id: DeliveryId(app.ctx.ids.ulid()),
            event: id.clone(),
            endpoint: endpoint.id,
            owner: (&app.platform).into(),
            is_test: false,
            is_replay: false,
            now,
        })
        .collect();
    store::outbox::insert_deliveries(&tx, &deliveries)
        .await
        .expect("writes");
    tx.commit().await.expect("commits");
    id.to_string()
}

/// Advances the clock past all four attempts.
pub async fn exhaust(app: &TestApp) {
    for pause in [0, 1_000, 5_000, 15_000] {
        app.advance_ms(pause);
        app.deliver().await;
    }
}
