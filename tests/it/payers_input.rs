//! Invalid input about payers and bank accounts: every invalid field is reported at once, and no value is repeated.

use crate::support::{
    Answer,
    payers::{dollars, encoded, person, with_partner},
};
use serde_json::{Value, json};

const NEEDED: [&str; 15] = [
    "clientUserId",
    "email",
    "firstName",
    "lastName",
    "beneficiaryType",
    "dateOfBirth",
    "addressLine1",
    "city",
    "state",
    "postcode",
    "country",
    "nationality",
    "phone",
    "ssn",
    "sourceOfFunds",
];

const ACCOUNT_NEEDED: [&str; 9] = [
    "bankName",
    "accountName",
    "beneficiaryType",
    "currency",
    "addressLine1",
    "city",
    "country",
    "dateOfBirth",
    "postalCode",
];

fn sorted(mut fields: Vec<String>) -> Vec<String> {
    fields.sort();
    fields
}

#[track_caller]
fn refuses(answer: &Answer, fields: &[&str], values: &Value) {
    assert_eq!(answer.status, 400, "{fields:?}: {}", answer.text);
    let wanted = sorted(fields.iter().map(|field| (*field).to_owned()).collect());
    assert_eq!(sorted(answer.wrong_fields()), wanted, "{}", answer.text);
    for value in values.as_object().into_iter().flat_map(|members| members.values()) {
        let text = value.as_str().filter(|text| text.len() > 7 && !EXAMPLES.contains(text));
        if let Some(text) = text {
            assert!(!answer.text.contains(text), "{text} is repeated in {}", answer.text);
        }
    }
    for error in answer.json()["errors"].as_array().expect("errors") {
        assert!(
            error["message"].as_str().is_some_and(|message| message.len() > 8),
            "{error}"
        );
    }
}

/// Texts that occur in the hints.
const EXAMPLES: [&str; 1] = ["1985-12-12"];

#[tokio::test]
async fn every_invalid_payer_field_is_reported_at_once() {
    let (app, partner) = with_partner().await;
    let all = person("user-4711");
    let every: Vec<&str> = all.as_object().expect("an object").keys().map(String::as_str).collect();
    let needed: Vec<&str> = NEEDED.into_iter().filter(|name| *name != "sourceOfFunds").collect();
    let mut cells = 0;
    for (wrong, fields) in [
        (json!({}), needed.clone()),
        (of_all(&every, &json!(null)), needed.clone()),
        (of_all(&every, &json!("")), every.clone()),
        (of_all(&every, &json!("   ")), every.clone()),
        (of_all(&every, &json!("\u{a0}\u{3000} ")), every.clone()),
        (of_all(&every, &json!("x".repeat(2_000))), every.clone()),
        (of_all(&every, &json!(7)), every.clone()),
        (of_all(&every, &json!({ "a": "nested value" })), every.clone()),
        (of_all(&every, &json!("line\nbreak and more")), every.clone()),
    ] {
        refuses(&app.register_payer(&wrong).await, &fields, &wrong);
        cells += fields.len();
    }
    for (field, value) in [
        ("country", json!("USA")),
        ("country", json!("U1")),
        ("nationality", json!("ISL")),
        ("nationality", json!("ZZ")),
        ("country", json!("uk")),
        ("dateOfBirth", json!("12/12/1985")),
        ("dateOfBirth", json!("1985-02-30")),
        ("dateOfBirth", json!("2026-02-01")),
        ("dateOfBirth", json!("1850-01-01")),
        ("phone", json!("abc")),
        ("phone", json!("+0123456789")),
        ("phone", json!("+1 212 555 0123")),
        ("email", json!("no-address")),
        ("beneficiaryType", json!("trust")),
        ("clientUserId", json!("x".repeat(256))),
        ("clientUserId", json!(".")),
        ("clientUserId", json!("..")),
        ("clientUserId", json!("bell\u{7}and more")),
        ("clientUserId", json!("turned\u{202e}around")),
    ] {
        let mut form = all.clone();
        form[field] = value;
        let answer = app.register_payer(&form).await;
        refuses(&answer, &[field], &json!({ field: form[field] }));
        assert_eq!(answer.json()["message"], "Validation failed");
        cells += 1;
    }
    let mut two = all.clone();
    two["phone"] = json!("abc");
    two["dateOfBirth"] = json!("2026-02-01");
    refuses(&app.register_payer(&two).await, &["phone", "dateOfBirth"], &json!({}));
    for text in ["", "[]", "7", "{", "{\"email\":\"a\",\"email\":\"b\"}"] {
        let answer = app.post("/v2/payer").with_key().text(text).send().await;
        assert_eq!(answer.status, 400, "{text}");
    }
    assert_eq!(partner.count("register").await, 0, "nothing of it reaches the partner");
    println!("{cells} invalid fields of payers");
}

fn of_all(names: &[&str], value: &Value) -> Value {
    names
        .iter()
        .map(|name| ((*name).to_owned(), value.clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test]
async fn every_invalid_bank_account_field_is_reported_at_once() {
    let (app, partner) = with_partner().await;
    app.register_payer(&person("user-4711")).await.expect(200);
    let optional = [
        "accountNumber",
        "routingNumber",
        "addressLine2",
        "state",
        "rails",
        "sortCode",
        "iban",
        "swiftBic",
        "documentNumber",
        "documentType",
        "accountType",
        "ribNumber",
        "bsbNumber",
        "ncc",
        "branchCode",
        "bankCode",
        "ifsc",
    ];
    let every: Vec<&str> = ACCOUNT_NEEDED.into_iter().chain(optional).collect();
    let mut cells = 0;
    for (wrong, fields) in [
        (json!({}), ACCOUNT_NEEDED.to_vec()),
        (of_all(&every, &json!(null)), ACCOUNT_NEEDED.to_vec()),
        (of_all(&every, &json!("")), every.clone()),
        (of_all(&every, &json!("  ")), every.clone()),
        (of_all(&every, &json!("x".repeat(2_000))), every.clone()),
        (of_all(&every, &json!(7)), every.clone()),
    ] {
        let answer = app.add_account("user-4711", &wrong).await;
        refuses(&answer, &fields, &wrong);
        assert_eq!(answer.json()["message"], "Validation failed");
        cells += fields.len();
    }
    let none = || json!(null);
    for (message, fields, changes) in [
        ("Validation failed", vec!["rails"], json!({ "rails": "sepa" })),
        ("Validation failed", vec!["country"], json!({ "country": "USA" })),
        ("Validation failed", vec!["currency"], json!({ "currency": "dollars" })),
        (
            "Validation failed",
            vec!["accountType"],
            json!({ "accountType": "current" }),
        ),
        (
            "Invalid bank account details",
            vec!["dateOfBirth"],
            json!({ "dateOfBirth": "2026-02-01" }),
        ),
        (
            "Validation failed",
            vec!["dateOfBirth"],
            json!({ "dateOfBirth": "12/12/1985" }),
        ),
        (
            "Invalid bank account details",
            vec!["routingNumber"],
            json!({ "routingNumber": "021000022" }),
        ),
        (
            "Invalid bank account details",
            vec!["routingNumber"],
            json!({ "routingNumber": none() }),
        ),
        (
            "Invalid bank account details",
            vec!["accountNumber", "routingNumber", "state"],
            json!({ "accountNumber": none(), "routingNumber": none(), "state": none() }),
        ),
        (
            "Invalid bank account details",
            vec!["iban"],
            json!({ "currency": "eur" }),
        ),
        (
            "Invalid bank account details",
            vec!["iban"],
            json!({ "currency": "eur", "iban": "DE88370400440532013000" }),
        ),
        (
            "Invalid bank account details",
            vec!["swiftBic"],
            json!({ "currency": "eur", "rails": "swift", "iban": "DE89370400440532013000" }),
        ),
        (
            "Invalid bank account details",
            vec!["swiftBic"],
            json!({ "rails": "swift", "swiftBic": "NOBA1KATALL" }),
        ),
        (
            "Invalid bank account details",
            vec!["swiftBic"],
            json!({ "rails": "swift", "swiftBic": "DEUTZZFF" }),
        ),
        (
            "Invalid bank account details",
            vec!["country"],
            json!({ "country": "ZZ" }),
        ),
        (
            "Invalid bank account details",
            vec!["sortCode"],
            json!({ "currency": "gbp", "sortCode": "12345" }),
        ),
        (
            "Invalid bank account details",
            vec!["swiftBic", "ifsc"],
            json!({ "currency": "inr" }),
        ),
        (
            "Validation failed",
            vec!["rails", "iban", "bankName"],
            json!({ "rails": "sepa", "iban": "DE88370400440532013000", "bankName": "" }),
        ),
    ] {
        let mut form = dollars("1234567890");
        for (name, value) in changes.as_object().expect("an object") {
            form[name] = value.clone();
        }
        let answer = app.add_account("user-4711", &form).await;
        refuses(&answer, &fields, &changes);
        assert_eq!(answer.json()["message"], message, "{changes}");
        cells += fields.len();
    }
    assert_eq!(
        partner.count("add_account").await,
        0,
        "nothing of it reaches the partner"
    );
    println!("{cells} invalid fields of bank accounts");
}

#[tokio::test]
async fn ids_in_paths_follow_the_same_format() {
    let (app, _partner) = with_partner().await;
    for id in [
        "x".repeat(256),
        "bell\u{7}".to_owned(),
        "turned\u{202e}around".to_owned(),
    ] {
        let answer = app.get(&format!("/v2/payer/{}", encoded(&id))).with_key().send().await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert_eq!(answer.wrong_fields(), ["clientUserId"]);
    }
    let no_text = app.get("/v2/payer/%ff").with_key().send().await;
    assert_eq!(no_text.status, 400, "{}", no_text.text);
    assert_eq!(no_text.wrong_fields(), ["clientUserId"], "{}", no_text.text);
    for nobody in [".", "..", "%2e%2e", "./payment-details"] {
        let answer = app.get(&format!("/v2/payer/{nobody}")).with_key().send().await;
        assert_eq!(answer.status, 404, "{nobody}: {}", answer.text);
    }
    app.register_payer(&person("user-4711")).await.expect(200);
    for wrong in ["", "7", "not-a-uuid"] {
        let path = format!("/v2/payer/user-4711/payment-details?paymentDetailsId={wrong}");
        let answer = app.get(&path).with_key().send().await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert_eq!(answer.wrong_fields(), ["paymentDetailsId"]);
    }
}

#[tokio::test]
async fn a_service_without_an_off_ramp_partner_reports_that() {
    let app = crate::support::TestApp::start().await;
    let refused = app.register_payer(&person("user-4711")).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.text.contains("has configured no off-ramp partner"),
        "{}",
        refused.text
    );
    app.payer("user-4711").await.expect(404);
}
