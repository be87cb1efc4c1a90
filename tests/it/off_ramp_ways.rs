//! The paths that a payer, an account and a payment can take, each with all its events.

use crate::support::fiat::{CLIENT_USER, Fiat};
use serde_json::Value;

/// The names of all events of payers, of accounts and of one request, in the order in which they were published.
async fn told(fiat: &Fiat, request: Option<&str>) -> Vec<String> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let mut told = Vec::new();
    for event in fiat.app.told("compliance.updated").await {
        let (kyc, agreement) = (text(&event["kycStatus"]), text(&event["agreementStatus"]));
        told.push(format!("compliance.updated {kyc}/{agreement}"));
    }
    for event in fiat.app.told("payment_detail.updated").await {
        told.push(format!("payment_detail.updated {}", text(&event["status"])));
    }
    if let Some(request) = request {
        told.extend(fiat.told(request).await);
    }
    told
}

/// Prints a path and compares it with the expected path.
fn show(way: &str, told: &[String], expected: &[&str]) {
    println!("{way}");
    for (number, event) in (1..).zip(told) {
        println!("  {number:>2} {event}");
    }
    assert_eq!(told, expected, "{way}");
}

/// Registers a payer. The family name tells the sandbox partner which sequence of states the payer passes through.
async fn led_by_name(name: &str) -> Fiat {
    let fiat = Fiat::start().await;
    fiat.register(CLIENT_USER, name).await.expect(200);
    for _ in 0..4 {
        fiat.pass(1).await;
    }
    fiat
}

#[tokio::test]
async fn every_path_of_a_payer_is_reported_step_by_step() {
    let ways: [(&str, &[&str]); 4] = [
        (
            "Rejected",
            &[
                "compliance.updated pending/not_started",
                "compliance.updated rejected/not_started",
            ],
        ),
        (
            "Retry",
            &[
                "compliance.updated pending/not_started",
                "compliance.updated retry_required/not_started",
            ],
        ),
        (
            "Declined",
            &[
                "compliance.updated pending/not_started",
                "compliance.updated approved/not_started",
                "compliance.updated approved/rejected",
            ],
        ),
        (
            "Unrecorded",
            &[
                "compliance.updated pending/not_started",
                "compliance.updated approved/not_started",
                "compliance.updated approved/failed",
            ],
        ),
    ];
    for (name, expected) in ways {
        let fiat = led_by_name(name).await;
        show(&format!("family name {name}"), &told(&fiat, None).await, expected);
    }
}

/// The events of a payer and an account before the first payment.
const BEFORE: [&str; 5] = [
    "compliance.updated pending/not_started",
    "compliance.updated approved/not_started",
    "compliance.updated approved/completed",
    "payment_detail.updated pending",
    "payment_detail.updated approved",
];

/// The steps of a successful order, and the final event.
const THROUGH: [&str; 6] = [
    "payment.processing initiated",
    "payment.processing pending_internal_assessment",
    "payment.processing ongoing_checks",
    "payment.processing sending_fiat",
    "payment.processing fiat_sent",
    "payment.confirmed fiat_sent",
];

#[tokio::test]
async fn a_failed_account_is_reported_and_cannot_be_paid() {
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "0001").await;
    let mut expected = BEFORE.to_vec();
    expected[4] = "payment_detail.updated failed";
    show("account ending 0001", &told(&fiat, None).await, &expected);
    let id = fiat.request("10").await;
    let refused = fiat.ask(&id, CLIENT_USER, &account, "").await.expect(400);
    assert_eq!(
        refused["message"],
        "must be the id of approved payment details: these are failed"
    );
}

/// Pays a request for ten tokens in parts, each part with new calldata for the remaining amount; returns the request.
async fn paid(fiat: &Fiat, account: &str, parts: &[(u64, u64)]) -> String {
    let id = fiat.request("10").await;
    for (asked, sent) in parts {
        let calldata = fiat.ask(&id, CLIENT_USER, account, "").await.expect(200);
        fiat.send_units(&calldata, *asked, *sent).await;
        fiat.seconds(1).await;
    }
    id
}

/// A case: its name, the last digits of the bank account, the amounts quoted and sent for each part, the expected
/// events, and the final state.
type Way = (
    &'static str,
    &'static str,
    &'static [(u64, u64)],
    Vec<&'static str>,
    &'static str,
);

#[tokio::test]
async fn every_path_of_a_payment_is_reported_step_by_step() {
    const TEN: u64 = 10_000_000;
    let bounced = ["payment.processing bounced", "payment.failed bounced"];
    let ways: [Way; 6] = [
        ("the whole", "7890", &[(TEN, TEN)], THROUGH.to_vec(), "paid"),
        (
            "a part, then the rest",
            "7890",
            &[(TEN, 4_000_000), (6_000_000, 6_000_000)],
            [&["payment.partial"][..], &THROUGH[..]].concat(),
            "paid",
        ),
        ("too much", "7890", &[(TEN, 12_000_000)], THROUGH.to_vec(), "paid"),
        (
            "a bounced payout",
            "0003",
            &[(TEN, TEN)],
            [&THROUGH[..4], &bounced[..]].concat(),
            "failed",
        ),
        (
            "a failed payout",
            "0004",
            &[(TEN, TEN)],
            [&THROUGH[..3], &["payment.failed failed"][..]].concat(),
            "failed",
        ),
        ("what stays", "0005", &[(TEN, TEN)], THROUGH[..3].to_vec(), "processing"),
    ];
    for (way, ending, parts, expected, status) in ways {
        let fiat = Fiat::start().await;
        let account = fiat.compliant(CLIENT_USER, ending).await;
        let id = paid(&fiat, &account, parts).await;
        fiat.seconds(8).await;
        show(
            way,
            &told(&fiat, Some(&id)).await,
            &[&BEFORE[..], &expected[..]].concat(),
        );
        assert_eq!(fiat.status(&id).await, status, "{way}");
    }
    // The quote expired before it was paid: the order is sent to the partner anyway, and the partner decides.
    let fiat = Fiat::start().await;
    let account = fiat.compliant(CLIENT_USER, "0006").await;
    let id = fiat.request("10").await;
    let calldata = fiat.ask(&id, CLIENT_USER, &account, "").await.expect(200);
    fiat.pass(60).await;
    fiat.send(&calldata).await;
    fiat.seconds(8).await;
    let expected = [&BEFORE[..], &THROUGH[..2], &["payment.failed failed"][..]].concat();
    show("an expired quote", &told(&fiat, Some(&id)).await, &expected);
    assert_eq!(fiat.status(&id).await, "failed");
}
