//! The off-ramp partner of `prs dev` over its own socket: the adapter calls it, a browser presses its buttons, and it
//! repeats each callback until it is accepted.

use crate::support::{
    browser::Browser,
    dev::Dev,
    fiat,
    off_ramp::{CALLBACK_SECRET, KEY, person},
};
use chrono::{DateTime, Utc};
use devnet::off_ramp::{self, Now, OffRampSandbox, SandboxKey, Teller};
use prs::{
    adapters::{
        clock::SystemClock,
        ids::SystemIds,
        off_ramp::{HttpOffRamp, HttpOffRampOptions},
    },
    domain::{
        event::{AgreementStatus, KycStatus},
        ids::Secret,
        off_ramp_signature::{CallbackText, header},
        waits::Waits,
    },
    ports::{
        clock::Clock,
        off_ramp::{OffRamp, PartnerKey},
    },
    settings::{Settings, catalogue},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

/// Accepts each callback at the third attempt.
#[derive(Default)]
struct Reluctant(Arc<Mutex<HashMap<String, u32>>>);

impl Respond for Reluctant {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let id = request.headers[header::ID].to_str().expect("text").to_owned();
        let mut tries = self.0.lock().expect("a lock");
        let tries = tries.entry(id).or_default();
        *tries += 1;
        ResponseTemplate::new(if *tries < 3 { 404 } else { 200 })
    }
}

struct Stage {
    receiver: MockServer,
    partner: HttpOffRamp,
    browser: reqwest::Client,
}

impl Stage {
    async fn start() -> Self {
        prs::adapters::install_tls();
        let receiver = MockServer::start().await;
        Mock::given(any())
            .respond_with(Reluctant::default())
            .mount(&receiver)
            .await;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let bank = off_ramp::bind().await.expect("a port");
        let key = SandboxKey {
            id: "prs".to_owned(),
            secret: KEY.to_owned(),
        };
        let options = HttpOffRampOptions {
            url: bank.url().parse().expect("an address"),
            timeout: Waits::default().partner,
            key_id: key.id.clone(),
            key_secret: Secret::new(KEY),
            callback_secrets: vec![Secret::new(CALLBACK_SECRET)],
            deposits: BTreeMap::new(),
            allow_loopback: true,
            catalogue: Arc::new(catalogue::load(&Settings::default()).expect("a catalogue")),
            clock: clock.clone(),
            ids: Arc::new(SystemIds::new(clock.clone())),
        };
        let sandbox = Arc::new(OffRampSandbox::new(key, bank.pages(), 1));
        let url = format!("{}/callbacks", receiver.uri());
        let now: Now = Arc::new(move || clock.now());
        let teller = Teller::new(url, CALLBACK_SECRET.to_owned(), now.clone()).expect("a teller");
        bank.serve(sandbox, now, teller);
        let browser = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none());
        Self {
            receiver,
            partner: HttpOffRamp::new(options).expect("a partner"),
            browser: browser.build().expect("a browser"),
        }
    }

    /// Presses a button on the page of the sandbox partner; returns the HTTP status.
    async fn press(&self, page: &str, outcome: &str, headers: &[(&'static str, &str)]) -> u16 {
        let mut call = self.browser.post(page).body(format!("outcome={outcome}"));
        call = call.header("content-type", "application/x-www-form-urlencoded");
        for (name, value) in headers {
            call = call.header(*name, *value);
        }
        call.send().await.expect("an answer").status().as_u16()
    }

    /// Waits until the receiver has accepted this number of callbacks; returns the type and version of each.
    async fn taken(&self, count: usize) -> Vec<(String, u64)> {
        for _ in 0..200 {
            let all = self.receiver.received_requests().await.expect("kept");
            let mut tries: HashMap<String, u32> = HashMap::new();
            let mut taken = Vec::new();
            for request in &all {
                let value = |name: &str| request.headers[name].to_str().expect("text");
                let text = CallbackText {
                    time: value(header::TIME),
                    id: value(header::ID),
                    body: &request.body,
                };
                let at: DateTime<Utc> = SystemClock.now();
                assert!(text.is_signed(&[Secret::new(CALLBACK_SECRET)], at, value(header::SIGNATURE)));
                let tries = tries.entry(text.id.to_owned()).or_default();
                *tries += 1;
                if *tries == 3 {
                    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
                    let kind = body["type"].as_str().expect("a kind").to_owned();
                    taken.push((
                        kind.clone(),
                        body[kind.as_str()]["version"].as_u64().expect("a version"),
                    ));
                }
            }
            assert!(
                tries.values().all(|tries| *tries <= 3),
                "an accepted callback is not repeated"
            );
            if taken.len() >= count {
                return taken;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{count} callbacks are never accepted");
    }
}

#[tokio::test]
async fn sandbox_buttons_move_a_payer_and_callbacks_repeat_until_accepted() {
    let stage = Stage::start().await;
    let key = PartnerKey("ab".repeat(32));
    let begun = stage
        .partner
        .register(&key, &person("Lovelace"))
        .await
        .expect("registered");
    assert_eq!(
        (begun.kyc, begun.agreement),
        (KycStatus::NotStarted, AgreementStatus::NotStarted)
    );
    let [kyc, agreement] = [&begun.kyc_url, &begun.agreement_url].map(|link| link.clone().expect("a link"));

    let page = stage.browser.get(&kyc).send().await.expect("a page");
    assert_eq!(page.status().as_u16(), 200);
    let policy = page.headers()["content-security-policy"]
        .to_str()
        .expect("text")
        .to_owned();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let text = page.text().await.expect("text");
    for outcome in ["submit", "approve", "reject", "ask again"] {
        assert!(text.contains(&format!("value=\"{outcome}\"")), "{text}");
    }
    assert!(!text.contains("<script"), "{text}");

    let foreign = [("origin", "http://shop.example.com")];
    assert_eq!(stage.press(&kyc, "approve", &foreign).await, 403);
    let renamed = [("host", "shop.example.com")];
    assert_eq!(stage.press(&kyc, "approve", &renamed).await, 403);
    assert_eq!(stage.press(&kyc, "win", &[]).await, 404);
    assert_eq!(stage.press(&format!("{kyc}x"), "approve", &[]).await, 404);
    assert_eq!(stage.press(&kyc.replace("/kyc/", "/tax/"), "approve", &[]).await, 404);
    assert_eq!(
        stage.partner.payer(&begun.id).await.expect("known").kyc,
        KycStatus::NotStarted
    );

    let origin = kyc.split("/pages").next().expect("an origin");
    assert_eq!(stage.press(&kyc, "approve", &[("origin", origin)]).await, 303);
    let seen = stage.browser.get(&agreement).send().await.expect("a page");
    assert!(seen.text().await.expect("text").contains("pending"));
    assert_eq!(stage.press(&agreement, "agree", &[]).await, 303);
    let proven = stage.partner.payer(&begun.id).await.expect("known");
    assert_eq!(
        (proven.kyc, proven.agreement),
        (KycStatus::Approved, AgreementStatus::Completed)
    );
    assert_eq!((proven.kyc_url, proven.agreement_url), (None, None), "no step is left");

    let versions = [2, 3, 4, 5].map(|version| ("payer".to_owned(), version));
    assert_eq!(stage.taken(4).await, versions);
}

/// The name by which WebDriver calls elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Opens a page in the browser and clicks one of its buttons; returns the status that the page shows afterwards.
async fn click(browser: &Browser, page: &str, outcome: &str) -> String {
    browser.open(page).await;
    let button = json!({ "using": "css selector", "value": format!("button[value='{outcome}']") });
    let found = browser.post("element", &button).await;
    let id = found[ELEMENT].as_str().unwrap_or_else(|| panic!("{outcome}: {found}"));
    assert_eq!(
        browser.post(&format!("element/{id}/click"), &json!({})).await,
        Value::Null
    );
    let status = json!({ "using": "css selector", "value": "#status" });
    // Elements of the page that is being left have no text.
    loop {
        let found = browser.post("element", &status).await;
        let id = found[ELEMENT].as_str().unwrap_or_default();
        let text = browser.get(&format!("element/{id}/text")).await;
        match text.as_str() {
            Some(text) => return text.to_owned(),
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

#[tokio::test]
async fn a_payer_clicks_through_both_pages_and_becomes_compliant() {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(folder.path());
    let browser = Browser::start().await;
    let registered = dev.call("/v2/payer", Some(&fiat::person("clicked", "Lovelace"))).await;
    let page = |name: &str| registered[name].as_str().expect("a link").to_owned();
    let seen = click(&browser, &page("kycUrl"), "submit").await;
    println!("identity: submit -> {seen}");
    assert_eq!(seen, "pending");
    let seen = click(&browser, &page("kycUrl"), "approve").await;
    println!("identity: approve -> {seen}");
    assert_eq!(seen, "approved");
    let seen = click(&browser, &page("agreementUrl"), "agree").await;
    println!("agreement: agree -> {seen}");
    assert_eq!(seen, "completed");
    let begun = tokio::time::Instant::now();
    while dev.call("/v2/payer/clicked", None).await["isCompliant"] != true {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the callbacks are not accepted"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    browser.end().await;
}
