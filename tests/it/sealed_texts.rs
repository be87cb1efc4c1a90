//! Users and receivers send texts that look like encrypted values. The service shows them unchanged, and a rotation of
//! the master keys succeeds although they are stored.

use crate::support::{
    TestApp,
    links::{link_of, payout_of},
    program,
    receiver::Receiver,
    requests::{PAYEE, fau},
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use prs::flows::at_rest;
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value as Json, json};
use std::process::{Output, Stdio};

/// Texts that begin like each current or former format of an encrypted value, without valid content.
const LIKE_SEALED: [&str; 3] = ["v1:AAAA", "v2:000000000000:AAAA", "p1:01JZX4T9QK3M7N8P2R5S6V0WYA:AAAA"];

/// Number of random texts that each receiver returns.
const DRAWN: usize = 12;

/// The master key at the start of a test, and the key that replaces it. Each is given as one byte in hexadecimal, which
/// is repeated 32 times.
const KEYS: [&str; 2] = ["5e", "a1"];

/// Restarts the service with both master keys, rotates everything to the second key, and restarts with the second key
/// only.
async fn rotated(app: TestApp) -> TestApp {
    let [old, new] = KEYS.map(|pair| pair.repeat(32));
    let app = app
        .restarted_with(|settings| {
            settings.secrets.master_key = None;
            settings.secrets.master_keys = vec![new.clone(), old];
        })
        .await;
    let rotation = at_rest::rotate(&app.ctx, |_, _| {}).await.expect("rotates");
    assert_eq!((rotation.left, rotation.retired.len()), (0, 1), "{rotation:?}");
    app.restarted_with(|settings| settings.secrets.master_keys = vec![new])
        .await
}

/// Each delivery with the responses that its receiver returned.
async fn said(app: &TestApp) -> Vec<(Json, Vec<Json>)> {
    let listed = app.get("/v2/deliveries").with_key().send().await.expect(200);
    let mut said = Vec::new();
    for delivery in listed["deliveries"].as_array().expect("a list") {
        let id = delivery["id"].as_str().expect("text");
        let shown = app.get(&format!("/v2/deliveries/{id}")).with_key().send().await;
        let shown = shown.expect(200);
        let tries = shown["tries"].as_array().expect("attempts").iter();
        said.push((
            shown["delivery"]["endpointId"].clone(),
            tries.map(|one| one["response"].clone()).collect(),
        ));
    }
    said
}

#[tokio::test]
async fn receiver_responses_are_shown_and_never_stop_a_rotation() {
    let app = TestApp::on_chain().await;
    let mut receivers = Vec::new();
    for _ in LIKE_SEALED {
        let receiver = Receiver::start().await;
        receivers.push((json!(app.register(&receiver.url()).await.0), receiver));
    }
    let mut runner = TestRunner::deterministic();
    let drawn = "((v[0-9]|p1):)?([0-9a-f]{12}:)?[ -~é]{0,30}";
    let drawn: Vec<String> = (0..DRAWN)
        .map(|_| drawn.new_tree(&mut runner).expect("a text").current())
        .collect();
    let id = app.create_request(&fau("1")).await;
    app.pay(&id, "").await;
    app.follow().await;
    let mut wanted: Vec<(Json, Vec<String>)> = Vec::new();
    for (number, (endpoint, _)) in receivers.iter().enumerate() {
        // The first response of each receiver is stored with its delivery, the others in separate rows.
        let mut texts: Vec<String> = LIKE_SEALED.map(str::to_owned).to_vec();
        texts.rotate_left(number);
        texts.extend(drawn.iter().cloned());
        wanted.push((endpoint.clone(), texts));
    }
    for round in 0..LIKE_SEALED.len() + DRAWN {
        if round > 0 {
            let all = json!({ "since": "2020-01-01T00:00:00.000Z" });
            app.post("/v2/events/replay")
                .with_key()
                .json(&all)
                .send()
                .await
                .expect(202);
        }
        for ((_, receiver), (_, texts)) in receivers.iter().zip(&wanted) {
            receiver.say(&texts[round]);
        }
        app.deliver().await;
        app.advance_ms(1_000);
    }
    let shown = async |app: &TestApp| {
        let said = said(app).await;
        assert_eq!(said.len(), receivers.len());
        for (endpoint, texts) in &wanted {
            let (_, answers) = said.iter().find(|(of, _)| of == endpoint).expect("its delivery");
            assert_eq!(answers, texts, "{endpoint}");
        }
    };
    shown(&app).await;
    shown(&rotated(app).await).await;
}

#[tokio::test]
async fn user_texts_that_look_encrypted_are_stored_unchanged() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::echoing().await;
    app.register(&receiver.url()).await;
    app.is_paid_in("FAU-sepolia").await;
    let owner = app.owner().await;
    let mut made = Vec::new();
    for (number, text) in LIKE_SEALED.into_iter().enumerate() {
        let mut asked = fau("1");
        asked["customerInfo"] = json!({ "firstName": text, "lastName": text });
        let key = format!("order-{number}");
        let answer = app.post("/v2/request").with_key().header("idempotency-key", &key);
        let answer = answer.json(&asked).send().await.expect(201);
        let id = answer["requestId"].as_str().expect("text").to_owned();
        app.pay(&id, "").await;
        let mut link = link_of(&["1"]);
        link["payerIdentifier"] = json!(text);
        let mut payout = payout_of(PAYEE, "1");
        payout["recipientIdentifier"] = json!(text);
        let link = app.link(&link).await.expect(201)["requestIds"][0].clone();
        let payout = app.payout_link(&payout).await.expect(201)["requestIds"][0].clone();
        made.push((text, key, asked, answer, link, payout));
    }
    app.settle().await;
    let shown = async |app: &TestApp| {
        let payments = app.get("/v2/payments?type=direct").with_key().send().await.expect(200);
        let payments = payments["payments"].as_array().expect("a list").clone();
        let events = app.get("/v2/events?event=payment.confirmed").with_key().send().await;
        let events = events.expect(200);
        for (text, key, asked, answer, link, payout) in &made {
            let again = app.post("/v2/request").with_key().header("idempotency-key", key);
            assert_eq!(&again.json(asked).send().await.expect(201), answer, "{text}");
            let customer = &asked["customerInfo"];
            let is_of = |payment: &&Json| &payment["request"]["customerInfo"] == customer;
            assert_eq!(payments.iter().filter(is_of).count(), 1, "{text}: {payments:?}");
            let tells = |event: &&Json| {
                let body: Json = serde_json::from_str(event["body"].as_str().expect("text")).expect("JSON");
                &body["customerInfo"] == customer
            };
            let told = events["events"]
                .as_array()
                .expect("a list")
                .iter()
                .filter(tells)
                .count();
            assert_eq!(told, 1, "{text}");
            let link = app.find_link(&owner, link).await.expect(200);
            assert_eq!(link["payerIdentifier"], *text);
            let payout = app.find_link(&owner, payout).await.expect(200);
            assert_eq!(payout["recipientIdentifier"], *text);
        }
    };
    shown(&app).await;
    shown(&rotated(app).await).await;
}

/// Rotates the master keys of a database with the operator's command.
fn rotate_by_command(app: &TestApp) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let [old, new] = KEYS.map(|pair| pair.repeat(32));
    let settings = format!(
        "[database]\nurl = \"{}\"\n[secrets]\nmaster_keys = [\"{new}\", \"{old}\"]\n",
        app.database_url()
    );
    std::fs::write(folder.path().join("prs.toml"), settings).expect("written");
    let mut command = program::prs(folder.path());
    command.args(["admin", "keys", "rotate", "--json", "--config", "prs.toml"]);
    command.stdin(Stdio::null()).output().expect("it runs")
}

#[tokio::test]
async fn an_undecryptable_row_is_reported_and_the_others_rotate() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let id = app.create_request(&fau("1")).await;
    app.pay(&id, "").await;
    app.settle().await;
    let listed = app.get("/v2/deliveries").with_key().send().await.expect(200);
    let delivery = listed["deliveries"][0]["id"].as_str().expect("text").to_owned();
    let db = app.ctx.db.writer();
    let write = async |value: &str| {
        let sql = format!("UPDATE deliveries SET success_response = {value}");
        let statement = Statement::from_string(db.get_database_backend(), sql);
        db.execute_raw(statement).await.expect("written");
    };
    write("'v2:000000000000:AAAA'").await;

    let output = rotate_by_command(&app);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{log}");
    let result: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    let row = json!({
        "table": "deliveries", "column": "success_response", "owner": app.platform.as_str(), "id": delivery,
    });
    assert_eq!(result["unreadable"], json!([row]), "{log}");
    assert_eq!((&result["left"], &result["retired"]), (&json!(1), &json!([])));
    assert!(result["replaced"].as_u64() > Some(3), "{result}");
    let named = format!("deliveries.success_response of {} {delivery}", app.platform.as_str());
    assert!(log.contains(&named), "the last line names it: {log}");
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
    let told: Vec<Json> = lines
        .filter(|line| line["fields"]["message"] == "an encrypted value cannot be decrypted")
        .collect();
    assert!(!told.is_empty(), "a line of the log names it: {log}");
    for (line, member) in told
        .iter()
        .flat_map(|line| ["table", "column", "owner", "id"].map(|member| (line, member)))
    {
        assert_eq!(line["fields"][member], row[member], "{log}");
    }

    // The fix that docs/operations/keys-and-backups.md gives.
    write("NULL").await;
    let output = rotate_by_command(&app);
    let result: Json = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!((&result["left"], &result["unreadable"]), (&json!(0), &json!([])));
    assert_eq!(result["retired"].as_array().map(Vec::len), Some(1), "{result}");
}
