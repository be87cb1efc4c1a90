//! Payers and their bank accounts, from registration to erasure, with a partner that responds in the documented
//! formats.

use crate::support::{
    TestApp,
    off_ramp::{Partner, Scripted},
    payers::{dollars, path_of, person, with_partner, with_partner_as},
    secrets::lines_logged_with,
};
use futures_util::future::join_all;
use poem::http::Method;
use prs::domain::{
    caller::{Credential, PlatformCaller},
    event::{AgreementStatus, KycStatus},
    ids::KeyId,
    off_ramp_refusal::OffRampRefusal,
    off_ramp_sandbox::OffRampBehaviour,
    refusal::RefusalKind,
};
use serde_json::{Value, json};
use std::time::Duration;

fn members(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

/// Makes the partner report that a payer's identity is approved and the terms are accepted.
async fn comply(app: &TestApp, partner: &Partner, id: &str) {
    let now = app.ctx.clock.now();
    let theirs = app.partner_id(id).await;
    partner.decide_kyc(&theirs, "approve", now);
    partner.decide_agreement(&theirs, "agree", now);
    assert!(partner.tell_due(app).await.iter().all(|status| *status == 200));
}

#[tokio::test]
async fn a_payer_is_registered_verified_and_gets_a_bank_account() {
    let (app, partner) = with_partner().await;
    let registered = app.register_payer(&person("user-4711")).await.expect(200);
    assert_eq!(members(&registered), ["agreementUrl", "kycUrl", "status", "userId"]);
    let unknown = json!({ "agreementStatus": "not_started", "kycStatus": "not_started" });
    assert_eq!(registered["status"], unknown);
    let user = registered["userId"].clone();
    let flat = json!({
        "kycStatus": "not_started", "agreementStatus": "not_started", "isCompliant": false, "userId": user,
    });
    assert_eq!(app.payer("user-4711").await.expect(200), flat);
    assert!(app.told("compliance.updated").await.is_empty(), "nothing changed");

    let added = app.add_account("user-4711", &dollars("1234567890")).await.expect(201);
    let detail = &added["payment_detail"];
    let wanted = [
        "id",
        "clientUserId",
        "bankName",
        "accountName",
        "currency",
        "beneficiaryType",
    ];
    assert_eq!(members(detail), wanted);
    assert_eq!(detail["currency"], "usd", "in small letters");
    assert_eq!(detail["clientUserId"], "user-4711");
    let pending = app.told("payment_detail.updated").await;
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0]["status"], "pending");
    assert_eq!(pending[0]["paymentDetailsId"], detail["id"]);
    assert_eq!(pending[0]["paymentAccountId"], detail["id"]);

    comply(&app, &partner, "user-4711").await;
    let known = app.payer("user-4711").await.expect(200);
    assert_eq!(known["isCompliant"], true);
    let again = app.register_payer(&person("user-4711")).await.expect(200);
    assert_eq!(members(&again), ["status", "userId"], "no step is left");
    assert_eq!(again["userId"], user);
    let states: Vec<_> = app
        .told("compliance.updated")
        .await
        .iter()
        .map(|event| {
            (
                event["kycStatus"].clone(),
                event["agreementStatus"].clone(),
                event["isCompliant"].clone(),
            )
        })
        .collect();
    assert_eq!(
        states,
        [
            (json!("pending"), json!("not_started"), json!(false)),
            (json!("approved"), json!("not_started"), json!(false)),
            (json!("approved"), json!("completed"), json!(true)),
        ]
    );
    app.advance_ms(2_000);
    assert_eq!(partner.tell_due(&app).await, [200]);
    let listed = app.accounts("user-4711").await;
    assert_eq!(
        listed,
        [json!({
            "id": detail["id"], "userId": user, "bankName": "Canary bank", "accountName": "Canary holder",
            "beneficiaryType": "individual", "accountNumber": "1234567890", "routingNumber": "021000021",
            "iban": null, "currency": "usd", "status": "approved", "rails": "local",
        })]
    );
    let id = detail["id"].as_str().expect("text");
    let filtered = format!("{}/payment-details?paymentDetailsId={id}", path_of("user-4711"));
    let filtered = app.get(&filtered).with_key().send().await.expect(200);
    assert_eq!(filtered["paymentDetails"], json!(listed));
    let other = format!(
        "{}/payment-details?paymentDetailsId=00000000-0000-4000-8000-000000000000",
        path_of("user-4711")
    );
    app.get(&other).with_key().send().await.expect(404);
}

#[tokio::test]
async fn a_client_user_id_may_be_any_single_line() {
    let (app, _partner) = with_partner().await;
    let long = "ö".repeat(255);
    let ids = [
        "ada+payer@example.com",
        "a/b/../c",
        "100% sure?",
        "Zoë & Søn #1",
        "x/payment-details",
        long.as_str(),
    ];
    let mut users = Vec::new();
    for id in ids {
        let user = app.register_payer(&person(id)).await.expect(200)["userId"].clone();
        assert_eq!(app.payer(id).await.expect(200)["userId"], user, "{id}");
        let account = app.add_account(id, &dollars("1234567890")).await.expect(201);
        assert_eq!(account["payment_detail"]["clientUserId"], id);
        assert!(!users.contains(&user));
        users.push(user);
    }
    for id in ["nobody/at all", "payment-details"] {
        let missing = app.payer(id).await;
        assert_eq!(missing.status, 404);
        let sentence = format!("Payer with client user ID {id} not found");
        assert_eq!(missing.json()["message"], sentence.as_str());
    }
}

#[tokio::test]
async fn reregistering_updates_a_pending_payer_and_restarts_a_rejected_one() {
    let (app, partner) = with_partner().await;
    let mut form = person("user-4711");
    app.register_payer(&form).await.expect(200);
    form["city"] = json!("Other city");
    form["companyName"] = json!(null);
    form["unknown"] = json!({ "any": ["thing"] });
    app.register_payer(&form).await.expect(200);
    let stored = app.stored_payer("user-4711").await.details.person;
    assert_eq!((stored.city.as_str(), stored.company_name), ("Other city", None));
    assert_eq!(stored.country, "US", "in capital letters");
    assert_eq!(partner.count("register").await, 2);

    let now = app.ctx.clock.now();
    let theirs = app.partner_id("user-4711").await;
    partner.decide_kyc(&theirs, "reject", now);
    partner.decide_agreement(&theirs, "agree", now);
    partner.tell_due(&app).await;
    assert_eq!(app.payer("user-4711").await.expect(200)["kycStatus"], "rejected");
    let anew = app.register_payer(&form).await.expect(200);
    assert_eq!(anew["status"]["kycStatus"], "not_started");
    assert_eq!(anew["status"]["agreementStatus"], "not_started");
    assert!(anew["kycUrl"].is_string());
    let last = app.told("compliance.updated").await.pop().expect("told");
    assert_eq!(last["kycStatus"], "not_started");

    partner.decide_kyc(&theirs, "approve", now);
    partner.tell_due(&app).await;
    form["city"] = json!("Too late city");
    app.register_payer(&form).await.expect(200);
    assert_eq!(app.stored_payer("user-4711").await.details.person.city, "Other city");
    assert_eq!(partner.count("register").await, 3, "an approved payer is not queried");
}

#[tokio::test]
async fn an_agreement_is_recorded_once_and_only_from_a_legal_state() {
    let (app, partner) = with_partner().await;
    app.register_payer(&person("user-4711")).await.expect(200);
    let done = json!({ "success": true });
    let agreed = json!({ "agreementCompleted": true });
    assert_eq!(
        app.agree("user-4711", &json!({ "agreementCompleted": false }))
            .await
            .expect(200),
        done
    );
    assert_eq!(partner.count("agree").await, 0);
    for _ in 0..2 {
        assert_eq!(app.agree("user-4711", &agreed).await.expect(200), done);
    }
    assert_eq!(partner.count("agree").await, 1);
    assert_eq!(app.payer("user-4711").await.expect(200)["agreementStatus"], "completed");
    assert_eq!(app.told("compliance.updated").await.len(), 1);
    for body in [
        json!({}),
        json!({ "agreementCompleted": null }),
        json!({ "agreementCompleted": "true" }),
        json!([]),
    ] {
        let answer = app.agree("user-4711", &body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.json()["message"], "agreementCompleted must be provided");
    }
    for outcome in ["decline", "fail"] {
        let id = format!("user-{outcome}");
        app.register_payer(&person(&id)).await.expect(200);
        partner.decide_agreement(&app.partner_id(&id).await, outcome, app.ctx.clock.now());
        partner.tell_due(&app).await;
        let refused = app.agree(&id, &agreed).await;
        assert_eq!(refused.status, 400);
        let state = if outcome == "decline" { "rejected" } else { "failed" };
        let message = refused.json()["message"].as_str().expect("text").to_owned();
        assert!(message.starts_with(&format!("The agreement is {state}")), "{message}");
    }
}

#[tokio::test]
async fn an_account_is_added_once_unless_it_failed_and_up_to_a_cap() {
    let (app, partner) = with_partner_as(|settings| settings.caps.bank_accounts = 2).await;
    app.register_payer(&person("user-4711")).await.expect(200);
    comply(&app, &partner, "user-4711").await;
    let once = app.account_of("user-4711", &dollars("1234567890")).await;
    assert_eq!(app.account_of("user-4711", &dollars("1234567890")).await, once);
    assert_eq!(partner.count("add_account").await, 1);
    let bad = app.account_of("user-4711", &dollars("9999990001")).await;
    app.advance_ms(2_000);
    partner.tell_due(&app).await;
    let states = |accounts: &[Value]| -> Vec<Value> { accounts.iter().map(|one| one["status"].clone()).collect() };
    assert_eq!(states(&app.accounts("user-4711").await), ["approved", "failed"]);
    let failed = app.told("payment_detail.updated").await.pop().expect("told");
    assert_eq!(failed["rejectionMessage"], "The bank does not know the account");
    let anew = app.account_of("user-4711", &dollars("9999990001")).await;
    assert_ne!(anew, bad, "a failed account that is added again is a new one");
    let full = app.add_account("user-4711", &dollars("5555555555")).await;
    assert_eq!(full.status, 409);
    assert!(full.text.contains("caps.bank_accounts"), "{}", full.text);
    assert_eq!(
        partner.count("add_account").await,
        3,
        "a refused account is not sent to the partner"
    );
}

#[tokio::test]
async fn failed_accounts_are_capped_too() {
    let (app, partner) = with_partner_as(|settings| settings.caps.bank_accounts = 2).await;
    app.register_payer(&person("user-4711")).await.expect(200);
    comply(&app, &partner, "user-4711").await;
    for number in ["9999990001", "8888880001"] {
        app.account_of("user-4711", &dollars(number)).await;
        app.advance_ms(2_000);
        partner.tell_due(&app).await;
    }
    let full = app.add_account("user-4711", &dollars("7777770001")).await;
    assert_eq!(full.status, 409);
    assert!(full.text.contains("failed bank accounts"), "{}", full.text);
    assert_eq!(partner.count("add_account").await, 2);
}

#[tokio::test]
async fn an_agreement_of_a_payer_erased_meanwhile_returns_404() {
    let (app, partner) = with_partner().await;
    app.register_payer(&person("user-4711")).await.expect(200);
    partner.behave(OffRampBehaviour::Slow);
    let erasing = async {
        while partner.count("agree").await < 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        partner.behave(OffRampBehaviour::Normal);
        app.erase_payer("user-4711").await.expect(200);
    };
    let agrees = json!({ "agreementCompleted": true });
    let (agreed, ()) = tokio::join!(app.agree("user-4711", &agrees), erasing);
    assert_eq!(agreed.status, 404, "{}", agreed.text);
    assert_eq!(lines_logged_with("is not believed"), 0);
}

#[tokio::test]
async fn account_numbers_are_masked_when_configured() {
    let (app, _partner) = with_partner_as(|settings| settings.payers.mask_bank_details = Some(true)).await;
    app.register_payer(&person("user-4711")).await.expect(200);
    app.account_of("user-4711", &dollars("1234567890")).await;
    let mut euros = dollars("1");
    for member in ["accountNumber", "routingNumber"] {
        euros[member] = json!(null);
    }
    euros["currency"] = json!("eur");
    euros["iban"] = json!("DE89 3704 0044 0532 0130 00");
    app.account_of("user-4711", &euros).await;
    let listed = app.accounts("user-4711").await;
    assert_eq!(listed[0]["accountNumber"], "******7890");
    assert_eq!(listed[0]["iban"], json!(null));
    assert_eq!(listed[1]["iban"], "******************3000");
    assert_eq!(listed[1]["accountNumber"], "******************3000");
    assert_eq!(listed[1]["routingNumber"], "");
    assert!(
        prs::settings::Settings::default().mask_bank_details(),
        "on in production"
    );
}

#[tokio::test]
async fn every_account_shows_a_number_and_a_bank_code() {
    let (app, _partner) = with_partner().await;
    app.register_payer(&person("user-4711")).await.expect(200);
    const IBAN: &str = "DE89370400440532013000";
    let none = json!(null);
    for (given, number, code) in [
        (json!({}), "1234567890", "021000021"),
        (
            json!({ "currency": "gbp", "routingNumber": none, "sortCode": "200000" }),
            "1234567890",
            "200000",
        ),
        (
            json!({ "currency": "inr", "routingNumber": none, "ifsc": "HDFC0001234", "swiftBic": "HDFCINBB" }),
            "1234567890",
            "HDFC0001234",
        ),
        (
            json!({ "currency": "eur", "routingNumber": none, "accountNumber": none, "iban": IBAN, "swiftBic": "COBADEFF" }),
            IBAN,
            "COBADEFF",
        ),
        (
            json!({ "currency": "eur", "routingNumber": none, "accountNumber": none, "iban": IBAN }),
            IBAN,
            "",
        ),
    ] {
        let mut account = dollars("1234567890");
        let members = given.as_object().expect("members");
        account.as_object_mut().expect("an object").extend(members.clone());
        app.account_of("user-4711", &account).await;
        let listed = app.accounts("user-4711").await;
        let last = listed.last().expect("an account");
        assert_eq!(last["accountNumber"], number, "{given}");
        assert_eq!(last["routingNumber"], code, "{given}");
    }
}

#[tokio::test]
async fn idempotent_responses_are_stored_and_erased_with_the_payer() {
    let (app, partner) = with_partner().await;
    let register = async || {
        let call = app.post("/v2/payer").with_key().header("idempotency-key", "first");
        call.json(&person("user-4711")).send().await
    };
    let first = register().await;
    first.expect(200);
    let path = format!("{}/payment-details", path_of("user-4711"));
    let add = async || {
        let call = app.post(&path).with_key().header("idempotency-key", "first");
        call.json(&dollars("1234567890")).send().await
    };
    let added = add().await;
    added.expect(201);
    assert_eq!(register().await.text, first.text);
    assert_eq!(add().await.text, added.text);
    assert_eq!(
        (partner.count("register").await, partner.count("add_account").await),
        (1, 1)
    );
    app.erase_payer("user-4711").await.expect(200);
    let gone = register().await;
    assert_eq!(gone.status, 409);
    assert!(gone.text.contains("erased"), "{}", gone.text);
}

#[tokio::test]
async fn partner_failures_reveal_no_details_and_change_nothing() {
    let (app, partner) = with_partner().await;
    partner.behave(OffRampBehaviour::Down);
    let refused = app.register_payer(&person("user-4711")).await;
    assert_eq!(refused.status, 502);
    assert!(
        refused.text.contains("The off-ramp partner is not responding"),
        "{}",
        refused.text
    );
    app.payer("user-4711").await.expect(404);
    partner.behave(OffRampBehaviour::Normal);
    app.register_payer(&person("user-4711")).await.expect(200);
    let says = json!({ "reason": "invalid_person", "fields": ["ssn", "lastName", "made up"] });
    partner.answer("register", Some(Scripted::Says(422, says.to_string())));
    let refused = app.register_payer(&person("user-4711")).await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.wrong_fields(), ["lastName", "ssn"]);
    let says = json!({ "reason": "invalid_account", "fields": ["accountNumber"] });
    partner.answer("add_account", Some(Scripted::Says(422, says.to_string())));
    let refused = app.add_account("user-4711", &dollars("1234567890")).await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["message"], "Invalid bank account details");
    assert_eq!(refused.wrong_fields(), ["accountNumber"]);
    assert!(app.accounts("user-4711").await.is_empty());
}

#[tokio::test]
async fn partner_refusal_reasons_reach_the_caller_and_the_operator() {
    let (app, partner) = with_partner().await;
    app.register_payer(&person("user-4711")).await.expect(200);
    let mut cells = 0;
    for operation in ["register", "add_account", "agree", "erase"] {
        for reason in OffRampRefusal::ALL {
            let says = json!({ "reason": reason.wire() }).to_string();
            partner.answer(operation, Some(Scripted::Says(422, says)));
            let line = format!("\"{operation}\" reason=\"{}\"", reason.wire());
            assert_eq!(lines_logged_with(&line), 0, "{line}");
            let (answer, status) = match operation {
                "register" => (app.register_payer(&person("user-4711")).await, 400),
                "add_account" => (app.add_account("user-4711", &dollars("1234567890")).await, 400),
                "agree" => (
                    app.agree("user-4711", &json!({ "agreementCompleted": true })).await,
                    400,
                ),
                // The erasure continues automatically.
                _ => (app.erase_payer("user-4711").await, 502),
            };
            assert_eq!(answer.status, status, "{operation} {}: {}", reason.wire(), answer.text);
            let message = answer.json()["message"].clone();
            let message = message.as_str().expect("a sentence");
            match (operation, reason) {
                // The contract gives this message.
                ("add_account", OffRampRefusal::InvalidAccount) => assert_eq!(message, "Invalid bank account details"),
                _ => assert!(message.contains(reason.sentence()), "{message}"),
            }
            assert_eq!(lines_logged_with(&line), 1, "{line}");
            println!("{operation:<12} {:<22} {status} {message}", reason.wire());
            cells += 1;
        }
        partner.answer(operation, None);
    }
    assert_eq!(cells, 4 * OffRampRefusal::ALL.len());
}

#[tokio::test]
async fn partner_reason_codes_are_logged_but_no_text_with_personal_data() {
    let (app, partner) = with_partner().await;
    let long = "x".repeat(65);
    for (status, reason, is_logged) in [
        (422, "bridge_is_read_only", true),
        (503, "under_maintenance", true),
        (403, "key_withdrawn", true),
        (422, "Canaryfamily is wanted", false),
        (500, "912-66-1187", false),
        (422, "two\nlines_of_text", false),
        (500, long.as_str(), false),
    ] {
        let says = json!({ "reason": reason, "detail": "Canaryfirst" }).to_string();
        partner.answer("register", Some(Scripted::Says(status, says)));
        let answer = app.register_payer(&person("user-4711")).await;
        assert_eq!(answer.status, 502, "{status} {reason}: {}", answer.text);
        let message = answer.json()["message"].clone();
        let fixed = [
            "The off-ramp partner returned no usable response; try again",
            "The off-ramp partner is not responding; try again",
        ];
        assert!(fixed.iter().any(|text| message == *text), "{message}");
        assert_eq!(lines_logged_with(reason) > 0, is_logged, "{status} {reason}");
        partner.answer("register", None);
        // One successful response ends a series of failures.
        app.register_payer(&person("somebody-else")).await.expect(200);
    }
    assert_eq!(lines_logged_with("Canaryfirst"), 0);
    assert_eq!(lines_logged_with("lines_of_text"), 0);
}

#[tokio::test]
async fn concurrent_calls_create_one_payer_and_one_account() {
    let (app, _partner) = with_partner().await;
    let form = person("user-4711");
    let registered = join_all((0..8).map(|_| app.register_payer(&form))).await;
    let users: Vec<Value> = registered
        .iter()
        .map(|answer| answer.expect(200)["userId"].clone())
        .collect();
    assert!(users.iter().all(|user| *user == users[0]));
    let account = dollars("1234567890");
    let added = join_all((0..8).map(|_| app.add_account("user-4711", &account))).await;
    let ids: Vec<Value> = added
        .iter()
        .map(|answer| answer.expect(201)["payment_detail"]["id"].clone())
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(app.told("payment_detail.updated").await.len(), 1);
}

#[tokio::test]
async fn payers_of_another_platform_look_like_unknown_ones() {
    let (app, _partner) = with_partner().await;
    app.register_payer(&person("user-4711")).await.expect(200);
    let account = app.account_of("user-4711", &dollars("1234567890")).await;
    let (foreign, _) = app.other_tenant().await;
    let call = |method: Method, path: String| app.call(method, &path).header("x-api-key", &foreign);
    let own = path_of("user-4711");
    for (method, path, body) in [
        (Method::GET, own.clone(), None),
        (Method::PATCH, own.clone(), Some(json!({ "agreementCompleted": true }))),
        (Method::DELETE, own.clone(), None),
        (Method::GET, format!("{own}/payment-details"), None),
        (
            Method::GET,
            format!("{own}/payment-details?paymentDetailsId={account}"),
            None,
        ),
        (
            Method::POST,
            format!("{own}/payment-details"),
            Some(dollars("1234567890")),
        ),
    ] {
        let call = call(method.clone(), path.clone());
        let answer = match body {
            Some(body) => call.json(&body).send().await,
            None => call.send().await,
        };
        assert_eq!(answer.status, 404, "{method} {path}: {}", answer.text);
        assert_eq!(
            answer.json()["message"],
            "Payer with client user ID user-4711 not found"
        );
    }
    // On the other platform the same id is another payer.
    let theirs = call(Method::POST, "/v2/payer".to_owned())
        .json(&person("user-4711"))
        .send()
        .await;
    assert_ne!(
        theirs.expect(200)["userId"],
        app.payer("user-4711").await.expect(200)["userId"]
    );
    // An account of another payer of the same platform also looks unknown.
    app.register_payer(&person("user-4712")).await.expect(200);
    let other = format!("{}/payment-details?paymentDetailsId={account}", path_of("user-4712"));
    app.get(&other).with_key().send().await.expect(404);
}

#[tokio::test]
async fn each_reason_that_a_payer_cannot_pay_has_its_own_message() {
    use prs::flows::{FlowError, payers::payable};
    let (app, partner) = with_partner().await;
    let caller = PlatformCaller {
        platform: app.platform.clone(),
        credential: Credential::ApiKey {
            id: KeyId("key".to_owned()),
        },
    };
    let refused = async |id: &str, account: &str| match payable::run(&app.ctx, &caller, id, account).await {
        Err(FlowError::Refused(refusal)) => {
            assert_eq!(refusal.kind, RefusalKind::Invalid);
            (refusal.fields[0].field.clone(), refusal.message)
        }
        other => panic!("{other:?}"),
    };
    let missing = "00000000-0000-4000-8000-000000000000";
    let (field, message) = refused("user-4711", missing).await;
    assert!(
        field == "clientUserId" && message.contains("POST /v2/payer"),
        "{message}"
    );
    app.register_payer(&person("user-4711")).await.expect(200);
    let account = app.account_of("user-4711", &dollars("1234567890")).await;
    let (field, message) = refused("user-4711", &account).await;
    assert!(field == "clientUserId" && message.contains("not_started"), "{message}");
    comply(&app, &partner, "user-4711").await;
    let (field, message) = refused("user-4711", missing).await;
    assert!(
        field == "paymentDetailsId" && message.contains("added to this payer"),
        "{message}"
    );
    let (field, message) = refused("user-4711", &account).await;
    assert!(field == "paymentDetailsId" && message.contains("pending"), "{message}");
    app.advance_ms(2_000);
    partner.tell_due(&app).await;
    let payable = payable::run(&app.ctx, &caller, "user-4711", &account)
        .await
        .expect("payable");
    assert_eq!(payable.currency, "usd");
    assert_eq!(payable.partner_payer, app.partner_id("user-4711").await);
    let stored = app.stored_payer("user-4711").await;
    assert_eq!(
        (stored.kyc(), stored.agreement()),
        (KycStatus::Approved, AgreementStatus::Completed)
    );
    app.register_payer(&person("user-4712")).await.expect(200);
    comply(&app, &partner, "user-4712").await;
    let (field, _) = refused("user-4712", &account).await;
    assert_eq!(field, "paymentDetailsId", "an account of another payer");
}
