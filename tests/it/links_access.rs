//! Access to links: who may open and pay them, events about refused wallets, and reports of pages.

use crate::support::{
    TestApp,
    app::forged,
    chain::PAYER,
    links::{link_of, link_transactions, payout_of, token_of},
    receiver::Receiver,
    requests::PAYEE,
};
use futures_util::future::join_all;
use poem::http::Method;
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

const LISTED: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const UNLISTED: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";

async fn app() -> TestApp {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    app
}

fn listed(members: Value) -> Value {
    let mut body = link_of(&["1"]);
    body["accessPolicy"] = members;
    body["accessPolicy"]["allowedPayerAddresses"] = json!([LISTED.to_lowercase()]);
    body
}

async fn told(receiver: &Receiver) -> Vec<Value> {
    let told = receiver.received().await;
    let bodies = told.iter().map(crate::support::receiver::Received::json);
    bodies
        .filter(|body| body["event"] == "secure_payment.access_rejected")
        .collect()
}

/// A receiver of all events of the platform.
async fn receiver(app: &TestApp) -> Receiver {
    let receiver = Receiver::start().await;
    let call = app.post("/v1/webhook").with_key();
    call.json(&json!({ "url": receiver.url() })).send().await.expect(201);
    receiver
}

#[tokio::test]
async fn an_unlisted_wallet_may_view_but_not_pay() {
    let app = app().await;
    let receiver = receiver(&app).await;
    let made = app.link(&listed(json!({}))).await.expect(201);
    let link = token_of(&made);
    let opened = app
        .open_link(&link, &format!("?wallet={UNLISTED}"))
        .send()
        .await
        .expect(200);
    assert_eq!(
        (
            &opened["accessDecision"]["status"],
            &opened["accessDecision"]["reasonCode"]
        ),
        (&json!("rejected"), &json!("wallet_not_allowed"))
    );
    assert_eq!(opened.get("paymentOptions"), None);
    assert!(
        !opened.to_string().to_lowercase().contains(&LISTED.to_lowercase()),
        "the list must not be shown"
    );
    let refused = app.calldata_of(&link, Some(UNLISTED)).await.expect(403);
    assert_eq!(refused["message"], "Wallet is not allowed to pay this secure payment");
    assert_eq!(app.calldata_of(&link, None).await.wrong_fields(), ["wallet"]);
    app.deliver().await;
    let told = told(&receiver).await;
    assert_eq!(told.len(), 1, "once in ten minutes");
    assert_eq!(told[0]["attemptedPayerWalletAddress"], UNLISTED.to_lowercase());
    assert_eq!(told[0]["requestId"], made["requestIds"][0]);
    for wallet in [LISTED.to_owned(), LISTED.to_lowercase()] {
        let opened = app
            .open_link(&link, &format!("?wallet={wallet}"))
            .send()
            .await
            .expect(200);
        assert_eq!(opened["accessDecision"]["status"], "approved");
    }
    let behind = format!("?wallet={UNLISTED}&eoaWallet={LISTED}");
    let opened = app.open_link(&link, &behind).send().await.expect(200);
    assert_eq!(
        (
            &opened["accessDecision"]["status"],
            &opened["accessDecision"]["reasonCode"]
        ),
        (&json!("error"), &json!("wallet_owner_unknown")),
        "any caller can name a listed account, and no node reports the owner of the wallet"
    );
}

/// An account on a link's list may pay from its contract wallet. A contract can claim that any account owns it, so the
/// service trusts only contracts whose code it knows.
#[tokio::test]
async fn a_listed_owner_may_pay_from_a_contract_wallet_once_proven() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let devnet = app.devnet();
    let wallet = devnet.contracts().smart_wallet;
    let account = devnet.accounts()[devnet::SMART_WALLET_OWNER_INDEX].address;
    let mut body = link_of(&["1"]);
    body["accessPolicy"] = json!({ "allowedPayerAddresses": [account.to_string()] });
    let made = app.link(&body).await.expect(201);
    let link = token_of(&made);
    let query = format!("?wallet={wallet}&eoaWallet={account}");
    let status = async || {
        let opened = app.open_link(&link, &query).send().await.expect(200);
        opened["accessDecision"]["status"].clone()
    };
    assert_eq!(status().await, "rejected");
    app.open_link(&link, &format!("/pay{query}")).send().await.expect(403);
    let delegation = format!("0xef0100{}", hex::encode(wallet));
    let set = json!([account, delegation]);
    devnet.rpc("anvil_setCode", set).await.expect("set");
    assert_eq!(status().await, "approved", "the account runs the code of the wallet");
    let calldata = app.open_link(&link, &format!("/pay{query}")).send().await.expect(200);
    app.send_through_smart_wallet(link_transactions(&calldata)).await;
    app.settle().await;
    let id = made["requestIds"][0].as_str().expect("an id");
    let read = app.read_request(id).await;
    assert_eq!(
        (&read["payerAddress"], &read["payments"][0]["payerAccess"]),
        (&json!(wallet.to_string()), &json!("ok"))
    );
}

#[tokio::test]
async fn a_payment_is_credited_even_if_its_link_is_unreadable() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let made = app.link(&link_of(&["1"])).await.expect(201);
    let calldata = app.calldata_of(&token_of(&made), Some(&app.account(PAYER))).await;
    let odd = r#"UPDATE secure_payments SET attempts = '[{"odd":1}]'"#;
    app.ctx.db.writer().execute_unprepared(odd).await.expect("written");
    app.send_calldata(&calldata.expect(200)).await;
    let other = app.paid_request("1").await;
    app.settle().await;
    assert_eq!(app.read_request(&other).await["status"], "paid");
    let read = app.read_request(made["requestIds"][0].as_str().expect("an id")).await;
    assert_eq!(
        (&read["status"], &read["payments"][0]["payerAccess"]),
        (&json!("paid"), &json!("unknown"))
    );
}

/// A wallet that is not on the link's list pays with calldata that was fetched for a listed wallet. It reports its
/// transaction before it sends it.
#[tokio::test]
async fn payments_of_unlisted_wallets_are_credited_and_each_is_reported() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let receiver = receiver(&app).await;
    let (listed, payer) = (app.account(5), app.account(PAYER));
    let mut body = link_of(&["1"]);
    body["accessPolicy"] = json!({ "allowedPayerAddresses": [listed] });
    let made = app.link(&body).await.expect(201);
    let link = token_of(&made);
    app.open_link(&link, &format!("?wallet={payer}"))
        .send()
        .await
        .expect(200);
    let calldata = app.calldata_of(&link, Some(&listed)).await.expect(200);
    app.send_calldata(&calldata).await;
    app.settle().await;
    app.deliver().await;
    let told = told(&receiver).await;
    assert_eq!((told.len(), told[0].get("paid")), (2, None));
    assert_eq!(
        (
            &told[1]["paid"],
            &told[1]["attemptedPayerWalletAddress"],
            &told[1]["requestId"]
        ),
        (&json!(true), &json!(payer.to_lowercase()), &made["requestIds"][0])
    );
    let id = made["requestIds"][0].as_str().expect("an id");
    let read = app.read_request(id).await;
    assert_eq!(
        (&read["status"], &read["payments"][0]["payerAccess"]),
        (&json!("paid"), &json!("list"))
    );
    assert_eq!(app.payments_of(id).await[0]["payerAccess"], "list");
    let events = receiver.received().await;
    let confirmed = events.iter().map(crate::support::receiver::Received::json);
    let confirmed: Vec<Value> = confirmed.filter(|body| body["event"] == "payment.confirmed").collect();
    assert_eq!((confirmed.len(), &confirmed[0]["payerAccess"]), (1, &json!("list")));
    // The same payment by the listed wallet, and a payment of a link without a list.
    for (allowed, access) in [(json!([payer]), json!("ok")), (json!([]), json!(null))] {
        body["accessPolicy"] = json!({ "allowedPayerAddresses": allowed });
        let made = app.link(&body).await.expect(201);
        app.pay_link(&token_of(&made)).await;
        app.settle().await;
        let id = made["requestIds"][0].as_str().expect("an id");
        assert_eq!(app.payments_of(id).await[0]["payerAccess"], access);
    }
    app.deliver().await;
    assert_eq!(self::told(&receiver).await.len(), 2);
}

#[tokio::test]
async fn a_listed_wallet_pays() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let mut body = link_of(&["1"]);
    body["accessPolicy"] = json!({ "allowedPayerAddresses": [app.account(PAYER)] });
    let link = token_of(&app.link(&body).await.expect(201));
    app.pay_link(&link).await;
    app.settle().await;
    app.open_link(&link, "").send().await.expect(409);
}

#[tokio::test]
async fn a_payer_list_on_a_payout_is_stored_but_not_enforced() {
    let app = app().await;
    let mut body = payout_of(LISTED, "1");
    body["accessPolicy"] = json!({ "allowedPayerAddresses": [LISTED] });
    let link = token_of(&app.payout_link(&body).await.expect(201));
    let opened = app
        .open_link(&link, &format!("?wallet={UNLISTED}"))
        .send()
        .await
        .expect(200);
    assert_eq!(opened.get("accessDecision"), None);
}

#[tokio::test]
async fn a_refused_wallet_is_reported_again_after_ten_minutes_or_a_failure() {
    let app = app().await;
    let receiver = receiver(&app).await;
    let link = token_of(&app.link(&listed(json!({}))).await.expect(201));
    let knock = async || {
        app.open_link(&link, &format!("?wallet={UNLISTED}"))
            .send()
            .await
            .expect(200);
        app.deliver().await;
        told(&receiver).await.len()
    };
    assert_eq!(knock().await, 1);
    app.advance_ms(599_999);
    assert_eq!(knock().await, 1);
    app.advance_ms(1);
    assert_eq!(knock().await, 2);
    receiver.answer(500);
    app.advance_ms(600_000);
    let failed = knock().await;
    assert_eq!(failed, 3);
    for _ in 0..3 {
        app.advance_ms(20_000);
        app.deliver().await;
    }
    receiver.answer(200);
    let before = told(&receiver).await.len();
    assert_eq!(knock().await, before + 1, "every endpoint failed its last attempt");
}

#[tokio::test]
async fn refusals_are_reported_again_after_the_clock_is_set_back() {
    let app = app().await;
    let receiver = receiver(&app).await;
    let link = token_of(&app.link(&listed(json!({}))).await.expect(201));
    for back_ms in [0, 86_400_000] {
        app.advance_ms(-back_ms);
        for number in 1..=20_u8 {
            let query = format!("?wallet=0x{}", hex::encode([number; 20]));
            app.open_link(&link, &query).send().await.expect(200);
        }
        app.deliver().await;
    }
    assert_eq!(told(&receiver).await.len(), 40);
}

#[tokio::test]
async fn at_most_twenty_refused_wallets_per_link_and_hour_are_reported() {
    let app = app().await;
    let receiver = receiver(&app).await;
    let link = token_of(&app.link(&listed(json!({}))).await.expect(201));
    for number in 1..=25_u8 {
        let wallet = format!("0x{}", hex::encode([number; 20]));
        app.open_link(&link, &format!("?wallet={wallet}"))
            .send()
            .await
            .expect(200);
    }
    app.deliver().await;
    assert_eq!(told(&receiver).await.len(), 20);
    app.advance_ms(3_600_001);
    app.open_link(&link, &format!("?wallet=0x{}", "19".repeat(20)))
        .send()
        .await
        .expect(200);
    app.deliver().await;
    assert_eq!(told(&receiver).await.len(), 21);
}

#[tokio::test]
async fn concurrent_refused_calls_are_each_reported_or_counted() {
    const CALLS: usize = 12;
    let app = app().await;
    let receiver = receiver(&app).await;
    let link = token_of(&app.link(&listed(json!({}))).await.expect(201));
    let query = format!("?wallet={UNLISTED}");
    let at_once = (0..CALLS).map(|_| app.open_link(&link, &query).send());
    for opened in join_all(at_once).await {
        opened.expect(200);
    }
    app.deliver().await;
    assert_eq!(told(&receiver).await.len(), 1);
    let page = app.get("/metrics").send().await.text;
    let counted = format!("\nprs_refused_wallets_untold_total {}\n", CALLS - 1);
    assert!(page.contains(&counted), "{page}");
}

#[tokio::test]
async fn hidden_values_are_in_no_response_until_the_payer_is_approved() {
    let app = app().await;
    let mut body = listed(json!({ "hideUntilApproved": true }));
    body["requests"][0]["amount"] = json!("777.25");
    body["reference"] = json!("hidden-reference");
    body["redirectUrl"] = json!("https://hidden.example.com");
    let made = app.link(&body).await.expect(201);
    let (link, id) = (
        token_of(&made),
        made["requestIds"][0].as_str().expect("an id").to_owned(),
    );
    for query in ["".to_owned(), format!("?wallet={UNLISTED}")] {
        let masked = app.open_link(&link, &query).send().await;
        masked.expect(200);
        for secret in ["777.25", PAYEE, "hidden", &id, "FAU"] {
            assert!(!masked.text.contains(secret), "{secret} in {}", masked.text);
        }
    }
    let page = app.get(&format!("/pay/{link}")).send().await.text;
    for called in ["<title>Payment to the recipient<", r#"<bdi id="name">the recipient<"#] {
        assert!(page.contains(called), "{page}");
    }
    let shown = app
        .open_link(&link, &format!("?wallet={LISTED}"))
        .send()
        .await
        .expect(200);
    assert_eq!((&shown["amount"], &shown["payee"]), (&json!("777.25"), &json!(PAYEE)));
}

#[tokio::test]
async fn a_hidden_link_without_a_payer_list_requires_a_wallet() {
    let app = app().await;
    let mut body = link_of(&["5"]);
    body["accessPolicy"] = json!({ "hideUntilApproved": true });
    let mut payout = payout_of(UNLISTED, "5");
    payout["accessPolicy"] = body["accessPolicy"].clone();
    for made in [app.link(&body).await, app.payout_link(&payout).await] {
        let refused = app.calldata_of(&token_of(&made.expect(201)), None).await;
        assert_eq!(refused.wrong_fields(), ["wallet"], "{}", refused.text);
    }
}

#[tokio::test]
async fn a_masked_payee_shows_only_both_ends() {
    let app = app().await;
    let mut body = link_of(&["1", "2"]);
    body["accessPolicy"] = json!({ "hidePayeeAddress": true });
    let link = token_of(&app.link(&body).await.expect(201));
    let opened = app.open_link(&link, "").send().await;
    assert!(!opened.text.contains(PAYEE), "{}", opened.text);
    let opened = opened.expect(200);
    assert_eq!(opened["isPayeeAddressMasked"], true);
    assert_eq!(opened["payees"][0], format!("{}...{}", &PAYEE[..6], &PAYEE[38..]));
    assert_eq!(opened["destinations"][0].get("destinationId"), None);
    assert_eq!(opened["destinations"][0]["isMasked"], true);
}

#[tokio::test]
async fn a_screened_link_without_a_provider_cannot_be_paid() {
    let app = app().await;
    let receiver = receiver(&app).await;
    let mut body = link_of(&["1"]);
    body["accessPolicy"] = json!({ "mode": "kyt_all_wallets", "screeningProvider": "hypernative" });
    let link = token_of(&app.link(&body).await.expect(201));
    let opened = app
        .open_link(&link, &format!("?wallet={LISTED}"))
        .send()
        .await
        .expect(200);
    assert_eq!(opened["accessDecision"]["status"], "error");
    app.calldata_of(&link, Some(LISTED)).await.expect(403);
    app.deliver().await;
    assert!(told(&receiver).await.is_empty());
}

#[tokio::test]
async fn a_missing_screening_provider_is_counted_and_refuses_payouts() {
    let app = app().await;
    let counted = async || {
        let page = app.get("/metrics").send().await.text;
        let name = r#"prs_screening_answers_total{provider="hypernative",outcome="not_configured"} "#;
        page.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
    };
    assert_eq!(counted().await.as_deref(), Some("0"), "from the start");
    let policy = json!({ "mode": "kyt_all_wallets", "screeningProvider": "hypernative" });
    let mut body = link_of(&["1"]);
    body["accessPolicy"] = policy.clone();
    let link = token_of(&app.link(&body).await.expect(201));
    app.calldata_of(&link, Some(LISTED)).await.expect(403);
    assert_eq!(counted().await.as_deref(), Some("1"));
    let mut payout = payout_of(LISTED, "1");
    payout["accessPolicy"] = policy;
    let refused = app.payout_link(&payout).await.expect(502);
    let sentence = refused["message"].as_str().expect("a sentence");
    assert!(sentence.contains("hypernative is not configured"), "{sentence}");
    assert_eq!(counted().await.as_deref(), Some("2"));
}

#[tokio::test]
async fn any_credential_opens_a_link_but_only_its_owner_withdraws_it() {
    let app = app().await;
    let (other_key, other_client) = app.other_tenant().await;
    let link = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let path = format!("/v2/secure-payments/{link}");
    app.get(&path).send().await.expect(401);
    for (name, value) in [("x-api-key", &other_key), ("x-client-id", &other_client)] {
        app.get(&path).header(name, value).send().await.expect(200);
        app.get(&format!("{path}/pay"))
            .header(name, value)
            .send()
            .await
            .expect(200);
        let withdraw = app.post(&format!("{path}/withdraw")).header(name, value);
        withdraw.send().await.expect(404);
    }
    forged(&app, Method::GET, &path).send().await.expect(200);
    let by_page = forged(&app, Method::POST, &format!("{path}/withdraw"));
    by_page.send().await.expect(403);
    let own = app.post(&format!("{path}/withdraw")).with_client();
    assert_eq!(own.send().await.expect(200)["status"], "invalidated");
    let again = app.post(&format!("{path}/withdraw")).with_key();
    assert_eq!(again.send().await.expect(200)["status"], "invalidated");
}

#[tokio::test]
async fn strangers_with_a_public_client_id_cannot_redirect_links_to_themselves() {
    let app = app().await;
    let made = forged(&app, Method::POST, "/v2/secure-payments").json(&link_of(&["1"]));
    let link = token_of(&made.send().await.expect(201));
    let opened = app.open_link(&link, "").send().await.expect(200);
    assert_eq!(opened["payee"], PAYEE);
    let fau = crate::support::wallet::token(&app, "FAU-sepolia");
    let named = json!({ "requests": [{ "amount": "1", "destinationId": format!("sepolia:{LISTED}:{fau}") }] });
    forged(&app, Method::POST, "/v2/secure-payments")
        .json(&named)
        .send()
        .await
        .expect(403);
}

#[tokio::test]
async fn page_reports_are_sent_without_wallets_and_within_limits() {
    let app = app().await;
    let receiver = receiver(&app).await;
    let made = app.link(&link_of(&["1"])).await.expect(201);
    let path = format!("/v2/secure-payments/{}/events", token_of(&made));
    let report = |second: u32, properties: Value| {
        json!({
            "userEvent": "payment_approved_in_wallet",
            "occurredAt": format!("2020-01-01T01:30:{second:02}+01:30"),
            "properties": properties,
        })
    };
    let send = async |body: Value| app.post(&path).with_client().json(&body).send().await;
    let known = json!({
        "wallet_provider": "metamask",
        "payment_submission_id": format!("0x{}", "8f".repeat(32)),
        "something_else": LISTED,
    });
    assert_eq!(send(report(0, known)).await.expect(202), json!({ "success": true }));
    app.deliver().await;
    let told = receiver.received().await;
    let told: Vec<Value> = told.iter().map(crate::support::receiver::Received::json).collect();
    let event = told
        .iter()
        .find(|told| told["event"] == "secure_payment.user_event")
        .expect("told");
    assert_eq!(
        (
            &event["userEvent"],
            &event["requestId"],
            &event["properties"]["wallet_provider"]
        ),
        (
            &json!("payment_approved_in_wallet"),
            &made["requestIds"][0],
            &json!("metamask")
        )
    );
    assert_eq!(event["occurredAt"], "2020-01-01T00:00:00.000Z");
    assert_eq!(event["properties"].get("something_else"), None);
    let opened = app.open_link(&token_of(&made), "").send().await.expect(200);
    assert_eq!(opened["inFlight"], true);
    let lower = LISTED.to_lowercase();
    for value in [
        LISTED,
        lower.as_str(),
        &lower[2..],
        "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8",
    ] {
        let refused = send(report(1, json!({ "wallet_provider": format!("it is {value}") }))).await;
        assert_eq!(refused.wrong_fields(), ["properties.wallet_provider"]);
    }
    assert_eq!(
        send(json!({ "userEvent": "paid", "occurredAt": "2020-01-01T00:00:00Z" }))
            .await
            .wrong_fields(),
        ["userEvent"]
    );
    let foreign = app.post(&path).with_client().header("sec-fetch-site", "cross-site");
    foreign.json(&report(2, json!({}))).send().await.expect(403);
    for second in 1..20 {
        send(report(second, json!({}))).await.expect(202);
    }
    send(report(20, json!({}))).await.expect(429);
}

#[tokio::test]
async fn the_page_and_the_api_accept_the_same_reports() {
    let app = app().await;
    let link = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let good = json!({
        "userEvent": "wallet_connected",
        "occurredAt": "2020-01-01T00:00:00.000Z",
        "properties": {
            "wallet_provider": "MetaMask",
            "wallet_address_hashed": "5f".repeat(32),
            "payment_submission_id": format!("0x{}", "8f".repeat(32)),
            "payment_submission_id_type": "tx_hash",
            "selected_source_chain": "sepolia",
            "payment_type": "direct",
        },
    });
    let with = |pointer: &str, value: Value| {
        let mut body = good.clone();
        *body.pointer_mut(pointer).expect("a member") = value;
        body
    };
    let digits = LISTED[2..].to_lowercase();
    let full_width: String = digits
        .chars()
        .map(|letter| char::from_u32(u32::from(letter) + 0xfee0).expect("a letter"))
        .collect();
    let spaced: Vec<&str> = (0..40).step_by(4).map(|at| &digits[at..at + 4]).collect();
    let hidden = [
        spaced.join(" "),
        spaced.join("-"),
        spaced.join(":"),
        spaced.join("_"),
        spaced.join("."),
        full_width,
        format!("ab{digits}cd"),
        format!("0x{digits}{digits}"),
        "walletTJRabPrwbZy45sbavfcjinPJC18kjpRTv8x".to_owned(),
    ];
    let of_provider = |text: &str| with("/properties/wallet_provider", json!(text));
    let mut wrong: Vec<Value> = hidden.iter().map(|text| of_provider(text)).collect();
    wrong.push(with("/properties/payment_type", json!(spaced.join(" "))));
    wrong.push(with("/properties/payment_submission_id", json!(LISTED)));
    wrong.push(with("/properties/wallet_address_hashed", json!(LISTED)));
    let long = "x".repeat(2_000);
    for text in ["a\u{0}b", "\u{202e}gpj", "\u{1b}[31m", &long] {
        wrong.push(of_provider(text));
    }
    let (page, interface) = (
        format!("/pay/{link}/events"),
        format!("/v2/secure-payments/{link}/events"),
    );
    let by_page = async |body: &Value| {
        let call = app.post(&page).header("sec-fetch-site", "same-origin");
        call.json(body).send().await
    };
    let by_interface = async |body: &Value| app.post(&interface).with_client().json(body).send().await;
    let mut times = Vec::new();
    for text in [
        "-262143-01-01T00:00:00Z",
        "2016-12-31T23:59:60Z",
        "0000-01-01T00:00:00Z",
        "0000-12-31T23:59:59.999Z",
        "yesterday",
    ] {
        times.push(with("/occurredAt", json!(text)));
    }
    times.push(with("/occurredAt", json!(null)));
    for body in &times {
        assert_eq!(by_interface(body).await.wrong_fields(), ["occurredAt"], "{body}");
    }
    wrong.extend(times);
    wrong.push(with("/occurredAt", json!(7)));
    wrong.push(with("/properties/payment_type", json!(7)));
    wrong.push(with("/properties", json!([])));
    wrong.push(with("/userEvent", json!("paid")));
    let mut taken = Vec::new();
    for body in &wrong {
        let (to_page, to_interface) = (by_page(body).await, by_interface(body).await);
        for (who, answer) in [("page", &to_page), ("interface", &to_interface)] {
            let tells = ["Told", "serde", "struct", "at line"]
                .iter()
                .any(|word| answer.text.contains(word));
            if answer.status != 400 || tells {
                taken.push(format!("{who} {body}: {} {}", answer.status, answer.text));
            }
        }
        if to_page.status == 400 && to_page.wrong_fields() != to_interface.wrong_fields() {
            taken.push(format!("{body}: {} but {}", to_page.text, to_interface.text));
        }
    }
    for body in [json!([]), json!(null)] {
        let refused = by_page(&body).await;
        if refused.status != 400 || refused.text.contains("struct") {
            taken.push(format!("{body}: {}", refused.text));
        }
    }
    assert!(taken.is_empty(), "{}", taken.join("\n"));
    by_page(&good).await.expect(202);
    // Null counts as absent.
    for pointer in ["/properties", "/properties/wallet_provider", "/properties/payment_type"] {
        by_page(&with(pointer, json!(null))).await.expect(202);
        by_interface(&with(pointer, json!(null))).await.expect(202);
    }
    by_interface(&with("/userEvent", json!("payment_sent_to_wallet")))
        .await
        .expect(202);
    println!("reports: {} that both refuse alike", wrong.len());
}

#[tokio::test]
async fn a_request_of_a_link_can_only_be_paid_through_the_link() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let refused = |answer: &Value| {
        let sentence = answer["message"].as_str().unwrap_or_default();
        assert!(sentence.contains("secure payment"), "{answer}");
    };
    let ask = async |request: &Value| {
        let id = request.as_str().expect("an id");
        let by_id = || app.get(&format!("/v2/request/{id}/pay?wallet={UNLISTED}"));
        let batch = json!({ "requestIds": [id], "payer": UNLISTED });
        let in_batch = || app.post("/v2/payouts/batch");
        for call in [by_id().with_key(), by_id().with_client()] {
            refused(&call.send().await.expect(400));
        }
        let forged_id = forged(&app, Method::GET, &format!("/v2/request/{id}/pay?wallet={UNLISTED}"));
        refused(&forged_id.send().await.expect(400));
        for call in [
            in_batch().with_key(),
            in_batch().with_client(),
            forged(&app, Method::POST, "/v2/payouts/batch"),
        ] {
            let answer = call.json(&batch).send().await.expect(400);
            assert_eq!(answer["errors"][0]["field"], "requestIds[0]", "{answer}");
            refused(&answer["errors"][0]);
        }
    };
    // With a list, without a list, withdrawn, expired, and two combined links.
    let guarded = app.link(&listed(json!({}))).await.expect(201);
    ask(&guarded["requestIds"][0]).await;
    let open = app.link(&link_of(&["1", "2"])).await.expect(201);
    ask(&open["requestIds"][1]).await;
    let withdrawal = app.post(&format!("/v2/secure-payments/{}/withdraw", token_of(&open)));
    withdrawal.with_key().send().await.expect(200);
    ask(&open["requestIds"][0]).await;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        tokens.push(app.payout_link(&payout_of(LISTED, "1")).await.expect(201));
    }
    let named: Vec<String> = tokens.iter().map(token_of).collect();
    let combining = app.post("/v2/secure-payments/batch-payouts").with_key();
    combining.json(&json!({ "tokens": named })).send().await.expect(201);
    ask(&tokens[1]["requestIds"][0]).await;
    // The link itself still works.
    app.calldata_of(&token_of(&guarded), Some(LISTED)).await.expect(200);
}
