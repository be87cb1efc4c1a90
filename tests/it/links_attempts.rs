//! Attempts that payment pages record before they prompt a wallet: which visitors are warned, for how long, and what
//! stays unchanged.

use crate::support::{
    Answer, TestApp,
    app::{PAGE, forged, settings},
    chain::PAYER,
    links::{link_of, payout_of, token_of},
    requests::PAYEE,
    screening::rows,
};
use chrono::{DateTime, Utc};
use poem::http::Method;
use serde_json::{Value, json};
use url::Url;

const LISTED: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const UNLISTED: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";

/// An attempt id in the format of pages.
fn id(number: u32) -> String {
    format!("{number:032x}")
}

/// Lifetime of an attempt.
const LASTS_MS: i64 = 1_800_000;

async fn app() -> TestApp {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    app
}

/// Posts to a path of a link's page, with the headers that the browser of a visitor sends.
async fn page(app: &TestApp, link: &str, path: &str, body: &Value) -> Answer {
    let call = app.post(&format!("/pay/{link}/{path}"));
    call.header("sec-fetch-site", "same-origin").json(body).send().await
}

/// Withdraws an attempt of a page, whether or not the attempt exists.
async fn withdraw(app: &TestApp, link: &str, number: u32) {
    let withdrawn = page(app, link, "attempt/withdraw", &json!({ "id": id(number) })).await;
    assert_eq!((withdrawn.status, withdrawn.text.as_str()), (204, ""));
}

async fn state(app: &TestApp, link: &str) -> Value {
    app.get(&format!("/pay/{link}/state")).send().await.expect(200)
}

#[tokio::test]
async fn an_attempt_warns_others_until_withdrawn_or_half_an_hour_old() {
    let app = app().await;
    let made = app.link(&link_of(&["1"])).await.expect(201);
    let link = token_of(&made);
    let request = made["requestIds"][0].as_str().expect("an id").to_owned();
    let read = async || {
        app.get(&format!("/v2/request/{request}"))
            .with_key()
            .send()
            .await
            .expect(200)
    };
    let before = (read().await, rows(&app, "events").await);
    let own = json!({ "id": id(7), "wallet": LISTED });
    for _ in 0..2 {
        let noted = page(&app, &link, "attempt", &own).await.expect(200);
        assert_eq!(noted, json!({ "othersUntil": null }), "the same id is one attempt");
    }
    let shown = state(&app, &link).await;
    assert_eq!(shown["status"], "pending");
    assert_eq!(shown["inFlight"]["isSeen"], false);
    let text = shown.to_string().to_lowercase();
    for secret in [LISTED.to_lowercase(), id(7)] {
        assert!(!text.contains(&secret), "the state names {secret}: {text}");
    }
    assert_eq!(app.open_link(&link, "").send().await.expect(200)["inFlight"], true);

    // The same wallet on another device and another wallet get equal responses, which reveal nothing about the first
    // wallet.
    for wallet in [LISTED, UNLISTED] {
        let other = json!({ "id": id(8), "wallet": wallet });
        let noted = page(&app, &link, "attempt", &other).await.expect(200);
        assert_eq!(noted["othersUntil"], shown["inFlight"]["until"]);
        withdraw(&app, &link, 8).await;
    }
    // The first page records another attempt and names its earlier one.
    let further = json!({ "id": id(9), "wallet": LISTED, "own": [id(7)] });
    let noted = page(&app, &link, "attempt", &further).await.expect(200);
    assert_eq!(
        noted["othersUntil"],
        Value::Null,
        "a page is not warned of its own attempts"
    );
    withdraw(&app, &link, 9).await;
    assert!(
        !state(&app, &link).await["inFlight"].is_null(),
        "the first attempt still warns"
    );
    for _ in 0..2 {
        withdraw(&app, &link, 7).await;
        assert_eq!(state(&app, &link).await["inFlight"], Value::Null);
    }

    page(&app, &link, "attempt", &own).await.expect(200);
    app.advance_ms(LASTS_MS - 1);
    assert!(!state(&app, &link).await["inFlight"].is_null());
    app.advance_ms(1);
    assert_eq!(state(&app, &link).await["inFlight"], Value::Null);
    assert_eq!(
        (read().await, rows(&app, "events").await),
        before,
        "nothing else may change"
    );
}

#[tokio::test]
async fn a_stranger_cannot_remove_warnings_or_block_attempts() {
    let app = app().await;
    let link = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let own = json!({ "id": id(7), "wallet": LISTED });
    page(&app, &link, "attempt", &own).await.expect(200);
    let until = state(&app, &link).await["inFlight"]["until"].clone();
    app.advance_ms(1_000);
    for number in 100..130 {
        let strange = json!({ "id": id(number), "wallet": LISTED });
        page(&app, &link, "attempt", &strange).await.expect(200);
    }
    assert_eq!(
        app.stored_link(&link).await.attempts.kept.len(),
        20,
        "a link stores no more attempts"
    );
    for number in 100..130 {
        withdraw(&app, &link, number).await;
    }
    assert!(app.stored_link(&link).await.attempts.kept.is_empty());
    let warned = &state(&app, &link).await["inFlight"]["until"];
    assert!(
        warned.as_str() >= until.as_str() && warned.is_string(),
        "{warned} is before {until}"
    );
    withdraw(&app, &link, 7).await;
    assert!(
        !state(&app, &link).await["inFlight"].is_null(),
        "evicted attempts still warn"
    );
    let again = page(&app, &link, "attempt", &own).await.expect(200);
    assert_eq!(again["othersUntil"], *warned, "the page is warned but not refused");
    withdraw(&app, &link, 7).await;
    app.advance_ms(LASTS_MS);
    assert_eq!(state(&app, &link).await["inFlight"], Value::Null);
}

#[tokio::test]
async fn a_combined_link_warns_of_payments_in_flight_for_its_originals() {
    let app = app().await;
    for is_told in [false, true] {
        let mut tokens = Vec::new();
        for amount in ["10", "20"] {
            tokens.push(token_of(&app.payout_link(&payout_of(LISTED, amount)).await.expect(201)));
        }
        let path = format!("/v2/secure-payments/{}", tokens[0]);
        if is_told {
            let hint = json!({ "txHash": format!("0x{}", "ab".repeat(32)), "chain": "SEPOLIA", "token": "FAU" });
            let call = app.post(&format!("{path}/intent")).with_client();
            call.json(&hint).send().await.expect(200);
        } else {
            let own = json!({ "id": id(7), "wallet": LISTED });
            page(&app, &tokens[0], "attempt", &own).await.expect(200);
        }
        let combine = app.post("/v2/secure-payments/batch-payouts").with_key();
        let combined = combine.json(&json!({ "tokens": tokens })).send().await.expect(201);
        let seen = app.open_link(&token_of(&combined), "").send().await.expect(200);
        assert_eq!(seen["inFlight"], true, "by a hint: {is_told}");
    }
}

#[tokio::test]
async fn an_ended_link_reports_a_payment_started_before() {
    let app = app().await;
    for is_withdrawn in [false, true] {
        let link = token_of(&app.link(&link_of(&["1"])).await.expect(201));
        let shown = async |language: &str| app.get(&format!("/pay/{link}?lang={language}")).send().await;
        // An attempt expires after half an hour, so it is recorded just before the end.
        let left = state(&app, &link).await;
        let at = |name: &str| {
            left[name]
                .as_str()
                .expect("a time")
                .parse::<DateTime<Utc>>()
                .expect("a time")
        };
        app.advance_ms((at("expiresAt") - at("serverTime")).num_milliseconds() - 1_000);
        let own = json!({ "id": id(7), "wallet": LISTED });
        page(&app, &link, "attempt", &own).await.expect(200);
        if is_withdrawn {
            let withdrawal = app.post(&format!("/v2/secure-payments/{link}/withdraw"));
            withdrawal.with_key().send().await.expect(200);
        } else {
            app.advance_ms(2_000)
        }
        for (language, words) in [
            ("en", "A payment was started before the link ended"),
            ("de", "Eine Zahlung wurde vor dem Ende des Links begonnen"),
            ("es", "Se inició un pago antes de que terminara el enlace"),
            ("fr", "Un paiement a été commencé avant la fin du lien"),
            ("ar", "بدأت دفعة قبل انتهاء الرابط"),
        ] {
            let ended = shown(language).await;
            assert_eq!(ended.status, 410);
            assert!(ended.text.contains(words), "{language}: {}", ended.text);
        }
        withdraw(&app, &link, 7).await;
        let cleared = shown("en").await.text;
        assert!(!cleared.contains("A payment was started"), "{cleared}");
    }
}

#[tokio::test]
async fn an_invalid_attempt_is_refused_with_the_field_name() {
    let app = app().await;
    let link = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    for (body, field) in [
        (json!({ "id": id(7) }), "wallet"),
        (json!({ "id": id(7), "wallet": "0x12" }), "wallet"),
        (json!({ "id": id(7), "wallet": 7 }), "wallet"),
        (
            json!({ "id": id(7), "wallet": "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8" }),
            "wallet",
        ),
        (json!({ "wallet": LISTED }), "id"),
        (json!({ "wallet": LISTED, "id": 7 }), "id"),
        (json!({ "wallet": LISTED, "id": "7" }), "id"),
        (json!({ "wallet": LISTED, "id": "7".repeat(33) }), "id"),
        (json!({ "wallet": LISTED, "id": "A".repeat(32) }), "id"),
        (json!({ "wallet": LISTED, "id": id(7), "own": id(8) }), "own"),
    ] {
        let refused = page(&app, &link, "attempt", &body).await;
        assert_eq!(
            (refused.status, refused.wrong_fields()),
            (400, vec![field.to_owned()]),
            "{body}"
        );
    }
    let unnamed = page(
        &app,
        &link,
        "attempt/withdraw",
        &json!({ "wallet": LISTED, "nonce": 7 }),
    )
    .await;
    assert_eq!((unnamed.status, unnamed.wrong_fields()), (400, vec!["id".to_owned()]));
    let stranger = app.post(&format!("/pay/{link}/attempt"));
    let own = json!({ "id": id(7), "wallet": LISTED });
    stranger.json(&own).send().await.expect(403);
    let other = app
        .post(&format!("/pay/{link}/attempt"))
        .header("sec-fetch-site", "cross-site");
    other.json(&own).send().await.expect(403);
    page(&app, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "attempt", &own)
        .await
        .expect(404);
    assert_eq!(
        state(&app, &link).await["inFlight"],
        Value::Null,
        "no attempt was recorded"
    );
}

#[tokio::test]
async fn refused_wallets_and_ended_links_accept_no_attempt() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let mut body = link_of(&["1"]);
    body["accessPolicy"] = json!({ "allowedPayerAddresses": [LISTED] });
    let link = token_of(&app.link(&body).await.expect(201));
    let refused = page(&app, &link, "attempt", &json!({ "id": id(7), "wallet": UNLISTED })).await;
    assert_eq!(
        refused.expect(403)["message"],
        "Wallet is not allowed to pay this secure payment"
    );
    let own = json!({ "id": id(7), "wallet": LISTED });
    page(&app, &link, "attempt", &own).await.expect(200);
    let withdrawal = app.post(&format!("/v2/secure-payments/{link}/withdraw"));
    withdrawal.with_key().send().await.expect(200);
    page(&app, &link, "attempt", &own).await.expect(403);
    withdraw(&app, &link, 7).await;

    let paid = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let own = json!({ "id": id(8), "wallet": app.account(PAYER) });
    page(&app, &paid, "attempt", &own).await.expect(200);
    app.pay_link(&paid).await;
    app.settle().await;
    page(&app, &paid, "attempt", &own).await.expect(409);
    let shown = state(&app, &paid).await;
    assert_eq!(
        (&shown["status"], &shown["inFlight"]),
        (&json!("completed"), &Value::Null)
    );
}

#[tokio::test]
async fn a_redirect_outside_the_client_id_domains_shows_a_warning() {
    let app = TestApp::on_chain_as(settings(), 1).await;
    app.is_paid_in("FAU-sepolia").await;
    let below = format!("{PAGE}/thanks?order=7");
    for (is_public, redirect, is_foreign) in [
        (true, Some("https://evil.example/thanks"), true),
        (true, Some("http://localhost:3001/"), true),
        (true, Some("http://localhost.evil.example:3000/"), true),
        (true, Some(below.as_str()), false),
        (true, None, false),
        (false, Some("https://evil.example/thanks"), false),
    ] {
        let mut body = link_of(&["1"]);
        if let Some(redirect) = redirect {
            body["redirectUrl"] = json!(redirect);
            body["redirectLabel"] = json!("To the shop");
        }
        let made = if is_public {
            forged(&app, Method::POST, "/v2/secure-payments")
                .json(&body)
                .send()
                .await
        } else {
            app.link(&body).await
        };
        let link = token_of(&made.expect(201));
        let shown = state(&app, &link).await;
        let by_wallet = app
            .get(&format!("/pay/{link}/state?wallet={PAYEE}"))
            .send()
            .await
            .expect(200);
        for shown in [&shown, &by_wallet] {
            let expected = redirect.map(|_| is_foreign);
            assert_eq!(shown["redirect"]["isForeign"].as_bool(), expected, "{redirect:?}");
            let label = (redirect.is_some() && !is_foreign).then_some("To the shop");
            assert_eq!(shown["redirect"]["label"].as_str(), label, "{redirect:?}");
        }
        app.pay_link(&link).await;
        app.settle().await;
        for (language, words) in [
            ("en", "is not a registered site"),
            ("de", "ist keine registrierte Seite"),
            ("es", "no es un sitio registrado"),
            ("fr", "n’est pas un site enregistré"),
            ("ar", "ليس موقعًا مسجلًا"),
        ] {
            let page = app.get(&format!("/pay/{link}?lang={language}")).send().await.text;
            // The page also contains the text for scripts, with a placeholder for the origin.
            let origin =
                redirect.map(|redirect| Url::parse(redirect).expect("an address").origin().ascii_serialization());
            let is_named = page.contains(&format!("{} {words}", origin.unwrap_or_default()));
            assert_eq!(is_named && redirect.is_some(), is_foreign, "{redirect:?} in {language}");
        }
    }
}
