//! What the payment page of a link on Tron gets from the service: calldata, refusals with codes, broadcasts, and the
//! time from which a signed transaction can no longer pay.

use crate::{
    support::{
        Answer, TestApp,
        links::{link_of, token_of},
    },
    tron_broadcast::{issued, service, signed, stored, with_nodes},
    tron_chain::Ground,
    tron_pay::{PAYER, PROXY, TOKEN, decoded},
};
use chrono::{DateTime, Utc};
use prs::{
    domain::{
        address::Address,
        block_range::BlockRange,
        network::Network,
        paying::prepared::PayerResources,
        secure_payment::broadcast::{BroadcastOutcome, BroadcastRefusal},
    },
    store::{self, backlogs::BacklogReason},
};
use serde_json::{Value, json};

/// A hash of a transaction without `0x`.
const TX_ID: &str = "07407dcd637c679dbfbcee9ca4b9b03ddf771770f4176137df857d6aa5ebf5bd";

/// Posts to a path of a link's page, with the headers that the browser of a visitor sends.
async fn page(app: &TestApp, token: &str, path: &str, body: &Value) -> Answer {
    let call = app.post(&format!("/pay/{token}/{path}"));
    call.header("sec-fetch-site", "same-origin").json(body).send().await
}

async fn state(app: &TestApp, token: &str) -> Value {
    app.get(&format!("/pay/{token}/state")).send().await.expect(200)
}

async fn calldata(app: &TestApp, token: &str) -> Answer {
    app.get(&format!("/pay/{token}/calldata?wallet={PAYER}")).send().await
}

fn approved() -> Value {
    json!({
        "userEvent": "payment_approved_in_wallet", "occurredAt": "2020-01-01T00:00:00Z",
        "properties": { "payment_submission_id": TX_ID, "payment_submission_id_type": "tron_tx_id" },
    })
}

#[tokio::test]
async fn the_page_gets_steps_with_transaction_and_fee_limit() {
    let (app, _, _, token) = service().await;
    let answer = calldata(&app, &token).await.expect(200);
    let steps = answer["steps"].as_array().expect("a list");
    assert_eq!(steps.len(), 2);
    for (step, (to, fee_limit)) in steps.iter().zip([(TOKEN, 100_000_000_u64), (PROXY, 300_000_000)]) {
        assert_eq!((&step["to"], &step["value"]), (&json!(to), &json!("0x0")));
        let names: Vec<_> = step.as_object().expect("an object").keys().collect();
        assert_eq!(names, ["to", "data", "value", "transaction"]);
        let mut whole = step["transaction"].clone();
        (whole["to"], whole["data"]) = (step["to"].clone(), step["data"].clone());
        let transaction = decoded(&whole);
        assert_eq!(transaction.fee_limit_sun, fee_limit);
        assert_eq!(Address::Tron(transaction.call.owner).to_string(), PAYER);
    }
    let shown = state(&app, &token).await;
    assert_eq!(shown["isTron"], true);
    assert_eq!(shown["solidTime"], Value::Null, "no block is read");
}

#[tokio::test]
async fn wallets_that_cannot_pay_are_refused_with_a_code() {
    let (app, chain, _, token) = service().await;
    let unusable = [
        ("account_not_activated", false, false, 65_000),
        ("payer_blacklisted", true, true, 65_000),
        ("fee_limit_exceeded", true, false, 50_000_000),
    ];
    for (code, is_activated, is_blocked, energy) in unusable {
        chain.read(|state| {
            state.energy = energy;
            state.resources = PayerResources {
                is_activated,
                is_blocked,
                ..PayerResources::NONE
            };
        });
        let refused = calldata(&app, &token).await.expect(400);
        assert_eq!(refused["code"], code, "{refused}");
        let public = app.calldata_of(&token, Some(PAYER)).await.expect(400);
        assert_eq!(public["code"], code, "{public}");
    }
}

#[tokio::test]
async fn only_the_page_itself_broadcasts_without_a_credential() {
    let (app, _, nodes, token) = service().await;
    let payment = issued(&app, &token).await.remove(1);
    let body = signed(&payment);
    let path = format!("/pay/{token}/tron/broadcast");
    for site in ["cross-site", "same-site", "none"] {
        let call = app.post(&path).header("sec-fetch-site", site);
        call.json(&body).send().await.expect(403);
    }
    assert_eq!((nodes.received().len(), stored(&app).await), (0, 0));
    let mut foreign = body.clone();
    foreign["signedTransaction"]["raw_data"]["fee_limit"] = json!(1);
    let refused = page(&app, &token, "tron/broadcast", &foreign).await;
    assert_eq!((refused.status, nodes.received().len()), (400, 0), "{}", refused.text);
    let sent = page(&app, &token, "tron/broadcast", &body).await;
    assert_eq!((sent.status, sent.text.as_str()), (204, ""));
    assert_eq!((nodes.received().len(), stored(&app).await), (1, 1));
    assert_eq!(state(&app, &token).await["inFlight"]["isSeen"], false);
}

#[tokio::test]
async fn a_refused_broadcast_is_not_in_flight() {
    let (app, _, nodes, token) = service().await;
    let body = signed(&issued(&app, &token).await.remove(1));
    nodes.respond(BroadcastOutcome::Refused(BroadcastRefusal::Execution));
    let refused = page(&app, &token, "tron/broadcast", &body).await;
    assert_eq!((refused.status, nodes.received().len()), (400, 1), "{}", refused.text);
    assert_eq!(state(&app, &token).await["inFlight"], Value::Null);
    // The payer can repair what the nodes refused, and send the same transaction again.
    nodes.respond(BroadcastOutcome::Accepted);
    let sent = page(&app, &token, "tron/broadcast", &body).await;
    assert_eq!((sent.status, stored(&app).await), (204, 1), "{}", sent.text);
    assert!(state(&app, &token).await["inFlight"].is_object());
}

#[tokio::test]
async fn attempts_and_events_of_the_page_name_wallets_and_transactions_of_tron() {
    let (app, _, _, token) = service().await;
    let attempt = json!({ "id": "7".repeat(32), "wallet": PAYER });
    let noted = page(&app, &token, "attempt", &attempt).await.expect(200);
    assert_eq!(noted, json!({ "othersUntil": null }));
    let evm = json!({ "id": "8".repeat(32), "wallet": "0x90F79bf6EB2c4f870365E785982E1f101E93b906" });
    let refused = page(&app, &token, "attempt", &evm).await;
    refused.expect(400);
    assert_eq!(refused.wrong_fields(), ["wallet"]);
    assert!(state(&app, &token).await["inFlight"].is_object());
    let withdrawn = page(&app, &token, "attempt/withdraw", &json!({ "id": "7".repeat(32) })).await;
    assert_eq!(withdrawn.status, 204);
    assert_eq!(state(&app, &token).await["inFlight"], Value::Null);
    for (time, digits) in [("00", TX_ID.to_owned()), ("01", format!("0x{TX_ID}"))] {
        let mut event = approved();
        event["occurredAt"] = json!(format!("2020-01-01T00:00:{time}Z"));
        event["properties"]["payment_submission_id"] = json!(digits);
        page(&app, &token, "events", &event).await.expect(202);
    }
    let mut address = approved();
    address["properties"]["payment_submission_id"] = json!(PAYER);
    page(&app, &token, "events", &address).await.expect(400);
    let events = app
        .get("/v2/events?event=secure_payment.user_event")
        .with_key()
        .send()
        .await;
    let text = events.expect(200).to_string();
    let relayed = format!(r#"\"payment_submission_id\":\"0x{TX_ID}\",\"payment_submission_id_type\":\"tron_tx_id\""#);
    assert_eq!(text.matches(&relayed).count(), 2, "{text}");
}

fn time(text: &Value) -> DateTime<Utc> {
    text.as_str()
        .unwrap_or_else(|| panic!("{text}"))
        .parse()
        .expect("a time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broadcast_is_in_flight_until_solid_blocks_have_passed_its_expiration() {
    let Ground { app, devnet, tronweb } = Ground::start().await;
    // The nodes accept the transaction and lose it.
    let (app, _nodes) = with_nodes(app);
    let ground = Ground { app, devnet, tronweb };
    let app = &ground.app;
    ground.devnet.mine(3).await.expect("mined");
    ground.follow().await;
    let payee = Address::parse(ground.account(1)).expect("an address");
    app.is_paid_on(Network::Tron, payee, "USDT-tron").await;
    let token = token_of(&app.link(&link_of(&["10"])).await.expect(201));
    let steps = ground.calldata(&token, 0).await["transactions"].clone();
    let expiration_ms = steps[1]["raw_data"]["expiration"].as_u64().expect("a time");
    let expiration = DateTime::from_timestamp_millis(expiration_ms.try_into().expect("small")).expect("a time");
    let send = async |step: &Value| {
        let body = json!({ "signedTransaction": ground.sign(0, step).await });
        let sent = page(app, &token, "tron/broadcast", &body).await;
        assert_eq!(sent.status, 204, "{}", sent.text);
    };
    send(&steps[0]).await;
    assert_eq!(
        state(app, &token).await["inFlight"],
        Value::Null,
        "an approval pays nothing"
    );
    send(&steps[1]).await;
    page(app, &token, "events", &approved()).await.expect(202);
    let shown = state(app, &token).await;
    assert_eq!(shown["inFlight"]["isSeen"], false);
    assert!(time(&shown["solidTime"]) < expiration, "{shown}");
    // The first block that is not before the expiration may still contain the transaction.
    ground.devnet.mine_at(expiration_ms).await.expect("mined");
    ground.devnet.mine(2).await.expect("mined");
    ground.follow().await;
    let shown = state(app, &token).await;
    assert_eq!(time(&shown["solidTime"]).timestamp(), expiration.timestamp());
    assert!(shown["inFlight"].is_object(), "{shown}");
    let solid = ground.devnet.mine(1).await.expect("mined").solid_number;
    ground.follow().await;
    let shown = state(app, &token).await;
    assert!(time(&shown["solidTime"]) > expiration, "{shown}");
    assert_eq!(
        (&shown["status"], &shown["inFlight"]),
        (&json!("pending"), &Value::Null)
    );
    let opened = app.open_link(&token, "").send().await.expect(200);
    assert_eq!(opened["inFlight"], false);
    // A block that could not be proven may contain the payment.
    let unread = BlockRange {
        from: solid - 1,
        to: solid - 1,
    };
    let now = app.ctx.clock.now();
    let pushed = store::backlogs::push(app.ctx.db.writer(), Network::Tron, unread, BacklogReason::Unproven, now);
    pushed.await.expect("pushed");
    let shown = state(app, &token).await;
    assert!(shown["inFlight"].is_object(), "{shown}");
    assert!(
        shown["solidTime"].is_null() || time(&shown["solidTime"]) < expiration,
        "{shown}"
    );
    ground.follow().await;
    assert_eq!(state(app, &token).await["inFlight"], Value::Null, "the block was read");
}
