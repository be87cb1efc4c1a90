//! Recurring payments and public client IDs. A stranger spends gas only within caps, changes no payer's allowance, and
//! cannot activate, cancel or resume the schedules of other callers.

use crate::support::{
    Answer, TestApp,
    app::{forged, settings},
    chain::{PAYER, transactions},
    requests::{fau, request},
    schedules::{recurring, schedule, units},
    session::sign_in,
    wallet::TestWallet,
};
use alloy::primitives::U256;
use futures_util::future::join_all;
use poem::http::Method;
use prs::{
    domain::{
        ids::ScheduleId,
        schedule::{Schedule, ScheduleStatus},
    },
    flows::schedules::lapse,
    store,
};
use serde_json::{Value, json};

const OTHER: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";

/// Creates a recurring payout with the public client ID.
async fn made_by_page(app: &TestApp, body: &Value) -> Answer {
    forged(app, Method::POST, "/v2/payouts").json(body).send().await
}

fn path_of(made: &Value) -> String {
    format!("/v2/payouts/recurring/{}", made["id"].as_str().expect("an id"))
}

async fn signature(app: &TestApp, made: &Value) -> Value {
    let signature = app.sign_permit(PAYER, &made["recurringPaymentPermit"]).await;
    json!({ "permitSignature": signature })
}

/// Submits the payer's signature with the public client ID.
async fn begun_by_page(app: &TestApp, made: &Value) -> Answer {
    let body = signature(app, made).await;
    forged(app, Method::POST, &path_of(made)).json(&body).send().await
}

/// Submits the payer's signature with the API key.
async fn begun_by_key(app: &TestApp, made: &Value) -> Answer {
    let body = signature(app, made).await;
    app.post(&path_of(made)).with_key().json(&body).send().await
}

async fn status_of(app: &TestApp, made: &Value) -> Value {
    app.read_schedule(made["id"].as_str().expect("an id")).await["status"].clone()
}

#[track_caller]
fn refused(answer: &Answer, status: u16, part: &str) {
    let body = answer.expect(status);
    let sentences = body["errors"].as_array().into_iter().flatten();
    let mut sentences = sentences.chain([&body]).map(|it| it["message"].as_str().expect("text"));
    assert!(sentences.any(|sentence| sentence.contains(part)), "{body}");
}

#[tokio::test]
async fn page_visitors_can_neither_cancel_nor_resume_others_schedules() {
    let app = TestApp::on_chain().await;
    let made = made_by_page(&app, &recurring(&app, 2)).await.expect(201);
    begun_by_page(&app, &made).await.expect(201);
    for action in ["cancel", "unpause"] {
        let call = forged(&app, Method::PATCH, &path_of(&made)).json(&json!({ "action": action }));
        refused(&call.send().await, 403, "public");
    }
    assert_eq!(status_of(&app, &made).await, "active");
    app.update_schedule(made["id"].as_str().expect("an id"), "cancel")
        .await
        .expect(200);
}

#[tokio::test]
async fn a_signed_in_user_cancels_schedules_of_their_own_key() {
    let app = TestApp::on_chain().await;
    let bearer = format!("Bearer {}", sign_in(&app, &TestWallet::new(7)).await);
    let key = app.post("/v1/api-keys").header("authorization", &bearer);
    let key = key.json(&json!({ "label": "Shop" })).send().await.expect(201);
    let call = app
        .post("/v2/payouts")
        .header("x-api-key", key["apiKey"].as_str().expect("a key"));
    let made = call.json(&recurring(&app, 2)).send().await.expect(201);
    let cancel = async |path: &str| {
        let call = app.call(Method::PATCH, path).header("authorization", &bearer);
        call.json(&json!({ "action": "cancel" })).send().await
    };
    assert_eq!(cancel(&path_of(&made)).await.expect(200)["status"], "cancelled");
    let of_others = app.new_schedule(&recurring(&app, 2)).await.expect(201);
    cancel(&path_of(&of_others)).await.expect(404);
}

#[tokio::test]
async fn public_client_ids_need_permission_for_recurring_payouts() {
    let app = TestApp::on_chain().await;
    let before = made_by_page(&app, &recurring(&app, 2)).await.expect(201);
    let app = app
        .restarted_with(|settings| settings.relayer.public_client_ids = false)
        .await;
    let closed = made_by_page(&app, &recurring(&app, 2)).await;
    refused(&closed, 403, "relayer.public_client_ids");
    refused(&begun_by_page(&app, &before).await, 403, "relayer.public_client_ids");
    refused(&begun_by_key(&app, &before).await, 403, "relayer.public_client_ids");
    assert_eq!(status_of(&app, &before).await, "pending");
    made_by_page(&app, &fau("1")).await.expect(201);
    let of_backend = app.new_schedule(&recurring(&app, 2)).await.expect(201);
    begun_by_key(&app, &of_backend).await.expect(201);
}

#[tokio::test]
async fn live_recurring_payouts_are_capped_under_concurrency() {
    let mut settings = settings();
    (settings.caps.schedules, settings.caps.public_schedules) = (3, 1);
    let app = TestApp::on_chain_as(settings, 1).await;
    let body = recurring(&app, 2);
    let waiting = made_by_page(&app, &body).await.expect(201);
    let first = made_by_page(&app, &body).await.expect(201);
    let mut own = Vec::new();
    for _ in 0..4 {
        own.push(app.new_schedule(&body).await.expect(201));
    }
    // Unsigned schedules do not count toward the cap.
    begun_by_page(&app, &first).await.expect(201);
    refused(&begun_by_page(&app, &waiting).await, 409, "caps.public_schedules");
    refused(&begun_by_key(&app, &waiting).await, 409, "caps.public_schedules");
    refused(&made_by_page(&app, &body).await, 409, "caps.public_schedules");

    let answers = join_all(own.iter().map(|made| begun_by_key(&app, made))).await;
    let number_of = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((number_of(201), number_of(409)), (2, 2));
    let full = answers.iter().find(|answer| answer.status == 409).expect("one");
    refused(full, 409, "caps.schedules");
    refused(&app.new_schedule(&body).await, 409, "caps.schedules");
    let (key, _) = app.other_tenant().await;
    let other = app.post("/v2/payouts").header("x-api-key", &key).json(&body);
    other.send().await.expect(201);

    app.update_schedule(first["id"].as_str().expect("an id"), "cancel")
        .await
        .expect(200);
    begun_by_page(&app, &waiting).await.expect(201);
    refused(&app.new_schedule(&body).await, 409, "caps.schedules");
}

#[tokio::test]
async fn unsigned_schedules_change_no_payers_allowance() {
    let app = TestApp::on_chain().await;
    let (key, _) = app.other_tenant().await;
    let by_other = || {
        let call = app.post("/v2/payouts").header("x-api-key", &key);
        call.json(&recurring(&app, 4)).send()
    };
    for body in [recurring(&app, 255), recurring(&app, 2)] {
        made_by_page(&app, &body).await.expect(201);
        app.new_schedule(&body).await.expect(201);
    }
    let waiting = by_other().await.expect(201);
    let made = schedule(&app, &recurring(&app, 2)).await;
    assert_eq!(made["metadata"]["existingPaymentsAmount"], "0");
    assert_eq!(made["metadata"]["totalNeededAllowance"], units("3").to_string());
    let cancelled = app.update_schedule(made["id"].as_str().expect("an id"), "cancel").await;
    let steps = transactions(&cancelled.expect(200));
    app.devnet().pay(PAYER, &steps).await.expect("mined");
    assert_eq!(app.schedule_allowance().await, U256::ZERO);

    // Every signed schedule counts, regardless of its creator: all share one allowance.
    let body = signature(&app, &waiting).await;
    let call = app.post(&path_of(&waiting)).header("x-api-key", &key).json(&body);
    call.send().await.expect(201);
    let next = app.new_schedule(&recurring(&app, 2)).await.expect(201);
    assert_eq!(next["metadata"]["existingPaymentsAmount"], units("6").to_string());
}

#[tokio::test]
async fn the_allowance_covers_all_schedules_that_a_payer_signed() {
    let mut settings = settings();
    settings.caps.schedules = 5_000;
    let app = TestApp::on_chain_as(settings, 1).await;
    let made = app.new_schedule(&recurring(&app, 2)).await.expect(201);
    let id = ScheduleId(made["id"].as_str().expect("an id").to_owned());
    let stored = store::schedules::find(app.ctx.db.reader(), &app.platform, &id).await;
    let stored = stored.expect("a read").expect("a schedule");
    let tx = app.ctx.db.begin("copies").await.expect("begins");
    for number in 0..1_001 {
        let status = match number % 2 {
            0 => ScheduleStatus::Active,
            _ => ScheduleStatus::Paused,
        };
        let copy = Schedule {
            id: ScheduleId(app.ctx.ids.ulid()),
            status,
            ..stored.clone()
        };
        store::schedules::insert(&tx, &copy).await.expect("a write");
    }
    tx.commit().await.expect("commits");
    let next = app.new_schedule(&recurring(&app, 2)).await.expect(201);
    let expected = units("3") * U256::from(1_001);
    assert_eq!(next["metadata"]["existingPaymentsAmount"], expected.to_string());
}

#[tokio::test]
async fn a_schedule_not_signed_in_time_is_cancelled() {
    let app = TestApp::on_chain().await;
    let body = recurring(&app, 2);
    let signed = made_by_page(&app, &body).await.expect(201);
    let late = made_by_page(&app, &body).await.expect(201);
    app.advance_ms(86_400_000);
    begun_by_page(&app, &signed).await.expect(201);
    assert!(!lapse::run(&app.ctx).await.expect("swept"));
    assert_eq!(status_of(&app, &late).await, "pending");
    app.advance_ms(1);
    refused(&begun_by_page(&app, &late).await, 400, "Not signed in time");
    let newer = app.new_schedule(&body).await.expect(201);
    assert!(!lapse::run(&app.ctx).await.expect("swept"));
    let ended = app.read_schedule(late["id"].as_str().expect("an id")).await;
    assert_eq!(
        (&ended["status"], &ended["failureReason"]),
        (&json!("cancelled"), &json!("Not signed in time"))
    );
    refused(&begun_by_page(&app, &late).await, 400, "Recurring payment is cancelled");
    assert_eq!(status_of(&app, &signed).await, "active");
    assert_eq!(status_of(&app, &newer).await, "pending");
}

/// A client ID of a shop's page with these members, and a recurring payout that it created.
async fn shop_with_payout(app: &TestApp, members: &Value, body: &Value) -> (Value, Value) {
    let shop = app.shop_client(members).await;
    let call = app.post("/v2/payouts").header("origin", "https://shop.example.com");
    let call = call.header("x-client-id", shop["clientId"].as_str().expect("text"));
    let made = call.json(body).send().await.expect(201);
    (shop, made)
}

async fn change(app: &TestApp, shop: &Value, members: &Value) {
    let path = format!("/v2/client-ids/{}", shop["id"].as_str().expect("text"));
    let call = app.call(Method::PUT, &path).with_key().json(members);
    call.send().await.expect(200);
}

#[tokio::test]
async fn activation_obeys_the_current_limits_of_the_client_id() {
    let app = TestApp::on_chain().await;
    let (shop, made) = shop_with_payout(&app, &json!({}), &recurring(&app, 2)).await;
    let free = json!({ "allowedPayees": null, "allowedCurrencies": null, "maxAmount": null });
    for (narrowed, says) in [
        (json!({ "allowedPayees": [OTHER] }), "payee must be an allowed payee"),
        (json!({ "allowedCurrencies": ["USD"] }), "paymentCurrency must be"),
        (
            json!({ "maxAmount": { "amount": "1", "currency": "FAU-sepolia" } }),
            "amount must be at most 1 FAU-sepolia",
        ),
    ] {
        change(&app, &shop, &narrowed).await;
        let answer = begun_by_key(&app, &made).await;
        refused(&answer, 400, says);
        assert!(answer.wrong_fields().iter().all(|field| field == "permitSignature"));
        change(&app, &shop, &free).await;
    }
    change(&app, &shop, &json!({ "status": "inactive" })).await;
    refused(&begun_by_key(&app, &made).await, 403, "inactive");
    assert_eq!(status_of(&app, &made).await, "pending");
    change(&app, &shop, &json!({ "status": "active" })).await;
    begun_by_key(&app, &made).await.expect(201);
}

#[tokio::test]
async fn a_converted_schedule_is_limited_by_its_invoice_amount() {
    let app = TestApp::on_chain().await;
    let at_most = |amount| json!({ "maxAmount": { "amount": amount, "currency": "USD" } });
    let mut body = request("12.34", "USD", "FAU-sepolia");
    body["recurrence"] = recurring(&app, 2)["recurrence"].clone();
    let (shop, made) = shop_with_payout(&app, &at_most("12.34"), &body).await;
    change(&app, &shop, &at_most("12.33")).await;
    refused(
        &begun_by_key(&app, &made).await,
        400,
        "amount must be at most 12.33 USD",
    );
    change(&app, &shop, &at_most("12.34")).await;
    begun_by_key(&app, &made).await.expect(201);
}

#[tokio::test]
async fn schedules_of_a_revoked_client_id_cannot_start() {
    let app = TestApp::on_chain().await;
    let (shop, made) = shop_with_payout(&app, &json!({}), &recurring(&app, 2)).await;
    let path = format!("/v2/client-ids/{}", shop["id"].as_str().expect("text"));
    app.call(Method::DELETE, &path).with_key().send().await.expect(200);
    refused(&begun_by_page(&app, &made).await, 403, "that it created");
    refused(&begun_by_key(&app, &made).await, 403, "revoked");
    assert_eq!(status_of(&app, &made).await, "pending");
}

#[tokio::test]
async fn a_public_client_id_starts_only_its_own_schedules() {
    let app = TestApp::on_chain().await;
    let of_backend = app.new_schedule(&recurring(&app, 2)).await.expect(201);
    let (_, of_shop) = shop_with_payout(&app, &json!({}), &recurring(&app, 2)).await;
    for made in [&of_backend, &of_shop] {
        refused(&begun_by_page(&app, made).await, 403, "that it created");
        begun_by_key(&app, made).await.expect(201);
    }
}

#[tokio::test]
async fn the_owner_finds_schedules_of_a_page_by_their_requests() {
    let app = TestApp::on_chain().await;
    let made = made_by_page(&app, &recurring(&app, 2)).await.expect(201);
    let (id, request) = (&made["id"], made["requestId"].as_str().expect("an id"));
    let single = app.create_request(&fau("1")).await;
    assert_eq!(&app.read_request(request).await["recurringPaymentId"], id);
    assert!(app.read_request(&single).await.get("recurringPaymentId").is_none());
    let listed = app.get("/v2/request").with_key().send().await.expect(200);
    let listed = listed["requests"].as_array().expect("requests").iter();
    let ids: Vec<_> = listed.map(|row| row.get("recurringPaymentId")).collect();
    assert_eq!(ids, [None, Some(id)]);
    let call = app.post(&format!("/v2/request/{request}/cancel")).with_key();
    refused(&call.send().await, 400, id.as_str().expect("text"));
}
