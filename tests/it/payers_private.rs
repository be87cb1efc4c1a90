//! What names a payer: sealed with its own key, shown to nobody else, gone with the key, and readable across a change of the
//! master key.

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

/// Everything that [`person`] and [`dollars`] say of somebody.
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

/// A payer with an account that was approved, one that failed, and everything told.
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
async fn nothing_that_names_a_payer_is_stored_clear_logged_or_measured() {
    let (app, partner) = with_partner().await;
    let receiver = Receiver::echoing().await;
    platform_hook(&app, &receiver.url()).await;
    known_payer(&app, &partner).await;
    app.deliver().await;
    let told = receiver.received().await;
    assert!(
        told.iter().any(|one| one.json()["clientUserId"] == ID),
        "its owner is told"
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
    // The partner's ids name the same person.
    let mut ids = vec![app.partner_id(ID).await];
    ids.extend(app.stored_accounts(ID).await.into_iter().map(|one| one.details.partner));
    for text in texts.iter().chain(&ids) {
        assert!(!holds(&stored, text), "{text} is stored clear");
        assert!(!measured.contains(text), "{text} is measured");
    }
    assert!(holds(&stored, "p1:"), "and something is sealed");
    assert!(
        lines_logged_with("/v2/payer/{clientUserId}") > 0,
        "the route stands in the log"
    );
    assert_eq!(lines_logged_with(&encoded(ID)), 0, "not the path");
    println!(
        "{} canary values and {} ids of the partner looked for",
        texts.len(),
        ids.len()
    );
}

/// An endpoint for all of the platform.
async fn platform_hook(app: &TestApp, url: &str) {
    let hook = json!({ "url": format!("{url}/platform") });
    let call = app.post("/v1/webhook").with_key();
    call.json(&hook).send().await.expect(201);
}

#[tokio::test]
async fn what_no_answer_shows_is_shown_by_none() {
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
async fn an_erased_payer_is_gone_with_all_that_was_told_of_it() {
    let (app, partner) = with_partner().await;
    let receiver = Receiver::echoing().await;
    platform_hook(&app, &receiver.url()).await;
    known_payer(&app, &partner).await;
    app.deliver().await;
    let deliveries = app.get("/v2/deliveries?limit=100").with_key().send().await.expect(200);
    let delivery = deliveries["deliveries"][0]["id"].as_str().expect("an id").to_owned();
    // Something waits in the queue, and something has failed, when the payer is erased.
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
            "what the master key opens is gone from the files"
        );
    }
    let ring = store::payer_keys::Keyring::of(app.ctx.db.reader(), &(&app.platform).into(), [&payer.id]).await;
    assert!(ring.expect("reads").get(&payer.id).is_none(), "the key is gone");
    assert_eq!(one(&app, "SELECT kyc FROM payers").await, "rejected", "the trail stays");

    // Its events say no more than that they were told, and are not told again.
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
        "what the receiver said of it"
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
    assert_eq!(
        receiver.received().await.len(),
        before,
        "nothing of it is sent any more"
    );
    let waiting = one(&app, "SELECT CAST(COUNT(*) AS TEXT) FROM delivery_queue").await;
    assert_eq!(waiting, "0", "and nothing of it waits");

    // The same id is somebody new.
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
async fn an_erasure_that_the_partner_does_not_answer_goes_on_by_itself() {
    let (app, partner) = with_partner().await;
    let receiver = Receiver::echoing().await;
    platform_hook(&app, &receiver.url()).await;
    known_payer(&app, &partner).await;
    app.deliver().await;
    let sent = receiver.received().await.len();
    // Something waits in the queue.
    let theirs = app.partner_id(ID).await;
    partner
        .tell(&app, &payer_news(&theirs, 90, "rejected", "completed"))
        .await
        .expect(200);
    partner.behave(OffRampBehaviour::Down);
    let waiting = app.erase_payer(ID).await;
    assert_eq!(waiting.status, 502);
    assert!(waiting.text.contains("erased by itself"), "{}", waiting.text);
    app.payer(ID).await.expect(404);
    let events = app.get("/v2/events?limit=100").with_key().send().await.expect(200);
    let events = events["events"].as_array().expect("a list").clone();
    assert!(events.len() > 4);
    for event in &events {
        let body: Value = serde_json::from_str(event["body"].as_str().expect("text")).expect("JSON");
        assert_eq!(body["erased"], true, "nothing of it is read meanwhile: {event}");
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
    assert_eq!(receiver.received().await.len(), sent, "nothing of it is sent meanwhile");
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
async fn a_rotation_wraps_the_keys_of_payers_while_they_are_served() {
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
        "only the keys are wrapped again"
    );
    let app = app
        .restarted_with(|settings| settings.secrets.master_keys = vec!["a1".repeat(32)])
        .await;
    assert_eq!(app.accounts("user-0000").await[0]["accountNumber"], "7734509911");
    app.payer("user-0119").await.expect(200);
    println!(
        "{} values under the new master key, {calls} calls beside it",
        rotation.replaced
    );
}

#[tokio::test]
async fn an_idempotency_key_that_names_somebody_is_not_stored_clear() {
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
    assert_eq!(partner.count("register").await, 1, "it is the same key all the same");
    keyed("/v2/payer".to_owned(), person("another-user")).await.expect(409);
    let accounts = format!("{}/payment-details", path_of(ID));
    keyed(accounts, dollars("7734509911")).await.expect(201);
    assert!(!holds(&app.stored(), "canary.key"));
}

/// What follows an erasure that was begun while something of the payer was in flight: the partner is asked after that.
async fn is_erased_later(app: &TestApp, partner: &Partner) {
    let before = partner.count("erase").await;
    for _ in 0..2 {
        let waits = app.erase_payer(ID).await;
        assert_eq!(waits.status, 409, "{}", waits.text);
        assert!(waits.text.contains("erased by itself within seconds"), "{}", waits.text);
        app.payer(ID).await.expect(404);
        app.follow_payers().await;
    }
    app.register_payer(&person(ID)).await.expect(409);
    app.add_account(ID, &dollars("7734509922")).await.expect(404);
    assert_eq!(partner.count("erase").await, before, "not while it may be in flight");
    app.advance_ms(10_002);
    let keys = "SELECT CAST(COUNT(*) AS TEXT) FROM payer_keys";
    // A partner that does not answer in time is asked again.
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
        "after all that was handed over: {calls:?}"
    );
    assert_eq!(one(app, keys).await, "0");
    app.erase_payer(ID).await.expect(404);
}

#[tokio::test]
async fn what_was_handed_to_the_partner_by_whoever_is_gone_is_erased_with_the_payer() {
    let (app, partner) = with_partner().await;
    for operation in ["add_account", "register"] {
        app.register_payer(&person(ID)).await.expect(200);
        // The partner has it at once, and answers to nobody.
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
            answer = call => panic!("{operation} is answered before it is given up: {}", answer.text),
            () = reached => {}
        }
        partner.behave(OffRampBehaviour::Normal);
        is_erased_later(&app, &partner).await;
    }
}

#[tokio::test]
async fn accounts_that_are_added_while_their_payer_is_erased_are_erased_with_it() {
    let (app, partner) = with_partner().await;
    app.register_payer(&person(ID)).await.expect(200);
    // One that is over keeps nobody waiting.
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
async fn nothing_that_the_partner_tells_keeps_an_erasure_from_going_on() {
    let (app, partner) = with_partner().await;
    known_payer(&app, &partner).await;
    let theirs = app.partner_id(ID).await;
    let account = app.stored_accounts(ID).await[0].details.partner.clone();
    // It is just asked about the payer, and does not forget it yet.
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
