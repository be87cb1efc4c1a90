//! Payee destinations of links that a client ID creates. A bound client ID uses the destination that it is bound to,
//! and a backend may name another one. Also tests to which recipients a bound client ID may pay out.

use crate::support::{
    Answer as Answered, TestApp,
    app::PAGE,
    chain::PAYER,
    links::payout_of,
    requests::{PAYEE, fau},
    session::sign_in,
    wallet::{TestWallet, token},
};
use poem::http::Method;
use prs::flows::{
    destinations::{self, NewDestination},
    idempotency::{KeyedResult, RepeatableCall},
};
use serde_json::{Value, json};

const OTHER: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";

/// A call with a session.
struct Owner<'a> {
    app: &'a TestApp,
    bearer: String,
}

impl Owner<'_> {
    async fn post(&self, path: &str, body: &Value) -> Value {
        let call = self.app.post(path).header("authorization", &self.bearer);
        call.json(body).send().await.expect(201)
    }

    async fn destination(&self, currency: &str) -> Value {
        let body = json!({ "tokenAddress": token(self.app, currency), "chainId": 11_155_111 });
        self.post("/v1/payee-destination", &body).await
    }

    async fn bound(&self, destination: &Value, domains: &[&str]) -> String {
        let body = json!({ "label": "Bound", "allowedDomains": domains, "payeeDestinationId": destination["id"] });
        let made = self.post("/v1/client-ids", &body).await;
        made["clientId"].as_str().expect("text").to_owned()
    }
}

fn id(destination: &Value) -> String {
    destination["destinationId"].as_str().expect("an id").to_owned()
}

/// Posts with a client ID and the origin of its page; with the API key if `client` is `None`.
async fn call(app: &TestApp, client: Option<&str>, path: &str, body: &Value) -> Answered {
    let call = app.post(path);
    let call = match client {
        Some(client) => call.header("x-client-id", client).header("origin", PAGE),
        None => call.with_key(),
    };
    call.json(body).send().await
}

/// The body of a link with two items. `destination` is a member of the body itself if `is_beside`, and otherwise of the
/// first item.
fn to(destination: Option<&str>, is_beside: bool) -> Value {
    let mut body = json!({ "requests": [{ "amount": "1" }, { "amount": "2" }] });
    match destination {
        Some(id) if is_beside => body["destinationId"] = json!(id),
        Some(id) => body["requests"][0]["destinationId"] = json!(id),
        None => {}
    }
    body
}

/// Returns the id of a wallet's destination and the session of the wallet's owner. First a stranger with the public
/// client ID creates a payout to the wallet on the test's platform. Then the owner signs in and creates the
/// destination, which belongs to the owner's own platform.
async fn noted_then_claimed_elsewhere(app: &TestApp, wallet: u8) -> (String, String) {
    let wallet = TestWallet::new(wallet);
    let payout = payout_of(&wallet.address().to_string(), "1");
    let noted = call(app, Some(&app.page_client), "/v2/secure-payments/payouts", &payout).await;
    noted.expect(201);
    let bearer = format!("Bearer {}", sign_in(app, &wallet).await);
    let owner = Owner { app, bearer };
    let claimed = owner.destination("FAU-sepolia").await;
    (id(&claimed), owner.bearer)
}

#[tokio::test]
async fn an_unbound_client_id_of_a_backend_names_the_destination_of_its_links() {
    let app = TestApp::start().await;
    let owner = Owner {
        app: &app,
        bearer: app.owner().await,
    };
    let ended = id(&owner.destination("USDC-sepolia").await);
    let destination = owner.destination("FAU-sepolia").await;
    let own = id(&destination);
    let stranger = Owner {
        app: &app,
        bearer: format!("Bearer {}", sign_in(&app, &TestWallet::new(8)).await),
    };
    let foreign = id(&stranger.destination("FAU-sepolia").await);
    app.payout_link(&payout_of(OTHER, "1")).await.expect(201);
    let (claimed, _) = noted_then_claimed_elsewhere(&app, 10).await;
    let (claimed_and_ended, claimer) = noted_then_claimed_elsewhere(&app, 11).await;
    let ending = app.call(Method::PATCH, "/v1/payee-destination/deactivate");
    let ending = ending.header("authorization", &claimer);
    let ended_elsewhere = json!({ "destinationId": claimed_and_ended });
    ending.json(&ended_elsewhere).send().await.expect(200);
    let fau = token(&app, "FAU-sepolia");
    let noted = format!("sepolia:{OTHER}:{fau}");
    let unknown = format!("sepolia:{}:{fau}", TestWallet::new(9).address());
    let nowhere = format!("{PAYEE}@eip155:11155111#00000000:{fau}");
    let bound_backend = owner.bound(&destination, &[]).await;
    let bound_public = owner.bound(&destination, &[PAGE]).await;
    // Unbound and bound backend client IDs, unbound and bound public client IDs, and the API key.
    let callers = [
        Some(app.backend_client.as_str()),
        Some(bound_backend.as_str()),
        Some(app.page_client.as_str()),
        Some(bound_public.as_str()),
        None,
    ];
    let cells = [
        (None, [403, 201, 201, 201, 201]),
        (Some(own.as_str()), [201; 5]),
        (Some(ended.as_str()), [403; 5]),
        (Some(foreign.as_str()), [403; 5]),
        (Some(noted.as_str()), [403; 5]),
        (Some(claimed.as_str()), [403; 5]),
        (Some(claimed_and_ended.as_str()), [403; 5]),
        (Some(unknown.as_str()), [403; 5]),
        (Some(nowhere.as_str()), [403; 5]),
    ];
    let judge = async |cells: &[(Option<&str>, [u16; 5])]| {
        for (named, expected) in cells {
            for (client, status) in callers.iter().zip(expected) {
                for is_beside in [false, true] {
                    let answer = call(&app, *client, "/v2/secure-payments", &to(*named, is_beside)).await;
                    assert_eq!(
                        answer.status, *status,
                        "{named:?} {client:?} {is_beside}: {}",
                        answer.text
                    );
                }
            }
        }
    };
    judge(&cells).await;

    // Sets up a wallet that does not sign in to the platform, as a stranger with a public client ID could.
    let input = NewDestination {
        token: token(&app, "USDC-sepolia"),
        chain_id: 11_155_111,
        policy: None,
    };
    let caller = TestWallet::new(7).session(&app.platform);
    let made = destinations::create::run(&app.ctx, &caller, &input, RepeatableCall::unkeyed()).await;
    let KeyedResult::Fresh(second) = made.expect("a destination") else {
        panic!("no request was repeated");
    };
    let second = second.key.to_string();
    let cells = [
        (None, [403, 201, 201, 201, 201]),
        (Some(own.as_str()), [201; 5]),
        (Some(second.as_str()), [201, 403, 403, 403, 201]),
    ];
    judge(&cells).await;
}

#[tokio::test]
async fn a_client_id_that_cannot_create_links_gets_a_hint() {
    let app = TestApp::start().await;
    let refused = async |body: &Value| {
        let answer = call(&app, Some(&app.backend_client), "/v2/secure-payments", body).await;
        answer.expect(403)["message"].as_str().expect("text").to_owned()
    };
    let absent = refused(&to(None, false)).await;
    assert!(
        absent.contains("set destinationId to an active one of this platform"),
        "{absent}"
    );
    assert!(absent.contains("bind the client ID to one"), "{absent}");
    let fau = token(&app, "FAU-sepolia");
    let unknown = refused(&to(Some(&format!("sepolia:{PAYEE}:{fau}")), false)).await;
    assert!(
        unknown.contains("destinationId must be an active payee destination"),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_destination_of_the_link_applies_to_every_item() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let fau = token(&app, "FAU-sepolia");
    let (own, other) = (format!("sepolia:{PAYEE}:{fau}"), format!("sepolia:{OTHER}:{fau}"));
    let mut body = to(Some(&own), true);
    body["requests"][1]["destinationId"] = json!(own.to_lowercase());
    app.link(&body).await.expect(201);
    body["requests"][1]["destinationId"] = json!(other);
    let refused = app.link(&body).await;
    assert_eq!(
        (refused.status, refused.wrong_fields()),
        (400, vec!["requests[1].destinationId".to_owned()])
    );
    let refused = app.link(&to(Some("nowhere"), true)).await;
    assert_eq!(refused.expect(400)["message"], "Invalid destination ID format");
    assert_eq!(refused.wrong_fields(), ["destinationId"]);
}

#[tokio::test]
async fn a_bound_client_id_of_a_backend_pays_out_to_any_recipient() {
    let app = TestApp::on_chain().await;
    let owner = Owner {
        app: &app,
        bearer: app.owner().await,
    };
    let destination = owner.destination("FAU-sepolia").await;
    let mut recurring = fau("1.5");
    recurring["recurrence"] = json!({
        "startDate": "2040-02-01", "frequency": "MONTHLY", "totalPayments": 3, "payer": app.account(PAYER),
    });
    for domains in [&[][..], &[PAGE]] {
        let client = owner.bound(&destination, domains).await;
        let is_public = !domains.is_empty();
        let post = async |path: &str, body: &Value| call(&app, Some(&client), path, body).await;
        let mut payment = fau("1");
        for (payee, status) in [(PAYEE, 201), (OTHER, 400)] {
            payment["payee"] = json!(payee);
            let asked = post("/v2/request", &payment).await;
            assert_eq!(asked.status, status, "{}", asked.text);
        }
        recurring["payee"] = json!(OTHER);
        if is_public {
            // A stranger with the public client ID cannot have a payment to itself reported.
            let batch = json!({ "requests": [payment] });
            for (path, body, field) in [
                ("/v2/payouts", &payment, "payee"),
                ("/v2/payouts", &recurring, "payee"),
                ("/v2/payouts/batch", &batch, "requests[0].payee"),
                ("/v2/secure-payments/payouts", &payout_of(OTHER, "1"), "recipient"),
            ] {
                let refused = post(path, body).await;
                assert_eq!(
                    (refused.status, refused.wrong_fields()),
                    (400, vec![field.to_owned()]),
                    "{path}"
                );
            }
            continue;
        }
        post("/v2/payouts", &payment).await.expect(201);
        let made = post("/v2/payouts", &recurring).await.expect(201);
        let signature = app.sign_permit(PAYER, &made["recurringPaymentPermit"]).await;
        let path = format!("/v2/payouts/recurring/{}", made["id"].as_str().expect("an id"));
        post(&path, &json!({ "permitSignature": signature })).await.expect(201);
        let batch = json!({ "requests": [payment, payment] });
        post("/v2/payouts/batch", &batch).await.expect(201);
        let mut tokens = Vec::new();
        for _ in 0..2 {
            let made = post("/v2/secure-payments/payouts", &payout_of(OTHER, "1")).await;
            tokens.push(made.expect(201)["token"].clone());
        }
        let combined = post("/v2/secure-payments/batch-payouts", &json!({ "tokens": tokens })).await;
        combined.expect(201);
    }
}
