//! Personal data: every field of the documented responses and events that identifies a customer or a payer, with every
//! kind of credential.
//!
//! The fields are found in the exported documents by their names, so new fields are checked automatically.

use crate::{
    access::{Kind, Operation, Tenant, operations, tenant},
    support::{
        TestApp,
        app::PAGE,
        chain::{PAYER, transactions},
        contract::{documents, resolved},
        receiver::Receiver,
        requests::fau,
    },
};
use prs::http::gate::scheme::Scheme;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Members whose texts identify a person, wherever they are in a body.
const PERSONAL: [&str; 4] = ["customerInfo", "payer", "payerAddress", "payerEoaAddress"];

/// Maximum depth to which a schema is searched.
const DEPTH_MAX: usize = 12;

/// The kinds of credential that may read personal data.
const SECRET: [Kind; 4] = [
    Kind::Of(Scheme::ApiKey),
    Kind::Of(Scheme::ClientId),
    Kind::Of(Scheme::SessionBearer),
    Kind::Of(Scheme::Session),
];

/// Collects JSON pointers to those texts of a schema that identify a person.
fn personal(document: &Value, schema: &Value, place: (&str, bool), depth: usize, found: &mut BTreeSet<String>) {
    let (pointer, is_personal) = place;
    let schema = resolved(document, schema);
    if depth > DEPTH_MAX {
        return;
    }
    for part in ["allOf", "anyOf", "oneOf"]
        .iter()
        .flat_map(|name| schema[*name].as_array())
        .flatten()
    {
        personal(document, part, place, depth + 1, found);
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let is_personal = is_personal || PERSONAL.contains(&name.as_str());
        personal(
            document,
            member,
            (&format!("{pointer}/{name}"), is_personal),
            depth + 1,
            found,
        );
    }
    if schema["items"].is_object() {
        personal(
            document,
            &schema["items"],
            (&format!("{pointer}/0"), is_personal),
            depth + 1,
            found,
        );
    }
    let is_text = schema["type"] == "string" || schema["type"][0] == "string";
    if is_personal && is_text {
        found.insert(pointer.to_owned());
    }
}

fn of_answer(operation: &Operation) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let schema = &operation.responses["200"]["content"]["application/json"]["schema"];
    for document in documents() {
        if document["paths"].get(&operation.path).is_some() {
            personal(document, schema, ("", false), 0, &mut found);
        }
    }
    found
}

/// The body of a request with every detail of a customer, and with the wallet of the payer.
fn ordered(app: &TestApp) -> Value {
    let mut body = fau("1");
    body["payer"] = json!(app.account(PAYER));
    body["customerInfo"] = json!({
        "firstName": "Adelheid", "lastName": "Appenzeller", "email": "adelheid@example.com",
        "address": {
            "street": "Dorfplatz 7", "city": "Appenzell", "state": "Innerrhoden", "postalCode": "CH-9050",
            "country": "CH",
        },
    });
    body
}

/// Every text in the body of [`ordered`] that identifies a person.
fn canaries(app: &TestApp) -> Vec<String> {
    let payer = app.account(PAYER);
    let texts = [
        "Adelheid",
        "Appenzeller",
        "adelheid@example.com",
        "Dorfplatz 7",
        "Appenzell",
        "Innerrhoden",
        "CH-9050",
    ];
    let texts = texts.map(str::to_owned).into_iter();
    texts.chain([payer.to_lowercase(), payer]).collect()
}

/// Creates and pays one request with each kind of client ID; returns the ids of the requests by kind.
async fn requests(app: &TestApp, owner: &Tenant) -> BTreeMap<&'static str, String> {
    let mut made = BTreeMap::new();
    for kind in [Kind::Of(Scheme::ClientId), Kind::PublicClientId] {
        let client = owner.good[kind.id()].as_str();
        let call = app
            .post("/v2/request")
            .header("x-client-id", client)
            .header("origin", PAGE);
        let created = call.json(&ordered(app)).send().await.expect(201);
        let id = created["requestId"].as_str().expect("text").to_owned();
        let path = format!("/v2/request/{id}/pay?wallet={}", app.account(PAYER));
        let key = owner.good[Scheme::ApiKey.id()].as_str();
        let calldata = app.get(&path).header("x-api-key", key).send().await.expect(200);
        app.devnet().pay(PAYER, &transactions(&calldata)).await.expect("mined");
        made.insert(kind.id(), id);
    }
    app.settle().await;
    made
}

#[tokio::test]
async fn each_credential_sees_only_the_personal_fields_it_may_read() {
    let app = TestApp::on_chain().await;
    let (own, foreign) = (tenant(&app, 7).await, tenant(&app, 8).await);
    let receivers = receivers(&app, &own).await;
    let requests = requests(&app, &own).await;
    let (canaries, mut cells, mut told, mut surprises) = (canaries(&app), 0, 0, Vec::new());
    for operation in operations() {
        let fields = of_answer(&operation);
        for kind in SECRET.into_iter().chain([Kind::PublicClientId]) {
            if fields.is_empty() || !operation.row.any_of.contains(&kind.scheme()) {
                continue;
            }
            let id = requests.get(kind.id()).unwrap_or(&requests[Kind::PublicClientId.id()]);
            let path = match operation.path.contains("{requestId}") {
                true => operation.path.replace("{requestId}", id),
                false => format!("{}?requestId={id}", operation.path),
            };
            for (owner, is_own) in [(&own, true), (&foreign, false)] {
                let credential = owner.good[kind.id()].as_str();
                let answer = operation
                    .send_to(&app, Some((kind.scheme(), credential)), &path, &json!({}))
                    .await;
                let body = answer.json();
                for field in &fields {
                    cells += 1;
                    let may_know = is_own && SECRET.contains(&kind);
                    let name = operation.row.operation;
                    // A request is not repeated in its own payments.
                    let is_repeated = name == "getRequest" && field.contains("/request/");
                    // These requests have no links; `links_access.rs` tests access to links.
                    let is_of_links = ["findSecurePayment", "recordSecurePaymentIntent"].contains(&name);
                    match body.pointer(field).and_then(Value::as_str) {
                        Some(_) if may_know => told += 1,
                        None if !may_know || is_repeated || is_of_links => {}
                        value => surprises.push(format!("{name} {field} for {kind:?}: {value:?}")),
                    }
                }
                if !(is_own && SECRET.contains(&kind)) {
                    let leaks = canaries.iter().filter(|canary| answer.text.contains(canary.as_str()));
                    surprises.extend(
                        leaks.map(|canary| format!("{} returns {canary} to {kind:?}", operation.row.operation)),
                    );
                }
            }
        }
    }
    let (of_events, told_by_events) = events(&receivers, &canaries, &mut surprises).await;
    println!(
        "access: {} cells of personal fields, {} disclosed, {} unexpected",
        cells + of_events,
        told + told_by_events,
        surprises.len()
    );
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
    assert!(told > 40 && of_events > 30, "{told} disclosed, {of_events} of events");
}

/// A registered endpoint, the kind of credential that registered it, and whether the endpoint may receive personal
/// data.
struct Heard {
    registered_by: &'static str,
    receiver: Receiver,
    may_know: bool,
}

/// Registers one endpoint with each kind of credential of a platform. A public client ID registers two endpoints, of
/// which the platform approves one.
async fn receivers(app: &TestApp, owner: &Tenant) -> Vec<Heard> {
    let mut all = Vec::new();
    for (kind, is_approved) in [
        (Kind::Of(Scheme::ApiKey), false),
        (Kind::Of(Scheme::ClientId), false),
        (Kind::Of(Scheme::SessionBearer), false),
        (Kind::PublicClientId, false),
        (Kind::PublicClientId, true),
    ] {
        let receiver = Receiver::start().await;
        let credential = owner.good[kind.id()].as_str();
        let call = app.post("/v1/webhook");
        let call = match kind.scheme() {
            Scheme::ApiKey => call.header("x-api-key", credential),
            Scheme::ClientId => call.header("x-client-id", credential).header("origin", PAGE),
            _ => call.header("authorization", &format!("Bearer {credential}")),
        };
        let created = call.json(&json!({ "url": receiver.url() })).send().await.expect(201);
        if is_approved {
            let path = format!("/v1/webhook/{}/approve", created["id"].as_str().expect("text"));
            let key = owner.good[Scheme::ApiKey.id()].as_str();
            app.post(&path).header("x-api-key", key).send().await.expect(200);
        }
        all.push(Heard {
            registered_by: kind.id(),
            receiver,
            may_know: is_approved || kind != Kind::PublicClientId,
        });
    }
    all
}

/// Checks every personal field in the events that each endpoint received. Returns the number of checked pairs of
/// endpoint and field, and the number of fields that contained personal data.
async fn events(receivers: &[Heard], canaries: &[String], surprises: &mut Vec<String>) -> (usize, usize) {
    let path = format!("{}/openapi/webhooks.json", env!("CARGO_MANIFEST_DIR"));
    let document: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("a document")).expect("JSON");
    let mut fields = BTreeSet::new();
    let schema = &document["components"]["schemas"]["PaymentConfirmed"];
    personal(&document, schema, ("", false), 0, &mut fields);
    let (mut cells, mut told) = (0, 0);
    for heard in receivers {
        let received = heard.receiver.received().await;
        assert!(!received.is_empty(), "{} received nothing", heard.registered_by);
        for one in received {
            let body = one.json();
            for field in &fields {
                cells += 1;
                match body.pointer(field).and_then(Value::as_str) {
                    Some(_) if heard.may_know => told += 1,
                    None if !heard.may_know => {}
                    value => surprises.push(format!("{field} of an event to {}: {value:?}", heard.registered_by)),
                }
            }
            if !heard.may_know {
                let leaks = canaries.iter().filter(|canary| one.body.contains(canary.as_str()));
                surprises.extend(leaks.map(|canary| format!("an event sends {canary} to {}", heard.registered_by)));
            }
        }
    }
    (cells, told)
}
