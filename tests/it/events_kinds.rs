//! Every kind of event as receivers see it: test deliveries, samples, and the scoped variants that a setting enables.

use crate::{
    documents::event_fits_its_schema,
    support::{TestApp, receiver::Receiver, requests::fau},
};
use devnet::{Devnet, Options};
use prs::{
    boot::dev,
    domain::event::{CLIENT_KINDS, ORCHESTRATOR_KINDS},
    payloads::{KINDS, ProcessorNames, sample},
};
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test]
async fn sample_deliveries_of_every_kind_match_their_schema() {
    let app = TestApp::start().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    for kind in CLIENT_KINDS {
        let answer = app.send_sample(kind).await;
        assert_eq!(answer, json!({ "sent": 1, "failed": 0 }), "{kind}");
        let body = receiver.received().await.pop().expect("a delivery").json();
        assert_eq!(body["event"], kind);
        event_fits_its_schema(&body);
    }
}

#[tokio::test]
async fn orchestrator_event_kinds_are_rejected_for_clients() {
    let app = TestApp::start().await;
    for kind in ORCHESTRATOR_KINDS
        .into_iter()
        .filter(|kind| !CLIENT_KINDS.contains(kind))
    {
        let answer = app
            .post("/v1/webhook/test")
            .with_client()
            .json(&json!({ "eventType": kind }))
            .send()
            .await;
        assert_eq!(answer.expect(400)["errors"][0]["field"], "eventType", "{kind}");
    }
}

#[test]
fn event_samples_match_their_snapshots() {
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots/events"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for kind in KINDS {
            let text = sample(kind.name, &ProcessorNames::default()).expect("a sample");
            let body: Value = serde_json::from_str(&text).expect("JSON");
            event_fits_its_schema(&body);
            insta::assert_json_snapshot!(kind.name, body);
        }
    });
}

/// Starts the service on its own local chain. `scoped_variants` says whether the service sends scoped variants of
/// events.
async fn on_chain_with_twins(scoped_variants: bool) -> TestApp {
    let chain = Arc::new(Devnet::start(Options::default()).await.expect("the local chain starts"));
    let mut settings = crate::support::app::settings();
    let mut section = dev::chain_settings(&chain, vec![chain.rpc_url().to_owned()]);
    section.confirmations = Some(1);
    settings.chains.insert("sepolia".to_owned(), section);
    settings.webhooks.scoped_variants = scoped_variants;
    TestApp::with(settings, Some(chain)).await
}

/// Pays a request in two parts and returns the events that the receiver got.
async fn events_of_two_parts(app: &TestApp) -> Vec<Value> {
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let id = app.create_request(&fau("2")).await;
    for part in ["&amount=1", ""] {
        app.pay(&id, part).await;
        app.settle().await;
    }
    receiver.received().await.iter().map(|one| one.json()).collect()
}

fn kinds(bodies: &[Value]) -> Vec<&str> {
    bodies
        .iter()
        .map(|body| body["event"].as_str().expect("a kind"))
        .collect()
}

#[tokio::test]
async fn a_payment_sends_one_event_without_scoped_variants() {
    let app = on_chain_with_twins(false).await;
    let bodies = events_of_two_parts(&app).await;
    assert_eq!(kinds(&bodies), ["payment.partial", "payment.confirmed"]);
}

#[tokio::test]
async fn a_client_id_payment_sends_two_events_with_scoped_variants() {
    let app = on_chain_with_twins(true).await;
    let bodies = events_of_two_parts(&app).await;
    // Deliveries that are due at the same time have no guaranteed order.
    let mut told = kinds(&bodies);
    told.sort_unstable();
    assert_eq!(
        told,
        [
            "payment.confirmed",
            "payment.confirmed.client_id",
            "payment.partial",
            "payment.partial.client_id"
        ]
    );
    for body in &bodies {
        event_fits_its_schema(body);
        assert_eq!(body["clientId"], app.backend_client.as_str());
    }
    let find = |kind: &str| {
        bodies
            .iter()
            .find(|body| body["event"] == kind)
            .expect("the event was sent")
            .clone()
    };
    for plain in ["payment.confirmed", "payment.partial"] {
        let (plain, twin) = (find(plain), find(&format!("{plain}.client_id")));
        for (member, value) in plain.as_object().expect("an object") {
            if member != "event" {
                assert_eq!(&twin[member], value, "{member}");
            }
        }
        assert_eq!(twin["origin"], Value::Null);
    }
}

/// Registers an endpoint that receives the events of the whole platform.
async fn register_platform_wide(app: &TestApp, url: &str) {
    let body = json!({ "url": url });
    app.post("/v1/webhook").with_key().json(&body).send().await.expect(201);
}

#[tokio::test]
async fn an_api_key_request_has_no_scoped_variant() {
    let app = on_chain_with_twins(true).await;
    let receiver = Receiver::start().await;
    register_platform_wide(&app, &receiver.url()).await;
    let id = app.create_request_as(("x-api-key", &app.key), &fau("1")).await;
    app.pay(&id, "").await;
    app.settle().await;
    let bodies: Vec<Value> = receiver.received().await.iter().map(|one| one.json()).collect();
    assert_eq!(kinds(&bodies), ["payment.confirmed"]);
}

#[tokio::test]
async fn only_valid_origins_are_sent_as_the_origin_of_a_payment() {
    let app = on_chain_with_twins(true).await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let long = format!("https://{}.example.com", "a".repeat(30_000));
    for (origin, told) in [
        ("<script>alert(1)</script>", json!(null)),
        (long.as_str(), json!(null)),
        ("https://:secret@shop.example.com", json!(null)),
        ("https://shop.example.com/path", json!(null)),
        ("https://Shop.example.com:443", json!("https://shop.example.com")),
    ] {
        let call = app.post("/v2/request").with_client().header("origin", origin);
        let created = call.json(&fau("1")).send().await.expect(201);
        app.pay(created["requestId"].as_str().expect("an id"), "").await;
        app.settle().await;
        let bodies: Vec<Value> = receiver.received().await.iter().map(|one| one.json()).collect();
        let twin = bodies
            .iter()
            .find(|body| body["event"] == "payment.confirmed.client_id" && body["requestId"] == created["requestId"]);
        let twin = twin.expect("the event was sent");
        event_fits_its_schema(twin);
        let start: String = origin.chars().take(40).collect();
        assert_eq!(twin["origin"], told, "{start}");
    }
}
