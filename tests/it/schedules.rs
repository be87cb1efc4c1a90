//! Recurring payments on a real chain: signed once, executed when they are due, paused, resumed, cancelled.

use crate::support::{
    TestApp,
    app::PAGE,
    chain::{PAYER, transactions},
    receiver::Receiver,
    requests::{PAYEE, request},
    schedules::{FIRST_DAY, MONTH_S, cut, recurring, schedule, units, waiting, wake_at},
};
use alloy::primitives::U256;
use chrono::DateTime;
use devnet::RELAYER_INDEX;
use poem::http::Method;
use prs::{
    domain::{address::Address, ids::ScheduleId, network::Network, relay::RelayTransaction},
    store::{self, cursors::Cursor},
};
use serde_json::{Value, json};

/// Index of the account whose key replaces the key of the first relayer.
const OTHER_RELAYER: usize = 6;

#[tokio::test]
async fn twelve_monthly_payments_run_in_order_and_catch_up_after_failures() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let made = schedule(&app, &recurring(&app, 12)).await;
    let id = made["id"].as_str().expect("an id");
    assert_eq!(
        made["metadata"]["totalNeededAllowance"],
        (U256::from(12) * units("1.5")).to_string()
    );
    let before = app.payee_balance().await;

    for month in 0..2 {
        app.both_to(FIRST_DAY + month * MONTH_S).await;
        app.execute().await;
    }
    let paid_twice = app.read_schedule(id).await;
    assert_eq!(
        (&paid_twice["processedPayments"], &paid_twice["status"]),
        (&json!(2), &json!("active"))
    );
    assert_eq!(paid_twice["nextPaymentDate"], "2040-04-01T00:00:00.000Z");

    // The payer revokes the allowance, and three executions in a row fail, an hour apart.
    app.approve_schedules("0").await;
    app.both_to(FIRST_DAY + 2 * MONTH_S).await;
    for failures in 1..=3 {
        app.execute().await;
        let read = app.read_schedule(id).await;
        assert_eq!(read["failureCount"], failures);
        app.execute().await;
        assert_eq!(
            app.read_schedule(id).await["failureCount"],
            failures,
            "not before an hour has passed"
        );
        app.advance_ms(3_600_000);
    }
    let paused = app.read_schedule(id).await;
    assert_eq!(
        (&paused["status"], &paused["nextPaymentDate"]),
        (&json!("paused"), &Value::Null)
    );
    assert!(
        paused["failureReason"].as_str().expect("a reason").contains("allow"),
        "{paused}"
    );
    assert_eq!(paused["processedPayments"], 2);

    // Two more months pass; missed payments are executed at once, one after the other.
    app.both_to(FIRST_DAY + 4 * MONTH_S).await;
    app.execute().await;
    assert_eq!(
        app.read_schedule(id).await["processedPayments"],
        2,
        "nothing is executed while it is paused"
    );
    app.approve_schedules("100").await;
    let resumed = app.update_schedule(id, "unpause").await.expect(200);
    assert_eq!(
        (&resumed["status"], &resumed["metadata"]["processedPayments"]),
        (&json!("active"), &json!(2))
    );
    app.execute().await;
    let caught_up = app.read_schedule(id).await;
    assert_eq!(
        (&caught_up["processedPayments"], &caught_up["failureCount"]),
        (&json!(5), &json!(0))
    );
    assert_eq!(caught_up.get("failureReason"), Some(&Value::Null));

    for month in 5..12 {
        app.both_to(FIRST_DAY + month * MONTH_S).await;
        app.execute().await;
    }
    let done = app.read_schedule(id).await;
    assert_eq!(
        (&done["status"], &done["processedPayments"]),
        (&json!("completed"), &json!(12))
    );
    assert_eq!(done.get("nextPaymentDate"), Some(&Value::Null));
    let requests = done["requests"].as_array().expect("a list");
    assert_eq!(
        (requests.len(), done["payments"].as_array().map(Vec::len)),
        (12, Some(12))
    );
    assert_eq!(made["requestId"], requests[0]["requestId"]);
    assert_eq!(app.payee_balance().await - before, U256::from(12) * units("1.5"));

    app.deliver().await;
    let told: Vec<Value> = receiver.received().await.iter().map(|one| one.json()).collect();
    let kinds: Vec<&str> = told.iter().filter_map(|event| event["event"].as_str()).collect();
    let expected = [
        ["payment.confirmed"; 2].as_slice(),
        &["payment.failed"; 3],
        &["payment.confirmed"; 10],
    ]
    .concat();
    assert_eq!(kinds, expected);
    let confirmed = told.iter().filter(|event| event["event"] == "payment.confirmed");
    let paid: Vec<&Value> = confirmed.clone().map(|event| &event["requestId"]).collect();
    let of_requests: Vec<&Value> = requests.iter().map(|request| &request["requestId"]).collect();
    assert_eq!(paid, of_requests, "each payment is reported once, in order");
    for event in confirmed {
        assert_eq!(event["recurringPayment"]["id"], id);
        assert_eq!(event["payerAddress"], app.account(PAYER));
        assert_eq!(
            event["payerEoaAddress"],
            app.account(PAYER),
            "the relayer is not shown as a payer"
        );
    }
    for event in told.iter().filter(|event| event["event"] == "payment.failed") {
        assert_eq!(
            (&event["subStatus"], &event["requestId"]),
            (&json!("insufficient_allowance"), of_requests[2])
        );
        assert_eq!(event["recurringPayment"]["id"], id);
    }
    let payment = &app.payments_of(of_requests[0].as_str().expect("text")).await[0];
    assert_eq!(
        (&payment["type"], &payment["recurringPaymentId"]),
        (&json!("recurring"), &json!(id))
    );
}

/// Number of payments of each schedule in [`another_instance_continues_after_the_relayer_crashes_anywhere`].
const PAYMENTS: usize = 9;

#[tokio::test]
async fn another_instance_continues_after_the_relayer_crashes_anywhere() {
    let app = TestApp::on_chain().await;
    let beside = app.beside(|_| {}).await;
    let instances = [&app, &beside];
    let body = recurring(&app, 9);
    let made = [schedule(&app, &body).await, schedule(&app, &body).await];
    let ids = made.each_ref().map(|made| made["id"].as_str().expect("an id"));
    let before = app.payee_balance().await;
    app.both_to(FIRST_DAY + 8 * MONTH_S).await;
    let mut kills = 0;
    for life in 1..2_000 {
        // Each run of the relayer is aborted after a different number of polls; some runs end normally. A run starts
        // without the memory of the previous run.
        let polls = if life % 25 == 0 { 1_000 } else { 1 + life % 12 };
        let instance = instances[life % 2];
        kills += usize::from(cut(polls, instance.relay_once()).await.is_none());
        app.advance_ms(1_000);
        if life % 3 != 0 {
            continue;
        }
        instance.follow().await;
        let mut open = 0;
        for id in ids {
            open += u32::from(app.read_schedule(id).await["status"] != "completed");
        }
        if open == 0 {
            break;
        }
    }
    app.execute().await;
    assert!(kills >= 50, "{kills} kills");
    println!("relayer: {kills} kills");
    for id in ids {
        let read = app.read_schedule(id).await;
        assert_eq!(
            (&read["status"], &read["failureCount"]),
            (&json!("completed"), &json!(0))
        );
        let requests = read["requests"].as_array().expect("a list");
        assert_eq!(
            (requests.len(), read["payments"].as_array().map(Vec::len)),
            (PAYMENTS, Some(PAYMENTS))
        );
        for request in requests {
            let id = request["requestId"].as_str().expect("text");
            assert_eq!(app.payments_of(id).await.len(), 1, "paid exactly once");
        }
    }
    assert_eq!(
        app.payee_balance().await - before,
        U256::from(2 * PAYMENTS) * units("1.5")
    );
    let relay = app.relayer();
    let next = store::relays::free_nonce(app.ctx.db.reader(), Network::Sepolia, relay.address(), 0).await;
    let account = relay.account().await.expect("answers");
    assert_eq!(next.expect("a read"), account.nonce, "no nonce is lost");
}

#[tokio::test]
async fn two_concurrent_instances_pay_once() {
    let app = TestApp::on_chain().await;
    let beside = app.beside(|_| {}).await;
    let made = schedule(&app, &recurring(&app, 3)).await;
    let id = made["id"].as_str().expect("an id");
    app.both_to(FIRST_DAY).await;
    // Each instance may lose its lease or its commit to the other one, and then retries within half a minute.
    let _ = tokio::join!(app.relay_once(), beside.relay_once());
    app.advance_ms(30_000);
    app.execute().await;
    let read = app.read_schedule(id).await;
    assert_eq!(
        (&read["processedPayments"], read["payments"].as_array().map(Vec::len)),
        (&json!(1), Some(1))
    );
}

#[tokio::test]
async fn a_strangers_dust_is_not_a_payment_of_a_schedule() {
    let app = TestApp::on_chain().await;
    let made = schedule(&app, &recurring(&app, 3)).await;
    let id = made["id"].as_str().expect("an id");
    // A stranger sends dust with the payment's reference before the payment is due.
    app.send_dust(id, 0).await;
    app.execute().await;
    assert_eq!(app.read_schedule(id).await["processedPayments"], 0);
    app.both_to(FIRST_DAY).await;
    app.execute().await;
    assert_eq!(
        app.read_schedule(id).await["processedPayments"],
        1,
        "the contract executed it anyway"
    );

    // A stranger sends dust while the transaction is pending and a node forgets the transaction.
    app.both_to(FIRST_DAY + MONTH_S).await;
    let sent = app.send_and_forget().await;
    app.send_dust(id, 1).await;
    app.follow().await;
    assert_eq!(app.pending_transactions().await, sent);
    app.relay_once().await.expect("it is sent again");
    app.execute().await;
    assert_eq!(app.read_schedule(id).await["processedPayments"], 2);
    assert!(app.pending_transactions().await.is_empty());

    // A stranger sends dust after the payment failed.
    app.approve_schedules("0").await;
    app.both_to(FIRST_DAY + 2 * MONTH_S).await;
    app.execute().await;
    app.send_dust(id, 2).await;
    app.execute().await;
    let failed = app.read_schedule(id).await;
    assert_eq!(
        (&failed["processedPayments"], &failed["failureCount"]),
        (&json!(2), &json!(1))
    );
    app.approve_schedules("100").await;
    app.advance_ms(3_600_000);
    let before = app.payee_balance().await;
    app.execute().await;
    let done = app.read_schedule(id).await;
    assert_eq!(
        (&done["status"], &done["processedPayments"]),
        (&json!("completed"), &json!(3))
    );
    assert_eq!(app.payee_balance().await - before, units("1.5"));
    let listed: Vec<&str> = done["payments"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|payment| payment["amount"].as_str().expect("text"))
        .collect();
    assert_eq!(listed, ["1.5"; 3], "only its executions");
    let first = done["requests"][0]["requestId"].as_str().expect("an id");
    let payments = app.payments_of(first).await;
    let executed = |payment: &&Value| payment["recurringPaymentId"] == *id;
    assert_eq!(
        (payments.len(), payments.iter().filter(executed).count()),
        (2, 1),
        "the dust is credited to the request and belongs to no recurring payment"
    );
}

/// Sends the first of two payments while the chain produces no blocks. Returns the application, the id of the schedule,
/// and the transactions in flight.
async fn payment_without_block() -> (TestApp, String, Vec<RelayTransaction>) {
    let app = TestApp::on_chain().await;
    let made = schedule(&app, &recurring(&app, 2)).await;
    let id = made["id"].as_str().expect("an id").to_owned();
    app.both_to(FIRST_DAY).await;
    app.devnet().set_automine(false).await.expect("set");
    app.relay_once().await.expect("a look");
    let sent = app.pending_transactions().await;
    (app, id, sent)
}

#[tokio::test]
async fn a_stuck_transaction_is_replaced_at_a_higher_price() {
    let (app, id, sent) = payment_without_block().await;
    assert_eq!((sent.len(), sent[0].bids.len()), (1, 1));
    app.advance_ms(170_000);
    app.relay_once().await.expect("a look");
    assert_eq!(app.pending_transactions().await, sent, "its time limit has not passed");
    app.advance_ms(20_000);
    app.relay_once().await.expect("a look");
    let raised = app.pending_transactions().await;
    assert_eq!((raised[0].nonce, raised[0].bids.len()), (sent[0].nonce, 2));
    let [first, second] = [0, 1].map(|bid| raised[0].bids[bid].price);
    assert!(second.max_fee >= first.max_fee * 11 / 10 && second.tip >= first.tip * 11 / 10);
    app.devnet().set_automine(true).await.expect("set");
    app.devnet().mine(1).await.expect("mined");
    app.execute().await;
    assert_eq!(app.read_schedule(&id).await["processedPayments"], 1);
    let mined = app.devnet().receipt(raised[0].bids[1].tx_hash).await.expect("asked");
    assert!(mined.is_some(), "the higher bid is the one in the block");
}

#[tokio::test]
async fn a_transaction_whose_nonce_was_taken_is_recreated() {
    let (app, id, sent) = payment_without_block().await;
    app.devnet()
        .drop_transaction(sent[0].bids[0].tx_hash)
        .await
        .expect("dropped");
    app.devnet().set_automine(true).await.expect("set");
    let nobody = app.devnet().accounts()[5].address;
    app.devnet()
        .send(RELAYER_INDEX, nobody, Vec::new(), U256::ZERO)
        .await
        .expect("sent by hand");
    app.relay_once().await.expect("a look");
    assert_eq!(app.pending_transactions().await.len(), 1, "it may still be mined");
    app.advance_ms(200_000);
    app.execute().await;
    let read = app.read_schedule(&id).await;
    assert_eq!(
        (&read["processedPayments"], &read["failureCount"]),
        (&json!(1), &json!(0))
    );
}

#[tokio::test]
async fn an_unfunded_relayer_is_not_a_failure_of_the_payer() {
    let app = TestApp::on_chain().await;
    let made = schedule(&app, &recurring(&app, 2)).await;
    let id = made["id"].as_str().expect("an id");
    app.both_to(FIRST_DAY).await;
    let relayer = app.account(RELAYER_INDEX);
    app.devnet()
        .rpc("anvil_setBalance", json!([relayer, "0x0"]))
        .await
        .expect("set");
    for _ in 0..5 {
        app.execute().await;
        app.advance_ms(3_600_000);
    }
    let waiting = app.read_schedule(id).await;
    assert_eq!(
        (&waiting["status"], &waiting["failureCount"]),
        (&json!("active"), &json!(0))
    );
    assert!(app.pending_transactions().await.is_empty());
    app.devnet()
        .rpc("anvil_setBalance", json!([relayer, "0xde0b6b3a7640000"]))
        .await
        .expect("set");
    app.execute().await;
    assert_eq!(app.read_schedule(id).await["processedPayments"], 1);
}

#[tokio::test]
async fn coins_reserved_for_a_transaction_in_flight_fund_no_other() {
    let app = TestApp::on_chain().await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let made = schedule(&app, &recurring(&app, 2)).await;
        ids.push(ScheduleId(made["id"].as_str().expect("an id").to_owned()));
    }
    app.both_to(FIRST_DAY).await;
    app.devnet().set_automine(false).await.expect("set");
    let (reader, writer, relayer) = (app.ctx.db.reader(), app.ctx.db.writer(), app.account(RELAYER_INDEX));
    let second_waits_until = async |second: i64| {
        let found = store::schedules::find(reader, &app.platform, &ids[1]).await;
        let found = found.expect("a read").expect("a schedule");
        let until = DateTime::from_timestamp(second, 0).expect("a time");
        store::schedules::postpone(writer, &found, until)
            .await
            .expect("a write");
    };
    second_waits_until(FIRST_DAY + 60).await;
    assert_eq!(app.relay_once().await.expect("a look").pending, 0);
    let sent = app.pending_transactions().await;
    assert_eq!(sent.len(), 1);
    let balance = async |coins: U256| {
        let set = app.devnet().rpc("anvil_setBalance", json!([relayer, coins])).await;
        set.expect("set");
    };
    balance(sent[0].cost() + sent[0].cost() / U256::from(2)).await;
    second_waits_until(FIRST_DAY).await;
    let look = app.relay_once().await.expect("a look");
    assert!(
        look.obstacles.iter().any(|cause| cause.contains("too few coins")),
        "{:?}",
        look.obstacles
    );
    assert_eq!(app.pending_transactions().await.len(), 1);
    balance(sent[0].cost() * U256::from(10)).await;
    app.advance_ms(31_000);
    app.relay_once().await.expect("a look");
    assert_eq!(app.pending_transactions().await.len(), 2);
}

#[tokio::test]
async fn transactions_in_flight_are_counted_while_the_chain_is_halted() {
    let app = TestApp::on_chain().await;
    schedule(&app, &recurring(&app, 2)).await;
    app.both_to(FIRST_DAY).await;
    app.devnet().set_automine(false).await.expect("set");
    app.relay_once().await.expect("a look");
    let loaded = store::cursors::load(app.ctx.db.reader(), Network::Sepolia).await;
    let followed = loaded.expect("a read").expect("a cursor");
    let halted = Cursor {
        halted_reason: Some("the nodes returned false data".to_owned()),
        ..followed.clone()
    };
    let is_halted = store::cursors::replace(app.ctx.db.writer(), &followed, &halted).await;
    assert!(is_halted.expect("a write"));
    let look = app.relay_once().await.expect("a look");
    assert_eq!((look.pending, look.has_moved), (1, false));
}

/// Sends a payment that no block includes, and restarts the service with another account as relayer. Returns the
/// application, the id of the schedule, and the pending transaction.
async fn with_another_key() -> (TestApp, String, RelayTransaction) {
    let app = TestApp::on_chain().await;
    let made = schedule(&app, &recurring(&app, 2)).await;
    app.both_to(FIRST_DAY).await;
    app.devnet().set_automine(false).await.expect("set");
    app.relay_once().await.expect("a look");
    let sent = app.pending_transactions().await.pop().expect("one is in flight");
    app.devnet()
        .drop_transaction(sent.bids[0].tx_hash)
        .await
        .expect("dropped");
    let key = app.devnet().accounts()[OTHER_RELAYER].private_key.to_string();
    let app = app
        .restarted_with(|settings| settings.relayer.private_key = Some(key))
        .await;
    let look = app.relay_once().await.expect("a look");
    assert_eq!((look.pending, app.pending_transactions().await.len()), (1, 0));
    let former = app.account(RELAYER_INDEX).to_lowercase();
    let is_told = |cause: &String| cause.to_lowercase().contains(&former);
    assert!(look.obstacles.iter().any(is_told), "{:?}", look.obstacles);
    (app, made["id"].as_str().expect("an id").to_owned(), sent)
}

#[tokio::test]
async fn a_payment_in_flight_is_followed_after_a_relayer_key_change() {
    let (app, id, sent) = with_another_key().await;
    app.devnet().set_automine(true).await.expect("set");
    app.devnet().mine(1).await.expect("mined");
    app.execute().await;
    assert_eq!(app.read_schedule(&id).await["processedPayments"], 1);
    let mined = app.devnet().receipt(sent.bids[0].tx_hash).await.expect("asked");
    assert!(
        mined.is_some_and(|receipt| receipt.status()),
        "the transaction signed before was sent again"
    );
}

#[tokio::test]
async fn the_new_key_pays_what_the_former_key_never_got_mined() {
    let (app, id, sent) = with_another_key().await;
    app.devnet()
        .drop_transaction(sent.bids[0].tx_hash)
        .await
        .expect("dropped");
    app.devnet().set_automine(true).await.expect("set");
    app.admit_relayer(OTHER_RELAYER).await;
    app.devnet()
        .rpc("anvil_setBalance", json!([app.account(RELAYER_INDEX), "0x0"]))
        .await
        .expect("set");
    app.advance_ms(3_599_000);
    app.relay_once().await.expect("a look");
    assert_eq!(app.read_schedule(&id).await["processedPayments"], 0);
    assert!(app.pending_transactions().await.is_empty(), "it may still be mined");
    app.advance_ms(2_000);
    app.execute().await;
    assert_eq!(app.read_schedule(&id).await["processedPayments"], 1);
    let mined = app.devnet().receipt(sent.bids[0].tx_hash).await.expect("asked");
    assert!(mined.is_none(), "the other account paid");
}

#[tokio::test]
async fn an_expired_permit_pauses_the_schedule_and_cannot_resume() {
    let app = TestApp::on_chain().await;
    let receiver = Receiver::start().await;
    app.register(&receiver.url()).await;
    let made = schedule(&app, &recurring(&app, 2)).await;
    let id = made["id"].as_str().expect("an id");
    app.clock_to(FIRST_DAY + 2 * MONTH_S + 1).await;
    app.execute().await;
    let read = app.read_schedule(id).await;
    assert_eq!(
        (&read["status"], &read["failureReason"]),
        (&json!("paused"), &json!("Permit expired"))
    );
    let refused = app.update_schedule(id, "unpause").await.expect(400);
    assert_eq!(refused["message"], "Permit expired");
    app.deliver().await;
    let told = receiver.received().await;
    assert_eq!(
        (told.len(), &told[0].json()["subStatus"]),
        (1, &json!("permit_expired"))
    );
}

#[tokio::test]
async fn cancelling_revokes_the_allowance_and_credits_payments_in_flight() {
    let app = TestApp::on_chain().await;
    let made = schedule(&app, &recurring(&app, 3)).await;
    let other = schedule(&app, &recurring(&app, 2)).await;
    assert_eq!(
        other["metadata"]["existingPaymentsAmount"],
        (U256::from(3) * units("1.5")).to_string()
    );
    assert_eq!(
        other["metadata"]["totalNeededAllowance"],
        (U256::from(5) * units("1.5")).to_string()
    );
    let id = made["id"].as_str().expect("an id");
    app.both_to(FIRST_DAY).await;
    app.devnet().set_automine(false).await.expect("set");
    app.relay_once().await.expect("a look");
    let cancelled = app.update_schedule(id, "cancel").await.expect(200);
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(cancelled["metadata"]["remainingPayments"], 2, "one is in flight");
    assert_eq!(
        cancelled["metadata"]["remainingAmount"],
        (U256::from(2) * units("1.5")).to_string()
    );
    app.devnet().set_automine(true).await.expect("set");
    app.devnet().mine(1).await.expect("mined");
    app.execute().await;
    let read = app.read_schedule(id).await;
    assert_eq!(
        (&read["status"], &read["processedPayments"]),
        (&json!("cancelled"), &json!(1))
    );
    app.devnet().pay(PAYER, &transactions(&cancelled)).await.expect("mined");
    // Two payments of the other schedule were due at the same time as the first one, and are paid from the rest of the
    // allowance.
    app.both_to(FIRST_DAY + MONTH_S).await;
    app.execute().await;
    let other = app.read_schedule(other["id"].as_str().expect("an id")).await;
    assert_eq!(
        (&other["status"], &other["failureCount"]),
        (&json!("completed"), &json!(0))
    );
    assert_eq!(
        app.schedule_allowance().await,
        units("3"),
        "the allowance for the payment in flight stayed until it was mined"
    );
    assert_eq!(
        app.update_schedule(id, "cancel").await.expect(400)["message"],
        "Recurring payment is already cancelled"
    );
}

#[tokio::test]
async fn only_the_payers_signature_activates_a_schedule() {
    let app = TestApp::on_chain().await;
    let made = app.new_schedule(&recurring(&app, 2)).await.expect(201);
    let id = made["id"].as_str().expect("an id");
    let read = app.read_schedule(id).await;
    assert_eq!(
        (&read["status"], &read["processedPayments"]),
        (&json!("pending"), &json!(0))
    );
    assert_eq!(read["nextPaymentDate"], "2040-02-01T00:00:00.000Z");
    let good = app.sign_permit(PAYER, &made["recurringPaymentPermit"]).await;
    let somebody = app.sign_permit(5, &made["recurringPaymentPermit"]).await;
    let mut twin = hex::decode(&good).expect("hexadecimal");
    let order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
    let order = U256::from_str_radix(order, 16).expect("a number");
    let high = order - U256::from_be_slice(&twin[32..64]);
    twin[32..64].copy_from_slice(&high.to_be_bytes::<32>());
    twin[64] = 55 - twin[64];
    for (signature, says) in [
        (somebody, "contract wallet"),
        (hex::encode_prefixed(twin), "upper half"),
    ] {
        let refused = app.activate_schedule(id, &signature).await;
        let body = refused.expect(400);
        assert_eq!(body["message"], "Invalid signature provided");
        assert_eq!(refused.wrong_fields(), ["permitSignature"]);
        assert!(
            body["errors"][0]["message"].as_str().expect("text").contains(says),
            "{body}"
        );
    }
    let of_contract = app.activate_schedule(id, &format!("0x{}", "ab".repeat(97))).await;
    assert_eq!(of_contract.expect(400)["message"], "Validation failed");
    assert_eq!(of_contract.wrong_fields(), ["permitSignature"]);
    let activated = app.activate_schedule(id, &good).await.expect(201);
    assert_eq!(
        activated,
        json!({ "message": "Recurring payment activated successfully", "id": id, "status": "active" })
    );
    let again = app.activate_schedule(id, &good).await.expect(400);
    assert_eq!(again["message"], "Recurring payment is already active");
    app.update_schedule(id, "cancel").await.expect(200);
    let late = app.activate_schedule(id, &good).await.expect(400);
    assert_eq!(late["message"], "Recurring payment is cancelled");
}

#[tokio::test]
async fn a_first_payment_is_due_at_its_instant_in_any_time_zone() {
    let app = TestApp::on_chain().await;
    for start in [
        "2040-02-01T05:30:00+05:30",
        "2040-01-31T19:00:00.000-05:00",
        "2040-02-01T00:00:00Z",
    ] {
        let mut body = recurring(&app, 3);
        body["recurrence"]["startDate"] = json!(start);
        let made = app.new_schedule(&body).await.expect(201);
        let permit = &made["recurringPaymentPermit"];
        let first = permit
            .pointer("/message/firstPayment")
            .or_else(|| permit.pointer("/values/firstPayment"));
        assert_eq!(first, Some(&json!(FIRST_DAY)), "{start}: {permit}");
    }
    let mut body = recurring(&app, 3);
    body["recurrence"]["startDate"] = json!("2040-02-01T05:30:00");
    let refused = app.new_schedule(&body).await;
    assert_eq!(
        (refused.status, refused.wrong_fields()),
        (400, vec!["recurrence.startDate".to_owned()])
    );
}

#[tokio::test]
async fn invalid_recurring_payouts_are_rejected_by_field() {
    let app = TestApp::on_chain().await;
    let wrong = |change: &dyn Fn(&mut Value)| {
        let mut body = recurring(&app, 3);
        change(&mut body);
        body
    };
    let payer = app.account(PAYER);
    for (body, field, says) in [
        (
            wrong(&|it| it["recurrence"]["startDate"] = json!("2026-01-30")),
            "recurrence.startDate",
            "past",
        ),
        (
            wrong(&|it| it["recurrence"]["startDate"] = json!("2106-06-01")),
            "recurrence.startDate",
            "2105",
        ),
        (
            wrong(&|it| it["recurrence"]["totalPayments"] = json!(1)),
            "recurrence.totalPayments",
            "2",
        ),
        (
            wrong(&|it| it["recurrence"]["totalPayments"] = json!(256)),
            "recurrence.totalPayments",
            "255",
        ),
        (
            wrong(&|it| it["recurrence"]["frequency"] = json!("HOURLY")),
            "recurrence.frequency",
            "DAILY",
        ),
        (
            wrong(&|it| it["recurrence"]["payer"] = json!(PAYEE)),
            "recurrence.payer",
            "payee",
        ),
        (
            wrong(&|it| it["payerWallet"] = json!(app.account(5))),
            "recurrence.payer",
            "payerWallet",
        ),
        (
            wrong(&|it| it["amount"] = json!("340282366920938463464")),
            "amount",
            "128 bits",
        ),
        (wrong(&|it| it["feePercentage"] = json!("1")), "feeAddress", "required"),
        (
            wrong(&|it| {
                it["invoiceCurrency"] = json!("ETH-sepolia-sepolia");
                it["paymentCurrency"] = json!("ETH-sepolia-sepolia");
            }),
            "paymentCurrency",
            "token",
        ),
    ] {
        let refused = app.new_schedule(&body).await;
        let answer = refused.expect(400);
        assert_eq!(refused.wrong_fields(), [field], "{answer}");
        assert!(
            answer["errors"][0]["message"].as_str().expect("text").contains(says),
            "{answer}"
        );
    }
    let same = wrong(&|it| it["payerWallet"] = json!(payer));
    app.new_schedule(&same).await.expect(201);
    let unknown = "01JZX4T9QK3M7N8P2R5S6V0WYB";
    let path = format!("/v2/payouts/recurring/{unknown}");
    let read = app.get(&path).with_key().send().await.expect(404);
    assert_eq!(read["message"], "Recurring payment not found");
    let made = app.new_schedule(&recurring(&app, 2)).await.expect(201);
    let id = made["id"].as_str().expect("an id");
    let stopped = app.update_schedule(id, "stop").await;
    assert_eq!(stopped.expect(400)["message"], "Invalid action: stop");
    assert_eq!(stopped.wrong_fields(), ["action"]);
    assert_eq!(
        app.update_schedule(id, "unpause").await.expect(400)["message"],
        "Recurring payment is not paused"
    );
}

#[tokio::test]
async fn networks_without_a_registered_relayer_offer_no_schedules() {
    let app = TestApp::on_chain().await;
    let revoked = app.revoke_relayer().await;
    assert!(revoked.status);
    let refused = app.new_schedule(&recurring(&app, 2)).await;
    assert_eq!(refused.expect(400)["errors"][0]["field"], "recurrence");
    let without_key = app.restarted_with(|settings| settings.relayer.private_key = None).await;
    let refused = without_key.new_schedule(&recurring(&without_key, 2)).await;
    assert_eq!(refused.wrong_fields(), ["recurrence"]);
}

#[tokio::test]
async fn nothing_is_stored_while_no_node_responds() {
    let app = TestApp::on_chain().await;
    let down = app
        .beside(|settings| {
            let chain = settings.chains.get_mut("sepolia").expect("enabled");
            chain.rpc_urls = vec!["http://127.0.0.1:9".to_owned()];
        })
        .await;
    down.new_schedule(&recurring(&app, 2)).await.expect(502);
    let listed = app.get("/v2/request").with_key().send().await.expect(200);
    assert_eq!(listed["pagination"]["total"], 0);
    let made = app.new_schedule(&recurring(&app, 2)).await.expect(201);
    let id = made["id"].as_str().expect("an id");
    let cancelled = down.update_schedule(id, "cancel").await.expect(200);
    assert_eq!(
        (&cancelled["status"], &cancelled["transactions"]),
        (&json!("cancelled"), &json!([]))
    );
}

#[tokio::test]
async fn other_tenants_see_no_schedule_and_public_client_ids_change_none() {
    let app = TestApp::on_chain().await;
    let made = schedule(&app, &recurring(&app, 2)).await;
    let path = format!("/v2/payouts/recurring/{}", made["id"].as_str().expect("an id"));
    let (key, _) = app.other_tenant().await;
    app.get(&path).header("x-api-key", &key).send().await.expect(404);
    let cancel = json!({ "action": "cancel" });
    let call = app.call(Method::PATCH, &path).header("x-api-key", &key).json(&cancel);
    call.send().await.expect(404);
    let page = |method| {
        let call = app.call(method, &path).header("x-client-id", &app.page_client);
        call.header("origin", PAGE)
    };
    page(Method::GET).send().await.expect(200);
    page(Method::PATCH).json(&cancel).send().await.expect(403);
}

#[tokio::test]
async fn an_amount_in_dollars_is_converted_once() {
    let app = TestApp::on_chain().await;
    let mut body = request("12.34", "USD", "FAU-sepolia");
    body["recurrence"] = recurring(&app, 2)["recurrence"].clone();
    let made = schedule(&app, &body).await;
    assert_eq!(
        made["recurringPaymentPermit"]["values"]["amount"],
        units("12.34").to_string()
    );
    app.both_to(FIRST_DAY).await;
    app.execute().await;
    let read = app.read_schedule(made["id"].as_str().expect("an id")).await;
    assert_eq!(read["payments"][0]["amount"], "12.34");
}

#[tokio::test]
async fn owners_take_turns() {
    let app = TestApp::start().await;
    let own = app.another_client(&[]).await;
    let (_, other) = app.other_tenant().await;
    let payer = PAYEE.parse().map(Address::Evm).expect("an address");
    let mut ids = Vec::new();
    for (client, second) in [(&own, 0), (&own, 1), (&own, 2), (&other, 3), (&other, 9)] {
        let schedule = waiting(&app, client, payer).await;
        wake_at(&app, &schedule, FIRST_DAY + second).await;
        ids.push(schedule.id);
    }
    let now = DateTime::from_timestamp(FIRST_DAY + 3, 0).expect("a time");
    let due = async |limit| {
        let due = store::schedules::due(app.ctx.db.reader(), Network::Sepolia, now, limit).await;
        let due = due.expect("a read").into_iter();
        due.map(|schedule| schedule.id).collect::<Vec<_>>()
    };
    let turns = [0, 3, 1, 2].map(|index| ids[index].clone());
    assert_eq!(due(100).await, turns);
    assert_eq!(due(2).await, turns[..2]);
}

#[tokio::test]
async fn requests_of_a_schedule_cannot_be_paid_directly() {
    let app = TestApp::on_chain().await;
    let made = schedule(&app, &recurring(&app, 2)).await;
    let path = format!("/v2/request/{}/pay", made["requestId"].as_str().expect("an id"));
    let refused = app.get(&path).with_key().send().await.expect(400);
    assert!(
        refused["message"].as_str().expect("text").contains("recurring payment"),
        "{refused}"
    );
}
