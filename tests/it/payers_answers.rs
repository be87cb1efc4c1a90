//! Wrong responses of the partner about payers and bank accounts. The service stores no state that the partner did not
//! report, no forbidden link and no data of another payer, and it serves all other calls.

use crate::support::{
    Answer, TestApp,
    off_ramp::{Change, Partner, Scripted},
    payers::{dollars, hurried_with_partner, person},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The payer under test.
const ID: &str = "user-4711";

/// Another payer. A false response contains the ids of this payer in place of the right ids. The partner's responses
/// about this payer itself are true, so the test does not check them.
const THIRD: &str = "a-third";

/// Calls to the partner, each with the members of its response. The partner records an agreement even when its response
/// about it is false; therefore the service does not query the payer after `agree`.
const OPERATIONS: [(&str, &[&str]); 5] = [
    ("register", PAYER),
    ("payer", PAYER),
    ("add_account", ACCOUNT),
    ("account", ACCOUNT),
    ("agree", PAYER),
];

const PAYER: &[&str] = &[
    "id",
    "key",
    "version",
    "kycStatus",
    "agreementStatus",
    "kycUrl",
    "agreementUrl",
];

const ACCOUNT: &[&str] = &["id", "key", "payerId", "version", "status", "rejection"];

/// Invalid values for one member of a response, each with the kind of error.
fn lies(operation: &str, member: &str, (payer, account): (&str, &str)) -> Vec<(&'static str, Change)> {
    let to = Change::To;
    let mut lies = vec![
        ("absent", Change::Absent),
        ("null", to(Value::Null)),
        ("of another type", to(json!({}))),
        ("too long", to(json!("x".repeat(5_000)))),
    ];
    // A missing link or rejection is not a wrong one.
    let may_be_absent = matches!(member, "kycUrl" | "agreementUrl" | "rejection");
    lies.retain(|(kind, _)| !may_be_absent || !matches!(*kind, "absent" | "null"));
    // A record that is queried by its id is not queried by its key.
    let is_asked_by_key = matches!(operation, "register" | "add_account");
    lies.extend(match member {
        "id" if matches!(operation, "add_account" | "account") => vec![("another's", to(json!(account)))],
        "id" => vec![("another's", to(json!(payer)))],
        "payerId" => vec![("another's", to(json!(payer)))],
        "key" if is_asked_by_key => vec![("another's", to(json!("0".repeat(64))))],
        "version" => vec![("wrong", to(json!(0))), ("wrong", to(json!("7")))],
        "kycStatus" | "agreementStatus" | "status" => {
            vec![("wrong", to(json!("APPROVED"))), ("wrong", to(json!("done")))]
        }
        "kycUrl" | "agreementUrl" => vec![
            ("wrong", to(json!("http://pages.example.com/kyc"))),
            ("wrong", to(json!("javascript:alert(1)"))),
        ],
        "rejection" => vec![("wrong", to(json!("two\nlines")))],
        _ => vec![],
    });
    lies
}

/// Causes a call to the partner; returns the response of the service if a caller waits for the call.
async fn ask(app: &TestApp, operation: &str) -> Option<Answer> {
    match operation {
        "register" => Some(app.register_payer(&person(ID)).await),
        "agree" => Some(app.agree(ID, &json!({ "agreementCompleted": true })).await),
        "add_account" => Some(app.add_account(ID, &dollars("7734500055")).await),
        // Open records are polled at least once a day.
        _ => {
            app.advance_ms(24 * 60 * 60 * 1_000 + 1_000);
            app.follow_payers().await;
            None
        }
    }
}

/// All stored data of the tested payer and of another payer, and all events.
async fn known(app: &TestApp) -> Value {
    let mut known = Vec::new();
    for id in [ID, "somebody-else"] {
        known.push(app.payer(id).await.expect(200));
        known.push(json!(app.accounts(id).await));
    }
    for kind in ["compliance.updated", "payment_detail.updated"] {
        let mut told = app.told(kind).await;
        told.retain(|event| event["clientUserId"] != THIRD);
        known.push(json!(told));
    }
    json!(known)
}

/// Waits until the circuit breaker of the failed partner lets calls through again. The circuit breaker uses the clock
/// of the machine.
async fn is_asked_again(app: &TestApp, partner: &Partner) {
    let begun = partner.count("payer").await;
    while partner.count("payer").await == begun {
        app.advance_ms(24 * 60 * 60 * 1_000 + 1_000);
        app.follow_payers().await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn no_altered_response_field_creates_an_unreported_state() {
    let (app, partner) = hurried_with_partner().await;
    // Two records stay pending permanently. The partner is polled about them and always reports the same state.
    for (id, number) in [
        (ID, "7734500011"),
        ("somebody-else", "7734500022"),
        (THIRD, "7734500033"),
    ] {
        app.register_payer(&person(id)).await.expect(200);
        app.account_of(id, &dollars(number)).await;
    }
    let theirs = app.partner_id(THIRD).await;
    let account = app.stored_accounts(THIRD).await[0].details.partner.clone();
    let before = known(&app).await;
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (operation, members) in OPERATIONS {
        for member in members {
            for (kind, lie) in lies(operation, member, (&theirs, &account)) {
                let shown = format!("{operation}.{member} {kind} {lie:?}");
                // A higher version, so that a false response is not skipped as already known.
                let mut changes = vec![("version", Change::To(json!(50)))];
                if *member == "version" {
                    changes.clear();
                }
                changes.push((*member, lie));
                let told = match operation {
                    "add_account" | "account" => [("status", json!("approved")), ("rejection", json!(null))],
                    _ => [
                        ("kycStatus", json!("approved")),
                        ("agreementStatus", json!("completed")),
                    ],
                };
                changes.extend(
                    told.into_iter()
                        .filter(|(name, _)| name != member)
                        .map(|(name, value)| (name, Change::To(value))),
                );
                partner.answer(operation, Some(Scripted::Changed(changes)));
                let asked = partner.count(operation).await;
                let answer = ask(&app, operation).await;
                assert!(
                    partner.count(operation).await > asked,
                    "{shown}: the partner is queried"
                );
                if let Some(answer) = answer {
                    assert_eq!(answer.status, 502, "{shown}: {}", answer.text);
                }
                partner.answer(operation, None);
                assert_eq!(known(&app).await, before, "{shown}");
                *counts.entry((operation, kind)).or_default() += 1;
            }
        }
        for (kind, scripted) in [
            ("error", Scripted::Says(500, "{}".to_owned())),
            ("error", Scripted::Says(302, String::new())),
            ("wrong", Scripted::Says(200, "[]".to_owned())),
            ("too long", Scripted::Says(200, "x".repeat(200_000))),
            ("late", Scripted::Hangs),
        ] {
            partner.answer(operation, Some(scripted));
            if let Some(answer) = ask(&app, operation).await {
                assert_eq!(answer.status, 502, "{operation} {kind}: {}", answer.text);
            }
            partner.answer(operation, None);
            assert_eq!(known(&app).await, before, "{operation} {kind}");
            *counts.entry((operation, kind)).or_default() += 1;
            if matches!(operation, "payer" | "account") {
                is_asked_again(&app, &partner).await;
            }
        }
    }
    println!("{:<12} {:<16} {:>7}", "call", "answer", "answers");
    for ((operation, kind), count) in &counts {
        println!("{operation:<12} {kind:<16} {count:>7}");
    }
    println!(
        "{} wrong answers, no state, others served",
        counts.values().sum::<usize>()
    );
    // No call was lost: the same calls succeed now.
    for operation in ["register", "add_account", "agree"] {
        let answer = ask(&app, operation).await.expect("an answer");
        assert!((200..300).contains(&answer.status), "{operation}: {}", answer.text);
    }
    assert_eq!(app.accounts(ID).await.len(), 2);
}
