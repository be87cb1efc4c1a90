//! Calls to the partner, invalid responses, and the published schemas and vectors.

use super::{
    HttpOffRamp, HttpOffRampOptions,
    questions::{BankAccountBody, PersonBody},
};
use crate::{
    adapters::{clock::SystemClock, ids::SystemIds},
    domain::{
        address::Address,
        amount::Amount,
        currency::{Catalogue, ContractKind, Currency, KnownContract},
        ids::Secret,
        network::Network,
        off_ramp_refusal::OffRampRefusal,
        off_ramp_signature::{CallText, CallbackText, header},
        payer::{ACCOUNT_FIELDS, AccountType, BankAccount, Beneficiary, DescribedPayer, PERSON_FIELDS, Rails},
        waits::Waits,
    },
    ports::{
        clock::Clock,
        off_ramp::{OffRamp, OffRampError, OrderQuestion, OrderStatus, PartnerKey, PartnerNews, QuoteQuestion},
    },
};
use chrono::{DateTime, TimeDelta};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::Instant;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

/// The payment token.
const USDC: &str = "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238";
/// The contract that accepts token payments on the network of [`USDC`].
const FEE_PROXY: &str = "0x399F5EE127ce7432E4921a61b8CF52b0af52cbfE";
const DEPOSIT: &str = "0x7eB023BFbAeE228de6DC5B92D0BeEB1eDb1Fd567";
const PAYER: &str = "pyr_7f3b1c9d2e";
const ACCOUNT: &str = "acc_7f3b1c9d2e";

fn key() -> PartnerKey {
    PartnerKey("5e".repeat(32))
}

fn person() -> DescribedPayer {
    let text = |text: &str| text.to_owned();
    DescribedPayer {
        email: text("ada@example.com"),
        first_name: text("Ada"),
        last_name: text("Lovelace"),
        beneficiary: Beneficiary::Business,
        company_name: Some(text("Analytical Engines")),
        date_of_birth: text("1985-12-12"),
        address_line_1: text("123 Main Street"),
        address_line_2: Some(text("Floor 3")),
        city: text("New York"),
        state: text("NY"),
        postcode: text("10001"),
        country: text("US"),
        nationality: text("GB"),
        phone: text("+12125550123"),
        ssn: text("123-45-6789"),
        source_of_funds: Some(text("Salary")),
        business_activity: Some(text("Engines")),
    }
}

fn bank_account() -> BankAccount {
    let text = |text: &str| text.to_owned();
    BankAccount {
        bank_name: text("Bank of Examples"),
        account_name: text("Ada Lovelace"),
        account_number: Some(text("000123450000")),
        routing_number: Some(text("021000021")),
        beneficiary: Beneficiary::Individual,
        currency: text("usd"),
        address_line_1: text("123 Main Street"),
        address_line_2: Some(text("Floor 3")),
        city: text("New York"),
        state: Some(text("NY")),
        country: text("US"),
        date_of_birth: text("1985-12-12"),
        postal_code: text("10001"),
        rails: Rails::Wire,
        sort_code: Some(text("601613")),
        iban: Some(text("DE89370400440532013000")),
        swift_bic: Some(text("COBADEFFXXX")),
        document_number: Some(text("X123")),
        document_type: Some(text("passport")),
        account_type: Some(AccountType::Savings),
        rib_number: Some(text("1")),
        bsb_number: Some(text("062000")),
        ncc: Some(text("1")),
        branch_code: Some(text("1")),
        bank_code: Some(text("1")),
        ifsc: Some(text("SBIN0000001")),
    }
}

fn quote_question() -> QuoteQuestion {
    QuoteQuestion {
        key: key(),
        payer: PAYER.to_owned(),
        account: ACCOUNT.to_owned(),
        network: Network::Sepolia,
        token: Address::parse(USDC).unwrap(),
        amount: Amount::parse("100").unwrap(),
        currency: "usd".to_owned(),
    }
}

fn order_question() -> OrderQuestion {
    OrderQuestion {
        key: key(),
        quote: "qte_1".to_owned(),
        payer: PAYER.to_owned(),
        account: ACCOUNT.to_owned(),
        network: Network::Sepolia,
        deposit_address: Address::parse(DEPOSIT).unwrap(),
        token: Address::parse(USDC).unwrap(),
        amount: Amount::parse("100").unwrap(),
        transactions: vec![format!("0x{}", "ab".repeat(32))],
    }
}

/// A valid response to each operation.
fn good(operation: &str) -> Value {
    let key = key().0;
    match operation {
        "register" | "agree" | "payer" => json!({
            "id": PAYER,
            "key": key,
            "version": 3,
            "kycStatus": "pending",
            "agreementStatus": "not_started",
            "kycUrl": "https://pages.example.com/kyc",
            "agreementUrl": "https://pages.example.com/agreement",
        }),
        "add_account" | "account" => json!({
            "id": ACCOUNT,
            "key": key,
            "payerId": PAYER,
            "version": 2,
            "status": "failed",
            "rejection": "The account belongs to another person",
        }),
        "quote" => json!({
            "id": "qte_1",
            "key": key,
            "payerId": PAYER,
            "accountId": ACCOUNT,
            "network": "sepolia",
            "token": USDC,
            "amount": "100",
            "currency": "usd",
            "depositAddress": DEPOSIT,
            "fee": "0.5",
            "paysOut": "99.50",
            "endsAt": (SystemClock.now() + TimeDelta::minutes(15)).to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        }),
        "open_order" | "order" => json!({
            "id": "ord_1",
            "key": key,
            "quoteId": "qte_1",
            "version": 4,
            "status": "ongoing_checks",
            "providerStatus": "CHECKING",
        }),
        "erase" | "erase_registered" => json!({ "erased": true }),
        other => panic!("unknown operation {other}"),
    }
}

/// The parsed response to an operation, in comparable form.
async fn ask(partner: &HttpOffRamp, operation: &str) -> Result<String, OffRampError> {
    match operation {
        "register" => partner
            .register(&key(), &person())
            .await
            .map(|news| format!("{news:?}")),
        "agree" => partner.agree(PAYER).await.map(|news| format!("{news:?}")),
        "payer" => partner.payer(PAYER).await.map(|news| format!("{news:?}")),
        "add_account" => {
            let added = partner.add_account(&key(), PAYER, &bank_account()).await;
            added.map(|news| format!("{news:?}"))
        }
        "account" => partner.account(ACCOUNT).await.map(|news| format!("{news:?}")),
        "quote" => partner.quote(&quote_question()).await.map(|quote| format!("{quote:?}")),
        "open_order" => partner
            .open_order(&order_question())
            .await
            .map(|news| format!("{news:?}")),
        "order" => partner.order("ord_1").await.map(|news| format!("{news:?}")),
        "erase" => partner.erase(PAYER).await.map(|()| String::new()),
        "erase_registered" => partner.erase_registered(&key()).await.map(|()| String::new()),
        other => panic!("unknown operation {other}"),
    }
}

/// A catalogue with one token, and with the contract that accepts payments in this token.
fn catalogue() -> Catalogue {
    let token = Currency {
        address: USDC.to_owned(),
        ..Currency::sample("USDC", 6, Some(Network::Sepolia))
    };
    let proxy = KnownContract {
        kind: ContractKind::Erc20FeeProxy,
        address: Address::parse(FEE_PROXY).unwrap(),
        creation_block: 0,
        is_default: true,
    };
    let contracts = HashMap::from([(Network::Sepolia, vec![proxy])]);
    Catalogue::new(vec![token], contracts, BTreeSet::from([Network::Sepolia]))
}

fn partner_with(url: &str, change: impl FnOnce(&mut HttpOffRampOptions)) -> anyhow::Result<HttpOffRamp> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut options = HttpOffRampOptions {
        url: format!("{url}/bridge").parse()?,
        timeout: Waits::default().partner,
        key_id: "prs".to_owned(),
        key_secret: Secret::new("the key with which calls are signed"),
        callback_secrets: ["present", "former"].map(Secret::new).to_vec(),
        deposits: BTreeMap::new(),
        allow_loopback: false,
        catalogue: Arc::new(catalogue()),
        clock: clock.clone(),
        ids: Arc::new(SystemIds::new(clock)),
    };
    change(&mut options);
    HttpOffRamp::new(options)
}

fn partner(url: &str) -> HttpOffRamp {
    partner_with(url, |_| {}).unwrap()
}

async fn server(answer: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
}

/// A mock partner whose response a test can change.
#[derive(Clone)]
struct FakePartner(Arc<Mutex<ResponseTemplate>>);

impl Respond for FakePartner {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        self.0.lock().unwrap().clone()
    }
}

impl FakePartner {
    async fn start() -> (MockServer, Self) {
        let told = Self(Arc::new(Mutex::new(ResponseTemplate::new(200))));
        let server = MockServer::start().await;
        Mock::given(any()).respond_with(told.clone()).mount(&server).await;
        (server, told)
    }

    fn say(&self, answer: ResponseTemplate) {
        *self.0.lock().unwrap() = answer;
    }
}

/// The published schema of one shape.
fn schema(name: &str) -> jsonschema::Validator {
    let text = include_str!("../../../docs/partners/offramp.schema.json");
    let mut schema: Value = serde_json::from_str(text).unwrap();
    schema["$ref"] = json!(format!("#/$defs/{name}"));
    jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap()
}

/// The shapes of the request and of the response of an operation.
fn shapes(operation: &str) -> (Option<&'static str>, &'static str) {
    match operation {
        "register" => (Some("RegisterCall"), "Payer"),
        "agree" => (Some("AgreementCall"), "Payer"),
        "payer" => (None, "Payer"),
        "add_account" => (Some("AddAccountCall"), "Account"),
        "account" => (None, "Account"),
        "quote" => (Some("QuoteCall"), "Quote"),
        "open_order" => (Some("OrderCall"), "Order"),
        "order" => (None, "Order"),
        "erase" | "erase_registered" => (None, "Erased"),
        other => panic!("unknown operation {other}"),
    }
}

#[tokio::test]
async fn every_call_is_signed_and_matches_the_published_shape() {
    for operation in super::OPERATIONS {
        let server = server(ResponseTemplate::new(200).set_body_json(good(operation))).await;
        ask(&partner(&server.uri()), operation).await.unwrap();
        let asked = server.received_requests().await.unwrap().pop().unwrap();
        let value = |name: &str| asked.headers.get(name).map_or("", |value| value.to_str().unwrap());
        let text = CallText {
            time: value(header::TIME),
            id: value(header::ID),
            method: asked.method.as_str(),
            target: asked.url.path(),
            body: &asked.body,
        };
        assert!(asked.url.path().starts_with("/bridge/v1/"), "{}", asked.url);
        assert_eq!(value(header::KEY), "prs");
        let secret = Secret::new("the key with which calls are signed");
        assert_eq!(text.signature(&secret), value(header::SIGNATURE), "{operation}");
        let sent: i64 = text.time.parse().unwrap();
        assert!(
            (0..300).contains(&(SystemClock.now().timestamp() - sent)),
            "{operation}"
        );
        assert!(
            !asked
                .headers
                .iter()
                .any(|(_, value)| value.to_str().unwrap().contains(secret.reveal()))
        );
        let is_made = matches!(operation, "register" | "add_account" | "quote" | "open_order");
        assert_eq!(
            value(header::IDEMPOTENCY_KEY),
            if is_made { key().0 } else { String::new() }
        );
        match shapes(operation).0 {
            Some(shape) => {
                let body: Value = serde_json::from_slice(&asked.body).unwrap();
                let flaws: Vec<String> = schema(shape).iter_errors(&body).map(|flaw| flaw.to_string()).collect();
                assert!(flaws.is_empty(), "{operation}: {flaws:?} in {body}");
                let all = body.as_object().unwrap().len();
                let expected = schema_members(shape);
                assert_eq!(
                    all, expected,
                    "{operation}: the body must contain every member of its schema"
                );
            }
            None => assert!(asked.body.is_empty(), "{operation}"),
        }
    }
}

#[test]
fn rejections_from_either_side_can_name_every_form_member() {
    let names = |members: &Value| -> BTreeSet<String> { members.as_object().unwrap().keys().cloned().collect() };
    let listed = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let documents: Value = serde_json::from_str(include_str!("../../../openapi/v2.json")).unwrap();
    let form = |name: &str| names(&documents["components"]["schemas"][name]["properties"]);
    // The tenant's own id of a payer is not sent to the partner.
    let mut of_tenant = form("RegisterPayerBody");
    assert!(of_tenant.remove("clientUserId"));
    let sent = serde_json::to_value(PersonBody::from(&person())).unwrap();
    assert_eq!((listed(&PERSON_FIELDS), of_tenant), (names(&sent), names(&sent)));
    let sent = serde_json::to_value(BankAccountBody::from(&bank_account())).unwrap();
    let of_tenant = form("PaymentDetailsBody");
    assert_eq!((listed(&ACCOUNT_FIELDS), of_tenant), (names(&sent), names(&sent)));
}

fn schema_members(shape: &str) -> usize {
    let text = include_str!("../../../docs/partners/offramp.schema.json");
    let schema: Value = serde_json::from_str(text).unwrap();
    schema["$defs"][shape]["properties"].as_object().unwrap().len()
}

/// Values to put into a member of a response, each with its category in the printed table; `None` removes the member.
fn changes(operation: &str, member: &str) -> Vec<(&'static str, Option<Value>)> {
    let long = "x".repeat(3_000);
    let mut changes = vec![
        ("null", Some(Value::Null)),
        ("absent", None),
        ("wrong", Some(json!([true]))),
        ("wrong", Some(json!({}))),
        ("wrong", Some(json!("nonsense\u{0}"))),
        ("wrong", Some(json!(-1))),
        ("wrong", Some(json!(""))),
        ("too long", Some(json!(long))),
    ];
    match member {
        "version" => {
            changes.extend([json!(0), json!(1.5), json!("3"), json!(1_u64 << 53)].map(|one| ("wrong", Some(one))))
        }
        "kycUrl" | "agreementUrl" => changes.extend(
            [
                "http://pages.example.com/kyc",
                "javascript:alert(1)",
                "https://a:b@pages.example.com",
                "http://127.0.0.1/kyc",
                "https://127.0.0.1/kyc",
                "//pages.example.com",
            ]
            .map(|one| ("wrong", Some(json!(one)))),
        ),
        "depositAddress" => changes.extend(
            [
                USDC,
                "0x0000000000000000000000000000000000000000",
                "0x7eB023BFbAeE228de6DC5B92D0BeEB1eDb1Fd568",
                "0x7eb023bfbaee228de6dc5b92d0beeb1edb1fd5",
                "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
                FEE_PROXY,
            ]
            .map(|one| ("wrong", Some(json!(one)))),
        ),
        "endsAt" => changes.extend(
            [
                "2020-01-01T00:00:00Z",
                "2126-01-01T00:00:00Z",
                "2026-13-01T00:00:00Z",
                "tomorrow",
            ]
            .map(|one| ("wrong", Some(json!(one)))),
        ),
        "amount" => changes.extend(["99", "1e2", "0100", "100.01"].map(|one| ("wrong", Some(json!(one))))),
        "fee" => changes.extend(["100", "101", "0.0000001", "-1", "00", ""].map(|one| ("wrong", Some(json!(one))))),
        "paysOut" => changes.extend(["0", "-1", "1e9", "1,5"].map(|one| ("wrong", Some(json!(one))))),
        _ => {}
    }
    let other = match (operation, member) {
        ("agree" | "payer" | "account" | "order", "id")
        | ("add_account" | "quote", "payerId")
        | ("quote", "accountId")
        | ("open_order", "quoteId") => Some(json!("another")),
        ("register" | "add_account" | "quote" | "open_order", "key") => Some(json!("0".repeat(64))),
        ("quote", "network") => Some(json!("mainnet")),
        ("quote", "token") => Some(json!(DEPOSIT)),
        ("quote", "currency") => Some(json!("eur")),
        _ => None,
    };
    changes.extend(other.map(|other| ("another's", Some(other))));
    changes
}

#[tokio::test]
async fn a_partner_quote_may_have_no_fee() {
    let (server, told) = FakePartner::start().await;
    for free in ["0", "0.00"] {
        let mut body = good("quote");
        body["fee"] = json!(free);
        assert!(schema(shapes("quote").1).is_valid(&body), "{free}");
        told.say(ResponseTemplate::new(200).set_body_json(&body));
        let quote = ask(&partner(&server.uri()), "quote").await.unwrap();
        assert!(quote.contains("fee: None"), "{quote}");
    }
}

#[tokio::test]
async fn every_changed_member_of_a_partner_response_is_noticed() {
    let (server, told) = FakePartner::start().await;
    let mut counts: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for operation in super::OPERATIONS {
        let known = good(operation);
        let whole = {
            told.say(ResponseTemplate::new(200).set_body_json(&known));
            ask(&partner(&server.uri()), operation).await.unwrap()
        };
        // An unknown member does not change the parsed response.
        let mut more = known.clone();
        more["note"] = json!("x".repeat(3_000));
        told.say(ResponseTemplate::new(200).set_body_json(&more));
        assert_eq!(ask(&partner(&server.uri()), operation).await.unwrap(), whole);
        let partner = partner(&server.uri());
        for member in known.as_object().unwrap().keys() {
            for (kind, value) in changes(operation, member) {
                let mut body = known.clone();
                match &value {
                    Some(value) => body[member] = value.clone(),
                    None => drop(body.as_object_mut().unwrap().remove(member)),
                }
                told.say(ResponseTemplate::new(200).set_body_json(&body));
                let cell = format!("{operation}.{member} {kind} {value:?}");
                let is_optional = matches!(member.as_str(), "kycUrl" | "agreementUrl" | "rejection")
                    && (value.is_none() || value == Some(Value::Null));
                let read = ask(&partner, operation).await;
                let count = counts.entry((operation, kind)).or_default();
                if is_optional {
                    assert!(read.is_ok(), "{cell}: {read:?}");
                    count.1 += 1;
                } else {
                    let Err(OffRampError::Odd(why)) = read else {
                        panic!("{cell}: {read:?}");
                    };
                    assert!(why.contains(member), "{cell}: {why}");
                    assert!(!why.contains("nonsense") && !why.contains("xxx"), "{cell}: {why}");
                    count.0 += 1;
                }
                // A body that the code rejects must also violate the schema, except for rules that a schema cannot
                // express.
                let fits = schema(shapes(operation).1).is_valid(&body);
                assert!(
                    !fits || read_needs_more_than_a_schema(member, kind, value.as_ref()) || is_optional,
                    "{cell}"
                );
            }
        }
        // Now the whole response is replaced, with other statuses and other bodies.
        for (kind, answer) in [
            ("error", ResponseTemplate::new(500)),
            ("error", ResponseTemplate::new(401)),
            ("error", ResponseTemplate::new(429)),
            ("error", ResponseTemplate::new(404)),
            (
                "error",
                ResponseTemplate::new(404).set_body_string("<html>no such page</html>"),
            ),
            (
                "error",
                ResponseTemplate::new(307).insert_header("location", server.uri().as_str()),
            ),
            ("wrong", ResponseTemplate::new(200).set_body_string("<html>")),
            ("wrong", ResponseTemplate::new(200).set_body_string("null")),
            ("wrong", ResponseTemplate::new(200).set_body_string("[]")),
            ("wrong", ResponseTemplate::new(200).set_body_bytes(vec![0xff, 0xfe])),
            (
                "too long",
                ResponseTemplate::new(200).set_body_string("x".repeat(1 << 21)),
            ),
        ] {
            told.say(answer);
            let read = ask(&self::partner(&server.uri()), operation).await;
            let is_none = matches!(read, Err(OffRampError::NoAnswer(_) | OffRampError::Odd(_)));
            assert!(is_none, "{operation} {kind}: {read:?}");
            counts.entry((operation, kind)).or_default().0 += 1;
        }
        let nobody = json!({ "reason": "unknown" });
        assert!(schema("Unknown").is_valid(&nobody));
        told.say(ResponseTemplate::new(404).set_body_json(nobody));
        let read = ask(&partner, operation).await;
        match operation {
            "erase" | "erase_registered" => assert!(read.is_ok()),
            _ => assert_eq!(read, Err(OffRampError::Unknown), "{operation}"),
        }
    }
    println!(
        "{:<12} {:<10} {:>8} {:>9}",
        "operation", "answer", "refused", "no value"
    );
    let mut sum = (0, 0);
    for ((operation, kind), (refused, absent)) in &counts {
        println!("{operation:<12} {kind:<10} {refused:>8} {absent:>9}");
        sum = (sum.0 + refused, sum.1 + absent);
    }
    println!(
        "{} responses in total: {} were rejected, {} were accepted without an optional value",
        sum.0 + sum.1,
        sum.0,
        sum.1
    );
    assert!(sum.0 > 300, "{sum:?}");
}

/// Whether a rule that a schema cannot express rejects the value: the requested record, checksums, contracts, the time,
/// or sizes of numbers.
fn read_needs_more_than_a_schema(member: &str, kind: &str, value: Option<&Value>) -> bool {
    let is_url = matches!(member, "kycUrl" | "agreementUrl");
    kind == "another's"
        || matches!(member, "depositAddress" | "endsAt" | "amount" | "fee")
        || is_url && value.is_some_and(|value| value.as_str().is_some_and(|text| text.contains("127.0.0.1")))
}

#[tokio::test]
async fn late_responses_fail_and_invalid_ones_do_not_open_the_breaker() {
    let (server, told) = FakePartner::start().await;
    let partner = partner(&server.uri());
    // A response with an undocumented value does not count as a failure of the partner, even if repeated.
    let mut odd = good("payer");
    odd["kycStatus"] = json!("maybe");
    for _ in 0..10 {
        told.say(ResponseTemplate::new(200).set_body_json(&odd));
        assert!(matches!(ask(&partner, "payer").await, Err(OffRampError::Odd(_))));
        told.say(ResponseTemplate::new(422).set_body_json(json!({ "reason": "invalid_person", "fields": ["ssn"] })));
        assert!(matches!(
            ask(&partner, "register").await,
            Err(OffRampError::Refused { .. })
        ));
    }
    told.say(ResponseTemplate::new(200).set_body_json(good("account")));
    assert!(ask(&partner, "account").await.is_ok());
    for operation in super::OPERATIONS {
        let hanging = ResponseTemplate::new(200).set_body_json(good(operation));
        told.say(hanging.set_delay(Duration::from_secs(8)));
    }
    let calls = super::OPERATIONS.map(|operation| {
        let partner = self::partner(&server.uri());
        async move {
            let asked = Instant::now();
            (operation, ask(&partner, operation).await, asked.elapsed())
        }
    });
    for (operation, read, took) in futures_util::future::join_all(calls).await {
        assert_eq!(
            read,
            Err(OffRampError::NoAnswer("did not respond in time".to_owned())),
            "{operation}"
        );
        assert!(
            took > Duration::from_millis(2_900) && took < Duration::from_millis(3_500),
            "{operation}: {took:?}"
        );
    }
}

#[tokio::test]
async fn fifty_calls_to_a_hanging_partner_time_out_and_open_the_breaker() {
    let server = server(ResponseTemplate::new(200).set_delay(Duration::from_secs(8))).await;
    let partner = partner_with(&server.uri(), |options| options.timeout /= 4).unwrap();
    let begun = Instant::now();
    let calls = (0..50).map(|_| async { ask(&partner, "register").await });
    let ended = futures_util::future::join_all(calls).await;
    let took = begun.elapsed();
    assert!(ended.iter().all(Result::is_err));
    assert!(took < Duration::from_secs(2), "{took:?}");
    let busy = ended
        .iter()
        .filter(|end| matches!(end, Err(OffRampError::Busy)))
        .count();
    assert_eq!(busy, 18, "calls without a slot must fail before the other calls end");
    let asked = server.received_requests().await.unwrap().len();
    assert_eq!(asked, 32, "calls");
    let begun = Instant::now();
    let left_alone = ask(&partner, "payer").await.unwrap_err();
    assert!(
        left_alone.to_string().contains("not called for a while"),
        "{left_alone}"
    );
    assert!(begun.elapsed() < Duration::from_millis(100));
}

/// Responds after a while, and records when each call arrives.
struct Slow {
    after: Duration,
    arrivals: Arc<Mutex<Vec<Instant>>>,
}

impl Respond for Slow {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        self.arrivals.lock().unwrap().push(Instant::now());
        ResponseTemplate::new(200)
            .set_body_json(good("payer"))
            .set_delay(self.after)
    }
}

#[tokio::test]
async fn at_most_thirty_two_calls_are_in_flight() {
    const AFTER: Duration = Duration::from_millis(700);
    let arrivals = Arc::default();
    let slow = Slow {
        after: AFTER,
        arrivals: Arc::clone(&arrivals),
    };
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(slow).mount(&server).await;
    let partner = partner(&server.uri());
    let calls = (0..50).map(|_| async { ask(&partner, "payer").await.is_ok() });
    let ended = futures_util::future::join_all(calls).await;
    assert!(ended.iter().all(|is_ok| *is_ok));
    let arrivals = arrivals.lock().unwrap().clone();
    assert_eq!(arrivals.len(), 50);
    // A call is in flight from its arrival until its response, `AFTER` later.
    let together = |since: &Instant| {
        let during = arrivals.iter().filter(|at| *at >= since && **at < *since + AFTER);
        during.count()
    };
    let most = arrivals.iter().map(together).max();
    println!("at most {most:?} calls were in flight at the same time");
    assert_eq!(most, Some(32));
}

#[tokio::test]
async fn timeouts_of_queued_calls_do_not_open_the_breaker() {
    // The first 32 calls end before the other 18 give up waiting for a slot. So the other calls start late, and have
    // less time left than the full timeout.
    let slow = ResponseTemplate::new(200).set_body_json(good("payer"));
    let slow = slow.set_delay(Duration::from_millis(1_200));
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(slow)
        .up_to_n_times(32)
        .mount(&server)
        .await;
    let hanging = ResponseTemplate::new(200).set_delay(Duration::from_secs(8));
    Mock::given(any())
        .respond_with(hanging)
        .up_to_n_times(18)
        .mount(&server)
        .await;
    Mock::given(any())
        .respond_with(ResponseTemplate::new(200).set_body_json(good("payer")))
        .mount(&server)
        .await;
    let partner = partner(&server.uri());
    let calls = (0..50).map(|_| async { ask(&partner, "payer").await.is_ok() });
    let ended = futures_util::future::join_all(calls).await;
    assert_eq!(ended.iter().filter(|is_ok| **is_ok).count(), 32);
    assert!(ask(&partner, "payer").await.is_ok(), "the breaker stays closed");
}

#[tokio::test]
async fn a_rejection_names_only_form_fields() {
    let (server, told) = FakePartner::start().await;
    let partner = partner(&server.uri());
    for status in [400, 422] {
        let body = json!({ "reason": "invalid_account", "fields": ["iban", "Ada Lovelace", 7, "swiftBic"] });
        told.say(ResponseTemplate::new(status).set_body_json(body));
        let expected = OffRampError::Refused {
            reason: OffRampRefusal::InvalidAccount,
            fields: vec!["iban".to_owned(), "swiftBic".to_owned()],
        };
        assert_eq!(ask(&partner, "add_account").await, Err(expected));
        for body in [
            json!({ "reason": "Ada Lovelace is wanted" }),
            json!({ "fields": ["iban"] }),
            json!({ "reason": "refused", "fields": "iban" }),
            json!({ "reason": "refused", "fields": vec!["iban"; 65] }),
        ] {
            told.say(ResponseTemplate::new(status).set_body_json(&body));
            let read = ask(&partner, "add_account").await;
            assert!(
                matches!(&read, Err(OffRampError::Odd(why)) if !why.contains("Ada")),
                "{body}: {read:?}"
            );
        }
    }
}

#[tokio::test]
async fn deposit_addresses_outside_the_list_are_rejected() {
    let other = Address::parse("0x70997970C51812dc3A010C7d01b50e0d17dc79C8").unwrap();
    let listed = Address::parse(DEPOSIT).unwrap();
    let server = server(ResponseTemplate::new(200).set_body_json(good("quote"))).await;
    for (network, addresses, is_believed) in [
        (Network::Sepolia, vec![listed], true),
        (Network::Sepolia, vec![other, listed], true),
        (Network::Sepolia, vec![other], false),
        (Network::Mainnet, vec![other], true),
        (Network::Sepolia, Vec::new(), true),
    ] {
        let partner = partner_with(&server.uri(), |options| {
            options
                .deposits
                .insert(network, addresses.iter().copied().collect::<BTreeSet<_>>());
        });
        let read = ask(&partner.unwrap(), "quote").await;
        assert_eq!(read.is_ok(), is_believed, "{network} {addresses:?}: {read:?}");
    }
    let token = Address::parse(USDC).unwrap();
    let refused = partner_with(&server.uri(), |options| {
        options.deposits.insert(Network::Sepolia, BTreeSet::from([token]));
    });
    let sentence = refused.err().unwrap().to_string();
    assert!(
        sentence.starts_with("offramp.deposit_addresses.sepolia: every entry must be a wallet"),
        "{sentence}"
    );
}

#[tokio::test]
async fn only_the_sandbox_returns_links_to_this_machine() {
    let mut local = good("payer");
    local["kycUrl"] = json!("http://127.0.0.1:8081/pages/kyc/1");
    let server = server(ResponseTemplate::new(200).set_body_json(&local)).await;
    assert!(matches!(
        ask(&partner(&server.uri()), "payer").await,
        Err(OffRampError::Odd(_))
    ));
    let sandbox = partner_with(&server.uri(), |options| options.allow_loopback = true).unwrap();
    assert!(
        ask(&sandbox, "payer")
            .await
            .unwrap()
            .contains("http://127.0.0.1:8081/pages/kyc/1")
    );
    local["kycUrl"] = json!("http://pages.example.com/kyc");
    let server = self::server(ResponseTemplate::new(200).set_body_json(&local)).await;
    let sandbox = partner_with(&server.uri(), |options| options.allow_loopback = true).unwrap();
    assert!(ask(&sandbox, "payer").await.is_err());
}

#[tokio::test]
async fn links_are_returned_as_uris() {
    let mut told = good("payer");
    told["kycUrl"] = json!("https://pages.example.com/kyc/a|b`c?d=^{e}");
    let server = server(ResponseTemplate::new(200).set_body_json(&told)).await;
    let answer = ask(&partner(&server.uri()), "payer").await.unwrap();
    assert!(
        answer.contains("https://pages.example.com/kyc/a%7Cb%60c?d=%5E%7Be%7D"),
        "{answer}"
    );
}

#[test]
fn callbacks_are_parsed_like_responses() {
    let partner = partner("https://bridge.example.com");
    let read = |body: Value| partner.news(body.to_string().as_bytes());
    let payer = json!({ "type": "payer", "payer": good("payer") });
    assert!(matches!(read(payer.clone()), Ok(PartnerNews::Payer(news)) if news.version == 3));
    let account = json!({ "type": "account", "account": good("account") });
    assert!(matches!(read(account.clone()), Ok(PartnerNews::Account(news)) if news.payer == PAYER));
    for status in ["initiated", "fiat_sent", "bounced", "failed"] {
        let mut order = json!({ "type": "order", "order": good("order") });
        order["order"]["status"] = json!(status);
        assert!(schema("Callback").is_valid(&order));
        let Ok(PartnerNews::Order(news)) = read(order) else {
            panic!("{status}")
        };
        match news.status {
            OrderStatus::Moved(moved) => assert_eq!(moved.wire(), status),
            OrderStatus::Failed => assert_eq!(status, "failed"),
        }
    }
    assert!(
        [&payer, &account]
            .into_iter()
            .all(|body| schema("Callback").is_valid(body))
    );
    for body in [
        json!({}),
        json!([]),
        json!({ "type": "payer" }),
        json!({ "type": "quote", "payer": good("payer") }),
        json!({ "type": "account", "payer": good("payer") }),
        json!({ "type": "payer", "payer": [good("payer")] }),
    ] {
        assert!(matches!(read(body.clone()), Err(OffRampError::Odd(_))), "{body}");
        assert!(!schema("Callback").is_valid(&body), "{body}");
    }
}

#[test]
fn records_with_invalid_partner_ids_are_never_requested() {
    let partner = partner("https://bridge.example.com");
    let asked = futures_util::future::join_all(["", "..", "a/b", "a?b", "a b", "ä"].map(|id| partner.payer(id)));
    let asked = futures_util::FutureExt::now_or_never(asked).expect("no request is sent");
    assert!(asked.iter().all(|end| *end == Err(OffRampError::Unknown)));
}

#[test]
fn the_vectors_match_the_service_signatures() {
    let text = include_str!("../../../docs/partners/offramp.vectors.json");
    let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
    let now = DateTime::from_timestamp(1_769_860_800, 0).unwrap();
    for one in &vectors {
        let text = |member: &str| one[member].as_str().unwrap();
        let secret = Secret::new(text("secret"));
        let body = text("body").as_bytes();
        let (time, id, shown) = (text("time"), text("id"), text("signature"));
        let is_good = match text("kind") {
            "call" => {
                let [method, target] = ["method", "target"].map(text);
                let text = CallText {
                    time,
                    id,
                    method,
                    target,
                    body,
                };
                // The service only signs calls; the partner verifies them. So only vectors with a valid signature are
                // compared.
                if one["isGood"] != true {
                    continue;
                }
                text.signature(&secret) == shown
            }
            _ => CallbackText { time, id, body }.is_signed(&[secret], now, shown),
        };
        assert_eq!(json!(is_good), one["isGood"], "{one}");
    }
    assert!(vectors.len() > 10);
}
