//! Callbacks of the off-ramp partner are accepted only when signed, and a partner that hangs delays no other caller.

use crate::{
    access::operations,
    support::{
        Answer, TestApp,
        app::settings,
        lines::Lines,
        off_ramp::{CALLBACK_SECRET, FORMER_SECRET, Partner, Scripted, account_news, order_news, payer_news, person},
        payers, published,
        requests::fau,
    },
};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;
use prs::{
    domain::{off_ramp_sandbox::OffRampBehaviour, off_ramp_signature::header},
    ports::off_ramp::{OffRampError, PartnerKey},
    settings::{ChainSettings, Settings},
};
use serde_json::{Value, json};
use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

const CALLBACKS: &str = "/v2/provider-callbacks/offramp";

/// A service that uses this partner. The node of its chain is down.
async fn with(partner: &Partner) -> TestApp {
    let mut settings: Settings = partner.settings(settings());
    let chain = ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    TestApp::with(settings, None).await
}

/// A valid callback that a test then alters.
struct Bent {
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Bent {
    fn signed(secret: &str, at: DateTime<Utc>, body: &str) -> Self {
        Self {
            headers: Partner::signed(secret, at, "cb_1", body),
            body: body.to_owned(),
        }
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self = self.without(name);
        self.headers.push((name, value.to_owned()));
        self
    }

    fn saying(self, body: impl Into<String>) -> Self {
        Self {
            body: body.into(),
            ..self
        }
    }

    async fn send(self, app: &TestApp) -> Answer {
        let mut call = app.post(CALLBACKS);
        for (name, value) in self.headers {
            call = call.header(name, &value);
        }
        call.text(self.body).send().await
    }
}

/// The number of callbacks for each outcome, read from the metrics page of a running process.
fn outcomes(page: &str) -> Vec<(String, u64)> {
    let lines = page
        .lines()
        .filter_map(|line| line.strip_prefix("prs_off_ramp_callbacks_total{outcome=\""));
    let counts = lines.filter_map(|line| line.split_once("\"} "));
    counts
        .map(|(outcome, count)| (outcome.to_owned(), count.parse().expect("a count")))
        .collect()
}

#[tokio::test]
async fn a_callback_needs_a_recent_signature_over_its_exact_bytes() {
    let partner = Partner::start().await;
    let app = with(&partner).await;
    let news = payer_news("pyr_1", 2, "approved", "completed").to_string();
    let now = app.ctx.clock.now();
    let good = || Bent::signed(CALLBACK_SECRET, now, &news);
    let at = |seconds: i64| Bent::signed(CALLBACK_SECRET, now + TimeDelta::seconds(seconds), &news);
    let other = payer_news("pyr_2", 2, "approved", "completed").to_string();
    let padded = |bytes: usize| format!("{news}{}", " ".repeat(bytes - news.len()));
    let nonsense = "not JSON at all";
    // The content of an unsigned callback is never parsed: the response reveals neither its format nor its type.
    let cases: Vec<(&str, Bent, u16)> = vec![
        ("present secret", good(), 404),
        ("former secret", Bent::signed(FORMER_SECRET, now, &news), 404),
        (
            "another secret",
            Bent::signed("another secret that has any length", now, &news),
            401,
        ),
        ("no secret", Bent::signed("", now, &news), 401),
        ("no signature", good().without(header::SIGNATURE), 401),
        ("no time", good().without(header::TIME), 401),
        ("no id", good().without(header::ID), 401),
        ("empty signature", good().with(header::SIGNATURE, ""), 401),
        ("five minutes old", at(-300), 404),
        ("older", at(-301), 401),
        ("five minutes ahead", at(300), 404),
        ("further ahead", at(301), 401),
        ("a time that is not a number", good().with(header::TIME, "now"), 401),
        (
            "another time",
            good().with(header::TIME, &(now.timestamp() - 1).to_string()),
            401,
        ),
        ("another id", good().with(header::ID, "cb_2"), 401),
        ("a byte changed", good().saying(other), 401),
        ("a byte added", good().saying(format!("{news} ")), 401),
        ("a byte taken", good().saying(&news[..news.len() - 1]), 401),
        ("no body", good().saying(""), 401),
        ("nonsense, not signed", good().saying(nonsense), 401),
        ("nonsense, signed", Bent::signed(CALLBACK_SECRET, now, nonsense), 400),
        ("64 KiB", Bent::signed(CALLBACK_SECRET, now, &padded(64 * 1024)), 404),
        ("more", Bent::signed(CALLBACK_SECRET, now, &padded(64 * 1024 + 1)), 413),
        ("more, not signed", good().saying(padded(64 * 1024 + 1)), 413),
    ];
    println!("{:<24} answer", "callback");
    let count = cases.len();
    for (what, bent, status) in cases {
        let answer = bent.send(&app).await;
        println!("{what:<24} {}", answer.status);
        assert_eq!(answer.status, status, "{what}: {}", answer.text);
    }
    println!("{count} callbacks");
    let mut doubled = app.post(CALLBACKS);
    for (name, value) in good().headers {
        doubled = doubled.header(name, &value).header(name, &value);
    }
    assert_eq!(
        doubled.text(news.clone()).send().await.status,
        401,
        "every header twice"
    );
    let credentials = app.post(CALLBACKS).with_key().text(news.clone()).send().await;
    assert_eq!(credentials.status, 401, "no other credential is accepted");
    assert_eq!(partner.calls().await.len(), 0, "the partner was not queried about it");
}

#[tokio::test]
async fn a_service_without_a_partner_accepts_no_callback() {
    let app = TestApp::start().await;
    let news = payer_news("pyr_1", 2, "approved", "completed").to_string();
    for secret in ["", CALLBACK_SECRET] {
        let answer = Bent::signed(secret, app.ctx.clock.now(), &news).send(&app).await;
        assert_eq!(answer.status, 401, "{}", answer.text);
    }
}

#[tokio::test]
async fn malformed_callbacks_are_refused_with_their_fields() {
    let partner = Partner::start().await;
    let app = with(&partner).await;
    for news in [
        payer_news("pyr_unknown", 1, "pending", "not_started"),
        account_news("acc_unknown", "pyr_unknown", 1, "failed"),
        order_news("ord_unknown", 1, "initiated"),
    ] {
        let answer = partner.tell(&app, &news).await;
        assert_eq!(answer.status, 404, "{news}: {}", answer.text);
    }
    let bent = |news: Value, member: &str, value: Value| {
        let mut news = news;
        let kind = news["type"].as_str().expect("a kind").to_owned();
        news[kind.as_str()][member] = value;
        news
    };
    let payer = || payer_news("pyr_1", 1, "pending", "not_started");
    let account = || account_news("acc_1", "pyr_1", 1, "failed");
    let order = || order_news("ord_1", 1, "initiated");
    let long = json!("x".repeat(3_000));
    let cases = [
        (json!({}), "type"),
        (json!({ "type": "quote" }), "type"),
        (bent(payer(), "id", json!("../x")), "payer.id"),
        (bent(payer(), "version", json!(0)), "payer.version"),
        (bent(payer(), "version", json!("1")), "payer.version"),
        (bent(payer(), "kycStatus", json!("maybe")), "payer.kycStatus"),
        (bent(payer(), "agreementStatus", json!(null)), "payer.agreementStatus"),
        (bent(payer(), "kycUrl", long.clone()), "payer.kycUrl"),
        (bent(payer(), "kycUrl", json!("javascript:alert(1)")), "payer.kycUrl"),
        (bent(account(), "payerId", json!(7)), "account.payerId"),
        (bent(account(), "rejection", long.clone()), "account.rejection"),
        (bent(order(), "status", json!("done")), "order.status"),
        (bent(order(), "providerStatus", long), "order.providerStatus"),
    ];
    for (news, field) in cases {
        let answer = partner.tell(&app, &news).await;
        assert_eq!(answer.status, 400, "{news}: {}", answer.text);
        assert_eq!(answer.wrong_fields(), [field], "{news}");
    }
    // Errors that only the adapter can detect.
    for news in [
        json!({ "type": "payer", "account": account()["account"] }),
        bent(payer(), "kycUrl", json!("http://pages.example.com/kyc")),
        bent(payer(), "agreementUrl", json!("https://a:b@pages.example.com")),
    ] {
        let answer = partner.tell(&app, &news).await;
        assert_eq!(answer.status, 400, "{news}: {}", answer.text);
        assert!(!answer.text.contains("a:b"), "{}", answer.text);
    }
}

#[tokio::test]
async fn callback_errors_match_their_documentation() {
    let partner = Partner::start().await;
    let app = with(&partner).await;
    let all = operations();
    let operation = all
        .iter()
        .find(|one| one.row.operation == "receiveOffRampNews")
        .expect("documented");
    let shown = |status: &str| operation.responses[status]["content"]["application/json"]["example"].clone();
    let unknown = partner.tell(&app, &operation.example).await.expect(404);
    assert_eq!(unknown["message"], shown("404")["message"]);
    let wrong = partner.tell(&app, &json!({})).await.expect(400);
    assert_eq!(wrong["message"], shown("400")["message"]);
    let forged = app.post(CALLBACKS).json(&operation.example).send().await;
    assert_eq!(forged.status, 401, "{}", forged.text);
}

#[tokio::test]
async fn a_hanging_partner_delays_neither_its_callers_nor_others() {
    let partner = Partner::start().await;
    let app = with(&partner).await;
    partner.answer("payer", Some(Scripted::Hangs));
    let off_ramp = app.ctx.partners.off_ramp.clone().expect("a partner");
    let begun = Instant::now();
    let waiting = join_all((0..50).map(|_| off_ramp.payer("pyr_1")));
    let beside = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let asked = Instant::now();
            app.create_request(&fau("1")).await;
            slowest = slowest.max(asked.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        slowest
    };
    let (ended, slowest) = tokio::join!(waiting, beside);
    let took = begun.elapsed();
    assert!(
        ended
            .iter()
            .all(|end| matches!(end, Err(OffRampError::NoAnswer(_) | OffRampError::Busy)))
    );
    assert!(took < Duration::from_millis(3_500), "{took:?}");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    println!("50 calls ended after {took:?}; the slowest of 20 concurrent requests took {slowest:?}");
}

#[tokio::test]
async fn a_burst_of_one_platform_does_not_block_others() {
    let partner = Partner::start().await;
    let app = with(&partner).await;
    let (other, _) = app.other_tenant().await;
    let register = async |key: &str, id: String| {
        let call = app.post("/v2/payer").header("x-api-key", key);
        call.json(&payers::person(&id)).send().await
    };
    partner.behave(OffRampBehaviour::Slow);
    let begun = Instant::now();
    let burst = join_all((0..50).map(|number| register(&app.key, format!("burst-{number}"))));
    let others = async {
        // The burst arrives first.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let off_ramp = app.ctx.partners.off_ramp.clone().expect("a partner");
        let worker = async { off_ramp.payer("pyr_unknown").await };
        tokio::join!(register(&other, "beside".to_owned()), worker)
    };
    let (burst, (beside, worker)) = tokio::join!(burst, others);
    let took = begun.elapsed();
    assert_eq!(beside.status, 200, "{}", beside.text);
    assert_eq!(worker, Err(OffRampError::Unknown), "a worker also gets a slot");
    let of = |status: u16| burst.iter().filter(|answer| answer.status == status).count();
    println!(
        "of 50 calls {} are served and {} busy, after {took:?}",
        of(200),
        of(502)
    );
    assert_eq!((of(200), of(502)), (8, 42));
    let sentence = "Too many calls to the off-ramp partner are in progress; try again";
    for busy in burst.iter().filter(|answer| answer.status == 502) {
        assert_eq!(busy.json()["message"], sentence);
    }
    assert!(took < Duration::from_millis(3_500), "{took:?}");
    partner.behave(OffRampBehaviour::Normal);
    let asked = Instant::now();
    register(&other, "after".to_owned()).await.expect(200);
    register(&app.key, "own".to_owned()).await.expect(200);
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "the circuit breaker stays closed afterwards"
    );
}

#[tokio::test]
async fn a_repeated_registration_finds_its_record_by_key() {
    let partner = Partner::start().await;
    let app = with(&partner).await;
    let off_ramp = app.ctx.partners.off_ramp.clone().expect("a partner");
    let person = person("Lovelace");
    let key = PartnerKey("ab".repeat(32));
    let first = off_ramp.register(&key, &person).await.expect("registered");
    let again = off_ramp.register(&key, &person).await.expect("found");
    assert_eq!(first, again);
    let other = off_ramp
        .register(&PartnerKey("cd".repeat(32)), &person)
        .await
        .expect("registered");
    assert_ne!(first.id, other.id);
    let keys: Vec<String> = partner.calls().await.into_iter().map(|call| call.key).collect();
    let cd = "cd".repeat(32);
    assert_eq!(keys, [key.0.as_str(), key.0.as_str(), cd.as_str()]);
    off_ramp.erase(&first.id).await.expect("erased");
    off_ramp.erase(&first.id).await.expect("erased before");
    assert_eq!(off_ramp.payer(&first.id).await, Err(OffRampError::Unknown));
}

/// The scripts in the partner's document, by language.
fn script(language: &str) -> String {
    let path = format!("{}/docs/partners/offramp.md", env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(path).expect("the document");
    let begin = format!("```{language}\n");
    let (_, rest) = guide.split_once(&begin).expect("a script");
    rest.split_once("\n```").expect("its end").0.to_owned()
}

#[test]
fn the_documented_scripts_verify_the_vectors_correctly() {
    let path = format!("{}/docs/partners/offramp.vectors.json", env!("CARGO_MANIFEST_DIR"));
    let vectors: Vec<Value> = serde_json::from_str(&fs::read_to_string(path).expect("vectors")).expect("JSON");
    let expected: Vec<Value> = vectors.iter().map(|one| one["isGood"].clone()).collect();
    let folder = tempfile::tempdir().expect("a folder");
    for (program, language, name) in [("python3", "python", "judge.py"), ("node", "js", "judge.cjs")] {
        let file = folder.path().join(name);
        fs::write(&file, script(language)).expect("written");
        let mut command = Command::new(program);
        command.arg(&file);
        let verdicts: Vec<Value> = published::verdicts(command, &vectors);
        assert_eq!(verdicts, expected, "{program}");
    }
    println!("{} vectors judged by Python and Node", vectors.len());
}

#[tokio::test]
async fn fifty_equal_concurrent_callbacks_cause_one_event() {
    let partner = Partner::start().await;
    let app = with(&partner).await;
    app.register_payer(&payers::person("user-4711")).await.expect(200);
    let theirs = app.partner_id("user-4711").await;
    let account = app.account_of("user-4711", &payers::dollars("1234567890")).await;
    for (news, kind, told) in [
        (
            payer_news(&theirs, 50, "approved", "completed"),
            "compliance.updated",
            1,
        ),
        (
            account_news(
                &app.stored_accounts("user-4711").await[0].details.partner,
                &theirs,
                50,
                "approved",
            ),
            "payment_detail.updated",
            // The first event reported that the account was added.
            2,
        ),
    ] {
        let answers = join_all((0..50).map(|_| partner.tell(&app, &news))).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200; 50], "{kind}");
        let events = app.told(kind).await;
        assert_eq!(events.len(), told, "{events:?}");
    }
    assert_eq!(app.accounts("user-4711").await[0]["id"], account.as_str());
}

#[tokio::test]
async fn forged_callbacks_are_limited_unlogged_and_never_block_the_partner() {
    let partner = Partner::start().await;
    let mut settings = partner.settings(settings());
    settings.rate_limits.factor_outside_production = 1;
    let app = TestApp::limited(settings, None).await;
    let (lines, _listening) = Lines::listen();
    let news = payer_news("pyr_unknown", 1, "pending", "not_started").to_string();
    let told = async |secret: &str| {
        let signed = Bent::signed(secret, app.ctx.clock.now(), &news);
        signed.send(&app).await.status
    };
    let mut statuses = Vec::new();
    for _ in 0..80 {
        statuses.push(told("an unknown secret that is long enough").await);
    }
    let first = statuses.iter().position(|status| *status == 429);
    println!("{first:?} forged callbacks before the first 429");
    assert!(first.is_some_and(|first| first > 0), "{statuses:?}");
    assert!(
        statuses.iter().all(|status| [401, 429].contains(status)),
        "{statuses:?}"
    );
    assert!(!lines.text().contains("provider-callbacks"), "{}", lines.text());
    assert_eq!(
        told(CALLBACK_SECRET).await,
        404,
        "the partner's callbacks are accepted even from a shared address"
    );
    assert!(
        lines.text().contains("provider-callbacks"),
        "a signed callback is logged: {}",
        lines.text()
    );
}

#[tokio::test]
async fn callbacks_are_counted_by_outcome() {
    let partner = Partner::start().await;
    let app = with(&partner).await;
    let before = outcomes(&app.get("/metrics").send().await.text);
    partner
        .tell(&app, &payer_news("pyr_1", 1, "pending", "not_started"))
        .await;
    partner.tell(&app, &json!({})).await;
    Bent::signed("an unknown secret that is long enough", app.ctx.clock.now(), "{}")
        .send(&app)
        .await
        .expect(401);
    let after = outcomes(&app.get("/metrics").send().await.text);
    let of = |page: &[(String, u64)], name: &str| page.iter().find(|(known, _)| known == name).map_or(0, |(_, n)| *n);
    for outcome in ["unknown", "unreadable", "unsigned"] {
        assert!(
            of(&after, outcome) > of(&before, outcome),
            "{outcome}: {before:?} {after:?}"
        );
    }
}
