//! Who is told about persons: every field of the documented answers and events that says who a customer or a payer is,
//! with every kind of credential.
//!
//! The fields are found in the exported documents by the names of members, so that a field that comes later is tried by
//! existing.

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

/// Members whose texts are about a person, wherever they stand.
const PERSONAL: [&str; 4] = ["customerInfo", "payer", "payerAddress", "payerEoaAddress"];

/// Deepest nesting of a schema that is looked into.
const DEPTH_MAX: usize = 12;

/// The kinds that may be told.
const SECRET: [Kind; 4] = [
    Kind::Of(Scheme::ApiKey),
    Kind::Of(Scheme::ClientId),
    Kind::Of(Scheme::SessionBearer),
    Kind::Of(Scheme::Session),
];

/// Pointers to the texts of a schema that are about a person.
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

/// A customer with every detail, and the wallet that pays.
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

/// Everything of [`ordered`] that is about a person.
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

/// A paid request of each kind of client ID.
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
async fn every_credential_on_every_personal_field_is_told_what_it_may_know() {
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
                    // A request is not repeated inside its own payments.
                    let is_repeated = name == "getRequest" && field.contains("/request/");
                    // No link awaits these requests; `links_access.rs` says who learns what of one.
                    let is_of_links = ["findSecurePayment", "recordSecurePaymentIntent"].contains(&name);
                    match body.pointer(field).and_then(Value::as_str) {
                        Some(_) if may_know => told += 1,
                        None if !may_know || is_repeated || is_of_links => {}
                        value => surprises.push(format!("{name} {field} for {kind:?}: {value:?}")),
                    }
                }
                if !(is_own && SECRET.contains(&kind)) {
                    let leaks = canaries.iter().filter(|canary| answer.text.contains(canary.as_str()));
                    surprises
                        .extend(leaks.map(|canary| format!("{} tells {kind:?} {canary}", operation.row.operation)));
                }
            }
        }
    }
    let (of_events, told_by_events) = events(&receivers, &canaries, &mut surprises).await;
    println!(
        "access: {} cells of personal fields, {} told, {} surprises",
        cells + of_events,
        told + told_by_events,
        surprises.len()
    );
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
    assert!(told > 40 && of_events > 30, "{told} told, {of_events} of events");
}

/// An endpoint that a credential registered, and whether it may be told.
struct Heard {
    registered_by: &'static str,
    receiver: Receiver,
    may_know: bool,
}

/// Endpoints registered with every kind of credential; that of a public client ID once more, approved.
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

/// Tries every personal field of what endpoints received; returns the cells and how many were told.
async fn events(receivers: &[Heard], canaries: &[String], surprises: &mut Vec<String>) -> (usize, usize) {
    let path = format!("{}/openapi/webhooks.json", env!("CARGO_MANIFEST_DIR"));
    let document: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("a document")).expect("JSON");
    let mut fields = BTreeSet::new();
    let schema = &document["components"]["schemas"]["PaymentConfirmed"];
    personal(&document, schema, ("", false), 0, &mut fields);
    let (mut cells, mut told) = (0, 0);
    for heard in receivers {
        let received = heard.receiver.received().await;
        assert!(!received.is_empty(), "{} heard nothing", heard.registered_by);
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
                surprises.extend(leaks.map(|canary| format!("an event tells {} {canary}", heard.registered_by)));
            }
        }
    }
    (cells, told)
}
