//! Links whose policy requires screening: which provider is queried about which wallet, what is stored, and the payer's
//! response.

use crate::support::{
    TestApp,
    app::forged,
    chain::PAYER,
    links::{link_of, payout_of, token_of},
    receiver::Receiver,
    requests::PAYEE,
    screening::{Providers, rows, screened},
    session::sign_in,
    wallet::{TestWallet, token},
};
use futures_util::future::join_all;
use poem::http::Method;
use prs::{
    domain::{
        destination::ScreeningProvider::{self, Hypernative, Merklescience},
        screening::SandboxAnswer::{Approved, Error, Hang, Rejected},
    },
    flows::secure_payments::paid::{self, ScreenedPayments},
    settings::Settings,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const WALLET: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const BEHIND: &str = "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65";

/// A service that uses both providers, and whose tenant is paid in FAU.
async fn app(change: impl FnOnce(&mut Settings)) -> (TestApp, Providers) {
    let providers = Providers::start().await;
    let mut settings = screened(&providers);
    change(&mut settings);
    let app = TestApp::with(settings, None).await;
    app.is_paid_in("FAU-sepolia").await;
    (app, providers)
}

/// The body of a link whose policy requires screening by this provider.
fn by(provider: ScreeningProvider) -> Value {
    let mut body = link_of(&["1"]);
    body["accessPolicy"] = json!({ "mode": "kyt_all_wallets", "screeningProvider": provider.wire() });
    body
}

async fn link(app: &TestApp, body: &Value) -> String {
    token_of(&app.link(body).await.expect(201))
}

/// The access decision of a link for a wallet.
async fn decision(app: &TestApp, link: &str, wallet: &str) -> Value {
    let opened = app.open_link(link, &format!("?wallet={wallet}")).send().await;
    opened.expect(200)["accessDecision"].clone()
}

/// Status, reason and provider of a decision.
fn said(decision: &Value) -> [&str; 3] {
    ["status", "reasonCode", "provider"].map(|member| decision[member].as_str().unwrap_or("null"))
}

#[tokio::test]
async fn a_result_is_stored_per_payment_and_wallet_ignoring_case() {
    let (app, providers) = app(|_| {}).await;
    let first = link(&app, &by(Hypernative)).await;
    let approved = decision(&app, &first, WALLET).await;
    assert_eq!(said(&approved), ["approved", "screening_approved", "hypernative"]);
    let result = &approved["walletResults"][0];
    assert_eq!(
        (&result["walletAddress"], &result["walletType"]),
        (&json!(WALLET), &json!("eoa"))
    );
    assert!(result["evaluatedAt"].is_string(), "{result}");
    providers.answer(WALLET, None, Rejected);
    app.advance_ms(86_400_000);
    for written in [WALLET.to_owned(), WALLET.to_lowercase()] {
        assert_eq!(decision(&app, &first, &written).await, approved);
    }
    assert_eq!(providers.questions(Hypernative).await, 1);
    let second = link(&app, &by(Hypernative)).await;
    assert_eq!(
        said(&decision(&app, &second, WALLET).await)[0],
        "rejected",
        "another payment causes a new query"
    );
    assert_eq!(providers.questions(Hypernative).await, 2);
    assert_eq!(providers.questions(Merklescience).await, 0);
}

#[tokio::test]
async fn the_last_result_of_a_configured_provider_is_shown_at_once() {
    let (app, _providers) = app(|settings| settings.screening.merklescience_api_key = None).await;
    let shown = async |provider: ScreeningProvider| -> Option<i64> {
        let page = app.get("/metrics").send().await.text;
        let provider = provider.wire();
        let name = format!("prs_screening_last_ok_timestamp_seconds{{provider=\"{provider}\"}} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&name))?;
        line.parse().ok()
    };
    assert_eq!((shown(Hypernative).await, shown(Merklescience).await), (Some(0), None));
    let link = link(&app, &by(Hypernative)).await;
    decision(&app, &link, WALLET).await;
    let now = app.ctx.clock.now().timestamp();
    assert_eq!(
        (shown(Hypernative).await, shown(Merklescience).await),
        (Some(now), None)
    );
}

#[tokio::test]
async fn a_rejected_wallet_may_view_but_not_pay_and_no_event_is_sent() {
    let (app, providers) = app(|_| {}).await;
    let receiver = Receiver::start().await;
    let endpoint = app.post("/v1/webhook").with_key();
    endpoint
        .json(&json!({ "url": receiver.url() }))
        .send()
        .await
        .expect(201);
    providers.answer(WALLET, None, Rejected);
    let link = link(&app, &by(Merklescience)).await;
    let opened = app
        .open_link(&link, &format!("?wallet={WALLET}"))
        .send()
        .await
        .expect(200);
    assert_eq!(
        said(&opened["accessDecision"]),
        ["rejected", "screening_rejected", "merklescience"]
    );
    assert_eq!(opened.get("paymentOptions"), None);
    let refused = app.calldata_of(&link, Some(WALLET)).await.expect(403);
    assert_eq!(refused["message"], "Wallet is not allowed to pay this secure payment");
    assert_eq!(refused.get("hint"), None, "a result is final");
    assert_eq!(app.calldata_of(&link, None).await.wrong_fields(), ["wallet"]);
    assert_eq!(
        said(&decision(&app, &link, BEHIND).await)[0],
        "approved",
        "others are not affected"
    );
    app.deliver().await;
    assert!(receiver.received().await.is_empty());
    assert_eq!(providers.questions(Hypernative).await, 0, "a result is final");
}

#[tokio::test]
async fn an_approved_wallet_can_pay() {
    let providers = Providers::start().await;
    let app = TestApp::on_chain_as(providers.settings(), 1).await;
    app.is_paid_in("FAU-sepolia").await;
    let link = link(&app, &by(Hypernative)).await;
    app.pay_link(&link).await;
    app.settle().await;
    app.open_link(&link, "").send().await.expect(409);
    assert_eq!(providers.questions(Hypernative).await, 1, "{}", app.account(PAYER));
}

#[tokio::test]
async fn a_screening_error_blocks_the_payment_and_stores_nothing() {
    let (app, providers) = app(|settings| settings.screening.backup = false).await;
    let receiver = Receiver::start().await;
    let endpoint = app.post("/v1/webhook").with_key();
    endpoint
        .json(&json!({ "url": receiver.url() }))
        .send()
        .await
        .expect(201);
    providers.answer(WALLET, Some(Hypernative), Error);
    let link = link(&app, &by(Hypernative)).await;
    let failed = decision(&app, &link, WALLET).await;
    assert_eq!(said(&failed), ["error", "provider_error", "hypernative"]);
    let refused = app.calldata_of(&link, Some(WALLET)).await.expect(403);
    assert_eq!(refused["message"], "Wallet is not allowed to pay this secure payment");
    let hint = refused["hint"].as_str().expect("what to do");
    assert!(hint.contains("Try again"), "{hint}");
    assert_eq!(rows(&app, "screenings").await, 0);
    app.deliver().await;
    assert!(receiver.received().await.is_empty());
    assert_eq!(providers.questions(Merklescience).await, 0, "there is no backup");
    providers.answer(WALLET, None, Approved);
    assert_eq!(
        said(&decision(&app, &link, WALLET).await)[0],
        "approved",
        "the wallet is queried again"
    );
    assert_eq!(rows(&app, "screenings").await, 1);
}

#[tokio::test]
async fn the_backup_is_queried_only_after_an_error() {
    for (chosen, backup, status) in [
        (Error, Approved, "approved"),
        (Error, Rejected, "rejected"),
        (Rejected, Approved, "rejected"),
        (Approved, Rejected, "approved"),
        (Error, Error, "error"),
    ] {
        let (app, providers) = app(|_| {}).await;
        providers.answer(WALLET, Some(Hypernative), chosen);
        providers.answer(WALLET, Some(Merklescience), backup);
        let link = link(&app, &by(Hypernative)).await;
        let told = decision(&app, &link, WALLET).await;
        assert_eq!(told["status"], status, "{chosen:?} {backup:?}");
        let asked = usize::from(chosen == Error);
        assert_eq!(providers.questions(Merklescience).await, asked, "{chosen:?} {backup:?}");
        let by_backup = chosen == Error && backup != Error;
        let provider = if by_backup { "merklescience" } else { "hypernative" };
        assert_eq!(told["provider"], provider, "{chosen:?} {backup:?}");
    }
}

/// Complete responses of a provider from which no result follows: some have an unknown verdict, others two
/// contradicting verdicts.
const ODD: [(ScreeningProvider, &str); 4] = [
    (
        Hypernative,
        r#"{"data":[{"address":"WALLET","recommendation":"Review"}]}"#,
    ),
    (
        Hypernative,
        r#"{"data":[{"address":"WALLET","recommendation":"Approve"},{"address":"WALLET","recommendation":"Deny"}]}"#,
    ),
    (
        Hypernative,
        r#"{"data":[{"address":"WALLET","recommendation":"Deny"},{"address":"WALLET","recommendation":"Approve"}]}"#,
    ),
    (Merklescience, r#"{"identifier":"WALLET","risk_level":6}"#),
];

#[tokio::test]
async fn an_unknown_verdict_is_not_a_provider_failure() {
    for (chosen, words) in ODD {
        let other = if chosen == Hypernative {
            Merklescience
        } else {
            Hypernative
        };
        let (app, providers) = app(|_| {}).await;
        providers.say(chosen, Some(words));
        let link = link(&app, &by(chosen)).await;
        for number in 1..=5 {
            let told = decision(&app, &link, &stranger(number)).await;
            assert_eq!(said(&told), ["error", "provider_error", chosen.wire()], "{words}");
        }
        app.calldata_of(&link, Some(&stranger(1))).await.expect(403);
        assert_eq!(
            providers.questions(other).await,
            0,
            "the backup is for failures: {words}"
        );
        assert_eq!(rows(&app, "screenings").await, 0, "{words}");
        // Other wallets are queried at once.
        providers.say(chosen, None);
        providers.answer(WALLET, Some(chosen), Rejected);
        providers.answer(WALLET, Some(other), Approved);
        let told = decision(&app, &link, WALLET).await;
        assert_eq!(
            said(&told),
            ["rejected", "screening_rejected", chosen.wire()],
            "{words}"
        );
    }
}

#[tokio::test]
async fn lookups_dated_in_the_future_block_no_payer() {
    let (app, providers) = app(|_| {}).await;
    let link = link(&app, &by(Hypernative)).await;
    providers.say(Hypernative, Some(ODD[0].1));
    let asked = async |number: u32| said(&decision(&app, &link, &stranger(number)).await)[0].to_owned();
    for _ in 0..5 {
        assert_eq!(asked(1).await, "error");
    }
    for number in 2..=30 {
        asked(number).await;
    }
    providers.say(Hypernative, None);
    assert_eq!(asked(1).await, "error", "it waits after its failures");
    let full = app.open_link(&link, &format!("?wallet={}", stranger(31))).send().await;
    full.expect(429);
    app.advance_ms(-86_400_000);
    for number in [1, 31] {
        assert_eq!(asked(number).await, "approved", "{number}");
    }
}

#[tokio::test]
async fn a_response_marked_as_failed_approves_no_wallet() {
    let (app, providers) = app(|settings| settings.screening.backup = false).await;
    let link = link(&app, &by(Hypernative)).await;
    let failed = r#"{"success":false,"error":"x","data":[{"address":"WALLET","recommendation":"Approve"}]}"#;
    providers.say(Hypernative, Some(failed));
    assert_eq!(said(&decision(&app, &link, WALLET).await)[0], "error");
    app.calldata_of(&link, Some(WALLET)).await.expect(403);
    assert_eq!(rows(&app, "screenings").await, 0);
    providers.say(Hypernative, Some(&failed.replace("false", "true")));
    assert_eq!(said(&decision(&app, &link, WALLET).await)[0], "approved");
}

#[tokio::test]
async fn a_hanging_provider_delays_a_payer_by_one_query() {
    let (app, providers) = app(|_| {}).await;
    let app = app.hurried(|waits| waits.screening /= 4).await;
    providers.answer(WALLET, Some(Hypernative), Hang);
    let link = link(&app, &by(Hypernative)).await;
    let asked = Instant::now();
    let told = decision(&app, &link, WALLET).await;
    assert_eq!(said(&told), ["approved", "screening_approved", "merklescience"]);
    let took = asked.elapsed();
    assert!(
        took > Duration::from_millis(700) && took < Duration::from_secs(3),
        "{took:?}"
    );
}

#[tokio::test]
async fn a_smart_account_and_its_owner_must_both_pass() {
    for (behind, account, status, results) in [
        (Approved, Approved, "approved", 2),
        (Approved, Rejected, "rejected", 2),
        (Rejected, Approved, "rejected", 2),
        (Error, Approved, "error", 2),
        (Error, Rejected, "rejected", 1),
    ] {
        let (app, providers) = app(|settings| settings.screening.backup = false).await;
        providers.answer(BEHIND, None, behind);
        providers.answer(WALLET, None, account);
        let link = link(&app, &by(Hypernative)).await;
        let told = decision(&app, &link, &format!("{WALLET}&eoaWallet={BEHIND}")).await;
        let shown = told["walletResults"].as_array().expect("a list").len();
        assert_eq!(
            (told["status"].as_str(), shown),
            (Some(status), results),
            "{behind:?} {account:?}"
        );
        assert_eq!(providers.questions(Hypernative).await, 2);
    }
}

/// A wallet pays with calldata that another wallet fetched. The paying wallet was either never screened, or rejected by
/// a provider.
#[tokio::test]
async fn unscreened_payers_are_reported_and_screened_afterwards() {
    for (answer, knocks, first, then) in [
        (Rejected, false, "unknown", "screening"),
        (Approved, false, "unknown", "ok"),
        (Rejected, true, "screening", "screening"),
        (Approved, true, "ok", "ok"),
        (Error, false, "unknown", "unknown"),
    ] {
        let providers = Providers::start().await;
        let (settings, chain) = TestApp::local_chain(screened(&providers), 1).await;
        let app = TestApp::with(settings, Some(chain)).await;
        app.is_paid_in("FAU-sepolia").await;
        let payer = app.account(PAYER);
        providers.answer(&payer, None, answer);
        let made = app.link(&by(Hypernative)).await.expect(201);
        let link = token_of(&made);
        if knocks {
            decision(&app, &link, &payer).await;
        }
        let calldata = app.calldata_of(&link, Some(BEHIND)).await.expect(200);
        app.send_calldata(&calldata).await;
        app.settle().await;
        let id = made["requestIds"][0].as_str().expect("an id");
        let access = async || {
            let read = app.read_request(id).await;
            assert_eq!(read["status"], "paid", "the money stays credited");
            app.payments_of(id).await[0]["payerAccess"].clone()
        };
        assert_eq!(access().await, first, "{answer:?}");
        paid::run(&app.ctx, &ScreenedPayments::default()).await.expect("looked");
        assert_eq!(access().await, then, "{answer:?}");
    }
}

#[tokio::test]
async fn only_listed_wallets_are_screened_and_must_pass() {
    let (app, providers) = app(|_| {}).await;
    let mut body = by(Hypernative);
    body["accessPolicy"]["allowedPayerAddresses"] = json!([WALLET]);
    let link = link(&app, &body).await;
    assert_eq!(said(&decision(&app, &link, BEHIND).await)[1], "wallet_not_allowed");
    assert_eq!(providers.questions(Hypernative).await, 0);
    providers.answer(WALLET, None, Rejected);
    assert_eq!(said(&decision(&app, &link, WALLET).await)[1], "screening_rejected");
}

#[tokio::test]
async fn hidden_details_are_shown_only_to_approved_wallets() {
    let (app, providers) = app(|_| {}).await;
    let mut body = by(Hypernative);
    body["accessPolicy"]["hideUntilApproved"] = json!(true);
    let link = link(&app, &body).await;
    providers.answer(BEHIND, None, Rejected);
    for query in [String::new(), format!("?wallet={BEHIND}")] {
        let masked = app.open_link(&link, &query).send().await;
        masked.expect(200);
        assert!(!masked.text.contains(PAYEE), "{}", masked.text);
    }
    let shown = app
        .open_link(&link, &format!("?wallet={WALLET}"))
        .send()
        .await
        .expect(200);
    assert_eq!(shown["payee"], PAYEE);
}

#[tokio::test]
async fn a_link_is_screened_like_its_destination_and_shows_results_to_owner() {
    let (app, providers) = app(|_| {}).await;
    let session = format!("Bearer {}", sign_in(&app, &TestWallet::new(7)).await);
    let destination = json!({
        "tokenAddress": token(&app, "FAU-sepolia"),
        "chainId": 11_155_111,
        "accessPolicy": { "mode": "kyt_all_wallets", "screeningProvider": "merklescience" },
    });
    let call = app.post("/v1/payee-destination").header("authorization", &session);
    call.json(&destination).send().await.expect(201);
    let make = async |body: &Value| {
        let call = app.post("/v2/secure-payments").header("authorization", &session);
        call.json(body).send().await.expect(201)
    };
    let found = async |made: &Value| {
        let id = made["requestIds"][0].as_str().expect("an id");
        let call = app.get(&format!("/v2/secure-payments?requestId={id}"));
        call.header("authorization", &session).send().await.expect(200)
    };
    let made = make(&link_of(&["1"])).await;
    providers.answer(BEHIND, None, Rejected);
    decision(&app, &token_of(&made), &format!("{WALLET}&eoaWallet={BEHIND}")).await;
    let owned = found(&made).await;
    assert_eq!(owned["payeeKytResults"], json!([]));
    let results = owned["payerKytResults"].as_array().expect("a list");
    let shown = |index: usize, member: &str| results[index][member].as_str().map(str::to_owned);
    let told =
        |index| ["walletAddress", "walletType", "status", "reasonCode", "rawStatus"].map(|one| shown(index, one));
    let expected = |texts: [&str; 5]| texts.map(|text| Some(text.to_owned()));
    assert_eq!(results.len(), 2);
    assert_eq!(
        told(0),
        expected([BEHIND, "eoa", "rejected", "screening_rejected", "5 Critical"])
    );
    let approved = [
        WALLET,
        "smart_account",
        "approved",
        "screening_approved",
        "0 No Risk Detected",
    ];
    assert_eq!(told(1), expected(approved));
    let mut open = link_of(&["1"]);
    open["accessPolicy"] = json!({ "mode": "off" });
    let made = make(&open).await;
    assert_eq!(
        decision(&app, &token_of(&made), BEHIND).await,
        json!(null),
        "the payment's own policy takes precedence"
    );
    assert_eq!(found(&made).await["payerKytResults"], json!([]));
    assert_eq!(providers.questions(Merklescience).await, 2);
}

#[tokio::test]
async fn a_recipient_is_screened_before_a_payout_link_is_issued() {
    let (app, providers) = app(|_| {}).await;
    let payout = |recipient: &str| {
        let mut body = payout_of(recipient, "1");
        body["accessPolicy"] = by(Hypernative)["accessPolicy"].clone();
        body
    };
    let link = token_of(&app.payout_link(&payout(WALLET)).await.expect(201));
    assert_eq!(providers.questions(Hypernative).await, 1);
    let opened = app
        .open_link(&link, &format!("?wallet={BEHIND}"))
        .send()
        .await
        .expect(200);
    assert_eq!(
        opened.get("accessDecision"),
        None,
        "the payer of a payout link is not screened"
    );
    assert_eq!(providers.questions(Hypernative).await, 1);
    providers.answer(WALLET, None, Rejected);
    let refused = app.payout_link(&payout(WALLET)).await.expect(403);
    assert_eq!(refused["message"], "Recipient wallet failed screening");
    assert_eq!(
        rows(&app, "secure_payments WHERE status = 'compliance_failed'").await,
        1
    );
    assert_eq!(rows(&app, "requests WHERE status = 'cancelled'").await, 1);
    providers.answer(WALLET, None, Error);
    app.payout_link(&payout(WALLET)).await.expect(502);
    assert_eq!(rows(&app, "secure_payments").await, 2);
    assert_eq!(rows(&app, "screenings").await, 2);
    let mut wrong = payout(WALLET);
    wrong["amount"] = json!("0");
    let before = providers.questions(Hypernative).await;
    app.payout_link(&wrong).await.expect(400);
    assert_eq!(
        providers.questions(Hypernative).await,
        before,
        "invalid input causes no query"
    );
}

#[tokio::test]
async fn opening_a_link_twice_at_once_causes_one_query() {
    let (app, providers) = app(|_| {}).await;
    let link = link(&app, &by(Hypernative)).await;
    let told = join_all((0..8).map(|_| decision(&app, &link, WALLET))).await;
    assert!(told.iter().all(|one| one["status"] == "approved"), "{told:?}");
    assert_eq!(providers.questions(Hypernative).await, 1);
}

/// Addresses of strangers' wallets, by number.
fn stranger(number: u32) -> String {
    format!("0x{:040x}", u64::from(number) + (1 << 40))
}

#[tokio::test]
async fn ten_thousand_wallets_cost_at_most_thirty_queries_an_hour() {
    let (app, providers) = app(|_| {}).await;
    let link = link(&app, &by(Hypernative)).await;
    assert_eq!(said(&decision(&app, &link, WALLET).await)[0], "approved");
    let knock = async |number: u32| {
        let call = app.open_link(&link, &format!("?wallet={}", stranger(number)));
        call.without_worker().await
    };
    let mut refused = 0;
    for number in 0..10_000 {
        match knock(number).await {
            200 => {}
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(refused, 10_000 - 29);
    assert_eq!(providers.questions(Hypernative).await, 30);
    assert_eq!(
        (rows(&app, "screenings").await, rows(&app, "screening_questions").await),
        (30, 30)
    );
    let late = app
        .open_link(&link, &format!("?wallet={}", stranger(20_000)))
        .send()
        .await;
    assert_eq!(late.header("retry-after"), Some("3601"));
    late.expect(429);
    app.calldata_of(&link, Some(&stranger(20_000))).await.expect(429);
    assert_eq!(
        said(&decision(&app, &link, WALLET).await)[0],
        "approved",
        "known wallets still get a decision"
    );
    app.advance_ms(3_600_000);
    for number in 30_000..30_040 {
        knock(number).await;
    }
    assert_eq!(providers.questions(Hypernative).await, 60);
    assert_eq!(rows(&app, "screening_questions").await, 30);
}

#[tokio::test]
async fn concurrent_strangers_share_the_query_cap() {
    let (app, providers) = app(|settings| settings.screening.backup = false).await;
    let link = link(&app, &by(Hypernative)).await;
    for number in 0..60 {
        providers.answer(
            &stranger(number),
            None,
            if number % 2 == 0 { Approved } else { Rejected },
        );
    }
    let knocks = (0..60).map(|number| {
        let call = app.open_link(&link, &format!("?wallet={}", stranger(number)));
        call.without_worker()
    });
    let answered = join_all(knocks)
        .await
        .into_iter()
        .filter(|status| *status == 200)
        .count();
    let asked = providers.questions(Hypernative).await;
    assert!(asked <= 30 && asked == answered, "{asked} {answered}");
}

#[tokio::test]
async fn a_failing_provider_costs_no_more_than_the_cap() {
    let (app, providers) = app(|settings| settings.screening.backup = false).await;
    let link = link(&app, &by(Hypernative)).await;
    for number in 0..100 {
        providers.answer(&stranger(number), None, Error);
    }
    for number in 0..100 {
        let call = app.open_link(&link, &format!("?wallet={}", stranger(number)));
        call.without_worker().await;
    }
    assert!(providers.questions(Hypernative).await <= 30);
    assert_eq!(
        (rows(&app, "screenings").await, rows(&app, "screening_questions").await),
        (0, 30)
    );
}

#[tokio::test]
async fn recipients_of_a_public_client_id_are_capped_like_wallets_of_a_link() {
    let (app, providers) = app(|settings| settings.screening.backup = false).await;
    let rejected = stranger(1_000);
    providers.answer(&rejected, None, Rejected);
    let make = async |recipient: String| {
        let mut body = payout_of(&recipient, "1");
        body["accessPolicy"] = by(Hypernative)["accessPolicy"].clone();
        let call = forged(&app, Method::POST, "/v2/secure-payments/payouts");
        call.json(&body).send().await
    };
    for number in 0..10 {
        make(stranger(number)).await.expect(201);
    }
    for _ in 0..10 {
        let refused = make(rejected.clone()).await.expect(403);
        assert_eq!(refused["message"], "Recipient wallet failed screening");
    }
    assert_eq!(
        providers.questions(Hypernative).await,
        11,
        "the failed wallet's result is stored"
    );
    for number in 10..20 {
        make(stranger(number)).await.expect(201);
    }
    for recipient in [stranger(20), rejected.clone()] {
        let refused = make(recipient).await;
        refused.expect(429);
        assert!(refused.header("retry-after").is_some());
    }
    assert_eq!(providers.questions(Hypernative).await, 21);
    // A caller with an API key has a separate limit.
    let mut body = payout_of(&stranger(21), "1");
    body["accessPolicy"] = by(Hypernative)["accessPolicy"].clone();
    app.payout_link(&body).await.expect(201);
    let plain = payout_of(&stranger(22), "1");
    let unscreened = forged(&app, Method::POST, "/v2/secure-payments/payouts");
    unscreened.json(&plain).send().await.expect(201);
    app.advance_ms(3_600_000);
    make(stranger(20)).await.expect(201);
}
