//! Bounds of reports about Safes: how long a lock lasts, how many reports a link has, and which reports are refused.

use crate::support::{
    Answer, TestApp,
    links::{link_of, token_of},
    safes::{TestSafe, safe_report},
    screening::rows,
};
use alloy::primitives::{B256, U256};
use prs::{
    domain::{
        address::Address,
        ids::IntentId,
        secure_payment::intent::{IntentState, PaymentIntent},
    },
    store,
};
use serde_json::{Value, json};

/// Usual lifetime of a link, in seconds.
const LINK_S: i64 = 604_800;

/// A well-formed token that no link has.
const UNKNOWN: &str = "01JZX4T9QK3M7N8P2R5S6V0WYC";

const HASH: &str = "0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071";

/// A link of one token that lives for some seconds.
async fn link(app: &TestApp, seconds: i64) -> String {
    let mut body = link_of(&["1"]);
    body["expiresIn"] = json!(seconds);
    token_of(&app.link(&body).await.expect(201))
}

/// A report whose lock is to end some seconds after a time.
fn report_until(mut body: Value, after: i64, seconds: Option<i64>) -> Value {
    if let Some(seconds) = seconds {
        body["safePaymentDeadline"] = json!(after + seconds);
    }
    body
}

/// The text of a table cell: the status, and the end of the lock in seconds after a time, or the reason of a refusal.
fn shown(answer: &Answer, after: i64) -> String {
    let body = answer.json();
    let fields = answer.wrong_fields().join(" ");
    match (answer.status, body["safePaymentDeadline"].as_i64()) {
        (200, Some(until)) => format!("200 until {}", until - after),
        (200, None) => "200".to_owned(),
        (status, _) if !fields.is_empty() => format!("{status} {fields}"),
        (status, _) => format!("{status} {}", body["message"].as_str().expect("a message")),
    }
}

/// Prints a cell, and notes it if it does not begin with the expected text.
fn compare(wrong: &mut Vec<String>, name: &str, answer: &str, expected: &str) {
    println!("| {name} | {answer} |");
    if !answer.starts_with(expected) {
        wrong.push(format!("{name}: {answer:?} instead of {expected:?}"));
    }
}

/// Which of two transactions of one Safe a stranger reports, and when: seconds after the first report.
const IN_A_DAY: [(i64, usize, &str); 11] = [
    (0, 0, "200 until 3600"),
    (0, 1, "409 Secure payment is in progress: another transaction of a Safe"),
    (1_800, 0, "200 until 5400"),
    (
        5_400,
        1,
        "409 Secure payment is in progress: another transaction of a Safe",
    ),
    // The lock has ended, and the link is locked again.
    (36_000, 1, "200 until 39600"),
    (
        36_001,
        0,
        "409 Secure payment is in progress: another transaction of a Safe",
    ),
    (39_601, 0, "200 until 43201"),
    (84_600, 0, "200 until 86400"),
    (86_400, 0, "403 This Safe has locked this link for 24 hours"),
    (
        86_400,
        1,
        "409 Secure payment is in progress: another transaction of a Safe",
    ),
    (86_401, 1, "403 This Safe has locked this link for 24 hours"),
];

#[tokio::test]
async fn a_lock_lasts_as_long_as_the_reporter_may_ask() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    app.follow().await;
    let deployed = app.safe_contracts().await;
    let mut wrong = Vec::new();

    let token = link(&app, LINK_S).await;
    let first = app.ctx.clock.now().timestamp();
    let safe = TestSafe::funded(&app, &deployed[0]).await;
    app.safe_calldata(&token, safe.address).await.expect(200);
    let report = |number: usize| {
        let hash = B256::repeat_byte(u8::try_from(number + 1).expect("small"));
        safe_report(hash, Some(safe.address))
    };
    for (second, number, expected) in IN_A_DAY {
        let passed = app.ctx.clock.now().timestamp() - first;
        app.advance_ms((second - passed) * 1_000);
        let answer = app.report_as_stranger(&token, &report(number)).await;
        let name = format!("stranger, transaction {number} after {second} s");
        compare(&mut wrong, &name, &shown(&answer, first), expected);
    }
    // Every Safe has a day of its own.
    let other = TestSafe::funded(&app, &deployed[1]).await;
    app.safe_calldata(&token, other.address).await.expect(200);
    let body = safe_report(B256::repeat_byte(3), Some(other.address));
    let answer = app.report_as_stranger(&token, &body).await;
    let expected = format!("200 until {}", 86_401 + 3_600);
    compare(&mut wrong, "another Safe", &shown(&answer, first), &expected);
    // The searches of the first Safe end, so that it can lock other links.
    app.settle().await;

    for (is_owner, lives, asked, expected) in [
        (true, LINK_S, None, "200 until 86400"),
        (true, LINK_S, Some(60), "200 until 60"),
        (true, LINK_S, Some(3 * 86_400), "200 until 259200"),
        (true, LINK_S, Some(LINK_S + 1), "200 until 604800"),
        (true, 1_800, None, "200 until 1800"),
        (true, 1_800, Some(3_600), "200 until 1800"),
        (true, LINK_S, Some(0), "400 safePaymentDeadline"),
        (true, LINK_S, Some(-1), "400 safePaymentDeadline"),
        (false, LINK_S, None, "200 until 3600"),
        (false, LINK_S, Some(60), "200 until 60"),
        (false, LINK_S, Some(7_200), "200 until 3600"),
        (false, 1_800, None, "200 until 1800"),
        (false, LINK_S, Some(0), "400 safePaymentDeadline"),
        (false, LINK_S, Some(-1), "400 safePaymentDeadline"),
    ] {
        let token = link(&app, lives).await;
        app.safe_calldata(&token, safe.address).await.expect(200);
        let now = app.ctx.clock.now().timestamp();
        let body = report_until(report(0), now, asked);
        let answer = if is_owner {
            app.report_as_owner(&token, &body).await
        } else {
            app.report_as_stranger(&token, &body).await
        };
        let reporter = if is_owner { "owner" } else { "stranger" };
        let name = format!("{reporter}, link of {lives} s, asked for {asked:?}");
        compare(&mut wrong, &name, &shown(&answer, now), expected);
        let is_locked = expected.starts_with("200");
        let opened = app.open_link(&token, "").send().await.status;
        assert_eq!(opened, if is_locked { 423 } else { 200 }, "{name}");
        app.release_link(&token).await.expect(200);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A report of a transaction.
fn transaction(number: u8) -> Value {
    let hash = B256::repeat_byte(number).to_string();
    json!({ "txHash": hash, "chain": "SEPOLIA", "token": "FAU" })
}

/// A report of a transaction of a Safe.
fn of_safe(number: u8, safe: &TestSafe<'_>) -> Value {
    safe_report(B256::repeat_byte(number), Some(safe.address))
}

/// Checks that a link has too many reports.
#[track_caller]
fn check_full(answer: &Answer, limit: u64) {
    let sentence = format!("{limit} payments of this kind were already reported for this secure payment");
    assert_eq!(answer.expect(429)["message"], sentence);
}

#[tokio::test]
async fn reports_of_transactions_keep_no_safe_from_locking() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let deployed = app.safe_contracts().await;
    let safe = TestSafe::funded(&app, &deployed[1]).await;
    let token = link(&app, LINK_S).await;
    app.safe_calldata(&token, safe.address).await.expect(200);
    for number in 1..=20 {
        app.report_as_stranger(&token, &transaction(number)).await.expect(200);
    }
    check_full(&app.report_as_stranger(&token, &transaction(21)).await, 20);
    app.report_as_stranger(&token, &transaction(20)).await.expect(200);
    app.report_as_stranger(&token, &of_safe(101, &safe)).await.expect(200);
    assert_eq!(app.open_link(&token, "").send().await.status, 423);
    app.release_link(&token).await.expect(200);
    app.report_as_owner(&token, &of_safe(102, &safe)).await.expect(200);
    assert_eq!(app.open_link(&token, "").send().await.status, 423);
    for number in 21..=40 {
        app.report_as_owner(&token, &transaction(number)).await.expect(200);
    }
    check_full(&app.report_as_owner(&token, &transaction(41)).await, 40);
}

#[tokio::test]
async fn twenty_reports_of_a_stranger_with_a_safe_leave_room_for_the_owner() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    app.follow().await;
    let deployed = app.safe_contracts().await;
    let safe = TestSafe::funded(&app, &deployed[1]).await;
    let token = link(&app, LINK_S).await;
    app.safe_calldata(&token, safe.address).await.expect(200);
    for number in 1..=20 {
        let now = app.ctx.clock.now().timestamp();
        let short = report_until(of_safe(number, &safe), now, Some(1));
        app.report_as_stranger(&token, &short).await.expect(200);
        // The lock ends, and the service stops searching the execution.
        app.advance_ms(2_000);
        app.settle().await;
    }
    check_full(&app.report_as_stranger(&token, &of_safe(21, &safe)).await, 20);
    // The hash of a transaction that becomes the hash of a Safe counts too.
    app.report_as_stranger(&token, &transaction(22)).await.expect(200);
    check_full(&app.report_as_stranger(&token, &of_safe(22, &safe)).await, 20);
    assert_eq!(app.open_link(&token, "").send().await.status, 200);
    app.report_as_owner(&token, &of_safe(22, &safe)).await.expect(200);
    assert_eq!(app.open_link(&token, "").send().await.status, 423);
}

#[tokio::test]
async fn a_stranger_cannot_change_the_lock_of_the_owner() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let deployed = app.safe_contracts().await;
    let safe = TestSafe::funded(&app, &deployed[0]).await;
    let other = TestSafe::funded(&app, &deployed[1]).await;
    let hash = B256::repeat_byte(1);
    for (named, by_same, by_other) in [(Some(safe.address), 200, 409), (None, 200, 200)] {
        let token = link(&app, LINK_S).await;
        for handed in [&safe, &other] {
            app.safe_calldata(&token, handed.address).await.expect(200);
        }
        app.report_as_owner(&token, &safe_report(hash, named)).await.expect(200);
        let now = app.ctx.clock.now().timestamp();
        let before = app.stored_link(&token).await.lock;
        assert_eq!(before.as_ref().map(|lock| lock.until.timestamp()), Some(now + 86_400));
        for (reported, status) in [(&safe, by_same), (&other, by_other)] {
            let short = report_until(of_safe(1, reported), now, Some(60));
            let answer = app.report_as_stranger(&token, &short).await.expect(status);
            if status == 200 {
                assert_eq!(answer["safePaymentDeadline"], now + 86_400, "{named:?}");
            } else {
                assert_eq!(answer["message"], "This transaction was reported for another Safe");
            }
            assert_eq!(app.stored_link(&token).await.lock, before, "{named:?}");
        }
        app.advance_ms(61_000);
        assert_eq!(app.open_link(&token, "").send().await.status, 423, "{named:?}");
        let now = app.ctx.clock.now().timestamp();
        let short = report_until(safe_report(hash, named), now, Some(60));
        app.report_as_owner(&token, &short).await.expect(200);
        app.advance_ms(61_000);
        assert_eq!(
            app.open_link(&token, "").send().await.status,
            200,
            "the owner can shorten it"
        );
    }
}

#[tokio::test]
async fn a_hash_that_was_reported_as_a_transaction_can_lock() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let deployed = app.safe_contracts().await;
    let safe = TestSafe::funded(&app, &deployed[2]).await;
    for is_owner in [false, true] {
        let token = link(&app, LINK_S).await;
        app.safe_calldata(&token, safe.address).await.expect(200);
        let first = app.report_as_stranger(&token, &transaction(1)).await.expect(200);
        let answer = if is_owner {
            app.report_as_owner(&token, &of_safe(1, &safe)).await
        } else {
            app.report_as_stranger(&token, &of_safe(1, &safe)).await
        };
        let locked = answer.expect(200);
        assert_eq!(locked["intentId"], first["intentId"]);
        assert_eq!(locked["safeTxHash"], B256::repeat_byte(1).to_string());
        assert_eq!(locked.get("txHash"), None);
        assert_eq!(app.open_link(&token, "").send().await.status, 423);
        let stored = app
            .stored_report(&token, &B256::repeat_byte(1))
            .await
            .expect("a report");
        assert_eq!(stored.state, IntentState::AwaitingExecution);
        let again = app.report_as_owner(&token, &transaction(1)).await;
        assert_eq!(again.wrong_fields(), ["txHash"], "{}", again.text);
    }
}

#[tokio::test]
async fn a_hundred_other_safes_do_not_displace_the_last_one() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let deployed = app.safe_contracts().await;
    let safe = TestSafe::funded(&app, &deployed[1]).await;
    let token = link(&app, LINK_S).await;
    let payment = app.stored_link(&token).await;
    let hand_others = async |from: u8| {
        for byte in from..from + 100 {
            let other = Address::Evm([byte; 20].into());
            let now = app.ctx.clock.now();
            let noted = store::safe_payers::note_handed(app.ctx.db.writer(), &payment, &other, 100, now).await;
            noted.expect("stored");
        }
    };
    hand_others(1).await;
    app.advance_ms(1);
    app.safe_calldata(&token, safe.address).await.expect(200);
    assert_eq!(rows(&app, "secure_payment_safes").await, 100, "the oldest is forgotten");
    app.report_as_stranger(&token, &of_safe(1, &safe)).await.expect(200);
    // A Safe that locked the link stays.
    app.advance_ms(1);
    hand_others(101).await;
    assert_eq!(rows(&app, "secure_payment_safes").await, 100);
    app.report_as_stranger(&token, &of_safe(1, &safe)).await.expect(200);
    assert_eq!(app.open_link(&token, "").send().await.status, 423);
}

/// Stores reports of other Safes whose execution is searched, numbered from `from`.
async fn await_others(app: &TestApp, token: &str, from: u64, count: u64) {
    let payment = app.stored_link(token).await;
    let known = app.stored_report(token, &B256::repeat_byte(1)).await.expect("a report");
    for number in from..from + count {
        let other = PaymentIntent {
            id: IntentId(format!("{number:026}")),
            hash: B256::from(U256::from(number)),
            payer: Some(Address::Evm([9; 20].into())),
            ..known.clone()
        };
        let stored = store::secure_payments::insert_intent(app.ctx.db.writer(), &payment, &other).await;
        stored.expect("stored");
    }
}

#[tokio::test]
async fn strangers_cannot_use_up_the_searches_of_a_platform() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let deployed = app.safe_contracts().await;
    let safe = TestSafe::funded(&app, &deployed[0]).await;
    let other = TestSafe::funded(&app, &deployed[1]).await;
    let mut tokens = Vec::new();
    for _ in 0..7 {
        let token = link(&app, LINK_S).await;
        for handed in [&safe, &other] {
            app.safe_calldata(&token, handed.address).await.expect(200);
        }
        tokens.push(token);
    }
    let refused = |answer: &Answer, sentence: &str| {
        assert_eq!(answer.header("retry-after"), Some("600"));
        assert_eq!(answer.expect(429)["message"], sentence);
    };
    for token in &tokens[..5] {
        app.report_as_stranger(token, &of_safe(1, &safe)).await.expect(200);
    }
    let sixth = app.report_as_stranger(&tokens[5], &of_safe(1, &safe)).await;
    refused(&sixth, "5 links wait for this Safe on sepolia");
    assert_eq!(app.open_link(&tokens[5], "").send().await.status, 200);
    // A repeated report needs no other search.
    app.report_as_stranger(&tokens[4], &of_safe(1, &safe)).await.expect(200);
    app.report_as_stranger(&tokens[5], &of_safe(1, &other))
        .await
        .expect(200);

    await_others(&app, &tokens[0], 1, 44).await;
    let many = app.report_as_stranger(&tokens[6], &of_safe(1, &other)).await;
    refused(&many, "50 links of this platform wait for Safes on sepolia");
    app.report_as_owner(&tokens[6], &of_safe(1, &safe)).await.expect(200);
    app.release_link(&tokens[6]).await.expect(200);
    await_others(&app, &tokens[0], 45, 50).await;
    let most = app.report_as_owner(&tokens[6], &of_safe(1, &safe)).await;
    refused(&most, "100 links of this platform wait for Safes on sepolia");
    // A lock without a Safe is searched for nothing.
    let without = safe_report(B256::repeat_byte(2), None);
    app.report_as_owner(&tokens[6], &without).await.expect(200);
}

#[tokio::test]
async fn wrong_reports_of_safes_are_refused_by_field_or_by_link() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let own = |members: Value| {
        let mut body = json!({ "chain": "SEPOLIA", "token": "FAU" });
        let members = members.as_object().expect("members").clone();
        body.as_object_mut().expect("members").extend(members);
        body
    };
    let short = &HASH[..65];
    let of_safe = own(json!({ "safeTxHash": HASH }));
    let token = link(&app, LINK_S).await;
    let mut wrong = Vec::new();
    for (name, body, expected) in [
        (
            "both hashes",
            json!({ "txHash": HASH, "safeTxHash": HASH }),
            "safeTxHash",
        ),
        ("no hash", json!({}), "txHash"),
        ("65 characters", json!({ "txHash": short }), "txHash"),
        ("65 characters of a Safe", json!({ "safeTxHash": short }), "safeTxHash"),
        (
            "deadline of a transaction",
            json!({ "txHash": HASH, "safePaymentDeadline": 1_900_000_000 }),
            "safePaymentDeadline",
        ),
        (
            "deadline in 1970",
            json!({ "safeTxHash": HASH, "safePaymentDeadline": 0 }),
            "safePaymentDeadline",
        ),
        (
            "deadline in the year 10000",
            json!({ "safeTxHash": HASH, "safePaymentDeadline": 253_402_300_800_i64 }),
            "safePaymentDeadline",
        ),
    ] {
        for answer in [
            app.report_as_owner(&token, &own(body.clone())).await,
            app.report_as_stranger(&token, &own(body.clone())).await,
        ] {
            compare(&mut wrong, name, &shown(&answer, 0), &format!("400 {expected}"));
        }
    }
    // Only the owner may lock the link without a Safe.
    let answer = app.report_as_stranger(&token, &of_safe).await;
    compare(
        &mut wrong,
        "stranger without payerAddress",
        &shown(&answer, 0),
        "400 payerAddress",
    );
    assert_eq!(app.open_link(&token, "").send().await.status, 200);

    let expired = link(&app, 600).await;
    app.advance_ms(600_001);
    let paid = link(&app, LINK_S).await;
    app.pay_link(&paid).await;
    app.settle().await;
    let withdrawn = link(&app, LINK_S).await;
    let withdrawal = app.post(&format!("/v2/secure-payments/{withdrawn}/withdraw"));
    withdrawal.with_key().send().await.expect(200);
    for (token, expected) in [
        (&expired, "403 Secure payment has expired"),
        (&UNKNOWN.to_owned(), "404 Secure payment not found"),
        (&paid, "409 Secure payment has already been completed"),
        (&withdrawn, "403 Secure payment has been withdrawn"),
    ] {
        for answer in [
            app.report_as_owner(token, &of_safe).await,
            app.report_as_stranger(token, &of_safe).await,
        ] {
            compare(&mut wrong, "a link that cannot be paid", &shown(&answer, 0), expected);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
