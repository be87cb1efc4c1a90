//! Validation errors of links, with field and message.

use crate::support::{
    Answer, TestApp,
    app::{forged, settings},
    links::{link_of, payout_of, token_of},
    requests::PAYEE,
    wallet::token,
};
use futures_util::future::join_all;
use poem::http::Method;
use serde_json::{Value, json};

const OTHER: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const UNKNOWN: &str = "01K9Z0T3G9R5M1N2P3Q4R5S6T7";

async fn app() -> TestApp {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    app
}

fn with(mut body: Value, members: &Value) -> Value {
    for (name, value) in members.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

#[track_caller]
fn message(answer: &Answer, status: u16, sentence: &str) {
    assert_eq!(answer.expect(status)["message"], sentence, "{}", answer.text);
}

#[tokio::test]
async fn messages_match_the_contract() {
    let app = app().await;
    let with = |members: Value| with(link_of(&["1"]), &members);
    let label = app.link(&with(json!({ "redirectLabel": "Back" }))).await;
    message(&label, 400, "redirectLabel cannot be provided without redirectUrl");
    for url in [
        "javascript:alert(1)",
        "https://user@shop.example.com",
        "https://shop.example.com/a b",
        "https://shop.example.com/\"",
        "https://shop.example.com/'",
        "https://shop.example.com/\\",
        "https://shop.example.com/\u{7}",
        "https://shop.example.com/\u{202e}",
        "https://shop.example.com/<script>",
        "https://shop.example.com/`",
        "ftp://shop.example.com",
        "/thanks",
    ] {
        let refused = app.link(&with(json!({ "redirectUrl": url }))).await;
        message(
            &refused,
            400,
            "redirectUrl must be a safe http(s) URL with no script/HTML payload",
        );
        let payout = app
            .payout_link(&self::with(payout_of(OTHER, "1"), &json!({ "redirectUrl": url })))
            .await;
        message(
            &payout,
            400,
            "redirectUrl must be a safe http(s) URL with no script/HTML payload",
        );
    }
    let long = format!("sepolia:{PAYEE}:{}", "x".repeat(200));
    for text in [
        "",
        " ",
        "nowhere",
        &"x".repeat(200),
        &"x".repeat(201),
        &long,
        &format!("sepolia:{PAYEE}:\n"),
    ] {
        let form = json!({ "requests": [{ "amount": "1", "destinationId": text }] });
        let refused = app.link(&form).await;
        message(&refused, 400, "Invalid destination ID format");
        assert_eq!(refused.wrong_fields(), ["requests[0].destinationId"]);
        let right = refused.json()["errors"][0]["message"].to_string();
        assert!(right.contains("wallet@eip155:chainId#checksum:token"), "{right}");
    }
    let fau = token(&app, "FAU-sepolia");
    for destination in [
        format!("sepolia:{OTHER}:{fau}"),
        format!("polygon:{PAYEE}:{fau}"),
        format!("{PAYEE}@eip155:11155111#00000000:{fau}"),
    ] {
        let body = json!({ "requests": [{ "amount": "1", "destinationId": destination }] });
        let refused = app.link(&body).await;
        message(
            &refused,
            403,
            "Destination does not match the configured payment destination.",
        );
    }
    let named = json!({ "requests": [{ "amount": "1", "destinationId": format!("sepolia:{PAYEE}:{fau}") }] });
    app.link(&named).await.expect(201);
    let unknown = app
        .get(&format!("/v2/secure-payments/{UNKNOWN}"))
        .with_key()
        .send()
        .await;
    message(&unknown, 404, "Secure payment not found");
}

#[tokio::test]
async fn a_platform_without_a_destination_gets_a_clear_error() {
    let app = TestApp::start().await;
    message(
        &app.link(&link_of(&["1"])).await,
        400,
        "No active payment destination found for this platform",
    );
    let unbound = app
        .post("/v2/secure-payments")
        .with_client()
        .json(&link_of(&["1"]))
        .send()
        .await;
    assert_eq!(unbound.expect(403)["error"], "Forbidden");
}

#[tokio::test]
async fn every_invalid_field_is_named_with_its_path() {
    let app = app().await;
    let fau = token(&app, "FAU-sepolia");
    let over = "x".repeat(256);
    let item = |members: Value| json!({ "requests": [with(json!({ "amount": "1" }), &members)] });
    let beside = |members: Value| with(link_of(&["1"]), &members);
    for (body, field) in [
        (json!({ "requests": [] }), "requests"),
        (json!({}), "requests"),
        (link_of(&["1", "0"]), "requests[1].amount"),
        (link_of(&["1", "x"]), "requests[1].amount"),
        (link_of(&["1.0000000000000000001"]), "requests[0].amount"),
        (item(json!({ "payee": PAYEE })), "requests[0].payee"),
        (item(json!({ "currency": "USDC-sepolia" })), "requests[0].currency"),
        (item(json!({ "invoiceCurrency": "USD" })), "requests[0].invoiceCurrency"),
        (
            item(json!({ "paymentCurrency": "FAU-sepolia" })),
            "requests[0].paymentCurrency",
        ),
        (item(json!({ "feePercentage": "1" })), "requests[0].feeAddress"),
        (item(json!({ "feeAddress": OTHER })), "requests[0].feePercentage"),
        (
            item(json!({ "feePercentage": "1", "feeAddress": fau })),
            "requests[0].feeAddress",
        ),
        (beside(json!({ "feePercentage": "1" })), "feeAddress"),
        (
            beside(json!({ "feePercentage": "100.01", "feeAddress": OTHER })),
            "feePercentage",
        ),
        (
            beside(json!({ "feePercentage": "1.001", "feeAddress": OTHER })),
            "feePercentage",
        ),
        (beside(json!({ "feePercentage": "1", "feeAddress": fau })), "feeAddress"),
        (
            beside(json!({ "redirectUrl": "https://a.example", "redirectLabel": "" })),
            "redirectLabel",
        ),
        (
            beside(json!({ "redirectUrl": "https://a.example", "redirectLabel": over })),
            "redirectLabel",
        ),
        (
            beside(json!({ "redirectUrl": "https://a.example", "redirectLabel": "<b>" })),
            "redirectLabel",
        ),
        (
            beside(json!({ "redirectUrl": "https://a.example", "redirectLabel": "a\u{202e}b" })),
            "redirectLabel",
        ),
        (
            item(json!({ "redirectUrl": "javascript:x" })),
            "requests[0].redirectUrl",
        ),
        (item(json!({ "redirectLabel": "Back" })), "requests[0].redirectLabel"),
        (beside(json!({ "reference": "" })), "reference"),
        (beside(json!({ "payerIdentifier": over })), "payerIdentifier"),
        (beside(json!({ "expiresIn": 299 })), "expiresIn"),
        (beside(json!({ "expiresIn": 7_776_001 })), "expiresIn"),
        (
            beside(json!({ "accessPolicy": { "screeningProvider": "hypernative" } })),
            "accessPolicy.mode",
        ),
        (
            beside(json!({ "accessPolicy": { "mode": "kyt_all_wallets" } })),
            "accessPolicy.screeningProvider",
        ),
        (
            beside(json!({ "accessPolicy": { "allowedPayerAddresses": [OTHER, "0x12"] } })),
            "accessPolicy.allowedPayerAddresses[1]",
        ),
        (
            beside(json!({ "accessPolicy": { "allowedPayerAddresses": ["TJRabPrwbZy45sbavfcjinPJC18kjpRTv9"] } })),
            "accessPolicy.allowedPayerAddresses[0]",
        ),
    ] {
        let answer = app.link(&body).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
        assert_eq!(answer.wrong_fields(), [field], "{body}");
    }
}

#[tokio::test]
async fn conflicting_duplicate_fields_are_refused_and_equal_ones_accepted() {
    let app = app().await;
    let fees = |percent: &str| json!({ "feePercentage": percent, "feeAddress": OTHER });
    let both = |beside: &Value, own: &Value| {
        let item = with(json!({ "amount": "1" }), own);
        with(json!({ "requests": [item] }), beside)
    };
    let urls = |url: &str| json!({ "redirectUrl": url });
    for (beside, own, field) in [
        (fees("1"), fees("2"), "requests[0].feePercentage"),
        (
            fees("1"),
            json!({ "feePercentage": "1", "feeAddress": PAYEE }),
            "requests[0].feeAddress",
        ),
        (
            json!({ "reference": "a" }),
            json!({ "reference": "b" }),
            "requests[0].reference",
        ),
        (
            urls("https://a.example"),
            urls("https://b.example"),
            "requests[0].redirectUrl",
        ),
    ] {
        assert_eq!(app.link(&both(&beside, &own)).await.wrong_fields(), [field]);
        app.link(&both(&beside, &beside)).await.expect(201);
        app.link(&both(&json!({}), &beside)).await.expect(201);
    }
    let nulls = json!({ "feePercentage": null, "feeAddress": null, "redirectUrl": null, "accessPolicy": null });
    app.link(&with(link_of(&["1"]), &nulls)).await.expect(201);
}

#[tokio::test]
async fn payouts_name_their_own_fields() {
    let app = app().await;
    let body = |members: Value| with(payout_of(OTHER, "1"), &members);
    for (body, field) in [
        (body(json!({ "network": "polygon" })), "network"),
        (body(json!({ "network": "base" })), "currency"),
        (body(json!({ "currency": "USDC-base" })), "currency"),
        (body(json!({ "currency": "USD" })), "currency"),
        (body(json!({ "recipient": token(&app, "FAU-sepolia") })), "recipient"),
        (body(json!({ "recipient": "0x12" })), "recipient"),
        (body(json!({ "amount": "0" })), "amount"),
        (body(json!({ "feeAddress": OTHER })), "feePercentage"),
        (body(json!({ "recipientIdentifier": "" })), "recipientIdentifier"),
        (
            body(json!({ "creatorWalletAddress": "nobody" })),
            "creatorWalletAddress",
        ),
    ] {
        let answer = app.payout_link(&body).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
        assert_eq!(answer.wrong_fields(), [field], "{body}");
    }
    let tron = json!({ "creatorWalletAddress": "TJRabPrwbZy45sbavfcjinPJC18kjpRTv9" });
    app.payout_link(&body(tron)).await.expect(201);
}

#[tokio::test]
async fn unsupported_parameters_are_400_and_named() {
    let app = app().await;
    let link = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    for (query, field) in [
        ("?chain=BASE", "token"),
        ("?token=USDC", "chain"),
        ("?chain=BASE&token=USDC", "chain"),
        ("?chain=SEPOLIA&token=USDC", "token"),
        ("?isSafe=true", "wallet"),
        (&format!("?eoaWallet={OTHER}"), "wallet"),
        ("?wallet=0x12", "wallet"),
        ("?wallet=TJRabPrwbZy45sbavfcjinPJC18kjpRTv8", "wallet"),
    ] {
        assert_eq!(
            app.open_link(&link, query).send().await.wrong_fields(),
            [field],
            "{query}"
        );
        let pay = app.open_link(&link, &format!("/pay{query}")).send().await;
        assert_eq!(pay.wrong_fields(), [field], "{query}");
    }
    app.open_link(&link, "?chain=SEPOLIA&token=FAU")
        .send()
        .await
        .expect(200);
    let orchestrator = prs::flows::orchestrators::create::run(&app.ctx, "Partner")
        .await
        .expect("a partner");
    let call = app.post("/v2/secure-payments").with_client();
    let call = call.header("x-orchestrator-key", orchestrator.key.reveal());
    assert_eq!(call.json(&link_of(&["1"])).send().await.status, 403);
}

#[tokio::test]
async fn only_own_open_payouts_on_one_network_can_be_combined() {
    let app = app().await;
    let one = token_of(&app.payout_link(&payout_of(OTHER, "1")).await.expect(201));
    let incoming = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let (other_key, _) = app.other_tenant().await;
    let foreign = app.post("/v2/secure-payments/payouts").header("x-api-key", &other_key);
    let foreign = token_of(&foreign.json(&payout_of(OTHER, "1")).send().await.expect(201));
    let combine = async |tokens: &[&str]| {
        let call = app.post("/v2/secure-payments/batch-payouts").with_key();
        call.json(&json!({ "tokens": tokens })).send().await
    };
    assert_eq!(combine(&[&one]).await.wrong_fields(), ["tokens"]);
    assert_eq!(combine(&[&one, &one]).await.wrong_fields(), ["tokens[1]"]);
    let unknown = combine(&[&one, UNKNOWN]).await;
    let others = combine(&[&one, &foreign]).await;
    assert_eq!(unknown.wrong_fields(), ["tokens[1]"]);
    assert_eq!(
        unknown.expect(400)["errors"],
        others.expect(400)["errors"],
        "like an unknown one"
    );
    assert_eq!(combine(&[&one, &incoming]).await.wrong_fields(), ["tokens[1]"]);
    app.open_link(&one, "").send().await.expect(200);
}

#[tokio::test]
async fn links_that_can_be_paid_are_capped() {
    let mut settings = settings();
    settings.caps.open_requests = 1;
    settings.caps.public_open_requests = 1;
    let chain = prs::settings::ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..prs::settings::ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    let app = TestApp::with(settings, None).await;
    app.is_paid_in("FAU-sepolia").await;
    let by_page = async || {
        let call = forged(&app, Method::POST, "/v2/secure-payments");
        call.json(&link_of(&["1"])).send().await
    };
    let first = token_of(&by_page().await.expect(201));
    assert!(
        by_page().await.expect(429)["message"]
            .to_string()
            .contains("caps.public_open_requests")
    );
    app.link(&link_of(&["1"])).await.expect(201);
    assert!(
        app.link(&link_of(&["1"])).await.expect(429)["message"]
            .to_string()
            .contains("caps.open_requests")
    );
    let call = app.post(&format!("/v2/secure-payments/{first}/withdraw")).with_key();
    call.send().await.expect(200);
    by_page().await.expect(201);
}

#[tokio::test]
async fn links_created_concurrently_are_capped() {
    let mut settings = settings();
    settings.caps.open_requests = 3;
    settings.caps.public_open_requests = 2;
    let chain = prs::settings::ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..prs::settings::ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    let app = TestApp::with(settings, None).await;
    app.is_paid_in("FAU-sepolia").await;
    let made = |answers: &[Answer]| {
        assert!(
            answers.iter().all(|answer| matches!(answer.status, 201 | 429)),
            "{answers:?}"
        );
        answers.iter().filter(|answer| answer.status == 201).count()
    };
    let (link, payout) = (link_of(&["1"]), payout_of(OTHER, "1"));
    let by_page = (0..8).map(|_| {
        let call = forged(&app, Method::POST, "/v2/secure-payments");
        call.json(&link).send()
    });
    assert_eq!(made(&join_all(by_page).await), 2);
    let by_key = (0..12).map(|_| app.payout_link(&payout));
    let answers = join_all(by_key).await;
    assert_eq!(made(&answers), 3);
    // Two links can be combined into one even at the cap; the number of their requests stays the same.
    let tokens = answers.iter().filter(|answer| answer.status == 201);
    let tokens: Vec<String> = tokens.take(2).map(|answer| token_of(&answer.json())).collect();
    let combining = app.post("/v2/secure-payments/batch-payouts").with_key();
    combining.json(&json!({ "tokens": tokens })).send().await.expect(201);
    let by_key = (0..4).map(|_| app.link(&link));
    assert_eq!(made(&join_all(by_key).await), 0);
}

#[tokio::test]
async fn invisible_texts_are_refused() {
    let app = app().await;
    let mut wrong = Vec::new();
    let mut judge = |said: String, answer: &Answer, member: &str| {
        if answer.status != 400 || answer.wrong_fields() != [member] {
            wrong.push(format!("{said}: {} {}", answer.status, answer.text));
        }
    };
    let hidden = [
        0x34f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2061, 0x2065, 0x206a, 0x206f, 0x2800, 0x3164, 0xffa0, 0xfff0, 0xfff8,
        0xfdd0, 0xfdef, 0xffff, 0x1_fffe, 0x10_ffff,
    ];
    for code in hidden {
        let letter = char::from_u32(code).expect("a character");
        for member in ["redirectLabel", "reference", "payerIdentifier"] {
            let mut body = link_of(&["1"]);
            body["redirectUrl"] = json!("https://shop.example");
            body[member] = json!(format!("a{letter}b"));
            judge(format!("{member} {code:x}"), &app.link(&body).await, member);
        }
        let mut body = link_of(&["1"]);
        body["redirectUrl"] = json!(format!("https://shop.example/{letter}"));
        let answer = app.link(&body).await;
        assert_eq!(answer.status, 400, "{code:x} in an address: {}", answer.text);
    }
    for label in [" ", "   ", "\u{a0}", "\u{3000}\u{2003}"] {
        let mut body = link_of(&["1"]);
        body["redirectUrl"] = json!("https://shop.example");
        body["redirectLabel"] = json!(label);
        judge(format!("{label:?}"), &app.link(&body).await, "redirectLabel");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut body = link_of(&["1"]);
    body["redirectUrl"] = json!("https://shop.example");
    body["redirectLabel"] = json!(" Zurück zum Laden");
    app.link(&body).await.expect(201);
}
