//! Personal data of a payer: it is encrypted with a key of its own, shown to no other tenant, readable across a
//! rotation of the master key, and unreadable once its key is deleted.

use crate::support::{
    TestApp,
    off_ramp::{Partner, Scripted, account_news, payer_news},
    payers::{dollars, encoded, path_of, person, with_partner},
    receiver::Receiver,
    secrets::{holds, lines_logged_with},
};
use prs::{domain::off_ramp_sandbox::OffRampBehaviour, flows::at_rest, store};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// Every text in the bodies of [`person`] and [`dollars`] that identifies a person.
fn canaries() -> Vec<String> {
    let forms = [person("canary-user@example.com"), dollars("7734509911")];
    let mut found: Vec<String> = forms
        .iter()
        .flat_map(|form| {
            form.as_object()
                .expect("an object")
                .values()
                .cloned()
                .collect::<Vec<_>>()
        })
        .filter_map(|value| value.as_str().map(str::to_owned))
        .filter(|text| text.len() > 7 && text != "individual")
        .collect();
    found.push("The bank does not know the account".to_owned());
    found.push("pages.example.com".to_owned());
    found
}

/// Registers a payer with an approved and a failed bank account, and publishes all events about them.
async fn known_payer(app: &TestApp, partner: &Partner) {
    let id = "canary-user@example.com";
    app.register_payer(&person(id)).await.expect(200);
    app.account_of(id, &dollars("7734509911")).await;
    app.account_of(id, &dollars("7734500001")).await;
    let theirs = app.partner_id(id).await;
    partner.decide_kyc(&theirs, "approve", app.ctx.clock.now());
    partner.decide_agreement(&theirs, "agree", app.ctx.clock.now());
    partner.tell_due(app).await;
    app.advance_ms(3_000);
    partner.tell_due(app).await;
    let states: Vec<Value> = app.accounts(id).await.iter().map(|one| one["status"].clone()).collect();
    assert_eq!(states, ["approved", "failed"]);
}

const ID: &str = "canary-user@example.com";

#[tokio::test]
async fn payer_data_is_never_stored_in_plaintext_logged_or_measured() {
    let (app, partner) = with_partner().await;
    let receiver = Receiver::echoing().await;
    platform_hook(&app, &receiver.url()).await;
    known_payer(&app, &partner).await;
    app.deliver().await;
    let told = receiver.received().await;
    assert!(
        told.iter().any(|one| one.json()["clientUserId"] == ID),
        "its owner gets the data"
    );
    app.register_payer(&json!({ "clientUserId": ID, "ssn": "912-66-1187" }))
        .await
        .expect(400);
    app.get(&format!("{}/no-such-thing", path_of(ID)))
        .with_key()
        .send()
        .await;
    let stored = app.stored();
    let measured = app.get("/metrics").send().await.text;
    assert!(measured.contains("prs_off_ramp_calls_total"), "{measured}");
    let texts = canaries();
    for text in &texts {
        assert!(lines_logged_with(text) == 0, "{text} is in the log");
    }
    // The partner's ids identify the same person.
    let mut ids = vec![app.partner_id(ID).await];
    ids.extend(app.stored_accounts(ID).await.into_iter().map(|one| one.details.partner));
    for text in texts.iter().chain(&ids) {
        assert!(!holds(&stored, text), "{text} is stored in plaintext");
        assert!(!measured.contains(text), "{text} is in the metrics");
    }
    assert!(holds(&stored, "p1:"), "and some values are encrypted");
    assert!(
        lines_logged_with("/v2/payer/{clientUserId}") > 0,
        "the log contains the route"
    );
    assert_eq!(lines_logged_with(&encoded(ID)), 0, "not the path");
    println!(
        "{} canary values and {} ids of the partner looked for",
        texts.len(),
        ids.len()
    );
}

/// Registers an endpoint that receives the events of the whole platform.
async fn platform_hook(app: &TestApp, url: &str) {
    let hook = json!({ "url": format!("{url}/platform") });
    let call = app.post("/v1/webhook").with_key();
    call.json(&hook).send().await.expect(201);
}

#[tokio::test]
async fn hidden_payer_fields_appear_in_no_response() {
    let (app, partner) = with_partner().await;
    known_payer(&app, &partner).await;
    let own = path_of(ID);
    let mut answers = vec![app.register_payer(&person(ID)).await, app.payer(ID).await];
    for path in [
        format!("{own}/payment-details"),
        "/v2/events?limit=100".to_owned(),
        "/v2/deliveries?limit=100".to_owned(),
    ] {
        answers.push(app.get(&path).with_key().send().await);
    }
    answers.push(app.add_account(ID, &dollars("7734509911")).await);
    for answer in answers {
        assert!((200..300).contains(&answer.status), "{}", answer.text);
        for text in [
            "912-66-1187",
            "1961-07-13",
            "1962-08-14",
            "CANARYDOC-55",
            "Canary street",
            "+12125558917",
        ] {
            assert!(!answer.text.contains(text), "{text} in {}", answer.text);
        }
    }
}

#[tokio::test]
async fn erasing_a_payer_also_erases_its_events_and_deliveries() {
    let (app, partner) = with_partner().await;
    let receiver = Receiver::echoing().await;
    platform_hook(&app, &receiver.url()).await;
    known_payer(&app, &partner).await;
    app.deliver().await;
    let deliveries = app.get("/v2/deliveries?limit=100").with_key().send().await.expect(200);
    let delivery = deliveries["deliveries"][0]["id"].as_str().expect("an id").to_owned();
    // One delivery is queued and one has failed when the payer is erased.
    receiver.answer(500);
    let theirs = app.partner_id(ID).await;
    partner
        .tell(&app, &payer_news(&theirs, 90, "rejected", "completed"))
        .await
        .expect(200);
    let payer = app.stored_payer(ID).await;
    let wrapped = one(&app, "SELECT data_key FROM payer_keys").await;
    let details = one(&app, "SELECT details FROM payers").await;

    assert_eq!(app.erase_payer(ID).await.expect(200), json!({ "success": true }));
    assert_eq!(partner.count("erase").await, 1);
    for answer in [
        app.payer(ID).await,
        app.erase_payer(ID).await,
        app.add_account(ID, &dollars("1")).await,
    ] {
        assert_eq!(answer.status, 404);
        assert_eq!(
            answer.json()["message"],
            format!("Payer with client user ID {ID} not found")
        );
    }
    let stored = app.stored();
    for text in [wrapped.as_str(), details.as_str()] {
        assert!(
            !holds(&stored, text),
            "data under the master key is gone from the files"
        );
    }
    let ring = store::payer_keys::Keyring::of(app.ctx.db.reader(), &(&app.platform).into(), [&payer.id]).await;
    assert!(ring.expect("reads").get(&payer.id).is_none(), "the key is gone");
    assert_eq!(
        one(&app, "SELECT kyc FROM payers").await,
        "rejected",
        "the row of the payer remains"
    );

    // Its events contain only their type, and are not sent again.
    let events = app.get("/v2/events?limit=100").with_key().send().await.expect(200);
    let events = events["events"].as_array().expect("a list");
    assert!(events.len() > 4);
    for event in events {
        let kind = event["event"].as_str().expect("text");
        let body: Value = serde_json::from_str(event["body"].as_str().expect("text")).expect("JSON");
        assert_eq!(body, json!({ "event": kind, "erased": true }));
        let replay = app.post(&format!("/v2/events/{}/replay", event["id"].as_str().expect("an id")));
        let replay = replay.with_key().json(&json!({})).send().await;
        assert_eq!(replay.status, 409);
        assert!(replay.text.contains("erased"), "{}", replay.text);
    }
    let retry = app.post(&format!("/v2/deliveries/{delivery}/retry")).with_key();
    let retry = retry.json(&json!({})).send().await;
    assert_eq!(retry.status, 409);
    assert!(retry.text.contains("erased"), "{}", retry.text);
    let detail = app
        .get(&format!("/v2/deliveries/{delivery}"))
        .with_key()
        .send()
        .await
        .expect(200);
    assert_eq!(
        detail["tries"][0]["response"],
        json!(null),
        "the response of the receiver"
    );
    let all = app.post("/v2/events/replay").with_key();
    let all = all
        .json(&json!({ "since": "2020-01-01T00:00:00Z" }))
        .send()
        .await
        .expect(202);
    assert_eq!(all["replayed"], 0);
    let before = receiver.received().await.len();
    app.deliver().await;
    assert_eq!(receiver.received().await.len(), before, "no event of the payer is sent");
    let waiting = one(&app, "SELECT CAST(COUNT(*) AS TEXT) FROM delivery_queue").await;
    assert_eq!(waiting, "0", "and no delivery of the payer waits");

    // The same id is a new payer.
    let anew = app.register_payer(&person(ID)).await.expect(200);
    assert_ne!(anew["userId"], json!(payer.user_id));
    assert!(app.accounts(ID).await.is_empty());
}

/// One text of the database.
async fn one(app: &TestApp, sql: &str) -> String {
    let db = app.ctx.db.writer();
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(statement).await.expect("asks").expect("a row");
    row.try_get_by_index(0).expect("text")
}

#[tokio::test]
async fn an_erasure_without_a_partner_response_continues_automatically() {
    let (app, partner) = with_partner().await;
    let receiver = Receiver::echoing().await;
    platform_hook(&app, &receiver.url()).await;
    known_payer(&app, &partner).await;
    app.deliver().await;
    let sent = receiver.received().await.len();
    // One delivery is queued.
    let theirs = app.partner_id(ID).await;
    partner
        .tell(&app, &payer_news(&theirs, 90, "rejected", "completed"))
        .await
        .expect(200);
    partner.behave(OffRampBehaviour::Down);
    let waiting = app.erase_payer(ID).await;
    assert_eq!(waiting.status, 502);
    assert!(waiting.text.contains("erased automatically"), "{}", waiting.text);
    app.payer(ID).await.expect(404);
    let events = app.get("/v2/events?limit=100").with_key().send().await.expect(200);
    let events = events["events"].as_array().expect("a list").clone();
    assert!(events.len() > 4);
    for event in &events {
        let body: Value = serde_json::from_str(event["body"].as_str().expect("text")).expect("JSON");
        assert_eq!(
            body["erased"], true,
            "no data of the payer is readable meanwhile: {event}"
        );
    }
    let replay = app.post(&format!(
        "/v2/events/{}/replay",
        events[0]["id"].as_str().expect("an id")
    ));
    replay.with_key().json(&json!({})).send().await.expect(409);
    let deliveries = app.get("/v2/deliveries?limit=100").with_key().send().await.expect(200);
    assert!(!deliveries.to_string().contains("canary"), "{deliveries}");
    for delivery in deliveries["deliveries"].as_array().expect("a list") {
        let path = format!("/v2/deliveries/{}", delivery["id"].as_str().expect("an id"));
        let detail = app.get(&path).with_key().send().await;
        assert!(!detail.text.contains("canary"), "{}", detail.text);
        let retry = app.post(&format!("{path}/retry")).with_key();
        retry.json(&json!({})).send().await.expect(409);
    }
    app.deliver().await;
    assert_eq!(
        receiver.received().await.len(),
        sent,
        "no event of the payer is sent meanwhile"
    );
    let again = app.register_payer(&person(ID)).await;
    assert_eq!(again.status, 409);
    assert!(again.text.contains("being erased"), "{}", again.text);
    partner.behave(OffRampBehaviour::Normal);
    app.advance_ms(61_000);
    app.follow_payers().await;
    app.erase_payer(ID).await.expect(404);
    assert_eq!(one(&app, "SELECT CAST(COUNT(*) AS TEXT) FROM payer_keys").await, "0");
    app.register_payer(&person(ID)).await.expect(200);
}

#[tokio::test]
async fn a_rotation_rewraps_payer_keys_while_payers_are_served() {
    const PAYERS: usize = 120;
    let (app, _partner) = with_partner().await;
    for number in 0..PAYERS {
        app.register_payer(&person(&format!("user-{number:04}")))
            .await
            .expect(200);
    }
    app.account_of("user-0000", &dollars("7734509911")).await;
    let sealed = one(&app, "SELECT details FROM payers").await;
    let app = app
        .restarted_with(|settings| {
            settings.secrets.master_key = None;
            settings.secrets.master_keys = ["a1", "5e"].map(|pair| pair.repeat(32)).to_vec();
        })
        .await;
    let is_over = AtomicBool::new(false);
    let rotation = async {
        let rotation = at_rest::rotate(&app.ctx, |_, _| {}).await.expect("rotates");
        is_over.store(true, Ordering::SeqCst);
        rotation
    };
    let load = async {
        let mut calls = 0;
        while !is_over.load(Ordering::SeqCst) || calls < PAYERS {
            app.payer(&format!("user-{:04}", calls % PAYERS)).await.expect(200);
            calls += 1;
        }
        calls
    };
    let (rotation, calls) = tokio::join!(rotation, load);
    assert_eq!(rotation.left, 0);
    assert!(
        rotation.replaced >= u64::try_from(PAYERS).expect("fits"),
        "{rotation:?}"
    );
    assert_eq!(
        one(&app, "SELECT details FROM payers").await,
        sealed,
        "only the keys are re-encrypted"
    );
    let app = app
        .restarted_with(|settings| settings.secrets.master_keys = vec!["a1".repeat(32)])
        .await;
    assert_eq!(app.accounts("user-0000").await[0]["accountNumber"], "7734509911");
    app.payer("user-0119").await.expect(200);
    println!(
        "{} values under the new master key, {calls} calls in parallel",
        rotation.replaced
    );
}

#[tokio::test]
async fn idempotency_keys_are_not_stored_in_plaintext() {
    let (app, partner) = with_partner().await;
    let keyed = async |path: String, body: Value| {
        let call = app
            .post(&path)
            .with_key()
            .header("idempotency-key", "canary.key@example.com");
        call.json(&body).send().await
    };
    let first = keyed("/v2/payer".to_owned(), person(ID)).await.expect(200);
    assert_eq!(keyed("/v2/payer".to_owned(), person(ID)).await.expect(200), first);
    assert_eq!(partner.count("register").await, 1, "it is still the same key");
    keyed("/v2/payer".to_owned(), person("another-user")).await.expect(409);
    let accounts = format!("{}/payment-details", path_of(ID));
    keyed(accounts, dollars("7734509911")).await.expect(201);
    assert!(!holds(&app.stored(), "canary.key"));
}

/// Checks an erasure that began while a call of the payer was in flight: the service erases the payer at the partner
/// only after that call has ended.
async fn is_erased_later(app: &TestApp, partner: &Partner) {
    let before = partner.count("erase").await;
    for _ in 0..2 {
        let waits = app.erase_payer(ID).await;
        assert_eq!(waits.status, 409, "{}", waits.text);
        assert!(
            waits.text.contains("erased automatically within seconds"),
            "{}",
            waits.text
        );
        app.payer(ID).await.expect(404);
        app.follow_payers().await;
    }
    app.register_payer(&person(ID)).await.expect(409);
    app.add_account(ID, &dollars("7734509922")).await.expect(404);
    assert_eq!(
        partner.count("erase").await,
        before,
        "not while the call may be in flight"
    );
    app.advance_ms(10_002);
    let keys = "SELECT CAST(COUNT(*) AS TEXT) FROM payer_keys";
    // A call to a partner that does not respond in time is retried.
    for _ in 0..5 {
        app.follow_payers().await;
        if one(app, keys).await == "0" {
            break;
        }
        app.advance_ms(5 * 60 * 1_000);
    }
    assert!(partner.count("erase").await > before);
    let calls = partner.calls().await;
    assert_eq!(
        calls.last().map(|call| call.method.as_str()),
        Some("DELETE"),
        "the erasure follows every other call: {calls:?}"
    );
    assert_eq!(one(app, keys).await, "0");
    app.erase_payer(ID).await.expect(404);
}

#[tokio::test]
async fn data_sent_by_an_aborted_call_is_erased_with_the_payer() {
    let (app, partner) = with_partner().await;
    for operation in ["add_account", "register"] {
        app.register_payer(&person(ID)).await.expect(200);
        // The partner stores the data at once, and its response reaches no caller.
        partner.behave(OffRampBehaviour::Slow);
        let before = partner.count(operation).await;
        let (account, payer) = (dollars("7734509911"), person(ID));
        let call = async {
            match operation {
                "add_account" => app.add_account(ID, &account).await,
                _ => app.register_payer(&payer).await,
            }
        };
        let reached = async {
            while partner.count(operation).await == before {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            answer = call => panic!("{operation} responds before it is aborted: {}", answer.text),
            () = reached => {}
        }
        partner.behave(OffRampBehaviour::Normal);
        is_erased_later(&app, &partner).await;
    }
}

#[tokio::test]
async fn accounts_added_during_an_erasure_are_erased_too() {
    let (app, partner) = with_partner().await;
    app.register_payer(&person(ID)).await.expect(200);
    // A finished erasure delays no other.
    app.account_of(ID, &dollars("7734509900")).await;
    partner.behave(OffRampBehaviour::Slow);
    let (one, other) = (dollars("7734509911"), dollars("7734509922"));
    let adding = async { tokio::join!(app.add_account(ID, &one), app.add_account(ID, &other)) };
    let erasing = async {
        while partner.count("add_account").await < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        partner.behave(OffRampBehaviour::Normal);
        app.erase_payer(ID).await
    };
    let ((one, other), erased) = tokio::join!(adding, erasing);
    assert_eq!(erased.status, 409, "{}", erased.text);
    for added in [one, other] {
        assert_eq!(added.status, 404, "{}", added.text);
    }
    is_erased_later(&app, &partner).await;
    app.register_payer(&person(ID)).await.expect(200);
    app.account_of(ID, &dollars("7734509911")).await;
    app.erase_payer(ID).await.expect(200);
}

#[tokio::test]
async fn partner_news_never_blocks_an_erasure() {
    let (app, partner) = with_partner().await;
    known_payer(&app, &partner).await;
    let theirs = app.partner_id(ID).await;
    let account = app.stored_accounts(ID).await[0].details.partner.clone();
    // It is being queried about the payer and has not erased it yet.
    app.advance_ms(24 * 60 * 60 * 1_000 + 1_000);
    partner.behave(OffRampBehaviour::Slow);
    let down = Scripted::Says(503, json!({ "reason": "no_forgetting_now" }).to_string());
    partner.answer("erase", Some(down));
    let before = partner.count("payer").await;
    let erasing = async {
        while partner.count("payer").await == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        app.erase_payer(ID).await
    };
    let ((), erased) = tokio::join!(app.follow_payers(), erasing);
    assert_eq!(erased.status, 502, "{}", erased.text);
    partner.behave(OffRampBehaviour::Normal);
    for news in [
        payer_news(&theirs, 90, "rejected", "completed"),
        account_news(&account, &theirs, 90, "failed"),
    ] {
        partner.tell(&app, &news).await.expect(404);
    }
    partner.answer("erase", None);
    app.advance_ms(61_000);
    app.follow_payers().await;
    app.erase_payer(ID).await.expect(404);
    assert_eq!(one(&app, "SELECT CAST(COUNT(*) AS TEXT) FROM payer_keys").await, "0");
}
