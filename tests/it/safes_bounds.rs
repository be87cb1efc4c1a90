//! Bounds of reports about Safes: how long a lock lasts, how many reports a link has, and which reports are refused.

use crate::support::{
    Answer, TestApp,
    links::{link_of, token_of},
    safes::{TestSafe, safe_report},
};
use alloy::primitives::B256;
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
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_link_keeps_at_most_twenty_reports() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let deployed = app.safe_contracts().await;
    let safe = TestSafe::funded(&app, &deployed[1]).await;
    let token = link(&app, LINK_S).await;
    app.safe_calldata(&token, safe.address).await.expect(200);
    let transaction = |number: u8| {
        let hash = B256::repeat_byte(number).to_string();
        json!({ "txHash": hash, "chain": "SEPOLIA", "token": "FAU" })
    };
    let locking = safe_report(B256::repeat_byte(1), Some(safe.address));
    app.report_as_stranger(&token, &locking).await.expect(200);
    for number in 2..=20 {
        app.report_as_stranger(&token, &transaction(number)).await.expect(200);
    }
    let of_safe = safe_report(B256::repeat_byte(21), Some(safe.address));
    // The link is open again, so that only the number of reports can refuse another one.
    app.advance_ms(3_600_001);
    for body in [transaction(21), of_safe] {
        for refused in [
            app.report_as_stranger(&token, &body).await,
            app.report_as_owner(&token, &body).await,
        ] {
            assert_eq!(refused.header("retry-after"), Some("600"), "{body}");
            assert_eq!(
                refused.expect(429)["message"],
                "20 transactions were already reported for this secure payment"
            );
        }
    }
    assert_eq!(app.open_link(&token, "").send().await.status, 200);
    for known in [transaction(20), locking] {
        app.report_as_stranger(&token, &known).await.expect(200);
    }
    assert_eq!(app.open_link(&token, "").send().await.status, 423);
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
    let transaction = own(json!({ "txHash": HASH }));
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
    app.report_as_stranger(&token, &transaction).await.expect(200);
    let answer = app.report_as_owner(&token, &of_safe).await;
    compare(
        &mut wrong,
        "hash of a known transaction",
        &shown(&answer, 0),
        "400 safeTxHash",
    );

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
