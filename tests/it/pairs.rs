//! Calls with a pair: the key of an orchestrator and a client ID that is linked to the orchestrator. Tests which
//! credentials may create payments, to whom the payments belong, and what the orchestrator may decide for the platform.

use crate::{
    orchestrator_links::{by, change, link, partner, row_of, unlink},
    support::{
        Answer, TestApp,
        app::{Call, PAGE},
        links::{link_of, payout_of, token_of},
        receiver::Receiver,
        requests::{PAYEE, fau},
        screening::{Providers, rows, screened},
        wallet::token,
    },
};
use poem::http::Method;
use prs::{
    domain::{destination::ScreeningProvider, screening::SandboxAnswer},
    flows::{self, keys, orchestrators::create::NewOrchestrator},
};
use serde_json::{Value, json};

const LINKS: &str = "/v2/secure-payments";
const PAYOUTS: &str = "/v2/secure-payments/payouts";
const PREVIEW: &str = "/v2/secure-payments/fees/preview";
const COMBINE: &str = "/v2/secure-payments/batch-payouts";

const LIST: &str = "/v2/orchestrators/client-ids";

const OTHER: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";

/// A platform with a payee destination, and an orchestrator to which client IDs of the platform can be linked.
pub struct Linked {
    pub app: TestApp,
    pub orchestrator: NewOrchestrator,
    bearer: String,
    destination: Value,
}

impl Linked {
    async fn start() -> Self {
        Self::with(TestApp::start().await).await
    }

    async fn with(app: TestApp) -> Self {
        Self::paid_in(app, "FAU-sepolia").await
    }

    /// A platform whose destination receives this currency.
    pub async fn paid_in(app: TestApp, currency: &str) -> Self {
        let bearer = app.owner().await;
        let body = json!({ "tokenAddress": token(&app, currency), "chainId": 11_155_111 });
        let call = app.post("/v1/payee-destination").header("authorization", &bearer);
        let destination = call.json(&body).send().await.expect(201);
        Self {
            orchestrator: partner(&app).await,
            bearer,
            destination,
            app,
        }
    }

    /// A client ID that is bound to the destination.
    async fn bound(&self, domains: &[&str]) -> String {
        self.bound_with(json!({ "label": "Bound", "allowedDomains": domains }))
            .await
    }

    async fn bound_with(&self, mut body: Value) -> String {
        body["payeeDestinationId"] = self.destination["id"].clone();
        let call = self.app.post("/v1/client-ids").header("authorization", &self.bearer);
        let made = call.json(&body).send().await.expect(201);
        made["clientId"].as_str().expect("text").to_owned()
    }

    /// A client ID that is bound to the destination and linked to the orchestrator.
    async fn linked(&self, domains: &[&str]) -> String {
        self.linked_with(json!({ "label": "Bound", "allowedDomains": domains }))
            .await
    }

    /// A bound client ID with these members that is linked.
    pub async fn linked_with(&self, body: Value) -> String {
        let client_id = self.bound_with(body).await;
        link(&self.app, &self.orchestrator, &client_id).await.expect(201);
        client_id
    }

    pub fn pair<'a>(&'a self, path: &str, client_id: &str) -> Call<'a> {
        by(self.app.post(path), &self.orchestrator).header("x-client-id", client_id)
    }

    pub async fn post(&self, path: &str, client_id: &str, body: &Value) -> Answer {
        self.pair(path, client_id).json(body).send().await
    }
}

fn preview() -> Value {
    json!({ "amount": "1", "currency": "USDC", "flow": "pay" })
}

#[tokio::test]
async fn a_pair_creates_payments_that_name_its_orchestrator() {
    let shop = Linked::start().await;
    let (app, id) = (&shop.app, shop.orchestrator.id.as_str());
    let client_id = shop.linked(&[]).await;
    let made = shop.post(LINKS, &client_id, &link_of(&["1"])).await.expect(201);
    let several = shop.post(LINKS, &client_id, &link_of(&["1", "2"])).await.expect(201);
    let mut hidden = link_of(&["1"]);
    hidden["accessPolicy"] = json!({ "hideUntilApproved": true });
    let hidden = shop.post(LINKS, &client_id, &hidden).await.expect(201);
    let payout = shop.post(PAYOUTS, &client_id, &payout_of(OTHER, "1")).await.expect(201);
    shop.post(PREVIEW, &client_id, &preview()).await.expect(200);
    for made in [&made, &several, &hidden, &payout] {
        let token = token_of(made);
        let read = app.open_link(&token, "").send().await.expect(200);
        assert_eq!(read["orchestratorId"], id, "{read}");
        let found = app.find_link(&shop.bearer, &made["requestIds"][0]).await.expect(200);
        assert_eq!(
            (&found["orchestratorId"], &found["clientId"]),
            (&json!(id), &json!(client_id))
        );
        assert_eq!(
            app.stored_link(&token).await.origin.orchestrator.as_ref(),
            Some(&shop.orchestrator.id)
        );
    }
    let alone = app.link(&link_of(&["1"])).await.expect(201);
    let read = app.open_link(&token_of(&alone), "").send().await.expect(200);
    assert_eq!(read["orchestratorId"], Value::Null, "the platform's own link");
}

#[tokio::test]
async fn events_of_the_payment_page_name_the_orchestrator() {
    let shop = Linked::start().await;
    let client_id = shop.linked(&[]).await;
    let receiver = Receiver::start().await;
    let hook = json!({ "url": receiver.url() });
    shop.app
        .post("/v1/webhook")
        .with_key()
        .json(&hook)
        .send()
        .await
        .expect(201);
    let made = shop.post(LINKS, &client_id, &link_of(&["1"])).await.expect(201);
    let path = format!("{LINKS}/{}/events", token_of(&made));
    let step = json!({ "userEvent": "wallet_connected", "occurredAt": "2020-01-01T00:00:00Z" });
    shop.app.post(&path).with_client().json(&step).send().await.expect(202);
    shop.app.deliver().await;
    let received = receiver.received().await;
    let told: Vec<Value> = received.iter().map(|one| one.json()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["orchestratorId"], shop.orchestrator.id.as_str());
}

#[tokio::test]
async fn a_pair_needs_an_active_link_and_a_known_client_id() {
    let shop = Linked::start().await;
    let (app, other) = (&shop.app, partner(&shop.app).await);
    let own = shop.linked(&[]).await;
    let unlinked = shop.bound(&[]).await;
    let foreign = shop.bound(&[]).await;
    link(app, &other, &foreign).await.expect(201);
    let ended = shop.linked(&[]).await;
    unlink(app, &shop.orchestrator, &ended).await.expect(200);
    let withdrawn = shop.linked(&[]).await;
    change(app, &withdrawn, &json!({ "orchestratorId": null }))
        .await
        .expect(200);
    let inactive = shop.linked(&[]).await;
    change(app, &inactive, &json!({ "status": "inactive" }))
        .await
        .expect(200);
    let revoked = shop.linked(&[]).await;
    change(app, &revoked, &json!({ "status": "revoked" })).await.expect(200);
    let bodies = [
        (LINKS, link_of(&["1"])),
        (PAYOUTS, payout_of(OTHER, "1")),
        (PREVIEW, preview()),
        (COMBINE, json!({ "tokens": [] })),
    ];
    for (path, body) in &bodies {
        for (name, client_id, expected) in [
            ("unlinked", unlinked.as_str(), 403),
            ("foreign", &foreign, 403),
            ("ended", &ended, 403),
            ("withdrawn", &withdrawn, 403),
            ("inactive", &inactive, 403),
            ("revoked", &revoked, 401),
            ("unknown", "cli_000000000000000000000000000000", 401),
        ] {
            let refused = shop.post(path, client_id, body).await;
            assert_eq!(refused.status, expected, "{path} {name}: {}", refused.text);
        }
        let stolen = by(app.post(path), &other).header("x-client-id", &own);
        stolen.json(body).send().await.expect(403);
        let alone = by(app.post(path), &shop.orchestrator)
            .json(body)
            .send()
            .await
            .expect(403);
        let hint = alone["hint"].as_str().expect("a hint");
        assert!(hint.contains("x-orchestrator-key with x-client-id"), "{hint}");
        let guessed = app
            .post(path)
            .header("x-orchestrator-key", "orc_guessed")
            .header("x-client-id", &own);
        guessed.json(body).send().await.expect(401);
        let beside = shop.pair(path, &own).with_key();
        beside.json(body).send().await.expect(403);
    }
    let record = format!("/v2/client-ids/{}", row_of(app, &revoked).await);
    let record = app.get(&record).with_key().send().await.expect(200);
    assert_eq!(
        record["orchestratorLink"]["status"], "ended",
        "a revoked client ID has no active link"
    );
}

#[tokio::test]
async fn a_pair_needs_no_page_but_a_named_page_must_match() {
    let shop = Linked::start().await;
    let client_id = shop.linked(&[PAGE]).await;
    let body = link_of(&["1"]);
    shop.post(LINKS, &client_id, &body).await.expect(201);
    let from = async |page: &str| {
        shop.pair(LINKS, &client_id)
            .header("origin", page)
            .json(&body)
            .send()
            .await
    };
    from(PAGE).await.expect(201);
    from("https://evil.example.com").await.expect(403);
    let cookie = shop.pair(LINKS, &client_id).header("cookie", "session_token=stale");
    cookie.json(&body).send().await.expect(201);
}

#[tokio::test]
async fn the_destination_of_a_pair_is_the_bound_one() {
    let shop = Linked::start().await;
    let app = &shop.app;
    let unbound = app.another_client(&[]).await;
    link(app, &shop.orchestrator, &unbound).await.expect(201);
    let mut named = link_of(&["1"]);
    named["destinationId"] = shop.destination["destinationId"].clone();
    for body in [link_of(&["1"]), named.clone()] {
        let refused = shop.post(LINKS, &unbound, &body).await.expect(403);
        assert!(
            refused["message"]
                .as_str()
                .expect("a sentence")
                .contains("payeeDestinationId"),
            "{refused}"
        );
    }
    shop.post(PAYOUTS, &unbound, &payout_of(OTHER, "1")).await.expect(201);
    let bound = shop.linked(&[]).await;
    let made = shop.post(LINKS, &bound, &named).await.expect(201);
    assert_eq!(
        app.stored_link(&token_of(&made))
            .await
            .destination
            .map(|key| key.to_string())
            .as_deref(),
        shop.destination["destinationId"].as_str()
    );
    let ending = app.call(Method::PATCH, "/v1/payee-destination/deactivate");
    let ending = ending.header("authorization", &shop.bearer);
    ending
        .json(&json!({ "destinationId": shop.destination["destinationId"] }))
        .send()
        .await
        .expect(200);
    let refused = shop.post(LINKS, &bound, &link_of(&["1"])).await.expect(400);
    assert_eq!(
        refused["message"],
        "No active payment destination found for this platform"
    );
}

#[tokio::test]
async fn a_pair_decides_no_more_for_the_platform_than_a_stranger() {
    let shop = Linked::start().await;
    let client_id = shop.linked(&[]).await;
    let policy = json!({ "mode": "off", "hidePayeeAddress": true });
    let body = json!({
        "tokenAddress": token(&shop.app, "FAU-sepolia"), "chainId": 11_155_111, "accessPolicy": policy,
    });
    let changing = shop
        .app
        .call(Method::PUT, "/v1/payee-destination")
        .header("authorization", &shop.bearer);
    changing.json(&body).send().await.expect(200);
    let mut lifted = link_of(&["1"]);
    lifted["accessPolicy"] = json!({ "hidePayeeAddress": false });
    let refused = shop.post(LINKS, &client_id, &lifted).await.expect(403);
    assert!(
        refused["message"]
            .as_str()
            .expect("a sentence")
            .contains("can only add"),
        "{refused}"
    );
    let mut fee = link_of(&["1"]);
    (fee["feePercentage"], fee["feeAddress"]) = (json!("1"), json!(OTHER));
    let refused = shop.post(LINKS, &client_id, &fee).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(
        refused.text.contains("cannot name other fee receivers"),
        "{}",
        refused.text
    );
    fee["feeAddress"] = json!(PAYEE);
    shop.post(LINKS, &client_id, &fee).await.expect(201);
}

#[tokio::test]
async fn limits_of_the_client_id_hold_for_a_pair() {
    let shop = Linked::start().await;
    let client_id = shop.linked(&[]).await;
    let limits = json!({ "allowedPayees": [PAYEE], "maxAmount": { "amount": "2", "currency": "FAU-sepolia" } });
    change(&shop.app, &client_id, &limits).await.expect(200);
    shop.post(LINKS, &client_id, &link_of(&["2"])).await.expect(201);
    shop.post(LINKS, &client_id, &link_of(&["1", "1.5"])).await.expect(400);
    let refused = shop.post(PAYOUTS, &client_id, &payout_of(OTHER, "1")).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(
        !refused.text.contains(PAYEE),
        "an orchestrator does not learn the list: {}",
        refused.text
    );
}

#[tokio::test]
async fn a_linked_client_id_alone_creates_no_payment_links() {
    let shop = Linked::start().await;
    let app = &shop.app;
    let client_id = shop.linked(&[]).await;
    let made = shop.post(LINKS, &client_id, &link_of(&["1"])).await.expect(201);
    let alone = |call| Call::header(call, "x-client-id", &client_id);
    for (path, body) in [
        (LINKS, link_of(&["1"])),
        (PAYOUTS, payout_of(OTHER, "1")),
        (COMBINE, json!({ "tokens": [token_of(&made), token_of(&made)] })),
    ] {
        let refused = alone(app.post(path)).json(&body).send().await.expect(403);
        let sentence = refused["message"].as_str().expect("a sentence");
        assert!(sentence.contains("x-orchestrator-key"), "{path}: {sentence}");
    }
    alone(app.post(PREVIEW)).json(&preview()).send().await.expect(200);
    let request = alone(app.post("/v2/request")).json(&fau("1")).send().await.expect(201);
    let id = request["requestId"].as_str().expect("an id");
    alone(app.get(&format!("/v2/request/{id}"))).send().await.expect(200);
    alone(app.get("/v2/payments?reference=order")).send().await.expect(200);
    let token = token_of(&made);
    alone(app.get(&format!("{LINKS}/{token}"))).send().await.expect(200);
    alone(app.get(&format!("{LINKS}/{token}/pay"))).send().await.expect(200);
    let hash = format!("0x{}", "8f".repeat(32));
    let sent = json!({ "txHash": hash, "chain": "SEPOLIA", "token": "FAU" });
    alone(app.post(&format!("{LINKS}/{token}/intent")))
        .json(&sent)
        .send()
        .await
        .expect(200);
    let public = shop.linked(&[PAGE]).await;
    let page = app.post(LINKS).header("x-client-id", &public).header("origin", PAGE);
    page.json(&link_of(&["1"])).send().await.expect(403);
    unlink(app, &shop.orchestrator, &client_id).await.expect(200);
    alone(app.post(LINKS)).json(&link_of(&["1"])).send().await.expect(201);
}

#[tokio::test]
async fn payments_stay_payable_after_the_end_of_the_link() {
    let shop = Linked::with(TestApp::on_chain().await).await;
    let app = &shop.app;
    let client_id = shop.linked(&[]).await;
    let made = shop.post(LINKS, &client_id, &link_of(&["1"])).await.expect(201);
    unlink(app, &shop.orchestrator, &client_id).await.expect(200);
    shop.post(LINKS, &client_id, &link_of(&["1"])).await.expect(403);
    let token = token_of(&made);
    let read = app.open_link(&token, "").send().await.expect(200);
    assert_eq!(read["orchestratorId"], shop.orchestrator.id.as_str());
    app.pay_link(&token).await;
    app.follow().await;
    app.open_link(&token, "").send().await.expect(409);
}

#[tokio::test]
async fn a_link_that_ends_during_a_creation_creates_nothing() {
    let providers = Providers::start().await;
    let shop = Linked::with(TestApp::with(screened(&providers), None).await).await;
    let app = &shop.app;
    let client_id = shop.linked(&[]).await;
    let mut body = payout_of(OTHER, "1");
    body["accessPolicy"] = json!({ "mode": "kyt_all_wallets", "screeningProvider": "hypernative" });
    providers.answer(OTHER, Some(ScreeningProvider::Hypernative), SandboxAnswer::Hang);
    let creation = shop.post(PAYOUTS, &client_id, &body);
    let end = async {
        while providers.questions(ScreeningProvider::Hypernative).await == 0 {
            tokio::task::yield_now().await;
        }
        unlink(app, &shop.orchestrator, &client_id).await.expect(200);
    };
    let (refused, ()) = tokio::join!(creation, end);
    refused.expect(403);
    assert_eq!(rows(app, "secure_payments").await, 0);
}

#[tokio::test]
async fn idempotency_keys_of_a_pair_differ_from_those_of_its_client_id() {
    let shop = Linked::start().await;
    let app = &shop.app;
    let client_id = shop.bound(&[]).await;
    let body = payout_of(OTHER, "1");
    let alone = app
        .post(PAYOUTS)
        .header("x-client-id", &client_id)
        .header("idempotency-key", "once");
    let alone = alone.json(&body).send().await.expect(201);
    link(app, &shop.orchestrator, &client_id).await.expect(201);
    let once = async || {
        shop.pair(PAYOUTS, &client_id)
            .header("idempotency-key", "once")
            .json(&body)
            .send()
            .await
    };
    let (first, again) = (once().await.expect(201), once().await);
    assert_ne!(first["token"], alone["token"]);
    let hashed = flows::auth::identify::hash(&format!("once\n{}", shop.orchestrator.id.as_str()));
    let guessed = app
        .post(PAYOUTS)
        .with_client()
        .header("idempotency-key", &hashed)
        .json(&body)
        .send()
        .await
        .expect(201);
    assert_ne!(guessed["token"], first["token"]);
    assert_eq!(
        again.expect(201),
        first,
        "the pair is secret and gets the stored response"
    );
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let public = shop.linked(&[PAGE]).await;
    let once = async || {
        shop.pair(PAYOUTS, &public)
            .header("idempotency-key", "once")
            .json(&body)
            .send()
            .await
    };
    assert_eq!(
        once().await.expect(201),
        once().await.expect(201),
        "also with a public client ID"
    );
}

#[tokio::test]
async fn a_rotated_key_keeps_links_and_pairs() {
    let shop = Linked::start().await;
    let app = &shop.app;
    let client_id = shop.linked(&[]).await;
    let new = keys::rotate(&app.ctx, &shop.orchestrator.id, &shop.orchestrator.key_id, 0)
        .await
        .expect("rotated");
    shop.post(LINKS, &client_id, &link_of(&["1"])).await.expect(401);
    let call = app
        .post(LINKS)
        .header("x-orchestrator-key", new.key.reveal())
        .header("x-client-id", &client_id);
    call.json(&link_of(&["1"])).send().await.expect(201);
}

#[tokio::test]
async fn links_of_two_orchestrators_are_not_combined() {
    let shop = Linked::start().await;
    let app = &shop.app;
    let other = partner(app).await;
    let client_id = shop.linked(&[]).await;
    let of_other = app.another_client(&[]).await;
    link(app, &other, &of_other).await.expect(201);
    let payout = async || token_of(&shop.post(PAYOUTS, &client_id, &payout_of(OTHER, "1")).await.expect(201));
    let combine = async |tokens: &[String]| {
        app.post(COMBINE)
            .with_key()
            .json(&json!({ "tokens": tokens }))
            .send()
            .await
    };
    let foreign = by(app.post(PAYOUTS), &other).header("x-client-id", &of_other);
    let foreign = token_of(&foreign.json(&payout_of(OTHER, "1")).send().await.expect(201));
    let (one, two) = (payout().await, payout().await);
    let refused = combine(&[one.clone(), foreign]).await;
    assert_eq!(
        (refused.status, refused.wrong_fields()),
        (400, vec!["tokens".to_owned()])
    );
    assert!(refused.text.contains("one orchestrator"), "{}", refused.text);
    let own = token_of(&app.payout_link(&payout_of(OTHER, "1")).await.expect(201));
    let mixed = combine(&[one, own]).await.expect(201);
    let by_pair = shop
        .post(COMBINE, &client_id, &json!({ "tokens": [two, payout().await] }))
        .await
        .expect(201);
    for combined in [mixed, by_pair] {
        let read = app.open_link(&token_of(&combined), "").send().await.expect(200);
        assert_eq!(read["orchestratorId"], shop.orchestrator.id.as_str());
    }
    let made = shop.bound(&[]).await;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let call = app
            .post(PAYOUTS)
            .header("x-client-id", &made)
            .json(&payout_of(OTHER, "1"));
        tokens.push(token_of(&call.send().await.expect(201)));
    }
    link(app, &shop.orchestrator, &made).await.expect(201);
    let combined = shop
        .post(COMBINE, &made, &json!({ "tokens": tokens }))
        .await
        .expect(201);
    let read = app.open_link(&token_of(&combined), "").send().await.expect(200);
    assert_eq!(read["orchestratorId"], shop.orchestrator.id.as_str());
}

#[tokio::test]
async fn an_orchestrator_key_beside_another_credential_is_refused() {
    let shop = Linked::start().await;
    let app = &shop.app;
    let client_id = shop.linked(&[]).await;
    for path in ["/v2/request", "/v2/payments", "/v2/currencies", "/v2/events"] {
        let beside_key = by(app.get(path).with_key(), &shop.orchestrator)
            .send()
            .await
            .expect(403);
        assert!(
            beside_key["message"]
                .as_str()
                .expect("a sentence")
                .contains("omit x-orchestrator-key")
        );
        by(app.get(path), &shop.orchestrator)
            .header("x-client-id", &client_id)
            .send()
            .await
            .expect(403);
        let guessed = app.get(path).with_key().header("x-orchestrator-key", "orc_guessed");
        guessed.send().await.expect(401);
    }
    let public = shop.linked(&[PAGE]).await;
    let without_page = by(app.get("/v2/request"), &shop.orchestrator).header("x-client-id", &public);
    without_page.send().await.expect(403);
    let session = by(app.get("/v1/client-ids"), &shop.orchestrator).header("authorization", &shop.bearer);
    session.send().await.expect(403);
}

#[tokio::test]
async fn calls_of_an_orchestrator_count_over_all_its_keys() {
    let shop = Linked::start().await;
    let limited = shop.app.beside(|settings| {
        settings.rate_limits.enabled = true;
        settings.rate_limits.factor_outside_production = 1;
        settings.rate_limits.default_per_minute = 60;
        settings.rate_limits.platform_factor = 2;
    });
    let limited = limited.await;
    let mut answered = 0;
    for _ in 0..4 {
        let key = keys::create(&shop.app.ctx, &shop.orchestrator.id, None)
            .await
            .expect("a key")
            .key;
        for _ in 0..40 {
            let call = limited.get(LIST).header("x-orchestrator-key", key.reveal());
            answered += usize::from(call.send().await.status == 200);
        }
    }
    assert!(answered < 3 * 10 + 5, "{answered} calls were answered");
    let other = partner(&shop.app).await;
    by(limited.get(LIST), &other).send().await.expect(200);
}

#[tokio::test]
async fn calls_of_a_pair_count_for_the_client_id_and_the_orchestrator() {
    let shop = Linked::start().await;
    let limited = shop.app.beside(|settings| {
        settings.rate_limits.enabled = true;
        settings.rate_limits.factor_outside_production = 1;
        settings.rate_limits.default_per_minute = 60;
        settings.rate_limits.basic_per_minute = 60;
        settings.rate_limits.platform_factor = 2;
    });
    let limited = limited.await;
    let pair = async |orchestrator: &NewOrchestrator, client_id: &str| {
        let call = by(limited.post(PREVIEW), orchestrator).header("x-client-id", client_id);
        call.json(&preview()).send().await.status
    };
    let until_refused = async |orchestrator: &NewOrchestrator, client_id: &str| {
        for answered in 0..50 {
            if pair(orchestrator, client_id).await == 429 {
                return answered;
            }
        }
        panic!("no call was refused");
    };
    let ids = [shop.linked(&[]).await, shop.linked(&[]).await, shop.linked(&[]).await];
    assert_eq!(
        until_refused(&shop.orchestrator, &ids[0]).await,
        10,
        "the quota of the client ID"
    );
    assert_eq!(
        until_refused(&shop.orchestrator, &ids[1]).await,
        10,
        "another client ID"
    );
    assert_eq!(
        pair(&shop.orchestrator, &ids[2]).await,
        429,
        "the quota of the orchestrator"
    );
    let other = partner(&shop.app).await;
    let of_other = shop.bound(&[]).await;
    link(&shop.app, &other, &of_other).await.expect(201);
    assert_eq!(
        pair(&other, &of_other).await,
        200,
        "another orchestrator on the same platform"
    );
}

#[tokio::test]
async fn an_orchestrator_reads_nothing_of_a_linked_platform() {
    let shop = Linked::start().await;
    let app = &shop.app;
    let client_id = shop.linked(&[]).await;
    let made = shop.post(LINKS, &client_id, &link_of(&["1"])).await.expect(201);
    let request = made["requestIds"][0].as_str().expect("an id");
    for path in [
        format!("/v2/request/{request}"),
        format!("{LINKS}/{}", token_of(&made)),
        format!("{LINKS}/{}/pay", token_of(&made)),
        "/v2/payments".to_owned(),
        "/v2/events".to_owned(),
        "/v2/client-ids".to_owned(),
        "/v1/webhook".to_owned(),
    ] {
        for call in [
            by(app.get(&path), &shop.orchestrator),
            by(app.get(&path), &shop.orchestrator).header("x-client-id", &client_id),
        ] {
            let refused = call.send().await;
            assert_eq!(refused.status, 403, "{path}: {}", refused.text);
            assert!(!refused.text.contains(request), "{path}");
        }
    }
    let known = flows::auth::identify::key(&app.ctx, shop.orchestrator.key.reveal())
        .await
        .expect("a key");
    assert_eq!(known.owner.as_str(), shop.orchestrator.id.as_str());
}
