//! Access policy of links created with a public client ID: it may be stricter than that of the payee destination, never
//! weaker.

use crate::support::{
    Answer, TestApp,
    app::PAGE,
    links::{link_of, payout_of, token_of},
    requests::{PAYEE, request},
    screening::{Providers, rows, screened},
    wallet::token,
};
use poem::http::Method;
use prs::domain::screening::SandboxAnswer::Rejected;
use serde_json::{Value, json};

const WALLET: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const OTHER: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";

/// The destination of [`PAYEE`] and the client IDs that its owner creates.
struct Merchant {
    app: TestApp,
    providers: Providers,
    bearer: String,
    destination: Value,
}

impl Merchant {
    async fn start() -> Self {
        let providers = Providers::start().await;
        let app = TestApp::with(screened(&providers), None).await;
        let bearer = app.owner().await;
        let mut merchant = Self {
            app,
            providers,
            bearer,
            destination: Value::Null,
        };
        merchant.destination = merchant.set(Method::POST, 201, &Value::Null).await;
        merchant
    }

    /// Creates the destination or changes its policy.
    async fn set(&self, method: Method, status: u16, policy: &Value) -> Value {
        let mut body = json!({ "tokenAddress": token(&self.app, "FAU-sepolia"), "chainId": 11_155_111 });
        if policy.is_object() {
            body["accessPolicy"] = policy.clone();
        }
        let call = self.app.call(method, "/v1/payee-destination");
        let call = call.header("authorization", &self.bearer).json(&body);
        call.send().await.expect(status)
    }

    /// A client ID bound to the destination; public if it has domains.
    async fn bound(&self, domains: &[&str]) -> String {
        self.bound_within(domains, &Value::Null).await
    }

    /// Creates a client ID that is bound to the destination and may pay only these wallets.
    async fn bound_within(&self, domains: &[&str], payees: &Value) -> String {
        let body = json!({
            "label": "Bound", "allowedDomains": domains, "payeeDestinationId": self.destination["id"],
            "allowedPayees": payees,
        });
        let call = self.app.post("/v1/client-ids").header("authorization", &self.bearer);
        let made = call.json(&body).send().await.expect(201);
        made["clientId"].as_str().expect("text").to_owned()
    }

    async fn call(&self, caller: &Caller, path: &str, body: &Value) -> Answer {
        let call = self.app.post(path);
        let call = match caller {
            Caller::Public(client) => call.header("x-client-id", client).header("origin", PAGE),
            Caller::Backend(client) => call.header("x-client-id", client),
            Caller::Key => call.with_key(),
            Caller::Session => call.header("authorization", &self.bearer),
        };
        call.json(body).send().await
    }
}

#[derive(Debug)]
enum Caller {
    Public(String),
    Backend(String),
    Key,
    Session,
}

/// Five access policies of a payee destination. Each one is a column in the table of [`asked`].
fn destinations() -> [Value; 5] {
    [
        Value::Null,
        json!({ "mode": "off", "hideUntilApproved": false, "hidePayeeAddress": false }),
        json!({
            "mode": "kyt_all_wallets", "screeningProvider": "hypernative",
            "hideUntilApproved": false, "hidePayeeAddress": false,
        }),
        json!({ "mode": "off", "hideUntilApproved": true, "hidePayeeAddress": true }),
        json!({
            "mode": "kyt_all_wallets", "screeningProvider": "merklescience",
            "hideUntilApproved": true, "hidePayeeAddress": true,
        }),
    ]
}

/// Access policies that a link asks for. Each has five letters, one for each policy in [`destinations`]. A letter names
/// the member by which the link would weaken the destination's policy: mode, provider, hidden until approved, or hidden
/// payee address. The text is empty if the link weakens nothing.
fn asked() -> Vec<(Value, [&'static str; 5])> {
    vec![
        (Value::Null, ["", "", "", "", ""]),
        (json!({}), ["", "", "", "", ""]),
        (
            json!({ "mode": null, "hideUntilApproved": null, "hidePayeeAddress": null }),
            ["", "", "", "", ""],
        ),
        (json!({ "mode": "inherit" }), ["", "", "", "", ""]),
        (json!({ "mode": "off" }), ["", "", "m", "", "m"]),
        (
            json!({ "mode": "kyt_all_wallets", "screeningProvider": "hypernative" }),
            ["", "", "", "", "s"],
        ),
        (
            json!({ "mode": "kyt_all_wallets", "screeningProvider": "merklescience" }),
            ["", "", "s", "", ""],
        ),
        (json!({ "hideUntilApproved": true }), ["", "", "", "", ""]),
        (json!({ "hideUntilApproved": false }), ["", "", "", "u", "u"]),
        (json!({ "hidePayeeAddress": true }), ["", "", "", "", ""]),
        (json!({ "hidePayeeAddress": false }), ["", "", "", "p", "p"]),
        (
            json!({ "mode": "inherit", "hideUntilApproved": false, "hidePayeeAddress": true }),
            ["", "", "", "u", "u"],
        ),
        (
            json!({ "mode": "off", "hideUntilApproved": false, "hidePayeeAddress": false }),
            ["", "", "m", "up", "mup"],
        ),
        (json!({ "allowedPayerAddresses": [WALLET] }), ["", "", "", "", ""]),
        (
            json!({ "mode": "off", "allowedPayerAddresses": [WALLET] }),
            ["", "", "m", "", "m"],
        ),
    ]
}

fn members(letters: &str) -> Vec<String> {
    let member = |letter| match letter {
        'm' => "mode",
        's' => "screeningProvider",
        'u' => "hideUntilApproved",
        _ => "hidePayeeAddress",
    };
    let members = letters.chars().map(member);
    members.map(|member| format!("accessPolicy.{member}")).collect()
}

#[tokio::test]
async fn a_public_client_id_cannot_weaken_the_policy_of_a_destination() {
    let merchant = Merchant::start().await;
    let app = &merchant.app;
    let (mut cells, mut wrong) = (0, Vec::new());
    for (column, policy) in destinations().into_iter().enumerate() {
        if policy.is_object() {
            merchant.set(Method::PUT, 200, &policy).await;
        }
        // No payout link is created to a wallet whose policy screens payers or hides something.
        let is_held = policy["mode"] == "kyt_all_wallets"
            || [&policy["hideUntilApproved"], &policy["hidePayeeAddress"]].contains(&&json!(true));
        // A public client ID may have enough recipients screened per hour for one column.
        let callers = [
            Caller::Public(merchant.bound(&[PAGE]).await),
            Caller::Public(app.another_client(&[PAGE]).await),
            Caller::Backend(merchant.bound(&[]).await),
            Caller::Key,
            Caller::Session,
        ];
        for (asked, short) in asked() {
            for caller in &callers {
                for (path, mut body) in [
                    ("/v2/secure-payments", link_of(&["1", "2"])),
                    ("/v2/secure-payments/payouts", payout_of(PAYEE, "1")),
                ] {
                    body["accessPolicy"] = asked.clone();
                    let before = rows(app, "secure_payments").await;
                    let answer = merchant.call(caller, path, &body).await;
                    let made = rows(app, "secure_payments").await - before;
                    let expected = match caller {
                        Caller::Public(_) => members(short[column]),
                        _ => Vec::new(),
                    };
                    let is_refused = is_held && path.ends_with("payouts") && matches!(caller, Caller::Public(_));
                    let is_right = match expected.is_empty() && !is_refused {
                        true => answer.status == 201 && made == 1,
                        false if is_refused => answer.status == 403 && made == 0,
                        false => answer.status == 403 && made == 0 && answer.wrong_fields() == expected,
                    };
                    cells += 1;
                    if !is_right {
                        wrong.push(format!(
                            "{policy} {asked} {caller:?} {path}: {} {}",
                            answer.status, answer.text
                        ));
                    }
                }
            }
        }
    }
    println!("policies: {cells} cells, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} of {cells}:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn a_refused_wallet_cannot_pay_a_link_that_a_stranger_created() {
    let merchant = Merchant::start().await;
    let app = &merchant.app;
    let stranger = Caller::Public(app.page_client.clone());
    merchant.providers.answer(WALLET, None, Rejected);
    let policy = json!({
        "mode": "kyt_all_wallets", "screeningProvider": "hypernative",
        "hideUntilApproved": true, "hidePayeeAddress": true,
    });
    merchant.set(Method::PUT, 200, &policy).await;
    let mut body = link_of(&["1"]);
    body["accessPolicy"] = json!({ "mode": "off", "hidePayeeAddress": false });
    let refused = merchant.call(&stranger, "/v2/secure-payments", &body).await;
    let message = refused.expect(403)["message"].as_str().expect("text").to_owned();
    for part in [
        "accessPolicy.mode must be absent, inherit or kyt_all_wallets",
        "the destination sets kyt_all_wallets with hypernative",
        "accessPolicy.hidePayeeAddress must be absent or true: the destination sets true",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let made = merchant
        .call(&stranger, "/v2/secure-payments", &link_of(&["777.25"]))
        .await;
    let link = token_of(&made.expect(201));
    app.calldata_of(&link, Some(WALLET)).await.expect(403);
    let path = format!("/v2/secure-payments/{link}");
    let seen = app
        .get(&path)
        .header("x-client-id", &app.page_client)
        .header("origin", PAGE)
        .send()
        .await;
    seen.expect(200);
    for hidden in ["777.25", PAYEE] {
        assert!(!seen.text.contains(hidden), "{hidden} in {}", seen.text);
    }
}

#[tokio::test]
async fn a_stranger_cannot_create_payouts_to_screening_or_hiding_wallets() {
    let merchant = Merchant::start().await;
    let stranger = Caller::Public(merchant.app.page_client.clone());
    let backend = Caller::Backend(merchant.app.backend_client.clone());
    let payout = async |caller: &Caller, currency: &str| {
        let mut body = payout_of(PAYEE, "1");
        body["currency"] = json!(currency);
        merchant.call(caller, "/v2/secure-payments/payouts", &body).await
    };
    for policy in [
        json!({ "mode": "kyt_all_wallets", "screeningProvider": "hypernative" }),
        json!({ "mode": "off", "hideUntilApproved": true }),
        json!({ "mode": "off", "hidePayeeAddress": true }),
    ] {
        merchant.set(Method::PUT, 200, &policy).await;
        for currency in ["FAU-sepolia", "USDC-sepolia", "ETH-sepolia-sepolia"] {
            let refused = payout(&stranger, currency).await;
            let message = refused.expect(403)["message"].as_str().expect("text").to_owned();
            assert!(
                message.contains("create a link to the destination (POST /v2/secure-payments)"),
                "{message}"
            );
            assert!(!message.contains(PAYEE), "{message}");
            payout(&backend, currency).await.expect(201);
        }
    }
    merchant.set(Method::PUT, 200, &json!({ "mode": "off" })).await;
    payout(&stranger, "FAU-sepolia").await.expect(201);
}

#[tokio::test]
async fn a_bound_public_client_id_cannot_request_bank_payments() {
    let merchant = Merchant::start().await;
    let mut body = request("1", "USDC-sepolia", "USDC-sepolia");
    body.as_object_mut().expect("members").remove("payee");
    body["isCryptoToFiatAvailable"] = json!(true);
    let held = "this client ID may only request payments to its allowed payees";
    for (domains, is_held) in [(vec![PAGE], true), (vec![], false)] {
        let bound = merchant.bound(&domains).await;
        let caller = if is_held {
            Caller::Public(bound)
        } else {
            Caller::Backend(bound)
        };
        let answer = merchant.call(&caller, "/v2/request", &body).await;
        // No partner is configured here, which is also reported.
        assert_eq!(
            (answer.status, answer.text.contains(held)),
            (400, is_held),
            "{}",
            answer.text
        );
    }
}

#[tokio::test]
async fn a_stranger_does_not_learn_the_wallet_that_a_destination_hides() {
    let merchant = Merchant::start().await;
    let public = Caller::Public(merchant.bound(&[PAGE]).await);
    let backend = Caller::Backend(merchant.bound(&[]).await);
    let payees = json!([PAYEE]);
    let held = [
        Caller::Public(merchant.bound_within(&[PAGE], &payees).await),
        Caller::Backend(merchant.bound_within(&[], &payees).await),
    ];
    let own = request("1", "FAU-sepolia", "FAU-sepolia");
    let (mut unnamed, mut other) = (own.clone(), own.clone());
    unnamed.as_object_mut().expect("members").remove("payee");
    other["payee"] = json!(WALLET);
    for (policy, expected) in [
        (json!({ "mode": "off", "hidePayeeAddress": false }), [201, 400, 201]),
        (json!({ "mode": "off", "hidePayeeAddress": true }), [400, 400, 201]),
        (
            json!({ "mode": "off", "hideUntilApproved": true, "hidePayeeAddress": false }),
            [400, 400, 201],
        ),
    ] {
        merchant.set(Method::PUT, 200, &policy).await;
        for (body, status) in [&unnamed, &other, &own].into_iter().zip(expected) {
            let answer = merchant.call(&public, "/v2/request", body).await;
            assert_eq!(answer.status, status, "{policy} {body}: {}", answer.text);
            let is_hidden = expected[0] == 400;
            assert!(!(is_hidden && answer.text.contains(PAYEE)), "{policy} {}", answer.text);
            if status == 400 {
                assert_eq!(answer.wrong_fields(), ["payee"], "{}", answer.text);
            }
        }
        merchant.call(&backend, "/v2/request", &unnamed).await.expect(201);
        let told = merchant.call(&backend, "/v2/request", &other).await;
        told.expect(400);
        assert!(told.text.contains(PAYEE), "{}", told.text);

        let mut recurring = other.clone();
        recurring["recurrence"] = json!({
            "startDate": "2040-02-01", "frequency": "MONTHLY", "totalPayments": 3, "payer": OTHER,
        });
        for (path, body, field) in [
            ("/v2/request", &other, "payee"),
            ("/v2/payouts", &other, "payee"),
            ("/v2/payouts", &recurring, "payee"),
            (
                "/v2/payouts/batch",
                &json!({ "requests": [own, other] }),
                "requests[1].payee",
            ),
            ("/v2/secure-payments/payouts", &payout_of(WALLET, "1"), "recipient"),
        ] {
            for caller in &held {
                let refused = merchant.call(caller, path, body).await;
                assert_eq!(refused.status, 400, "{path} {caller:?}: {}", refused.text);
                let fields = refused.wrong_fields();
                assert!(
                    fields.iter().all(|named| named == field),
                    "{path} {caller:?}: {fields:?}"
                );
                // A destination that hides nothing reveals its payee; a list of wallets is never revealed to strangers.
                let is_told = matches!(caller, Caller::Backend(_));
                if is_told || expected[0] == 400 {
                    assert_eq!(
                        refused.text.contains(PAYEE),
                        is_told,
                        "{path} {caller:?}: {}",
                        refused.text
                    );
                }
            }
        }
    }
}
