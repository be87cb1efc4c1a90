//! Hourly caps of links at their boundaries, and rate limits of their pages.

use crate::support::{
    TestApp,
    app::{forged, settings},
    links::{link_of, token_of},
    receiver::Receiver,
    screening::{Providers, rows, screened},
};
use prs::{domain::destination::ScreeningProvider::Hypernative, settings::ChainSettings};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

const HOUR_MS: i64 = 3_600_000;

/// A wallet on no list.
fn stranger(number: u32) -> String {
    format!("0x{:040x}", u64::from(number) + (1 << 40))
}

/// Opens a link with one wallet after another; returns the status of each call.
async fn knock(app: &TestApp, link: &str, numbers: std::ops::Range<u32>) -> Vec<u16> {
    let mut statuses = Vec::new();
    for number in numbers {
        let query = format!("?wallet={}", stranger(number));
        statuses.push(app.open_link(link, &query).send().await.status);
    }
    statuses
}

async fn refused_wallets_told(app: &TestApp) -> i64 {
    rows(app, "events WHERE kind = 'secure_payment.access_rejected'").await
}

/// Times near the end of an hour at which a cap is checked: the name of the time, the milliseconds to wait since the
/// previous check, and whether the cap allows calls again.
const BOUNDARIES: [(&str, i64, bool); 2] = [("its last millisecond", HOUR_MS - 1, false), ("its end", 1, true)];

#[tokio::test]
async fn hourly_limits_of_a_link_are_enforced_and_reset() {
    let providers = Providers::start().await;
    let app = TestApp::with(screened(&providers), None).await;
    app.is_paid_in("FAU-sepolia").await;
    let receiver = Receiver::start().await;
    let endpoint = app.post("/v1/webhook").with_key();
    endpoint
        .json(&json!({ "url": receiver.url() }))
        .send()
        .await
        .expect(201);
    let make = async |policy: Value| {
        let mut body = link_of(&["1"]);
        body["accessPolicy"] = policy;
        token_of(&app.link(&body).await.expect(201))
    };
    let listed = make(json!({ "allowedPayerAddresses": [stranger(900)] })).await;
    let screening = make(json!({ "mode": "kyt_all_wallets", "screeningProvider": "hypernative" })).await;
    let open = make(json!(null)).await;

    // Unlisted wallets: events for 20.
    for (most, count) in [(19, 19), (20, 20), (21, 20)] {
        knock(&app, &listed, most - 1..most).await;
        let _ = knock(&app, &listed, 0..most - 1).await;
        assert_eq!(refused_wallets_told(&app).await, count, "{most} wallets");
    }
    // Screened wallets: queries for 30.
    for (most, last) in [(29, 200), (30, 200), (31, 429)] {
        let statuses = knock(&app, &screening, 0..most).await;
        assert_eq!(statuses.last(), Some(&last), "{most} wallets");
    }
    assert_eq!(providers.questions(Hypernative).await, 30);
    // Transactions reported by the owner: 40 in total, permanently.
    let intent = async |number: u8| {
        let body = json!({ "txHash": format!("0x{}", hex::encode([number; 32])), "chain": "SEPOLIA", "token": "FAU" });
        let call = app.post(&format!("/v2/secure-payments/{open}/intent")).with_client();
        call.json(&body).send().await.status
    };
    for number in 1..=41 {
        assert_eq!(
            intent(number).await,
            if number > 40 { 429 } else { 200 },
            "{number} transactions"
        );
    }
    // Reports: 20 from one address.
    let mut step = 0;
    let mut report = async || {
        step += 1;
        let body = json!({ "userEvent": "wallet_connected", "occurredAt": format!("2020-01-01T00:00:00.{step:03}Z") });
        let call = app.post(&format!("/v2/secure-payments/{open}/events")).with_client();
        call.json(&body).send().await
    };
    for number in 1..=20 {
        assert_eq!(report().await.status, 202, "{number} reports");
    }
    let refused = report().await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("3600")));

    for (name, wait_ms, has_room) in BOUNDARIES {
        app.advance_ms(wait_ms);
        let told = refused_wallets_told(&app).await;
        knock(&app, &listed, 100..101).await;
        assert_eq!(
            refused_wallets_told(&app).await - told,
            i64::from(has_room),
            "a refused wallet at {name}"
        );
        let screened = knock(&app, &screening, 100..101).await;
        assert_eq!(
            screened,
            [if has_room { 200 } else { 429 }],
            "a screened wallet at {name}"
        );
        assert_eq!(
            report().await.status,
            if has_room { 202 } else { 429 },
            "a report at {name}"
        );
        assert_eq!(intent(200).await, 429, "a transaction at {name}");
    }
    println!(
        "caps: {} events of refused wallets, {} queries, {} intents, {} reports",
        refused_wallets_told(&app).await,
        providers.questions(Hypernative).await,
        rows(&app, "secure_payment_intents").await,
        rows(&app, "events WHERE kind = 'secure_payment.user_event'").await
    );
}

/// A caller with one of the machine's IP addresses.
struct Caller {
    client: Client,
    service: SocketAddr,
}

impl Caller {
    fn at(service: SocketAddr, address: &str) -> Self {
        let address: IpAddr = address.parse().expect("an address");
        let client = Client::builder().no_proxy().local_address(address).build();
        Self {
            client: client.expect("a client"),
            service,
        }
    }

    /// Sends a call like the page.
    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> (StatusCode, Option<u64>) {
        let url = format!("http://{}{path}", self.service);
        let mut call = self.client.request(method, url).header("sec-fetch-site", "same-origin");
        if let Some(body) = body {
            call = call.json(body);
        }
        let answer = call.send().await.expect("an answer");
        let wait = answer
            .headers()
            .get("retry-after")
            .and_then(|wait| wait.to_str().ok()?.parse().ok());
        (answer.status(), wait)
    }

    async fn get(&self, path: &str) -> u16 {
        self.call(Method::GET, path, None).await.0.as_u16()
    }
}

async fn limited() -> (TestApp, SocketAddr) {
    let app = limited_to(60, 30).await;
    let service = app.listen().await;
    (app, service)
}

/// A service with these limits: calls per minute to the page of a link, and calls per minute with unknown tokens.
async fn limited_to(of_page: u32, unknown: u32) -> TestApp {
    let mut settings = settings();
    let chain = ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    settings.rate_limits.factor_outside_production = 1;
    settings.rate_limits.page_per_minute = of_page;
    settings.rate_limits.unknown_per_minute = unknown;
    let app = TestApp::limited(settings, None).await;
    app.is_paid_in("FAU-sepolia").await;
    app
}

#[tokio::test]
async fn reports_are_limited_per_address_and_link_and_per_link() {
    let app = TestApp::start().await;
    app.is_paid_in("FAU-sepolia").await;
    let service = app.listen().await;
    let links = [
        token_of(&app.link(&link_of(&["1"])).await.expect(201)),
        token_of(&app.link(&link_of(&["1"])).await.expect(201)),
    ];
    let mut step = 0;
    let mut report = async |caller: &Caller, link: &str| {
        step += 1;
        let body = json!({
            "userEvent": "wallet_connected",
            "occurredAt": format!("2020-01-01T00:00:00.{step:03}Z"),
            "properties": {},
        });
        caller
            .call(Method::POST, &format!("/pay/{link}/events"), Some(&body))
            .await
            .0
            .as_u16()
    };
    let callers: Vec<Caller> = (1..=6)
        .map(|number| Caller::at(service, &format!("127.0.0.{}", 100 + number)))
        .collect();
    for (number, caller) in callers.iter().enumerate().take(5) {
        for _ in 0..20 {
            assert_eq!(report(caller, &links[0]).await, 202, "address {number}");
        }
        assert_eq!(report(caller, &links[0]).await, 429, "the 21st of address {number}");
        assert_eq!(report(caller, &links[1]).await, 202, "another link");
    }
    assert_eq!(report(&callers[5], &links[0]).await, 429, "the 101st of the link");
    assert_eq!(rows(&app, "events WHERE kind = 'secure_payment.user_event'").await, 105);
}

#[tokio::test]
async fn reports_are_limited_per_address_and_client_id_across_links() {
    let mut settings = settings();
    settings.caps.reports_of_address = 5;
    settings.caps.public_reports = 8;
    let chain = ChainSettings {
        rpc_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..ChainSettings::default()
    };
    settings.chains.insert("sepolia".to_owned(), chain);
    let app = TestApp::with(settings, None).await;
    app.is_paid_in("FAU-sepolia").await;
    let service = app.listen().await;
    let by_page = async || {
        let link = forged(&app, poem::http::Method::POST, "/v2/secure-payments").json(&link_of(&["1"]));
        token_of(&link.send().await.expect(201))
    };
    let public = [by_page().await, by_page().await, by_page().await];
    let own = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let callers = ["127.0.5.1", "127.0.5.2", "127.0.5.3"].map(|address| Caller::at(service, address));
    let mut step = 0;
    let mut body = || {
        step += 1;
        json!({
            "userEvent": "wallet_connected",
            "occurredAt": format!("2020-01-01T00:00:00.{step:03}Z"),
            "properties": {},
        })
    };
    let mut report = async |caller: usize, link: &str| {
        let path = format!("/pay/{link}/events");
        let (status, wait) = callers[caller].call(Method::POST, &path, Some(&body())).await;
        (status.as_u16(), wait)
    };
    for link in [0, 0, 1, 1, 2] {
        assert_eq!(report(0, &public[link]).await.0, 202, "an address at link {link}");
    }
    for link in public.iter().chain([&own]) {
        assert_eq!(report(0, link).await, (429, Some(3_600)), "the sixth of the address");
    }
    for link in &public {
        assert_eq!(report(1, link).await.0, 202, "another address");
    }
    for link in &public {
        assert_eq!(report(2, link).await, (429, Some(3_600)), "the ninth of the client ID");
    }
    assert_eq!(report(2, &own).await.0, 202, "a link that it did not make");
    // A platform reports for all its payers from one IP address.
    let url = format!("http://{service}/v2/secure-payments/{own}/events");
    let told = callers[0].client.post(url).header("x-api-key", &app.key);
    let told = told.json(&json!({ "userEvent": "wallet_connected", "occurredAt": "2020-01-01T00:00:01Z" }));
    assert_eq!(told.send().await.expect("an answer").status(), StatusCode::ACCEPTED);
    app.advance_ms(HOUR_MS);
    assert_eq!(report(0, &public[0]).await.0, 202, "the next hour");
}

#[tokio::test]
async fn calls_of_a_payment_page_are_counted_by_address_and_token() {
    let (app, service) = limited().await;
    let links = [
        token_of(&app.link(&link_of(&["1"])).await.expect(201)),
        token_of(&app.link(&link_of(&["1"])).await.expect(201)),
    ];
    let step = json!({ "userEvent": "wallet_connected", "occurredAt": "2020-01-01T00:00:00Z", "properties": {} });
    let sent = json!({ "txHash": format!("0x{}", "8f".repeat(32)), "payerAddress": stranger(1) });
    let attempt = json!({ "id": "7".repeat(32), "wallet": stranger(1) });
    let routes: [(Method, &str, Option<&Value>); 9] = [
        (Method::GET, "", None),
        (Method::GET, "/receipt", None),
        (Method::GET, "/state", None),
        (Method::GET, "/calldata", None),
        (Method::POST, "/intent", Some(&sent)),
        (Method::POST, "/events", Some(&step)),
        (Method::POST, "/attempt", Some(&attempt)),
        (Method::POST, "/attempt/withdraw", Some(&attempt)),
        (Method::POST, "/tron/broadcast", Some(&attempt)),
    ];
    // The burst is a sixth of the minute's quota: ten calls of any kind.
    for (first, (method, route, body)) in routes.iter().enumerate() {
        let caller = Caller::at(service, &format!("127.0.1.{}", first + 1));
        for number in 0..10 {
            let (method, route, body) = &routes[(first + number) % routes.len()];
            let path = format!("/pay/{}{route}", links[0]);
            let (status, _) = caller.call(method.clone(), &path, *body).await;
            assert_ne!(status, StatusCode::TOO_MANY_REQUESTS, "call {number} to {route:?}");
        }
        let path = |link: usize| format!("/pay/{}{route}", links[link]);
        let (status, wait) = caller.call(method.clone(), &path(0), *body).await;
        assert_eq!((status.as_u16(), wait), (429, Some(1)), "{route:?}");
        let (other, _) = caller.call(method.clone(), &path(1), *body).await;
        assert_ne!(other, StatusCode::TOO_MANY_REQUESTS, "another link at {route:?}");
        let neighbour = Caller::at(service, &format!("127.0.2.{}", first + 1));
        let (other, _) = neighbour.call(method.clone(), &path(0), *body).await;
        assert_ne!(other, StatusCode::TOO_MANY_REQUESTS, "another address at {route:?}");
        app.advance_ms(1_000);
        let (again, _) = caller.call(method.clone(), &path(0), *body).await;
        assert_ne!(again, StatusCode::TOO_MANY_REQUESTS, "after a second at {route:?}");
    }
    println!(
        "page: {} routes, each with a burst of ten calls per address and link",
        routes.len()
    );
}

#[tokio::test]
async fn token_guesses_are_counted_by_address_across_tokens() {
    let (app, service) = limited().await;
    let link = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let routes = ["", "/receipt", "/state", "/calldata"];
    let guess = |number: usize| {
        format!(
            "/pay/01K9Z0T3G9R5M1N2P3Q4R5{number:04}{}",
            routes[number % routes.len()]
        )
    };
    let (caller, neighbour) = (Caller::at(service, "127.0.3.1"), Caller::at(service, "127.0.3.2"));
    for number in 0..5 {
        assert_eq!(caller.get(&guess(number)).await, 404, "guess {number}");
    }
    assert_eq!(caller.get(&guess(5)).await, 429, "a sixth of a minute's quota");
    assert_eq!(caller.get(&format!("/pay/{link}/state")).await, 200, "an existing link");
    assert_eq!(neighbour.get(&guess(6)).await, 404, "another address");
    // A caller that uses up a minute's quota is blocked, but only for unknown tokens.
    for number in 7..40 {
        assert_eq!(caller.get(&guess(number)).await, 429);
    }
    let (blocked, wait) = caller.call(Method::GET, &guess(40), None).await;
    assert_eq!(blocked.as_u16(), 429);
    assert!(wait.is_some_and(|wait| wait > 60), "{wait:?}");
    for route in ["", "/state", "/receipt"] {
        assert_eq!(
            caller.get(&format!("/pay/{link}{route}")).await,
            200,
            "an existing link stays available"
        );
    }
    assert_eq!(neighbour.get(&format!("/pay/{link}/state")).await, 200);
    app.advance_ms(300_000);
    assert_eq!(caller.get(&guess(41)).await, 404, "the block ends");
    println!("guesses: 5 at once, then 429; blocked after 30 more");
}

#[tokio::test]
async fn an_unknown_token_counts_only_for_the_ip_address() {
    let app = limited_to(6, 60).await;
    let link = token_of(&app.link(&link_of(&["1"])).await.expect(201));
    let visit = async |token: &str| app.get(&format!("/pay/{token}/state")).send().await;
    assert_eq!(visit(&link).await.status, 200);
    assert_eq!(visit(&link).await.status, 429, "the burst of a link is one visit");
    for number in 0..10 {
        let guess = visit("01K9Z0T3G9R5M1N2P3Q4R50000").await;
        assert_eq!(guess.status, 404, "guess {number}");
        assert_eq!(guess.header("ratelimit-limit"), Some("60"), "guess {number}");
    }
    assert_eq!(visit("01K9Z0T3G9R5M1N2P3Q4R50001").await.status, 429);
}
