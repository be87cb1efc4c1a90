//! The access matrix of links: every kind of credential on every operation, of the link's tenant and of another tenant.
//! Also tests what a stranger with the token can do.

use crate::{
    access::{KINDS, Kind, Operation, Tenant, operations, tenant},
    create_once::{added, counts},
    support::{
        Answer, TestApp,
        app::{Call, PAGE},
        links::{link_of, payout_of, token_of},
        wallet::token,
    },
    tron_broadcast::approval,
};
use poem::http::Method;
use prs::http::gate::scheme::Scheme;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const OTHER: &str = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const HASH: &str = "0x8f4e1b2a7c6d5e9f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071";

/// The statuses that eight kinds of credential get, in this order: orchestrator key, API key, backend client ID, public
/// client ID, session as bearer, session as cookie, orchestrator key with linked client ID, linked client ID alone.
type Statuses = [u16; 8];

/// Each operation with two rows of statuses: for credentials of the link's tenant, and for credentials of another
/// tenant.
const CELLS: [(&str, Statuses, Statuses); 16] = [
    (
        "createSecurePayment",
        [403, 201, 201, 201, 201, 201, 403, 403],
        [403, 403, 403, 403, 403, 403, 403, 403],
    ),
    (
        "createSecurePayout",
        [403, 201, 201, 201, 201, 201, 201, 403],
        [403, 201, 201, 201, 201, 201, 201, 403],
    ),
    // A client ID can access only what it created, and these links are created with the key. Every visitor shares a
    // public client ID.
    (
        "combineSecurePayouts",
        [403, 201, 400, 403, 201, 201, 400, 403],
        [403, 400, 400, 403, 400, 400, 400, 403],
    ),
    (
        "combine what it made",
        [403, 201, 201, 403, 201, 201, 201, 403],
        [403, 201, 201, 403, 201, 201, 201, 403],
    ),
    (
        "createMulticallPayout",
        [403, 201, 400, 403, 201, 201, 400, 403],
        [403, 400, 400, 403, 400, 400, 400, 403],
    ),
    (
        "multicall of what it made",
        [403, 201, 201, 403, 201, 201, 201, 403],
        [403, 201, 201, 403, 201, 201, 201, 403],
    ),
    (
        "getMulticallPayout",
        [403, 403, 403, 403, 200, 200, 403, 403],
        [403, 403, 403, 403, 404, 404, 403, 403],
    ),
    (
        "previewSecurePaymentFees",
        [403, 200, 200, 200, 200, 200, 200, 200],
        [403, 200, 200, 200, 200, 200, 200, 200],
    ),
    (
        "findSecurePayment",
        [403, 403, 403, 403, 200, 200, 403, 403],
        [403, 403, 403, 403, 404, 404, 403, 403],
    ),
    (
        "getSecurePayment",
        [403, 200, 200, 200, 403, 403, 403, 200],
        [403, 200, 200, 200, 403, 403, 403, 200],
    ),
    (
        "getSecurePaymentCalldata",
        [403, 200, 200, 200, 403, 403, 403, 200],
        [403, 200, 200, 200, 403, 403, 403, 200],
    ),
    (
        "recordSecurePaymentIntent",
        [403, 200, 200, 200, 403, 403, 403, 200],
        [403, 200, 200, 200, 403, 403, 403, 200],
    ),
    // The body is invalid, so a credential with access gets a 400.
    (
        "broadcastTronTransaction",
        [403, 400, 400, 400, 403, 403, 403, 400],
        [403, 400, 400, 400, 403, 403, 403, 400],
    ),
    (
        "reportSecurePaymentEvent",
        [403, 202, 202, 202, 403, 403, 403, 202],
        [403, 202, 202, 202, 403, 403, 403, 202],
    ),
    (
        "withdrawSecurePayment",
        [403, 200, 200, 403, 200, 200, 403, 200],
        [403, 404, 404, 403, 404, 404, 403, 404],
    ),
    (
        "releaseSecurePayment",
        [403, 200, 200, 403, 200, 200, 403, 200],
        [403, 404, 404, 403, 404, 404, 403, 404],
    ),
];

fn by_key<'a>(call: Call<'a>, owner: &Tenant) -> Call<'a> {
    call.header("x-api-key", &owner.good[Scheme::ApiKey.id()])
}

/// Creates a payee destination for a tenant; returns its id.
async fn destination(app: &TestApp, owner: &Tenant) -> String {
    let body = json!({ "tokenAddress": token(app, "FAU-sepolia"), "chainId": 11_155_111 });
    let session = format!("Bearer {}", owner.good[Scheme::SessionBearer.id()]);
    let call = app.post("/v1/payee-destination").header("authorization", &session);
    let made = call.json(&body).send().await.expect(201);
    made["destinationId"].as_str().expect("an id").to_owned()
}

async fn payout(app: &TestApp, owner: &Tenant) -> Value {
    let call = by_key(app.post("/v2/secure-payments/payouts"), owner);
    call.json(&payout_of(OTHER, "1")).send().await.expect(201)
}

/// Calls an operation with a credential. The operation acts on links that are created for this call only.
async fn call(
    app: &TestApp,
    (name, operations): (&str, &BTreeMap<&'static str, Operation>),
    credential: Option<(Scheme, &str)>,
    owner: &Tenant,
    destination: &str,
) -> Answer {
    let own = [payout(app, owner).await, payout(app, owner).await];
    let token = token_of(&own[0]);
    let operation = |name: &str| &operations[name];
    let paths = |name: &str| operation(name).path.replace("{token}", &token);
    let (operation, path, body) = match name {
        "createSecurePayment" => {
            let item = json!({ "amount": "1", "destinationId": destination });
            (operation(name), paths(name), json!({ "requests": [item] }))
        }
        "createSecurePayout" => (operation(name), paths(name), payout_of(OTHER, "1")),
        "combineSecurePayouts" => (
            operation(name),
            paths(name),
            json!({ "tokens": [token, token_of(&own[1])] }),
        ),
        "createMulticallPayout" => (
            operation(name),
            paths(name),
            json!({ "childTokens": [token, token_of(&own[1])] }),
        ),
        "getMulticallPayout" => {
            let body = json!({ "childTokens": [token, token_of(&own[1])] });
            let made = by_key(app.post("/v2/secure-payments/multicall-payouts"), owner);
            let made = made.json(&body).send().await.expect(201);
            let path = operation(name).path.replace("{token}", &token_of(&made));
            (operation(name), path, json!({}))
        }
        "combine what it made" | "multicall of what it made" => {
            let mut tokens = Vec::new();
            for _ in 0..2 {
                let making = operation("createSecurePayout");
                let made = making
                    .send_to(app, credential, &making.path, &payout_of(OTHER, "1"))
                    .await;
                tokens.extend((made.status == 201).then(|| token_of(&made.json())));
            }
            let (combining, list) = match name {
                "combine what it made" => (operation("combineSecurePayouts"), "tokens"),
                _ => (operation("createMulticallPayout"), "childTokens"),
            };
            (combining, combining.path.clone(), json!({ list: tokens }))
        }
        "previewSecurePaymentFees" => {
            let body = json!({ "amount": "1", "currency": "USDC", "flow": "get_paid" });
            (operation(name), paths(name), body)
        }
        "findSecurePayment" => {
            let request = own[0]["requestIds"][0].as_str().expect("an id");
            (
                operation(name),
                format!("{}?requestId={request}", paths(name)),
                json!({}),
            )
        }
        "recordSecurePaymentIntent" => (
            operation(name),
            paths(name),
            json!({ "txHash": HASH, "chain": "SEPOLIA", "token": "FAU" }),
        ),
        "reportSecurePaymentEvent" => (
            operation(name),
            paths(name),
            json!({ "userEvent": "wallet_connected", "occurredAt": "2020-01-01T00:00:00Z" }),
        ),
        _ => (operation(name), paths(name), json!({})),
    };
    operation.send_to(app, credential, &path, &body).await
}

/// The operations on links, by operation id.
fn of_links() -> BTreeMap<&'static str, Operation> {
    let all = operations().into_iter();
    let of_links = all.filter(|operation| operation.path.contains("/secure-payments"));
    of_links.map(|operation| (operation.row.operation, operation)).collect()
}

#[tokio::test]
async fn each_credential_on_each_link_operation_gets_the_status_of_the_table() {
    let app = TestApp::start().await;
    let (own, foreign) = (tenant(&app, 7).await, tenant(&app, 8).await);
    let named = destination(&app, &own).await;
    destination(&app, &foreign).await;
    let operations = of_links();
    let (mut cells, mut wrong) = (0, Vec::new());
    for (name, of_own, of_foreign) in CELLS {
        let operation = (name, &operations);
        let mut line = Vec::new();
        let mut judge = |who: String, answer: &Answer, expected: u16| {
            cells += 1;
            line.push(answer.status.to_string());
            if answer.status != expected {
                wrong.push(format!(
                    "{name} {who}: {} instead of {expected}: {}",
                    answer.status, answer.text
                ));
            }
        };
        let anonymous = call(&app, operation, None, &own, &named).await;
        judge("no credential".to_owned(), &anonymous, 401);
        for (whose, tenant, expected) in [("own", &own, of_own), ("foreign", &foreign, of_foreign)] {
            for (kind, expected) in KINDS.into_iter().zip(expected) {
                let credential = (kind.scheme(), tenant.good[kind.id()].as_str());
                let answer = call(&app, operation, Some(credential), &own, &named).await;
                judge(format!("{whose} {kind:?}"), &answer, expected);
            }
        }
        println!("{name}: {}", line.join(" "));
    }
    println!(
        "links: {cells} cells over {} operations, {} wrong",
        operations.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let called: BTreeSet<&str> = CELLS.iter().map(|(name, ..)| *name).collect();
    for name in operations.keys() {
        assert!(called.contains(name), "{name} is missing from the table");
    }
}

#[tokio::test]
async fn link_operations_refuse_an_orchestrator_key_next_to_a_credential() {
    let app = TestApp::start().await;
    let owner = tenant(&app, 7).await;
    destination(&app, &owner).await;
    let good = |kind: Kind| owner.good[kind.id()].as_str();
    let partner = good(Kind::Of(Scheme::OrchestratorKey));
    let before = counts(&app).await;
    let (mut wrong, mut cells) = (Vec::new(), 0);
    for operation in of_links().values() {
        let path = operation.path.replace("{token}", "01ARZ3NDEKTSV4RRFFQ69G5FAV");
        for kind in KINDS {
            // A linked client ID with the key of its orchestrator is a pair, and not an addition.
            let is_pair = kind == Kind::LinkedClientId || kind == Kind::Of(Scheme::Paired);
            if is_pair || kind.scheme() == Scheme::OrchestratorKey {
                continue;
            }
            for (key, client, expected) in [
                (partner, good(kind), 403),
                ("orc_unknown", good(kind), 401),
                (partner, "unknown", 401),
            ] {
                // A cookie is ignored if a header has a credential, and an unknown cookie is equally ignored.
                if kind.scheme() == Scheme::Session && expected == 401 {
                    continue;
                }
                let call = app.call(operation.method.clone(), &path);
                let call = shown(&app, call, kind.scheme(), client).header("x-orchestrator-key", key);
                let answer = match operation.method {
                    Method::GET => call.send().await,
                    _ => call.json(&operation.example).send().await,
                };
                cells += 1;
                if answer.status != expected {
                    let name = operation.row.operation;
                    wrong.push(format!("{name} {kind:?} {key}: {} {}", answer.status, answer.text));
                }
            }
        }
    }
    println!("links: {cells} pairs with an orchestrator key, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(added(&before, &counts(&app).await).is_empty(), "nothing is created");
}

/// Adds a credential to a call in the header or cookie of its scheme, with the origin that a browser would send.
fn shown<'a>(app: &TestApp, call: Call<'a>, scheme: Scheme, value: &str) -> Call<'a> {
    match scheme {
        Scheme::OrchestratorKey | Scheme::Paired => call.header("x-orchestrator-key", value),
        Scheme::ApiKey => call.header("x-api-key", value),
        Scheme::ClientId => call.header("x-client-id", value).header("origin", PAGE),
        Scheme::SessionBearer => call.header("authorization", &format!("Bearer {value}")),
        Scheme::Session => call
            .header("cookie", &format!("session_token={value}"))
            .header("origin", &app.ctx.own_pages.origin),
    }
}

/// An operation in the list of docs/security.md, and which callers without the owner's credentials may call it.
struct Listed {
    method: Method,
    path: String,
    is_open_to_token: bool,
    is_open_to_page: bool,
}

/// The list in docs/security.md of the operations that a caller with a link's token may call.
fn listed() -> Vec<Listed> {
    let path = format!("{}/docs/security.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("readable");
    let (_, section) = text.split_once("### With the token of a link").expect("a section");
    let section = section.split("\n#").next().expect("a section");
    let calls = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let read = |line: &str| {
        let (call, rest) = line.split_once('`').expect("a call");
        let (method, path) = call.split_once(' ').expect("a method");
        let mut cells = rest.split('|').skip(1).map(str::trim);
        let mut is_open = || match cells.next() {
            Some("yes") => true,
            Some("no") => false,
            other => panic!("{line}: {other:?}"),
        };
        Listed {
            method: method.parse().expect("a method"),
            path: path.to_owned(),
            is_open_to_token: is_open(),
            is_open_to_page: is_open(),
        }
    };
    calls.map(read).collect()
}

/// The routes of the payment page whose path contains the token of a link, read from the source code.
fn routes_of_page() -> BTreeSet<String> {
    let source = include_str!("../../src/http/hosted/mod.rs");
    let routes = source.lines().filter_map(|line| line.trim().strip_prefix(".at(\""));
    let routes = routes.filter_map(|line| line.split_once('"'));
    let routes = routes.filter(|(path, _)| path.contains(":token"));
    let method = |rest: &str| if rest.contains("post(") { "POST" } else { "GET" };
    routes
        .map(|(path, rest)| format!("{} {}", method(rest), path.replace(":token", "{token}")))
        .collect()
}

/// A caller without the owner's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stranger {
    /// Has only the token.
    WithToken,
    /// The caller also has a public client ID, and sets the headers of its page by hand.
    WithPage,
}

impl Stranger {
    async fn call(self, app: &TestApp, listed: &Listed, token: &str, tokens: &[String]) -> Answer {
        let mut path = listed.path.replace("{token}", token);
        let wallet = app.account(crate::support::chain::PAYER);
        if path.ends_with("/calldata") || path.ends_with("/pay") || path.ends_with("/state") {
            path = format!("{path}?wallet={wallet}");
        }
        if path == "/v2/secure-payments" && listed.method == Method::GET {
            path = format!("{path}?requestId=01{}", "ab".repeat(32));
        }
        let mut call = app
            .call(listed.method.clone(), &path)
            .header("origin", PAGE)
            .header("sec-fetch-site", "same-origin");
        if self == Self::WithPage {
            call = call.header("x-client-id", &app.page_client);
        }
        let body = match path.as_str() {
            "/v2/secure-payments" => link_of(&["1"]),
            "/v2/secure-payments/payouts" => payout_of(OTHER, "1"),
            "/v2/secure-payments/batch-payouts" => json!({ "tokens": tokens }),
            "/v2/secure-payments/multicall-payouts" => json!({ "childTokens": tokens }),
            "/v2/secure-payments/fees/preview" => json!({ "amount": "1", "currency": "USDC", "flow": "pay" }),
            path if path.ends_with("/tron/broadcast") => approval(),
            path if path.ends_with("/intent") && path.starts_with("/v2") => {
                json!({ "txHash": HASH, "chain": "SEPOLIA", "token": "FAU" })
            }
            path if path.ends_with("/intent") => json!({ "txHash": HASH, "payerAddress": wallet }),
            path if path.contains("/attempt") => json!({ "id": "7".repeat(32), "wallet": wallet }),
            path if path.ends_with("/events") => {
                json!({ "userEvent": "wallet_connected", "occurredAt": "2020-01-01T00:00:00Z", "properties": {} })
            }
            _ => json!({}),
        };
        match listed.method {
            Method::GET => call.send().await,
            _ => call.json(&body).send().await,
        }
    }
}

/// Tables to which calls of a stranger may add rows besides the tables of a new link: intents, issued calldata, events
/// and deliveries.
const TOUCHED: [&str; 6] = [
    "secure_payment_intents",
    "handed_out",
    "events",
    "event_keys",
    "deliveries",
    "delivery_queue",
];

#[tokio::test]
async fn a_token_opens_only_the_listed_routes() {
    let app = TestApp::on_chain().await;
    app.is_paid_in("FAU-sepolia").await;
    let owner = app.owner().await;
    let listed = listed();
    let known: BTreeSet<String> = listed
        .iter()
        .map(|call| format!("{} {}", call.method, call.path))
        .collect();
    let operations = of_links().into_values();
    let there: BTreeSet<String> = operations
        .map(|operation| format!("{} {}", operation.method, operation.path))
        .chain(routes_of_page())
        .collect();
    assert_eq!(known, there, "the list is complete");
    let (mut calls, mut wrong) = (0, Vec::new());
    for stranger in [Stranger::WithToken, Stranger::WithPage] {
        let mut link = link_of(&["1"]);
        link["payerIdentifier"] = json!("customer-of-a-shop");
        let made = app.link(&link).await.expect(201);
        let token = token_of(&made);
        let tokens = [
            token_of(&app.payout_link(&payout_of(OTHER, "1")).await.expect(201)),
            token_of(&app.payout_link(&payout_of(OTHER, "1")).await.expect(201)),
        ];
        let found = app.find_link(&owner, &made["requestIds"][0]).await.expect(200);
        let before = counts(&app).await;
        let mut made_by_him = 0;
        for call in &listed {
            let is_open = match stranger {
                Stranger::WithToken => call.is_open_to_token,
                Stranger::WithPage => call.is_open_to_page,
            };
            let answer = stranger.call(&app, call, &token, &tokens).await;
            calls += 1;
            let is_let_in = answer.status < 400;
            if is_let_in != is_open || (!is_open && !matches!(answer.status, 401 | 403)) {
                wrong.push(format!(
                    "{stranger:?} {} {}: {} {}",
                    call.method, call.path, answer.status, answer.text
                ));
            }
            if answer.text.contains("customer-of-a-shop") {
                wrong.push(format!("{} {} tells who pays", call.method, call.path));
            }
            made_by_him += usize::from(answer.status == 201);
        }
        let of_new_links = [
            "requests",
            "payee_destinations",
            "secure_payments",
            "secure_payment_items",
        ];
        for (table, rows) in added(&before, &counts(&app).await) {
            let is_of_new_link = made_by_him > 0 && of_new_links.contains(&table.as_str());
            if !TOUCHED.contains(&table.as_str()) && !is_of_new_link {
                wrong.push(format!("{stranger:?} added {rows} rows to {table}"));
            }
        }
        let now = app.find_link(&owner, &made["requestIds"][0]).await.expect(200);
        assert_eq!(found, now, "the owner's link is unchanged");
        for token in &tokens {
            app.open_link(token, "").send().await.expect(200);
        }
    }
    println!("strangers: {calls} calls, {} not as listed", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
