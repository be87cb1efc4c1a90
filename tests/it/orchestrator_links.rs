//! Links between orchestrators and client IDs: who may create a link, how a link ends, and that a client ID has at most
//! one active link.

use crate::support::{
    Answer, TestApp,
    app::{Call, PAGE, settings},
    session::sign_in,
    wallet::TestWallet,
};
use futures_util::future::join_all;
use poem::http::Method;
use prs::{
    flows::{self, keys, orchestrators::create::NewOrchestrator},
    settings::{DirectLinkSetting, Settings},
};
use serde_json::{Value, json};

pub const PATH: &str = "/v2/orchestrators/client-ids";

/// A well-formed client ID that does not exist.
const UNKNOWN: &str = "cli_000000000000000000000000000000";

pub async fn partner(app: &TestApp) -> NewOrchestrator {
    flows::orchestrators::create::run(&app.ctx, "Partner")
        .await
        .expect("created")
}

pub fn by<'a>(call: Call<'a>, orchestrator: &NewOrchestrator) -> Call<'a> {
    call.header("x-orchestrator-key", orchestrator.key.reveal())
}

/// Links a client ID.
pub async fn link(app: &TestApp, orchestrator: &NewOrchestrator, client_id: &str) -> Answer {
    let body = json!({ "clientId": client_id });
    by(app.post(PATH), orchestrator).json(&body).send().await
}

/// Ends a link.
pub async fn unlink(app: &TestApp, orchestrator: &NewOrchestrator, client_id: &str) -> Answer {
    let path = format!("{PATH}/{client_id}");
    by(app.call(Method::DELETE, &path), orchestrator).send().await
}

fn in_mode(mode: DirectLinkSetting) -> impl FnOnce(&mut Settings) {
    move |settings| settings.orchestrators.direct_links = mode
}

async fn app_in(mode: DirectLinkSetting) -> TestApp {
    let mut settings = settings();
    in_mode(mode)(&mut settings);
    TestApp::with(settings, None).await
}

/// Row of a client ID of the tenant.
pub async fn row_of(app: &TestApp, client_id: &str) -> String {
    let listed = app.get("/v2/client-ids").with_key().send().await.expect(200);
    let mut listed = listed.as_array().expect("a list").iter();
    let found = listed.find(|client| client["clientId"] == client_id).expect("listed");
    found["id"].as_str().expect("an id").to_owned()
}

/// Changes a client ID of the tenant.
pub async fn change(app: &TestApp, client_id: &str, change: &Value) -> Answer {
    let path = format!("/v2/client-ids/{}", row_of(app, client_id).await);
    app.call(Method::PUT, &path).with_key().json(change).send().await
}

async fn links_of(app: &TestApp, orchestrator: &NewOrchestrator) -> Value {
    by(app.get(PATH), orchestrator).send().await.expect(200)["links"].clone()
}

#[tokio::test]
async fn a_client_id_has_one_link_in_its_life() {
    let app = app_in(DirectLinkSetting::Consent).await;
    let (own, other) = (partner(&app).await, partner(&app).await);
    let client_id = &app.backend_client;
    let consent = json!({ "orchestratorId": own.id.as_str() });
    let consented = change(&app, client_id, &consent).await.expect(200);
    assert_eq!(
        (&consented["orchestratorId"], &consented["orchestratorLink"]),
        (&consent["orchestratorId"], &Value::Null)
    );
    let made = link(&app, &own, client_id).await.expect(201);
    let shown = json!({ "clientId": client_id, "status": "active" });
    assert_eq!(made, json!({ "link": shown, "alreadyLinked": false }));
    assert_eq!(links_of(&app, &own).await, json!([shown]));
    assert_eq!(links_of(&app, &other).await, json!([]));
    let again = link(&app, &own, client_id).await.expect(409);
    assert_eq!(again["statusCode"], 409);
    unlink(&app, &other, client_id).await.expect(404);
    unlink(&app, &own, UNKNOWN).await.expect(404);
    for _ in 0..2 {
        assert_eq!(
            unlink(&app, &own, client_id).await.expect(200),
            json!({ "success": true })
        );
    }
    assert_eq!(links_of(&app, &own).await, json!([]));
    link(&app, &own, client_id).await.expect(409);
    let consent = json!({ "orchestratorId": other.id.as_str() });
    change(&app, client_id, &consent).await.expect(200);
    link(&app, &other, client_id).await.expect(409);
    let path = format!("/v2/client-ids/{}", row_of(&app, client_id).await);
    let record = app.get(&path).with_key().send().await.expect(200);
    assert_eq!(record["orchestratorLink"]["orchestratorId"], own.id.as_str());
    assert_eq!(record["orchestratorLink"]["status"], "ended");
}

#[tokio::test]
async fn fifty_parallel_links_of_one_client_id_make_one() {
    let app = app_in(DirectLinkSetting::Open).await;
    let partners = [partner(&app).await, partner(&app).await];
    let calls = (0..50).map(|number| link(&app, &partners[number % 2], &app.page_client));
    let answers = join_all(calls).await;
    let count = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(201), count(409)), (1, 49), "{answers:?}");
    let (one, two) = (links_of(&app, &partners[0]).await, links_of(&app, &partners[1]).await);
    let links = one.as_array().expect("a list").len() + two.as_array().expect("a list").len();
    assert_eq!(links, 1);
}

#[tokio::test]
async fn a_strangers_client_id_is_captured_in_open_mode_only() {
    let app = app_in(DirectLinkSetting::Consent).await;
    let (stranger, named) = (partner(&app).await, partner(&app).await);
    let unknown = link(&app, &stranger, UNKNOWN).await;
    let foreign = link(&app, &stranger, &app.page_client).await;
    let facts = |answer: &Answer| (answer.status, answer.json()["message"].clone());
    assert_eq!(facts(&foreign).0, 404);
    assert_eq!(
        facts(&foreign),
        facts(&unknown),
        "a client ID without consent looks unknown"
    );
    let consent = json!({ "orchestratorId": named.id.as_str() });
    change(&app, &app.page_client, &consent).await.expect(200);
    assert_eq!(facts(&link(&app, &stranger, &app.page_client).await), facts(&unknown));
    let open = app.beside(in_mode(DirectLinkSetting::Open)).await;
    link(&open, &stranger, UNKNOWN).await.expect(404);
    link(&open, &stranger, &app.backend_client).await.expect(201);
    let off = app.beside(in_mode(DirectLinkSetting::Off)).await;
    for client_id in [UNKNOWN, &app.page_client, &app.backend_client] {
        let refused = link(&off, &named, client_id).await.expect(403);
        let sentence = refused["message"].as_str().expect("a sentence");
        assert!(sentence.contains("orchestrators.direct_links"), "{sentence}");
    }
    assert_eq!(links_of(&off, &stranger).await.as_array().expect("a list").len(), 1);
    link(&app, &named, &app.page_client).await.expect(201);
}

#[tokio::test]
async fn links_are_refused_in_the_documented_order() {
    let app = app_in(DirectLinkSetting::Open).await;
    let own = partner(&app).await;
    let revoked = app.another_client(&[]).await;
    link(&app, &own, &revoked).await.expect(201);
    change(&app, &revoked, &json!({ "status": "revoked" }))
        .await
        .expect(200);
    assert_eq!(
        link(&app, &own, &revoked).await.expect(403)["message"],
        "Client ID has been revoked"
    );
    let careful = app.beside(in_mode(DirectLinkSetting::Consent)).await;
    link(&careful, &own, &revoked).await.expect(404);
    for body in [json!({}), json!({ "clientId": "cli_short" }), json!({ "clientId": 1 })] {
        let refused = by(app.post(PATH), &own).json(&body).send().await;
        assert_eq!(
            (refused.status, refused.wrong_fields()),
            (400, vec!["clientId".to_owned()])
        );
    }
}

#[tokio::test]
async fn an_inactive_client_id_can_be_linked() {
    let app = app_in(DirectLinkSetting::Open).await;
    let own = partner(&app).await;
    change(&app, &app.page_client, &json!({ "status": "inactive" }))
        .await
        .expect(200);
    link(&app, &own, &app.page_client).await.expect(201);
}

#[tokio::test]
async fn a_withdrawn_or_moved_consent_ends_the_link() {
    let app = app_in(DirectLinkSetting::Consent).await;
    let (own, other) = (partner(&app).await, partner(&app).await);
    for withdrawn in [json!(null), json!(other.id.as_str())] {
        let client_id = app.another_client(&[]).await;
        let consent = json!({ "orchestratorId": own.id.as_str() });
        change(&app, &client_id, &consent).await.expect(200);
        link(&app, &own, &client_id).await.expect(201);
        let unchanged = change(&app, &client_id, &json!({ "label": "Renamed" }))
            .await
            .expect(200);
        assert_eq!(unchanged["orchestratorLink"]["status"], "active");
        let kept = change(&app, &client_id, &consent).await.expect(200);
        assert_eq!(kept["orchestratorLink"]["status"], "active");
        let moved = json!({ "orchestratorId": withdrawn });
        let ended = change(&app, &client_id, &moved).await.expect(200);
        assert_eq!(ended["orchestratorId"], withdrawn);
        assert_eq!(ended["orchestratorLink"]["status"], "ended");
        assert_eq!(ended["orchestratorLink"]["orchestratorId"], own.id.as_str());
        assert_eq!(links_of(&app, &own).await, json!([]));
        link(&app, &other, &client_id)
            .await
            .expect(if withdrawn.is_null() { 404 } else { 409 });
    }
    let open = app.beside(in_mode(DirectLinkSetting::Open)).await;
    link(&open, &own, &app.page_client).await.expect(201);
    let ended = change(&app, &app.page_client, &json!({ "orchestratorId": null }))
        .await
        .expect(200);
    assert_eq!(
        ended["orchestratorLink"]["status"], "ended",
        "a link without consent ends too"
    );
}

#[tokio::test]
async fn consent_names_an_existing_orchestrator() {
    let app = app_in(DirectLinkSetting::Consent).await;
    let own = partner(&app).await;
    for wrong in [
        json!("01K9Z0T3G9R5M1N2P3Q4R5S6T7"),
        json!("partner"),
        json!(1),
        json!(""),
    ] {
        let refused = change(&app, &app.backend_client, &json!({ "orchestratorId": wrong })).await;
        assert_eq!(
            (refused.status, refused.wrong_fields()),
            (400, vec!["orchestratorId".to_owned()]),
            "{wrong}"
        );
    }
    let bearer = format!("Bearer {}", sign_in(&app, &TestWallet::new(7)).await);
    let made = app.post("/v1/client-ids").header("authorization", &bearer);
    let made = made.json(&json!({ "label": "Own" })).send().await.expect(201);
    let path = format!("/v1/client-ids/{}", made["id"].as_str().expect("an id"));
    let put = async |orchestrator: &str| {
        let call = app.call(Method::PUT, &path).header("authorization", &bearer);
        call.json(&json!({ "orchestratorId": orchestrator })).send().await
    };
    put("01K9Z0T3G9R5M1N2P3Q4R5S6T7").await.expect(400);
    assert_eq!(
        put(own.id.as_str()).await.expect(200)["orchestratorId"],
        own.id.as_str()
    );
    link(&app, &own, made["clientId"].as_str().expect("text"))
        .await
        .expect(201);
    let record = app.get(&path).header("authorization", &bearer).send().await.expect(200);
    assert_eq!(record["orchestratorLink"]["status"], "active");
    assert!(record["orchestratorLink"]["linkedAt"].is_string(), "{record}");
}

#[tokio::test]
async fn links_are_listed_in_pages() {
    let app = app_in(DirectLinkSetting::Open).await;
    let own = partner(&app).await;
    let mut linked = Vec::new();
    for _ in 0..3 {
        let client_id = app.another_client(&[PAGE]).await;
        app.advance_ms(1_000);
        link(&app, &own, &client_id).await.expect(201);
        linked.push(json!({ "clientId": client_id, "status": "active" }));
    }
    let page = async |query: &str| by(app.get(&format!("{PATH}?{query}")), &own).send().await;
    let first = page("limit=2").await.expect(200);
    assert_eq!(
        first,
        json!({ "links": linked[..2], "total": 3, "page": 1, "limit": 2 })
    );
    let second = page("limit=2&page=2").await.expect(200);
    assert_eq!(
        second,
        json!({ "links": linked[2..], "total": 3, "page": 2, "limit": 2 })
    );
    assert_eq!(page("").await.expect(200)["limit"], 20);
    assert_eq!(page("limit=100&page=9").await.expect(200)["links"], json!([]));
    for (query, field) in [
        ("page=0", "page"),
        ("page=-1", "page"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
    ] {
        let refused = page(query).await;
        assert_eq!(
            (refused.status, refused.wrong_fields()),
            (400, vec![field.to_owned()]),
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_client_id_beside_the_key_is_ignored_on_links() {
    let app = app_in(DirectLinkSetting::Open).await;
    let own = partner(&app).await;
    let call = by(app.get(PATH), &own).header("x-client-id", &app.page_client);
    call.send().await.expect(200);
    for state in ["inactive", "revoked"] {
        let client_id = app.another_client(&[]).await;
        change(&app, &client_id, &json!({ "status": state })).await.expect(200);
        let call = by(app.get(PATH), &own).header("x-client-id", &client_id);
        call.send().await.expect(200);
    }
    let unknown = by(app.get(PATH), &own).header("x-client-id", UNKNOWN);
    unknown.send().await.expect(401);
    app.get(PATH).with_key().send().await.expect(403);
    app.get(PATH).send().await.expect(401);
}

#[tokio::test]
async fn a_disabled_orchestrator_is_refused_everywhere_until_enabled() {
    let app = app_in(DirectLinkSetting::Open).await;
    let own = partner(&app).await;
    let second = keys::create(&app.ctx, &own.id, None).await.expect("a key").key;
    link(&app, &own, &app.backend_client).await.expect(201);
    let elsewhere = app.beside(|_| {}).await;
    by(elsewhere.get(PATH), &own).send().await.expect(200);
    flows::orchestrators::disable::set(&app.ctx, &own.id, true)
        .await
        .expect("disabled");
    for key in [own.key.reveal(), second.reveal()] {
        for path in [PATH, "/v2/orchestrators/webhooks", "/v2/request"] {
            let refused = app.get(path).header("x-orchestrator-key", key).send().await.expect(403);
            let sentence = refused["message"].as_str().expect("a sentence");
            assert!(sentence.contains("is disabled"), "{sentence}");
        }
    }
    let preview = json!({ "amount": "1", "currency": "USDC", "flow": "pay" });
    let pair = by(app.post("/v2/secure-payments/fees/preview"), &own).header("x-client-id", &app.backend_client);
    let refused = pair.json(&preview).send().await.expect(403);
    assert!(
        refused["message"].as_str().expect("a sentence").contains("is disabled"),
        "{refused}"
    );
    by(app.get("/v2/request").with_key(), &own).send().await.expect(403);
    // An instance that has not seen the key before reads its state at once.
    let fresh = app.beside(|_| {}).await;
    by(fresh.get(PATH), &own).send().await.expect(403);
    flows::orchestrators::disable::set(&app.ctx, &own.id, false)
        .await
        .expect("enabled");
    assert_eq!(
        links_of(&app, &own).await[0]["clientId"],
        app.backend_client.as_str(),
        "its links stay"
    );
}
