//! Secrets and personal data at rest: they are encrypted, can still be looked up, and are re-encrypted under another
//! master key while calls are served. At its end, each test searches files, rows and log for the personal data it used.

use crate::support::{
    TestApp,
    links::{link_of, payout_of, token_of},
    receiver::Receiver,
    requests::{PAYEE, fau},
};
use prs::{ctx::Ctx, flows::at_rest, settings::Settings, store};
use sea_orm::ConnectionTrait;
use serde_json::{Value as Json, json};
use std::{
    cell::Cell,
    os::unix::fs::PermissionsExt,
    sync::atomic::{AtomicBool, Ordering},
};

const OLD: &str = "5e";
const NEW: &str = "a1";

fn keys(pairs: &[&str]) -> Vec<String> {
    pairs.iter().map(|pair| pair.repeat(32)).collect()
}

fn use_keys(settings: &mut Settings, pairs: &[&str]) {
    settings.secrets.master_key = None;
    settings.secrets.master_keys = keys(pairs);
}

fn person(number: usize) -> Json {
    json!({
        "firstName": format!("Canary-first-{number}"), "lastName": format!("Canary-last-{number}"),
        "email": format!("canary-{number}@example.com"),
        "address": {
            "street": format!("Canary street {number}"), "city": format!("Canary city {number}"),
            "state": format!("Canary state {number}"), "postalCode": format!("Canary-{number}"),
            "country": "IS",
        },
    })
}

fn asked(number: usize) -> Json {
    let mut body = fau("1");
    body["customerInfo"] = person(number);
    body
}

/// Number of values that are not encrypted with the current master key.
async fn left(ctx: &Ctx) -> u64 {
    let (mut walk, mut left) = (at_rest::EncryptionWalk::to_count(), 0);
    while let Some(batch) = at_rest::step(ctx, &mut walk).await.expect("walks") {
        left += batch.stale;
    }
    left
}

fn holds(stored: &[u8], text: &str) -> bool {
    stored.windows(text.len()).any(|window| window == text.as_bytes())
}

async fn account(app: &TestApp, verb: &str, email: &str) -> u16 {
    let body = json!({ "email": email, "password": "correct horse" });
    let call = app.post(&format!("/v1/auth/{verb}")).json(&body);
    call.send().await.status
}

/// Creates a link that names its payer and a payout that names its recipient; returns the ids of their requests.
async fn named_links(app: &TestApp) -> [Json; 2] {
    app.is_paid_in("FAU-sepolia").await;
    let mut link = link_of(&["1"]);
    link["payerIdentifier"] = json!("Canary payer");
    let mut payout = payout_of(PAYEE, "1");
    payout["recipientIdentifier"] = json!("Canary recipient");
    let made = [app.link(&link).await, app.payout_link(&payout).await];
    made.map(|made| made.expect(201)["requestIds"][0].clone())
}

/// The payer name of the link and the recipient name of the payout, as their owner reads them. The two requests are
/// those of [`named_links`].
async fn names(app: &TestApp, requests: &[Json; 2]) -> [Json; 2] {
    let owner = app.owner().await;
    let [link, payout] = requests;
    let link = app.find_link(&owner, link).await.expect(200);
    let payout = app.find_link(&owner, payout).await.expect(200);
    [link["payerIdentifier"].clone(), payout["recipientIdentifier"].clone()]
}

#[tokio::test]
async fn merchant_names_for_people_are_encrypted_and_shown_only_to_the_merchant() {
    let app = TestApp::start().await;
    let requests = named_links(&app).await;
    assert_eq!(names(&app, &requests).await, ["Canary payer", "Canary recipient"]);
    assert!(!holds(&app.stored(), "Canary"), "a name is stored unencrypted");
    let owner = app.owner().await;
    for request in &requests {
        let token = token_of(&app.find_link(&owner, request).await.expect(200));
        for answer in [
            app.open_link(&token, "").send().await,
            app.calldata_of(&token, None).await,
        ] {
            answer.expect(200);
            assert!(!answer.text.contains("Canary"), "{}", answer.text);
        }
    }
}

#[tokio::test]
async fn personal_data_is_encrypted_and_readable_by_its_owner() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::echoing().await;
    app.register(&receiver.url()).await;
    let id = app.create_request(&asked(1)).await;
    app.pay(&id, "").await;
    app.settle().await;
    assert_eq!(receiver.received().await[0].json()["customerInfo"], person(1));
    let found = app.get(&format!("/v2/payments?requestId={id}")).with_key().send().await;
    assert_eq!(found.expect(200)["payments"][0]["request"]["customerInfo"], person(1));
    let events = app.get("/v2/events").with_key().send().await.expect(200);
    let event = &events["events"][0];
    assert!(event.to_string().contains("Canary street 1"), "{event}");
    let deliveries = app.get("/v2/deliveries").with_key().send().await.expect(200);
    let delivery = deliveries["deliveries"][0]["id"].as_str().expect("an id");
    let delivery = app.get(&format!("/v2/deliveries/{delivery}")).with_key().send().await;
    assert!(
        delivery.expect(200).to_string().contains("Canary street 1"),
        "the stored response of the receiver"
    );
    app.send_sample("payment.confirmed").await;
    assert_eq!(account(&app, "register", "Canary.Account@Example.com").await, 201);
    assert_eq!(account(&app, "login", "canary.account@example.com").await, 200);
    assert_eq!(account(&app, "register", "canary.account@example.com").await, 409);
    let stored = app.stored();
    for text in ["Canary", "canary"] {
        assert!(!holds(&stored, text), "{text} is stored unencrypted");
    }
    assert!(holds(&stored, "v2:"), "encrypted values exist");
}

#[tokio::test]
async fn key_rotation_under_load_fails_no_call_and_reencrypts_every_row() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    let (endpoint, _) = app.register(&receiver.url()).await;
    let mut ids = Vec::new();
    for number in 0..60 {
        ids.push(app.create_request(&asked(number % 3)).await);
    }
    app.pay(&ids[0], "").await;
    app.settle().await;
    assert_eq!(account(&app, "register", "canary.account@example.com").await, 201);
    let path = format!("/v1/webhook/{endpoint}/rotate-secret");
    let rotate = app
        .post(&path)
        .with_client()
        .header("idempotency-key", "rotated-before");
    let rotated = rotate.json(&json!({})).send().await.expect(200);
    let named = named_links(&app).await;
    let app = app.restarted_with(|settings| use_keys(settings, &[NEW, OLD])).await;
    assert!(left(&app.ctx).await > 62);

    let is_over = AtomicBool::new(false);
    let calls = Cell::new(0_u32);
    let load = async |lane: usize| {
        let mut is_first = true;
        while !is_over.load(Ordering::SeqCst) || is_first {
            is_first = false;
            let id = app.create_request(&asked(lane)).await;
            app.read_request(&id).await;
            let listed = app.get("/v2/request?limit=20").with_key().send().await;
            assert_eq!(listed.status, 200, "{}", listed.text);
            let payments = app.get("/v2/payments?type=direct").with_key().send().await;
            assert_eq!(payments.status, 200, "{}", payments.text);
            assert_eq!(account(&app, "login", "canary.account@example.com").await, 200);
            calls.set(calls.get() + 5);
        }
    };
    let rotation = async {
        let rotation = at_rest::rotate(&app.ctx, |_, _| {}).await.expect("rotates");
        is_over.store(true, Ordering::SeqCst);
        rotation
    };
    let (rotation, ..) = tokio::join!(rotation, load(1), load(2), load(3));
    assert_eq!(rotation.left, 0);
    assert!(rotation.replaced > 60, "{rotation:?}");
    assert_eq!(rotation.retired.len(), 1, "{rotation:?}");
    assert!(calls.get() >= 15, "{} calls", calls.get());
    assert_eq!(left(&app.ctx).await, 0);
    println!(
        "{} values under the new master key, {} calls in parallel",
        rotation.replaced,
        calls.get()
    );

    // The rotated values can be read without the old key, and cannot be read with the old key alone.
    let refused = app.reopened(|settings| use_keys(settings, &[OLD])).await;
    let sentence = format!("{:#}", refused.expect_err("refused"));
    assert!(sentence.contains("secrets.master_keys"), "{sentence}");
    let app = app.restarted_with(|settings| use_keys(settings, &[NEW])).await;
    let again = app
        .post(&path)
        .with_client()
        .header("idempotency-key", "rotated-before");
    assert_eq!(
        again.json(&json!({})).send().await.expect(200),
        rotated,
        "the stored answer"
    );
    assert_eq!(account(&app, "login", "canary.account@example.com").await, 200);
    assert_eq!(names(&app, &named).await, ["Canary payer", "Canary recipient"]);
    let events = app.get("/v2/events").with_key().send().await.expect(200);
    let body = events["events"][0]["body"].as_str().expect("text");
    let body: Json = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["customerInfo"], person(0));
    app.pay(&ids[1], "").await;
    app.settle().await;
    assert_eq!(
        receiver.received().await.last().expect("one").json()["customerInfo"],
        person(1)
    );
}

#[tokio::test]
async fn starting_with_a_wrong_master_key_fails_with_an_explanation() {
    let app = TestApp::start().await;
    for wrong in [&[NEW][..], &[NEW, "b2"]] {
        let refused = app.reopened(|settings| use_keys(settings, wrong)).await;
        let sentence = format!("{:#}", refused.expect_err("refused"));
        assert!(sentence.contains("encrypted with the master key"), "{sentence}");
        assert!(!sentence.contains(&NEW.repeat(4)), "no key is repeated: {sentence}");
    }
    for wrong in ["not a key", "command:exit 3", "command:echo not a key"] {
        let refused = app
            .reopened(|settings| settings.secrets.master_keys = vec![wrong.to_owned()])
            .await;
        let sentence = format!("{:#}", refused.expect_err("refused"));
        assert!(sentence.starts_with("secrets.master_keys[0]: "), "{sentence}");
    }
    let command = format!("command:printf {}", OLD.repeat(32));
    app.reopened(|settings| {
        settings.secrets.master_key = None;
        settings.secrets.master_keys = vec![command];
    })
    .await
    .expect("a command prints the key");
}

#[tokio::test]
async fn a_missing_delivery_key_does_not_count_as_an_attempt() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let id = app.create_request(&asked(1)).await;
    app.pay(&id, "").await;
    app.follow().await;
    // Another instance rotates the key while this one knows only the old key.
    let rotated = app.beside(|settings| use_keys(settings, &[NEW, OLD])).await;
    assert_eq!(at_rest::rotate(&rotated.ctx, |_, _| {}).await.expect("rotates").left, 0);
    for _ in 0..6 {
        app.deliver().await;
        app.advance_ms(15_001);
    }
    assert_eq!(receiver.received().await.len(), 0);
    rotated.deliver().await;
    let received = receiver.received().await;
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].header("x-service-retry-count"), Some("0"));
}

#[tokio::test]
async fn sqlite_files_are_readable_only_by_their_owner() {
    let database = crate::support::database::TestDatabase::sqlite();
    let path = database.url.strip_prefix("sqlite:").expect("a file");
    let path = std::path::Path::new(path);
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let folder = path.parent().expect("a folder");
    for round in ["made", "found open to others"] {
        let db = store::Db::connect(&database.url).await.expect("opens");
        db.migrate_up().await.expect("migrates");
        assert_eq!(mode(folder), 0o700, "{round}");
        for file in std::fs::read_dir(folder).expect("a folder") {
            let file = file.expect("a file").path();
            assert_eq!(mode(&file), 0o600, "{} {round}", file.display());
        }
        db.close().await.expect("closes");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).expect("allowed");
    }
}

#[tokio::test]
async fn sqlite_commits_wait_for_the_disk_by_default() {
    let database = crate::support::database::TestDatabase::sqlite();
    for (durability, wanted) in [(store::Durability::Full, 2), (store::Durability::Process, 1)] {
        let db = store::Db::connect_with(&database.url, durability).await.expect("opens");
        let pragma = sea_orm::Statement::from_string(sea_orm::DbBackend::Sqlite, "PRAGMA synchronous");
        let row = db.writer().query_one_raw(pragma).await.expect("asks").expect("a row");
        assert_eq!(row.try_get_by_index::<i32>(0).expect("a number"), wanted);
        db.close().await.expect("closes");
    }
    assert_eq!(
        Settings::default().database.synchronous,
        prs::settings::Synchronous::Full
    );
}
