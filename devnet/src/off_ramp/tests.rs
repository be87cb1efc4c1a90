//! The partner follows its published schemas, and its names, numbers and buttons have the documented effects.

use super::{CallText, OffRampBehaviour, OffRampSandbox, PageKind, Received, SandboxKey, callback_signature, outcomes};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};

/// The payment token.
const USDC: &str = "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238";

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap()
}

fn schema(name: &str) -> jsonschema::Validator {
    let text = include_str!("../../../docs/partners/offramp.schema.json");
    let mut schema: Value = serde_json::from_str(text).unwrap();
    schema["$ref"] = json!(format!("#/$defs/{name}"));
    jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap()
}

/// Calls the partner of `prs dev` as the service does.
struct Spoken {
    sandbox: OffRampSandbox,
    now: DateTime<Utc>,
}

impl Spoken {
    fn new() -> Self {
        let key = SandboxKey {
            id: "prs".to_owned(),
            secret: "key".to_owned(),
        };
        Self {
            sandbox: OffRampSandbox::new(key, "https://pages.example.com".to_owned(), 1),
            now: at(1_769_860_800),
        }
    }

    fn call(&self, method: &str, target: &str, key: &str, body: &Value) -> (u16, Value) {
        let time = self.now.timestamp().to_string();
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let text = CallText {
            time: &time,
            id: "1",
            method,
            target,
            body: body.as_bytes(),
        };
        let received = Received {
            key: "prs",
            text,
            signature: &text.signature("key"),
            idempotency_key: key,
        };
        let reaction = self.sandbox.react(&received, self.now);
        (reaction.status, serde_json::from_str(&reaction.body).unwrap())
    }

    #[track_caller]
    fn good(&self, method: &str, target: &str, key: &str, body: &Value, shape: &str) -> Value {
        let (status, answer) = self.call(method, target, key, body);
        assert_eq!(status, 200, "{target}: {answer}");
        let flaws: Vec<String> = schema(shape)
            .iter_errors(&answer)
            .map(|flaw| flaw.to_string())
            .collect();
        assert!(flaws.is_empty(), "{target}: {flaws:?} in {answer}");
        answer
    }

    /// Advances the time; returns the callbacks, after checking their schemas.
    fn pass(&mut self, seconds: i64) -> Vec<String> {
        self.now += TimeDelta::seconds(seconds);
        let told = self.sandbox.tell(self.now).into_iter().map(|telling| {
            let body: Value = serde_json::from_str(&telling.body).unwrap();
            assert!(schema("Callback").is_valid(&body), "{body}");
            let kind = body["type"].as_str().unwrap();
            let record = &body[kind];
            let status = match kind {
                "payer" => format!("{} {}", record["kycStatus"], record["agreementStatus"]),
                _ => record["status"].to_string(),
            };
            format!("{kind} {} {}", record["version"], status.replace('"', ""))
        });
        told.collect()
    }

    fn register(&self, family_name: &str, key: &str) -> String {
        let person = json!({ "lastName": family_name });
        let payer = self.good("POST", "/v1/payers", &key.repeat(64), &person, "Payer");
        payer["id"].as_str().unwrap().to_owned()
    }
}

#[test]
fn names_and_numbers_have_the_documented_outcomes() {
    for (name, told) in [
        (
            "Approved",
            &[
                "payer 2 pending not_started",
                "payer 3 approved not_started",
                "payer 4 approved completed",
            ][..],
        ),
        (
            "rejected",
            &["payer 2 pending not_started", "payer 3 rejected not_started"],
        ),
        (
            "Retry",
            &["payer 2 pending not_started", "payer 3 retry_required not_started"],
        ),
        ("Waiting", &["payer 2 pending not_started"]),
        (
            "Declined",
            &[
                "payer 2 pending not_started",
                "payer 3 approved not_started",
                "payer 4 approved rejected",
            ],
        ),
        (
            "Unrecorded",
            &[
                "payer 2 pending not_started",
                "payer 3 approved not_started",
                "payer 4 approved failed",
            ],
        ),
        ("Lovelace", &[]),
    ] {
        let mut spoken = Spoken::new();
        spoken.register(name, "a");
        assert_eq!(spoken.pass(60), told, "{name}");
    }
    let orders: [(&str, &[&str], &[&str]); 7] = [
        (
            "0000",
            &["account 2 approved"],
            &[
                "2 pending_internal_assessment",
                "3 ongoing_checks",
                "4 sending_fiat",
                "5 fiat_sent",
            ],
        ),
        ("0001", &["account 2 failed"], &[]),
        ("0002", &[], &[]),
        (
            "0003",
            &["account 2 approved"],
            &[
                "2 pending_internal_assessment",
                "3 ongoing_checks",
                "4 sending_fiat",
                "5 bounced",
            ],
        ),
        (
            "0004",
            &["account 2 approved"],
            &["2 pending_internal_assessment", "3 ongoing_checks", "4 failed"],
        ),
        (
            "0005",
            &["account 2 approved"],
            &["2 pending_internal_assessment", "3 ongoing_checks"],
        ),
        (
            "0006",
            &["account 2 approved"],
            &["2 pending_internal_assessment", "3 failed"],
        ),
    ];
    for (ending, told, moved) in orders {
        let mut spoken = Spoken::new();
        let payer = spoken.register("Approved", "a");
        let bank = json!({ "accountNumber": format!("99{ending}"), "currency": "eur" });
        let path = format!("/v1/payers/{payer}/accounts");
        let account = spoken.good("POST", &path, &"b".repeat(64), &bank, "Account");
        let all = spoken.pass(60);
        let of_account: Vec<&String> = all.iter().filter(|one| one.starts_with("account")).collect();
        assert_eq!(of_account, told, "{ending}");
        let question = json!({
            "payerId": payer, "accountId": account["id"], "network": "sepolia", "token": USDC, "amount": "100",
            "currency": "eur",
        });
        if told != ["account 2 approved"] {
            assert_eq!(spoken.call("POST", "/v1/quotes", &"c".repeat(64), &question).0, 422);
            continue;
        }
        let quote = spoken.good("POST", "/v1/quotes", &"c".repeat(64), &question, "Quote");
        assert_eq!((&quote["fee"], &quote["paysOut"]), (&json!("0.5"), &json!("91.54")));
        // The money arrives ten seconds after the quote.
        spoken.pass(10);
        let opened = json!({ "quoteId": quote["id"] });
        let order = spoken.good("POST", "/v1/orders", &"d".repeat(64), &opened, "Order");
        assert_eq!(order["status"], "initiated");
        assert_eq!(
            spoken.good("POST", "/v1/orders", &"d".repeat(64), &opened, "Order"),
            order
        );
        let expected: Vec<String> = moved.iter().map(|one| format!("order {one}")).collect();
        assert_eq!(spoken.pass(60), expected, "{ending}");
    }
}

#[test]
fn buttons_have_their_effect_and_erased_payers_are_gone() {
    let mut spoken = Spoken::new();
    let payer = spoken.register("Lovelace", "a");
    let press = |spoken: &Spoken, kind, outcome: &str| spoken.sandbox.press(kind, &payer, outcome, spoken.now);
    assert!(press(&spoken, PageKind::Kyc, "ask again"));
    assert!(press(&spoken, PageKind::Kyc, "approve"));
    assert_eq!(
        spoken.pass(0),
        [
            "payer 2 pending not_started",
            "payer 3 retry_required not_started",
            "payer 4 pending not_started",
            "payer 5 approved not_started"
        ]
    );
    assert!(!press(&spoken, PageKind::Kyc, "agree"));
    let page = spoken.sandbox.page(PageKind::Agreement, &payer, spoken.now).unwrap();
    assert_eq!(page.status, "pending");
    assert!(press(&spoken, PageKind::Agreement, "fail"));
    assert!(press(&spoken, PageKind::Agreement, "agree"));
    assert_eq!(
        spoken.pass(0),
        [
            "payer 6 approved pending",
            "payer 7 approved failed",
            "payer 8 approved completed"
        ]
    );
    // The approved identity is rejected, and a new registration of the payer starts from the beginning.
    assert!(press(&spoken, PageKind::Kyc, "reject"));
    assert_eq!(spoken.pass(0), ["payer 9 rejected completed"]);
    assert_eq!(spoken.register("Lovelace", "a"), payer);
    let shown = spoken.good("GET", &format!("/v1/payers/{payer}"), "", &Value::Null, "Payer");
    assert_eq!(
        (&shown["version"], &shown["kycStatus"]),
        (&json!(10), &json!("not_started"))
    );
    let path = format!("/v1/payers/{payer}");
    spoken.good("DELETE", &path, "", &Value::Null, "Erased");
    assert_eq!(spoken.call("GET", &path, "", &Value::Null).0, 404);
    assert_eq!(spoken.call("DELETE", &path, "", &Value::Null).0, 404);
    assert!(!press(&spoken, PageKind::Kyc, "approve"));
    // A payer can also be erased by the idempotency key, for a caller that did not receive the payer's id.
    assert_eq!(spoken.register("Lovelace", "a"), payer);
    let path = format!("/v1/registrations/{}", "a".repeat(64));
    spoken.good("DELETE", &path, "", &Value::Null, "Erased");
    assert_eq!(spoken.call("DELETE", &path, "", &Value::Null).0, 404);
}

#[test]
fn the_sandbox_partner_fails_as_configured() {
    let spoken = Spoken::new();
    let payer = spoken.register("Lovelace", "a");
    let path = format!("/v1/payers/{payer}");
    let get = || spoken.call("GET", &path, "", &Value::Null);
    spoken.sandbox.behave(OffRampBehaviour::Down);
    assert_eq!(get().0, 503);
    spoken.sandbox.behave(OffRampBehaviour::OtherPayer);
    assert_ne!(get().1["id"], json!(payer));
    spoken.sandbox.behave(OffRampBehaviour::Normal);
    assert_eq!(get().1["id"], json!(payer));
    let forged = Received {
        key: "prs",
        text: CallText {
            time: "1",
            id: "1",
            method: "GET",
            target: &path,
            body: b"",
        },
        signature: "",
        idempotency_key: "",
    };
    assert_eq!(spoken.sandbox.react(&forged, spoken.now).status, 401);
}

#[test]
fn the_guide_lists_every_name_and_number() {
    let guide = include_str!("../../../docs/partners/offramp.md");
    for (who, outcome) in outcomes() {
        let row = format!("| {who} | {outcome} |");
        assert!(guide.contains(&row), "{row}");
    }
    let rows = guide
        .lines()
        .filter(|line| line.starts_with("| family name") || line.starts_with("| account ending"));
    assert_eq!(rows.count(), outcomes().len());
    for behaviour in OffRampBehaviour::ALL {
        assert!(
            guide.contains(&format!("`{}`", behaviour.wire())),
            "{}",
            behaviour.wire()
        );
    }
}

#[test]
fn the_vectors_are_signed_as_the_partner_signs() {
    let text = include_str!("../../../docs/partners/offramp.vectors.json");
    let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
    for one in &vectors {
        let text = |member: &str| one[member].as_str().unwrap();
        let (secret, body) = (text("secret"), text("body").as_bytes());
        let (time, id, shown) = (text("time"), text("id"), text("signature"));
        let is_good = match text("kind") {
            "call" => {
                let [method, target] = ["method", "target"].map(text);
                let text = CallText {
                    time,
                    id,
                    method,
                    target,
                    body,
                };
                text.is_signed(secret, at(1_769_860_800), shown)
            }
            // This crate only signs callbacks; the service verifies them. So only vectors with a valid signature are
            // compared.
            _ if one["isGood"] == true => callback_signature(secret, time, id, text("body")) == shown,
            _ => continue,
        };
        assert_eq!(json!(is_good), one["isGood"], "{one}");
    }
    assert!(vectors.len() > 10);
}
