//! Orchestrators: their keys, their endpoints and their events.

use crate::{
    orchestrator_links::{by, partner},
    support::{TestApp, program::prs, receiver::Receiver},
};
use poem::http::Method;
use prs::{
    domain::{
        address::Address,
        event::{ClientIdLinked, Event, ORCHESTRATOR_KINDS},
        network::Network,
        webhook::sign,
    },
    flows::{self, keys, orchestrators::create::NewOrchestrator},
    store,
};
use serde_json::{Value, json};

const PATH: &str = "/v2/orchestrators/webhooks";

/// Registers an endpoint; returns its id and secret.
async fn register(app: &TestApp, orchestrator: &NewOrchestrator, url: &str) -> (String, String) {
    let body = json!({ "url": url });
    let created = by(app.post(PATH), orchestrator).json(&body).send().await.expect(201);
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    (text(&created["webhook"]["id"]), text(&created["secret"]))
}

/// Publishes the event that a platform was linked to an orchestrator.
async fn link(app: &TestApp, orchestrator: &NewOrchestrator, link: &str) {
    let event = Event::ClientIdLinked(Box::new(ClientIdLinked {
        orchestrator: orchestrator.id.to_string(),
        client_id: app.backend_client.clone(),
        link: link.to_owned(),
        intent: "01JZX9E5FG6H7J8K9MNPQRSTVW".to_owned(),
        external_id: None,
        destination_id: "destination".to_owned(),
        wallet: Address::parse("0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7").expect("an address"),
        network: Network::Base,
        currency_symbol: "USDC".to_owned(),
        at: app.ctx.clock.now(),
    }));
    let tx = app.ctx.db.begin("link").await.expect("begins");
    flows::publish(&app.ctx, &tx, &event).await.expect("published");
    tx.commit().await.expect("commits");
}

#[tokio::test]
async fn the_operations_need_a_valid_orchestrator_key() {
    let app = TestApp::start().await;
    let orchestrator = partner(&app).await;
    by(app.get(PATH), &orchestrator).send().await.expect(200);
    app.get(PATH).send().await.expect(401);
    app.get(PATH).with_key().send().await.expect(403);
    app.get(PATH).with_client().send().await.expect(403);
    let call = |key: &str| app.get(PATH).header("x-orchestrator-key", key);
    call("orc_unknown").send().await.expect(401);
    call(&app.key).send().await.expect(401);
    let rescued = call("orc_unknown").with_key();
    rescued.send().await.expect(401);
    app.get("/v1/webhook")
        .header("x-api-key", orchestrator.key.reveal())
        .send()
        .await
        .expect(401);
    let new = keys::create(&app.ctx, &orchestrator.id, Some("second"))
        .await
        .expect("made");
    let (id, key) = (new.row.id, new.key);
    assert!(key.reveal().starts_with("orc_") && key.reveal().len() == 47);
    let other = partner(&app).await;
    assert!(keys::revoke(&app.ctx, &other.id, &id).await.is_err(), "another's key");
    keys::revoke(&app.ctx, &orchestrator.id, &id).await.expect("revoked");
    call(key.reveal()).send().await.expect(401);
    by(app.get(PATH), &orchestrator).send().await.expect(200);
}

#[tokio::test]
async fn the_last_use_of_a_key_is_recorded_at_most_once_a_minute() {
    let app = TestApp::start().await;
    let orchestrator = partner(&app).await;
    let key = orchestrator.key.reveal();
    let hash = flows::auth::identify::hash(key);
    let used = async || {
        flows::auth::identify::key(&app.ctx, key).await.expect("known");
        let found = store::keys::find_active_by_hash(app.ctx.db.reader(), &hash, app.ctx.clock.now()).await;
        found.expect("reads").expect("known").last_used_at.expect("noted")
    };
    let first = used().await;
    app.advance_ms(59_000);
    assert_eq!(used().await, first);
    app.advance_ms(1_000);
    assert_eq!(used().await, app.ctx.clock.now());
}

#[tokio::test]
async fn endpoints_are_registered_listed_disabled_and_enabled() {
    let app = TestApp::start().await;
    let (orchestrator, other) = (partner(&app).await, partner(&app).await);
    let body = json!({ "url": "https://partner.example.com/hooks" });
    let created = by(app.post(PATH), &orchestrator).json(&body).send().await.expect(201);
    let secret = created["secret"].as_str().expect("a secret");
    assert!(secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let list = async |orchestrator| by(app.get(PATH), orchestrator).send().await.expect(200)["webhooks"].clone();
    assert_eq!(list(&orchestrator).await, json!([created["webhook"]]));
    let members: Vec<&String> = created["webhook"].as_object().expect("an object").keys().collect();
    assert_eq!(members, ["id", "url", "isActive", "createdAt"]);
    let path = format!("{PATH}/{}", created["webhook"]["id"].as_str().expect("an id"));
    for method in [Method::DELETE, Method::PATCH] {
        let foreign = by(app.call(method.clone(), &path), &other).send().await;
        assert_eq!(foreign.expect(404)["message"], "Webhook not found");
        let unknown = app.call(method, &format!("{PATH}/01KG9ZT0000000000000000000"));
        by(unknown, &orchestrator).send().await.expect(404);
    }
    for _ in 0..2 {
        let off = by(app.call(Method::DELETE, &path), &orchestrator)
            .send()
            .await
            .expect(200);
        assert_eq!(off["webhook"]["isActive"], false);
    }
    assert_eq!(list(&orchestrator).await[0]["isActive"], false);
    by(app.post(PATH), &orchestrator).json(&body).send().await.expect(409);
    for _ in 0..2 {
        let on = by(app.call(Method::PATCH, &path), &orchestrator)
            .send()
            .await
            .expect(200);
        assert_eq!(on, json!({ "webhook": created["webhook"] }));
    }
    register(&app, &other, "https://partner.example.com/hooks").await;
    let platform = app.get("/v1/webhook").with_key().send().await.expect(200);
    assert_eq!(platform["webhooks"], json!([]), "no platform sees them");
    let local = json!({ "url": "https://10.0.0.1/hooks" });
    let refused = by(app.post(PATH), &orchestrator).json(&local).send().await;
    assert_eq!((refused.status, refused.wrong_fields()), (400, vec!["url".to_owned()]));
}

#[tokio::test]
async fn a_repeated_registration_gets_the_same_response() {
    let app = TestApp::start().await;
    let (orchestrator, other) = (partner(&app).await, partner(&app).await);
    let body = json!({ "url": "https://partner.example.com/hooks" });
    let call = async |orchestrator| {
        let call = by(app.post(PATH), orchestrator).header("idempotency-key", "once");
        call.json(&body).send().await.expect(201)
    };
    let first = call(&orchestrator).await;
    assert_eq!(call(&orchestrator).await, first);
    assert_ne!(
        call(&other).await["secret"],
        first["secret"],
        "keys of two orchestrators do not collide"
    );
}

#[tokio::test]
async fn a_test_delivery_is_signed_and_attempted_once() {
    let app = TestApp::start().await;
    let orchestrator = partner(&app).await;
    let receiver = Receiver::start().await;
    let (_, secret) = register(&app, &orchestrator, &receiver.url()).await;
    let test = async |kind: &str| {
        let call = by(app.post(&format!("{PATH}/test")), &orchestrator);
        call.json(&json!({ "eventType": kind })).send().await
    };
    for kind in ORCHESTRATOR_KINDS {
        assert_eq!(test(kind).await.expect(200), json!({ "sent": 1, "failed": 0 }));
        let last = receiver.received().await.pop().expect("a delivery");
        assert_eq!(
            (last.json()["event"].as_str(), last.header("x-service-test")),
            (Some(kind), Some("true"))
        );
        let signature = sign(&secret, last.body.as_bytes());
        assert_eq!(last.header("x-service-signature"), Some(signature.as_str()));
    }
    let refused = test("payment.confirmed").await;
    assert_eq!(
        (refused.status, refused.wrong_fields()),
        (400, vec!["eventType".to_owned()])
    );
    receiver.answer(500);
    assert_eq!(
        test("client_id.linked").await.expect(200),
        json!({ "sent": 0, "failed": 1 })
    );
    let count = receiver.received().await.len();
    app.advance_ms(60_000);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), count);
}

#[tokio::test]
async fn an_event_reaches_only_its_own_orchestrator() {
    let app = TestApp::start().await;
    let (orchestrator, other) = (partner(&app).await, partner(&app).await);
    let (own, foreign, platform) = (
        Receiver::start().await,
        Receiver::start().await,
        Receiver::start().await,
    );
    let (_, secret) = register(&app, &orchestrator, &own.url()).await;
    register(&app, &other, &foreign.url()).await;
    let body = json!({ "url": platform.url() });
    app.post("/v1/webhook").with_key().json(&body).send().await.expect(201);
    app.register(&platform.url()).await;
    link(&app, &orchestrator, "link-1").await;
    link(&app, &orchestrator, "link-1").await;
    app.deliver().await;
    let told = own.received().await;
    assert_eq!(told.len(), 1, "a fact is reported once");
    assert_eq!(told[0].json()["orchestratorId"], orchestrator.id.as_str());
    let signature = sign(&secret, told[0].body.as_bytes());
    assert_eq!(told[0].header("x-service-signature"), Some(signature.as_str()));
    assert!(foreign.received().await.is_empty() && platform.received().await.is_empty());
    for path in ["/v2/events", "/v2/deliveries"] {
        let log = app.get(path).with_key().send().await.expect(200);
        let list = log["events"]
            .as_array()
            .or(log["deliveries"].as_array())
            .expect("a list");
        assert!(list.is_empty(), "{path} is the platform's alone: {log}");
    }
}

#[tokio::test]
async fn disabling_an_endpoint_cancels_its_waiting_deliveries() {
    let app = TestApp::start().await;
    let orchestrator = partner(&app).await;
    let receiver = Receiver::start().await;
    let (id, _) = register(&app, &orchestrator, &receiver.url()).await;
    receiver.answer(500);
    link(&app, &orchestrator, "link-1").await;
    app.deliver().await;
    let path = format!("{PATH}/{id}");
    by(app.call(Method::DELETE, &path), &orchestrator)
        .send()
        .await
        .expect(200);
    link(&app, &orchestrator, "link-2").await;
    app.advance_ms(60_000);
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), 1);
    by(app.call(Method::PATCH, &path), &orchestrator)
        .send()
        .await
        .expect(200);
    receiver.answer(200);
    link(&app, &orchestrator, "link-3").await;
    app.deliver().await;
    let told = receiver.received().await;
    assert_eq!((told.len(), told[1].json()["linkId"].as_str()), (2, Some("link-3")));
}

#[test]
fn the_operator_creates_orchestrators_and_their_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let prs = |arguments: &[&str]| prs(folder.path()).args(arguments).output().expect("the program starts");
    let admin = |arguments: &[&str]| {
        let output = prs(&[&["admin"], arguments, &["--json"]].concat());
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        output
            .status
            .success()
            .then(|| serde_json::from_str::<Value>(&text).expect("a line of JSON"))
    };
    let create = ["orchestrator", "create", "--name", "Partner"];
    let refused = prs(&[&["admin"], &create[..]].concat());
    let sentence = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(sentence.contains("there is no database"), "{sentence}");
    assert!(prs(&["migrate", "up"]).status.success());
    let made = admin(&create).expect("made");
    let id = made["id"].as_str().expect("an id");
    assert!(made["orchestratorKey"].as_str().expect("a key").starts_with("orc_"));
    let listed = || admin(&["orchestrator", "list"]).expect("listed")["orchestrators"][0].clone();
    assert_eq!(
        (&listed()["id"], &listed()["name"], &listed()["disabledAt"]),
        (&made["id"], &json!("Partner"), &Value::Null)
    );
    assert_eq!(
        admin(&["orchestrator", "disable", id]).expect("disabled")["disabled"],
        true
    );
    let since = listed()["disabledAt"].clone();
    assert!(since.is_string(), "{since}");
    assert!(admin(&["orchestrator", "disable", id]).is_some() && listed()["disabledAt"] == since);
    assert_eq!(
        admin(&["orchestrator", "enable", id]).expect("enabled")["disabled"],
        false
    );
    assert_eq!(listed()["disabledAt"], Value::Null);
    assert!(admin(&["orchestrator", "disable", "unknown"]).is_none());
    let further = admin(&["orchestrator-key", "create", "--orchestrator", id]).expect("made");
    assert_ne!(further["orchestratorKey"], made["orchestratorKey"]);
    let revoke = |key: &Value| {
        let key = key.as_str().expect("an id");
        admin(&["orchestrator-key", "revoke", key, "--orchestrator", id])
    };
    assert_eq!(revoke(&further["id"]).expect("revoked")["revoked"], true);
    assert!(revoke(&further["id"]).is_none(), "only once");
    assert!(revoke(&made["keyId"]).is_some());
    assert!(admin(&["orchestrator-key", "create", "--orchestrator", "unknown"]).is_none());
}
