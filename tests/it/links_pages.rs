//! Payment pages while the service is failing or being reconfigured, and while no wallet can pay their link.

use crate::support::{
    TestApp,
    chain::PAYER,
    links::{link_of, payout_of, token_of},
    safes::TestSafe,
};
use chrono::DateTime;
use serde_json::{Value, json};

/// A wallet that the tests name as a Safe.
const SAFE: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";

/// The recipient of the payouts.
const RECIPIENT: &str = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";

/// Each language of the page, with the first words of its message that the page is unavailable.
const AWAY: [(&str, &str); 5] = [
    ("en", "This page is temporarily unavailable"),
    ("de", "Diese Seite ist vorübergehend nicht verfügbar"),
    ("es", "Esta página no está disponible"),
    ("fr", "Cette page est temporairement indisponible"),
    ("ar", "هذه الصفحة غير متاحة مؤقتًا"),
];

#[tokio::test]
async fn without_a_database_pages_are_a_localized_503() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let link = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    app.ctx.db.clone().close().await.expect("closes");
    for (language, words) in AWAY {
        for path in [
            link.clone(),
            format!("{link}/receipt"),
            "01K9Z0T3G9R5M1N2P3Q4R5S6T7".to_owned(),
        ] {
            let page = app
                .get(&format!("/pay/{path}"))
                .header("accept-language", language)
                .send()
                .await;
            let kind = page.header("content-type").unwrap_or_default();
            assert!(page.status == 503 && kind.starts_with("text/html"), "{path}: {kind}");
            assert_eq!(page.header("retry-after"), Some("1"));
            let begins = format!("<html lang=\"{language}\"");
            assert!(
                page.text.contains(&begins) && page.text.contains(words),
                "{}",
                page.text
            );
        }
    }
    let state = app.get(&format!("/pay/{link}/state")).send().await.expect(503);
    assert_eq!(state["statusCode"], 503, "scripts read JSON");
}

/// The version in the address of the style sheet that a page links to.
fn style_of(page: &str) -> &str {
    let (_, from) = page.split_once("href=\"/pay/style/").expect("a style");
    from.split('"').next().expect("an edition")
}

#[tokio::test]
async fn an_unknown_style_edition_returns_the_current_style_uncached() {
    let app = TestApp::start().await;
    let page = app.get("/pay/unknown").send().await;
    let edition = style_of(&page.text);
    let own = app.get(&format!("/pay/style/{edition}")).send().await;
    assert_eq!(own.status, 200);
    let cache = own.header("cache-control").expect("a header");
    assert!(cache.contains("immutable"), "{cache}");
    let other = app.get("/pay/style/0123456789abcdef").send().await;
    assert_eq!((other.status, other.header("cache-control")), (200, Some("no-store")));
    assert_eq!(other.text, own.text);
}

/// Reports a transaction of a Safe with the API key, which locks the link.
async fn lock(app: &TestApp, link: &str) -> Value {
    let sent = json!({
        "chain": "SEPOLIA", "token": "FAU", "safeTxHash": format!("0x{}", "5a".repeat(32)), "payerAddress": SAFE,
    });
    let call = app.post(&format!("/v2/secure-payments/{link}/intent")).with_key();
    call.json(&sent).send().await.expect(200)
}

/// The part of a document that readers without scripts see: the scripts have all texts of the page.
fn without_scripts(page: &str) -> &str {
    let (shown, _) = page
        .split_once("<script id=\"boot\"")
        .expect("the state for the scripts");
    shown
}

/// Creates payout links of these amounts, and a multicall of them; returns the tokens of the links and of the multicall.
async fn multicall(app: &TestApp, amounts: &[&str]) -> (Vec<String>, String) {
    let mut children = Vec::new();
    for amount in amounts {
        let made = app.payout_link(&payout_of(RECIPIENT, amount)).await;
        children.push(token_of(&made.expect(201)));
    }
    let call = app.post("/v2/secure-payments/multicall-payouts").with_key();
    let made = call.json(&json!({ "childTokens": children })).send().await;
    (children, token_of(&made.expect(201)))
}

async fn withdraw(app: &TestApp, link: &str) {
    let call = app.post(&format!("/v2/secure-payments/{link}/withdraw")).with_key();
    call.json(&json!({})).send().await.expect(200);
}

/// Each language of the page, with the first words of its message that a Safe is about to pay.
const LOCKED: [(&str, &str); 5] = [
    ("en", "A payment with a Safe is in progress"),
    ("de", "Eine Zahlung mit einem Safe läuft"),
    ("es", "Hay un pago con un Safe en curso"),
    ("fr", "Un paiement avec un Safe est en cours"),
    ("ar", "هناك دفعة قيد التنفيذ عبر Safe"),
];

#[tokio::test]
async fn a_page_shows_the_lock_of_a_safe_until_it_is_released() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let mut hidden = link_of(&["2"]);
    hidden["accessPolicy"] = json!({ "hideUntilApproved": true, "allowedPayerAddresses": [SAFE] });
    for (body, safe) in [(link_of(&["1"]), json!(SAFE)), (hidden, Value::Null)] {
        let link = token_of(&app.link(&body).await.expect(201));
        let state = async |query: &str| {
            let call = app.get(&format!("/pay/{link}/state{query}"));
            call.send().await.expect(200)
        };
        let statuses = async || {
            let calldata = app.get(&format!("/pay/{link}/calldata?wallet={SAFE}")).send().await;
            let attempt = app.post(&format!("/pay/{link}/attempt"));
            let attempt = attempt.header("sec-fetch-site", "same-origin");
            let body = json!({ "id": "5".repeat(32), "wallet": SAFE });
            [calldata.status, attempt.json(&body).send().await.status]
        };
        assert_eq!(state("").await["locked"], Value::Null);
        let deadline = lock(&app, &link).await["safePaymentDeadline"].as_i64();
        for query in [String::new(), format!("?wallet={SAFE}")] {
            let locked = state(&query).await["locked"].take();
            let until = DateTime::parse_from_rfc3339(locked["until"].as_str().expect("a time")).expect("a time");
            assert_eq!((Some(until.timestamp()), &locked["safe"]), (deadline, &safe));
        }
        assert_eq!(statuses().await, [423, 423]);
        for (language, words) in LOCKED {
            let page = app.get(&format!("/pay/{link}?lang={language}")).send().await;
            let shown = without_scripts(&page.text);
            assert!(page.status == 200 && shown.contains(words), "{}", page.text);
            let is_static = !shown.contains("<noscript>") && !shown.contains("updates by itself");
            assert!(is_static, "{}", page.text);
            assert_eq!(page.text.contains(SAFE), safe == SAFE, "{}", page.text);
        }
        let call = app.post(&format!("/v2/secure-payments/{link}/release")).with_key();
        call.json(&json!({})).send().await.expect(200);
        assert_eq!(state("").await["locked"], Value::Null);
        assert!(!statuses().await.contains(&423), "the released link refuses payers");
    }
}

#[tokio::test]
async fn a_page_returns_no_calldata_to_a_safe() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let open = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let mut hidden = link_of(&["2"]);
    hidden["accessPolicy"] = json!({ "hideUntilApproved": true, "allowedPayerAddresses": [SAFE] });
    let hidden = token_of(&app.link(&hidden).await.expect(201));
    let calldata = async |link: &str, wallet: &str| {
        let call = app.get(&format!("/pay/{link}/calldata?wallet={wallet}"));
        call.send().await
    };
    for contracts in &app.safe_contracts().await {
        let version = contracts.version.text();
        let safe = TestSafe::funded(&app, contracts).await.address.to_string();
        let refused = calldata(&open, &safe).await;
        assert_eq!(refused.wrong_fields(), ["wallet"], "{version}: {}", refused.text);
        assert_eq!(refused.expect(400)["code"], "safe_wallet", "{version}");
        // A wallet that may not pay does not learn the network of a hidden link.
        calldata(&hidden, &safe).await.expect(403);
        let imitation = app.false_safe(contracts.singleton, version).await;
        calldata(&open, &imitation.to_string()).await.expect(200);
    }
    calldata(&open, &app.account(PAYER)).await.expect(200);
}

/// Each language of the page, with the first words of its message that recipients block a multicall.
const BLOCKED: [(&str, &str); 5] = [
    ("en", "This link cannot pay all of its recipients"),
    ("de", "Dieser Link kann nicht alle Empfänger bezahlen"),
    ("es", "Este enlace no puede pagar a todos sus destinatarios"),
    ("fr", "Ce lien ne peut pas payer tous ses destinataires"),
    ("ar", "لا يستطيع هذا الرابط الدفع لجميع مستلميه"),
];

#[tokio::test]
async fn a_page_of_a_multicall_names_the_links_that_block_it() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let (children, link) = multicall(&app, &["1", "2", "4"]).await;
    let states = async || {
        let state = app.get(&format!("/pay/{link}/state")).send().await.expect(200);
        let details = &state["details"];
        let states = [0_usize, 1, 2].map(|item| details["items"][item]["state"].clone());
        (
            json!(states),
            [details["isMulticall"].clone(), details["blocked"].clone()],
        )
    };
    let expected = (json!(["ready", "ready", "ready"]), [json!(true), json!(0)]);
    assert_eq!(states().await, expected);
    lock(&app, &children[1]).await;
    let expected = (json!(["ready", "in_progress", "ready"]), [json!(true), json!(1)]);
    assert_eq!(states().await, expected);
    let page = app.get(&format!("/pay/{link}")).send().await;
    let shown = without_scripts(&page.text);
    let waits = shown.contains("A payment to some recipients is in progress");
    assert!(waits && !shown.contains("<noscript>"), "{}", page.text);
    withdraw(&app, &children[2]).await;
    let expected = (json!(["ready", "in_progress", "withdrawn"]), [json!(true), json!(2)]);
    assert_eq!(states().await, expected);
    let refused = app.get(&format!("/pay/{link}/calldata?wallet={SAFE}")).send().await;
    let calldata = refused.expect(400);
    let attempt = app.post(&format!("/pay/{link}/attempt"));
    let attempt = attempt.header("sec-fetch-site", "same-origin");
    let body = json!({ "id": "5".repeat(32), "wallet": SAFE });
    let attempt = attempt.json(&body).send().await.expect(400);
    for refused in [calldata, attempt] {
        let failures = refused["failures"].as_array().map(Vec::len);
        assert_eq!(
            (refused["code"].as_str(), failures),
            (Some("multicall_validation_failed"), Some(2))
        );
    }
    for (language, words) in BLOCKED {
        let page = app.get(&format!("/pay/{link}?lang={language}")).send().await;
        let is_said = without_scripts(&page.text).contains(words);
        assert!(page.status == 200 && is_said, "{}", page.text);
        let sums = page.text.split("<tfoot>").nth(1).unwrap_or_default();
        let sum = match language {
            "ar" => ">\u{2066}7\u{a0}FAU\u{2069}<",
            _ => ">7\u{a0}FAU<",
        };
        assert!(sums.contains(sum), "the sum of the links is missing: {}", page.text);
    }
    app.advance_ms(8 * 86_400_000);
    let page = app.get(&format!("/pay/{link}")).send().await;
    let shown = page.text.matches("<td class=\"state\">").count();
    assert_eq!((page.status, shown), (410, 3), "{}", page.text);
    let single = token_of(&app.payout_link(&payout_of(RECIPIENT, "1")).await.expect(201));
    let state = app.get(&format!("/pay/{single}/state")).send().await.expect(200);
    let item = &state["details"]["items"][0];
    assert!(
        item.get("state").is_none() && state["details"]["isMulticall"] == false,
        "{state}"
    );
}

#[tokio::test]
async fn a_withdrawn_multicall_lists_its_links_as_not_paid() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let (_, link) = multicall(&app, &["1", "2"]).await;
    for (status, state) in [(200, "Ready"), (410, "Not paid")] {
        let page = app.get(&format!("/pay/{link}?lang=en")).send().await;
        let count = page.text.matches(&format!("<td class=\"state\">{state}</td>")).count();
        assert_eq!((page.status, count), (status, 2), "{}", page.text);
        if status == 200 {
            withdraw(&app, &link).await;
        }
    }
}
