//! The `/_dev` endpoints of `prs dev`, which no other process has.

use crate::support::{
    TestApp,
    chain::transactions,
    clock::FixedClock,
    dev::Dev,
    payers::{dollars, person},
    program,
    receiver::Receiver,
};
use alloy::{
    primitives::{B256, U256},
    sol_types::SolCall,
};
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use devnet::off_ramp::{OffRampSandbox, SandboxKey};
use poem::{Endpoint, Request, endpoint::BoxEndpoint, http::Method};
use prs::{
    adapters::{
        rates::{CoinIds, sandbox::RateSandbox},
        screening::sandbox::ScreeningSandbox,
    },
    boot::{process::Process, role::Role, serve},
    domain::{address::Address, off_ramp_sandbox::OffRampBehaviour, paying::fee_proxy::Erc20FeeProxy, webhook::sign},
    http::dev::{DevRoom, LentKeys},
    ports::{
        clock::Clock,
        sandbox::{SandboxWallet, TimeMachine, WalletCall},
    },
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// Moves the test clock.
struct Fixed(Arc<FixedClock>);

#[async_trait]
impl TimeMachine for Fixed {
    async fn forward(&self, by: TimeDelta) -> anyhow::Result<DateTime<Utc>> {
        self.0.advance(by);
        Ok(self.0.now())
    }
}

/// A wallet that signs nothing and records the calls it receives.
#[derive(Default)]
struct Blind(Mutex<Vec<WalletCall>>);

#[async_trait]
impl SandboxWallet for Blind {
    fn address(&self) -> Address {
        Address::parse(PAYER).expect("an address")
    }

    async fn send(&self, calls: &[WalletCall]) -> anyhow::Result<Vec<B256>> {
        let mut kept = self.0.lock().expect("no panic");
        kept.extend_from_slice(calls);
        if calls.iter().any(|call| call.data.is_empty()) {
            anyhow::bail!("it has no effect")
        } else {
            Ok(calls.iter().map(|_| B256::repeat_byte(7)).collect())
        }
    }
}

const PAYER: &str = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";
const PAYEE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

fn with_room(app: &TestApp) -> Process {
    let mut process = Process::new(Role::Api);
    process.room = Some(DevRoom {
        time: Arc::new(Fixed(app.clock.clone())),
        rates: Arc::new(RateSandbox::new(CoinIds::default(), app.clock.clone())),
        screening: Arc::new(ScreeningSandbox::default()),
        off_ramp: Arc::new(OffRampSandbox::new(
            SandboxKey {
                id: "prs".to_owned(),
                secret: "key".to_owned(),
            },
            "http://127.0.0.1:9".to_owned(),
            1,
        )),
        wallet: Arc::new(Blind::default()),
        lent: LentKeys {
            api_key: app.key.clone(),
            client_id: app.backend_client.clone(),
            orchestrator_key: "orc_key".to_owned(),
            session: "session".to_owned(),
            payee: Address::parse(PAYEE).expect("an address"),
            currency: "FAU-sepolia".to_owned(),
        },
    });
    process
}

type App = BoxEndpoint<'static, poem::Response>;

/// Posts to `/_dev`. The `Host` header is `localhost`, unless `headers` contains another host.
async fn post(app: &App, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let mut call = Request::builder()
        .method(Method::POST)
        .uri(path.parse().expect("a path"));
    if headers.iter().all(|(name, _)| *name != "host") {
        call = call.header("host", "localhost:8080");
    }
    for (name, value) in headers {
        call = call.header(*name, *value);
    }
    let answer = app.get_response(call.body(body.to_owned())).await;
    let status = answer.status().as_u16();
    let text = answer.into_body().into_string().await.expect("text");
    (status, serde_json::from_str(&text).expect("JSON"))
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn the_clock_moves_only_for_json_from_no_page_or_an_own_page() {
    let app = TestApp::start().await;
    let served = serve::app(&crate::support::app::settings(), &app.ctx, &with_room(&app));
    let before = app.ctx.clock.now();
    let own = app.ctx.own_pages.origin.clone();
    let day = r#"{"seconds":86400}"#;
    for (headers, body, status) in [
        (vec![], day, 400),
        (vec![("content-type", "text/plain")], day, 400),
        (vec![JSON], r#"{"seconds":0}"#, 400),
        (vec![JSON], r#"{"seconds":-1}"#, 400),
        (vec![JSON], r#"{"seconds":31622401}"#, 400),
        (vec![JSON], r#"{}"#, 400),
        (vec![JSON, ("origin", "http://localhost:3000")], day, 403),
        (vec![JSON, ("origin", "null")], day, 403),
        (vec![JSON, ("sec-fetch-site", "cross-site")], day, 403),
        (vec![JSON, ("origin", own.as_str()), ("origin", own.as_str())], day, 403),
        (
            vec![
                JSON,
                ("sec-fetch-site", "same-origin"),
                ("origin", "http://rebound.example:8080"),
            ],
            day,
            403,
        ),
        (vec![JSON, ("host", "rebound.example:8080")], day, 403),
        (
            vec![JSON, ("host", "rebound.example"), ("sec-fetch-site", "same-origin")],
            day,
            403,
        ),
        (vec![JSON, ("host", "localhost.rebound.example")], day, 403),
        (vec![JSON, ("host", "")], day, 403),
        (vec![JSON, ("host", "localhost"), ("host", "rebound.example")], day, 403),
        (
            vec![JSON, ("sec-fetch-site", "same-site"), ("origin", "http://127.0.0.1:1")],
            day,
            403,
        ),
    ] {
        let (answered, error) = post(&served, "/_dev/clock", &headers, body).await;
        assert_eq!(answered, status, "{headers:?} {body}: {error}");
        assert_eq!(error["statusCode"], status);
    }
    assert_eq!(app.ctx.clock.now(), before);
    let own_host = own.split_once("://").expect("an origin").1;
    for headers in [
        vec![JSON],
        vec![JSON, ("host", own_host), ("origin", own.as_str())],
        vec![JSON, ("host", "[::1]:8080"), ("sec-fetch-site", "same-origin")],
    ] {
        let (status, moved) = post(&served, "/_dev/clock", &headers, day).await;
        assert_eq!(status, 200, "{headers:?}: {moved}");
        let now: DateTime<Utc> = moved["now"].as_str().expect("a time").parse().expect("a time");
        assert_eq!(now, app.ctx.clock.now());
    }
    assert_eq!(app.ctx.clock.now() - before, TimeDelta::days(3));
}

#[tokio::test]
async fn dev_endpoints_exist_only_in_prs_dev_and_never_in_production() {
    let app = TestApp::start().await;
    let refused = app.post("/_dev/clock").json(&json!({ "seconds": 1 })).send().await;
    assert_eq!(refused.expect(404)["message"], "Cannot POST /_dev/clock");
    let mut settings = crate::support::app::settings();
    settings.http.production = true;
    let served = serve::run_with(&settings, app.ctx.clone(), with_room(&app), || {}).await;
    let refusal = served.expect_err("refused").to_string();
    assert_eq!(refusal, "http.production: must be false when `/_dev` is served");
    for document in crate::support::contract::documents() {
        let paths = document["paths"].as_object().expect("paths");
        assert!(paths.keys().all(|path| !path.starts_with("/_dev")));
    }
}

/// Unix time of the newest block.
async fn block_time(dev: &Dev) -> i64 {
    let block = dev.ask_node("eth_getBlockByNumber", json!(["latest", false])).await;
    let digits = block["timestamp"].as_str().expect("a quantity");
    i64::from_str_radix(digits.trim_start_matches("0x"), 16).expect("a number")
}

/// Time of the newest block on Tron.
async fn tron_block_time(dev: &Dev) -> DateTime<Utc> {
    let url = format!("{}/wallet/getnowblock", dev.text("/tron/apiUrl"));
    let block = dev.call_url(&url, &json!({})).await;
    let time_ms = block["block_header"]["raw_data"]["timestamp"].as_i64().expect("a time");
    DateTime::from_timestamp_millis(time_ms).expect("a time")
}

fn time(value: &Value) -> DateTime<Utc> {
    value.as_str().expect("a time").parse().expect("a time")
}

#[tokio::test]
async fn prs_dev_moves_service_clock_due_work_and_chains_together() {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(folder.path());
    let forward = async |seconds: i64| {
        let moved = dev.call("/_dev/clock", Some(&json!({ "seconds": seconds }))).await;
        time(&moved["now"])
    };
    let begun = forward(1).await;
    let there = dev.call("/v2/request", None).await["pagination"]["total"].clone();
    let there = there.as_u64().expect("a count");
    let body = json!({
        "payee": dev.text("/chain/accounts/1/address"),
        "amount": "1",
        "invoiceCurrency": "FAU-sepolia",
        "paymentCurrency": "FAU-sepolia",
        "recurrence": { "startDate": begun.date_naive().to_string(), "frequency": "WEEKLY" },
    });
    dev.call("/v2/request", Some(&body)).await;
    let block_before = block_time(&dev).await;
    let now = forward(15 * 86_400).await;
    let is_near = |time: DateTime<Utc>| (time - now).abs() < TimeDelta::minutes(2);
    assert!(is_near(begun + TimeDelta::days(15)), "{begun} {now}");
    let block = block_time(&dev).await;
    assert!(block - block_before >= 15 * 86_400);
    assert!(is_near(DateTime::from_timestamp(block, 0).expect("a time")));
    assert!(is_near(tron_block_time(&dev).await));
    let asked = Instant::now();
    loop {
        let list = dev.call("/v2/request", None).await;
        if list["pagination"]["total"] == there + 3 {
            assert!(is_near(time(&list["requests"][0]["createdAt"])), "{list}");
            break;
        }
        assert!(asked.elapsed() < Duration::from_secs(30), "{list}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn prs_dev_runs_without_tron_if_node_js_is_missing() {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start_with(folder.path(), &[("PATH", folder.path().to_str().expect("text"))]);
    assert_eq!(dev.ready["tron"], Value::Null);
    let status = async |network: &str| {
        let key = [("x-api-key", dev.text("/apiKey"))];
        let listed = dev.send(&format!("/v2/currencies?network={network}"), &key, None).await;
        listed.expect("a response").0
    };
    assert_eq!((status("sepolia").await, status("tron").await), (200, 404));
}

/// The units that the last transaction of this calldata pays through the fee proxy contract.
fn units(calldata: &Value) -> U256 {
    let steps = transactions(calldata);
    let call = Erc20FeeProxy::transferFromWithReferenceAndFeeCall::abi_decode(&steps.last().expect("a payment").1);
    call.expect("a payment through the fee proxy").amount
}

#[tokio::test]
async fn prs_dev_pays_dollars_in_usdc_at_a_changeable_rate() {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(folder.path());
    let body = json!({
        "payee": dev.text("/chain/accounts/1/address"),
        "amount": "9.8",
        "invoiceCurrency": "USD",
        "paymentCurrency": "USDC-sepolia",
    });
    let created = dev.call("/v2/request", Some(&body)).await;
    let id = created["requestId"].as_str().expect("an id");
    let pay = format!("/v2/request/{id}/pay");
    assert_eq!(units(&dev.call(&pay, None).await), U256::from(9_800_000));
    let price = json!({ "token": "usdc", "currency": "USD", "price": "0.98" });
    let changed = dev.call("/_dev/rates", Some(&price)).await;
    let rates = changed["rates"].as_array().expect("a list");
    let usdc = rates
        .iter()
        .find(|rate| rate["token"] == "USDC" && rate["currency"] == "USD");
    assert_eq!(usdc.expect("a rate")["rate"], "0.98");
    assert!(
        rates.iter().all(|rate| !rate["rate"].is_null()),
        "every pair has an initial rate: {changed}"
    );
    let quoted = dev.call(&pay, None).await;
    assert_eq!(units(&quoted), U256::from(10_000_000));
    assert!(quoted["metadata"]["quoteExpiresAt"].is_i64());
    let stale = dev.call("/_dev/rates", Some(&json!({ "stale": true }))).await;
    assert!(
        stale["rates"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|rate| rate["rate"].is_null())
    );
}

/// Sets the screening result that the sandbox reports for a wallet. Invalid wallets and invalid results are refused.
#[tokio::test]
async fn sandbox_screening_outcomes_are_set_for_valid_wallets() {
    let app = TestApp::start().await;
    let served = serve::app(&crate::support::app::settings(), &app.ctx, &with_room(&app));
    let wallet = "0x7eB023BFbAeE228de6DC5B92D0BeEB1eDb1Fd567";
    for outcome in ["approved", "rejected", "error", "hang"] {
        let body = json!({ "wallet": wallet, "outcome": outcome }).to_string();
        let (status, told) = post(&served, "/_dev/screening", &[JSON], &body).await;
        assert_eq!(status, 200, "{told}");
        let expected = json!({ "wallet": wallet, "outcome": outcome, "provider": null });
        assert_eq!(told, expected);
    }
    for (body, field) in [
        (json!({ "wallet": "0x1", "outcome": "approved" }), "wallet"),
        (
            json!({ "wallet": wallet.replace('B', "b"), "outcome": "approved" }),
            "wallet",
        ),
        (json!({ "wallet": wallet, "outcome": "maybe" }), "outcome"),
        (json!({ "wallet": wallet }), "outcome"),
        (
            json!({ "wallet": wallet, "outcome": "hang", "provider": "nobody" }),
            "provider",
        ),
    ] {
        let (status, refused) = post(&served, "/_dev/screening", &[JSON], &body.to_string()).await;
        assert_eq!(
            (status, &refused["errors"][0]["field"]),
            (400, &json!(field)),
            "{refused}"
        );
    }
    let foreign = [JSON, ("origin", "http://localhost:3000")];
    let body = json!({ "wallet": wallet, "outcome": "approved" });
    assert_eq!(
        post(&served, "/_dev/screening", &foreign, &body.to_string()).await.0,
        403
    );
    let elsewhere = app.post("/_dev/screening").json(&body).send().await;
    elsewhere.expect(404);
}

#[tokio::test]
async fn dev_endpoints_control_the_off_ramp_partner() {
    let app = TestApp::start().await;
    let served = serve::app(&crate::support::app::settings(), &app.ctx, &with_room(&app));
    for behaviour in OffRampBehaviour::ALL.map(OffRampBehaviour::wire) {
        let body = json!({ "behaviour": behaviour });
        let (status, told) = post(&served, "/_dev/offramp", &[JSON], &body.to_string()).await;
        assert_eq!((status, told), (200, body));
    }
    for body in [json!({}), json!({ "behaviour": "odd" }), json!({ "behaviour": null })] {
        let (status, refused) = post(&served, "/_dev/offramp", &[JSON], &body.to_string()).await;
        assert_eq!(
            (status, &refused["errors"][0]["field"]),
            (400, &json!("behaviour")),
            "{refused}"
        );
    }
    let foreign = [JSON, ("origin", "http://localhost:3000")];
    let body = json!({ "behaviour": "down" });
    assert_eq!(post(&served, "/_dev/offramp", &foreign, &body.to_string()).await.0, 403);
    app.post("/_dev/offramp").json(&body).send().await.expect(404);
}

#[tokio::test]
async fn production_rejects_a_database_created_by_prs_dev() {
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(folder.path());
    let database = dev.text("/databaseUrl").to_owned();
    drop(dev);
    let mut serve = program::prs(folder.path());
    serve
        .env("PRS_DATABASE__URL", &database)
        .env("PRS_HTTP__LISTEN", "127.0.0.1:0")
        .env("PRS_HTTP__METRICS_LISTEN", "127.0.0.1:0");
    let output = serve.arg("serve").output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("database.url: `prs dev` created this database"), "{said}");
}

#[test]
fn a_folder_is_used_by_one_prs_dev_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(folder.path());
    let mut second = program::prs(folder.path());
    second
        .args(["dev", "--json", "--port", "0", "--data"])
        .arg(folder.path());
    let output = second.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("is in use by another `prs dev`"),
        "{said}"
    );
    drop(dev);
    Dev::start(folder.path());
}

#[tokio::test]
async fn prs_dev_screens_wallets_with_configurable_providers() {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(folder.path());
    let wallet = dev.text("/chain/accounts/0/address").to_owned();
    let body = json!({
        "requests": [{ "amount": "1" }],
        "accessPolicy": { "mode": "kyt_all_wallets", "screeningProvider": "hypernative" },
    });
    for (told, status, provider) in [
        (vec![], "approved", "hypernative"),
        (vec![("rejected", json!(null))], "rejected", "hypernative"),
        (
            vec![("error", json!("hypernative")), ("approved", json!("merklescience"))],
            "approved",
            "merklescience",
        ),
        (vec![("error", json!("merklescience"))], "error", "hypernative"),
    ] {
        for (outcome, provider) in told {
            let mut change = json!({ "wallet": wallet, "outcome": outcome });
            if !provider.is_null() {
                change["provider"] = provider;
            }
            dev.call("/_dev/screening", Some(&change)).await;
        }
        let made = dev.call("/v2/secure-payments", Some(&body)).await;
        let link = made["token"].as_str().expect("a token").to_owned();
        let opened = dev
            .call(&format!("/v2/secure-payments/{link}?wallet={wallet}"), None)
            .await;
        let decision = &opened["accessDecision"];
        assert_eq!(
            (&decision["status"], &decision["provider"]),
            (&json!(status), &json!(provider)),
            "{opened}"
        );
    }
}

#[tokio::test]
async fn environment_variables_set_prs_dev_settings_not_tied_to_its_chain() {
    let folder = tempfile::tempdir().expect("a folder");
    let variables = [
        ("PRS_BRAND__NAME", "Corner shop"),
        ("PRS_SECURE_PAYMENTS__EXPIRES_IN_S", "600"),
        ("PRS_PAYERS__MASK_BANK_DETAILS", "true"),
    ];
    let dev = Dev::start_with(folder.path(), &variables);
    prs::adapters::install_tls();
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let demo = client
        .get(dev.text("/securePaymentUrl"))
        .send()
        .await
        .expect("an answer");
    assert_eq!(demo.status(), 200, "the demo link can be paid");
    let body = json!({ "requests": [{ "amount": "1" }] });
    let made = dev.call("/v2/secure-payments", Some(&body)).await;
    let token = made["token"].as_str().expect("a token");
    let open = dev.call(&format!("/v2/secure-payments/{token}"), None).await;
    let time = |text: &Value| DateTime::parse_from_rfc3339(text.as_str().expect("a time")).expect("a time");
    let lasts = time(&open["expiresAt"]) - time(&open["analytics"]["creationTimestamp"]);
    assert!(
        (lasts - TimeDelta::seconds(600)).abs() < TimeDelta::seconds(1),
        "{lasts}"
    );
    let page = client.get(format!("{}/pay/{token}", dev.text("/baseUrl"))).send().await;
    let page = page.expect("an answer").text().await.expect("text");
    assert!(page.contains("Corner shop"), "{page}");
    dev.call("/v2/payer", Some(&person("user-4711"))).await;
    let accounts = "/v2/payer/user-4711/payment-details";
    dev.call(accounts, Some(&dollars("1234567890"))).await;
    let listed = dev.call(accounts, None).await;
    assert_eq!(listed["paymentDetails"][0]["accountNumber"], "******7890", "{listed}");
}

#[tokio::test]
async fn prs_dev_signs_with_the_header_names_of_the_hosted_service() {
    let folder = tempfile::tempdir().expect("a folder");
    prs::adapters::install_tls();
    let dev = Dev::start(folder.path());
    let receiver = Receiver::start().await;
    let made = dev.call("/v1/webhook", Some(&json!({ "url": receiver.url() }))).await;
    let secret = made["secret"].as_str().expect("a secret");
    dev.call("/v1/webhook/test", Some(&json!({ "eventType": "payment.confirmed" })))
        .await;
    let one = receiver.received().await.remove(0);
    for prefix in ["x-service", "x-request-network"] {
        let header = |name: &str| one.header(&format!("{prefix}-{name}"));
        assert_eq!(
            header("signature"),
            Some(sign(secret, one.body.as_bytes()).as_str()),
            "{prefix}"
        );
        assert_eq!(
            (header("retry-count"), header("test")),
            (Some("0"), Some("true")),
            "{prefix}"
        );
        assert!(header("delivery").is_some(), "{prefix}");
    }
}

#[tokio::test]
async fn dev_keys_and_wallet_are_available_only_to_own_pages() {
    let app = TestApp::start().await;
    let served = serve::app(&crate::support::app::settings(), &app.ctx, &with_room(&app));
    let own = app.ctx.own_pages.origin.clone();
    let keys = async |headers: &[(&str, &str)]| {
        let mut call = Request::builder().uri("/_dev/keys".parse().expect("a path"));
        for (name, value) in headers {
            call = call.header(*name, *value);
        }
        let answer = served.get_response(call.finish()).await;
        let status = answer.status().as_u16();
        let kept = answer.header("cache-control").expect("a header").to_owned();
        let text = answer.into_body().into_string().await.expect("text");
        (status, kept, serde_json::from_str::<Value>(&text).expect("JSON"))
    };
    let (status, kept, lent) = keys(&[("host", "localhost:8080"), ("sec-fetch-site", "same-origin")]).await;
    assert_eq!((status, kept.as_str()), (200, "no-store"));
    let expected = json!({
        "credentials": {
            "ApiKey": app.key, "ClientId": app.backend_client, "OrchestratorKey": "orc_key", "SessionBearer": "session",
        },
        "payee": PAYEE, "payer": PAYER, "currency": "FAU-sepolia",
    });
    assert_eq!(lent, expected);
    // A page opened by another name of this machine sends that name as its origin.
    let by_name = keys(&[("host", "localhost:8080"), ("origin", "http://localhost:8080")]).await;
    assert_eq!(by_name.0, 200);
    for headers in [
        vec![("host", "localhost:8080"), ("sec-fetch-site", "cross-site")],
        vec![("host", "localhost:8080"), ("sec-fetch-site", "same-site")],
        vec![("host", "localhost:8080"), ("origin", "http://localhost:3000")],
        vec![("host", "localhost:8080"), ("origin", "null")],
        vec![("host", "rebound.example"), ("sec-fetch-site", "same-origin")],
        // DNS rebinding: page and service have the same origin, which is not the configured one.
        vec![
            ("host", "rebound.example:8080"),
            ("origin", "http://rebound.example:8080"),
            ("sec-fetch-site", "same-origin"),
        ],
        vec![("host", "rebound.example:8080"), ("origin", own.as_str())],
        vec![("host", "localhost@rebound.example"), ("sec-fetch-site", "same-origin")],
        vec![("host", "localhost"), ("host", "rebound.example")],
        vec![("host", "localhost.rebound.example")],
        vec![("host", "")],
        vec![],
    ] {
        let (status, _, refused) = keys(&headers).await;
        assert_eq!(
            (status, &refused["statusCode"], &refused["error"]),
            (403, &json!(403), &json!("Forbidden")),
            "{headers:?}: {refused}"
        );
    }
    let transaction = |to: &str, data: &str, value: &str| json!({ "to": to, "data": data, "value": { "type": "BigNumber", "hex": value } });
    let sign = async |transactions: Value| {
        let body = json!({ "transactions": transactions }).to_string();
        post(&served, "/_dev/wallet", &[JSON], &body).await
    };
    let good = transaction(PAYEE, "0x01", "0x00");
    let (status, sent) = sign(json!([good, good])).await;
    let hash = format!("0x{}", "07".repeat(32));
    assert_eq!((status, &sent), (200, &json!({ "hashes": [hash, hash] })));
    // The same response as for links and batch approvals.
    let of_link = json!({ "to": PAYEE, "data": "0x01", "value": "0x0", "chainId": 11_155_111 });
    let of_batch = json!({ "to": PAYEE, "data": "0x01", "value": 0 });
    assert_eq!(sign(json!([of_link, of_batch])).await.0, 200);
    for (wrong, field) in [
        (json!([]), "transactions"),
        (json!([good, transaction("T", "0x01", "0x00")]), "transactions[1].to"),
        (json!([transaction(PAYEE, "0x0", "0x00")]), "transactions[0].data"),
        (json!([transaction(PAYEE, "0x01", "many")]), "transactions[0].value"),
    ] {
        let (status, refused) = sign(wrong).await;
        assert_eq!(
            (status, &refused["errors"][0]["field"]),
            (400, &json!(field)),
            "{refused}"
        );
    }
    let (status, refused) = sign(json!([transaction(PAYEE, "0x", "0x00")])).await;
    assert_eq!(status, 409, "{refused}");
    assert!(refused["message"].as_str().expect("a text").contains("no effect"));
}
