//! Checks that the documents match the responses. The tests provoke every documented 400 and 404, and the errors for
//! callers without access, and compare each with the example of its operation. Source: decisions D12; decisions D39.

use crate::{
    access::{Operation, operations, tenant, unknown},
    support::{Answer, TestApp},
};
use prs::http::gate::scheme::{PolicyMark, Scheme};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Calls that are needed to provoke a documented error, because the cause of this error is neither a single invalid
/// field nor an unknown object in the path.
const ASKED: [(&str, u16, &str); 4] = [
    ("listFeeConfigs", 404, "?clientId=cli_000000000000000000000000000000"),
    ("listCurrencies", 400, "?firstOnly=true"),
    ("listCurrencies", 404, "?id=nothing"),
    ("listConversionRoutes", 404, ""),
];

/// The constant parts of an error: its member names, and the values of all members except the request id and the hint.
fn facts(body: &Value) -> (Vec<&String>, [&Value; 4]) {
    let names = body.as_object().into_iter().flatten().map(|(name, _)| name);
    let values = ["statusCode", "message", "error", "errors"].map(|name| &body[name]);
    (names.collect(), values)
}

/// The examples of a documented response.
fn shown(response: &Value) -> Vec<&Value> {
    let media = &response["content"]["application/json"];
    let several = media["examples"].as_object().into_iter().flatten();
    let several = several.map(|(_, example)| &example["value"]);
    media.get("example").into_iter().chain(several).collect()
}

/// Whether one of the examples of a documented response matches the response that was sent.
fn is_shown(response: &Value, answer: &Answer) -> bool {
    let sent = answer.json();
    shown(response)
        .into_iter()
        .any(|example| facts(example) == facts(&sent))
}

/// Whether only a chain of Tron provokes the error: see `tron_pay` and `tron_broadcast`.
fn is_of_tron(example: &Value) -> bool {
    let message = example["message"].as_str().unwrap_or_default();
    let begins = ["The energy of the payment on tron", "The chain does not have the block"];
    begins.iter().any(|begin| message.starts_with(begin))
}

struct Stage {
    app: TestApp,
    credentials: BTreeMap<&'static str, String>,
}

impl Stage {
    async fn send(&self, operation: &Operation, path: &str, body: &Value) -> Answer {
        let scheme = operation.row.any_of.first();
        let credential = scheme.map(|scheme| (*scheme, self.credentials[scheme.id()].as_str()));
        operation.send_to(&self.app, credential, path, body).await
    }
}

/// The path and body that provoke the documented 400.
fn wrong_call(operation: &Operation, shown: &Value) -> (String, Value) {
    let unknown = unknown();
    let mut body = operation.example.clone();
    if operation.row.operation == "updatePayer" {
        return (operation.address(&unknown), json!({}));
    }
    let named = shown["errors"][0]["field"].as_str();
    let Some(field) = named.filter(|_| shown["message"] == "Validation failed") else {
        return (operation.address(&unknown), body);
    };
    let is_missing = shown["errors"][0]["message"]
        .as_str()
        .is_some_and(|text| text.starts_with("is required"));
    if let Some(members) = body.as_object_mut() {
        let wrong = if members.get(field).is_some_and(Value::is_boolean) {
            json!("text")
        } else {
            json!(true)
        };
        let _ = if is_missing {
            members.remove(field)
        } else {
            members.insert(field.to_owned(), wrong)
        };
        return (operation.address(&unknown), body);
    }
    let named = format!("{{{field}}}");
    if operation.path.contains(&named) {
        return (
            operation.at(&operation.path.replace(&named, "%09")).address(&unknown),
            body,
        );
    }
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(operation.needed.iter().filter(|(name, _)| name != field));
    if !is_missing {
        query.append_pair(field, "\t");
    }
    let address = operation.address(&unknown);
    let path = address.split('?').next().unwrap_or_default();
    (format!("{path}?{}", query.finish()), body)
}

/// The path and body that provoke the documented 404.
fn lost_call(operation: &Operation) -> (String, Value) {
    let mut body = operation.example.clone();
    if operation.row.operation == "replayEvents" {
        body["endpointId"] = json!("01K9Z0T3G9R5M1N2P3Q4R5S6T7");
    }
    if operation.row.operation == "createBatchPayout" {
        body = json!({ "requestIds": ["0".repeat(66)] });
    }
    if operation.row.operation == "createFeeConfig" {
        body["clientId"] = json!(format!("cli_{}", "0".repeat(30)));
    }
    (
        operation
            .at(&operation.path.replace("{currencyId}", "nothing"))
            .address(&unknown()),
        body,
    )
}

#[tokio::test]
async fn every_error_response_matches_its_documentation() {
    let app = TestApp::start().await;
    let credentials = tenant(&app, 7).await.good;
    let stage = Stage { app, credentials };
    let (mut count, mut surprises) = (0, Vec::new());
    // Errors of signed calls are tested in `off_ramp_partner`.
    let operations = operations().into_iter();
    for operation in &operations
        .filter(|one| !one.row.marks.contains(&PolicyMark::Signed))
        .collect::<Vec<_>>()
    {
        let name = operation.row.operation;
        for status in [400, 404] {
            let response = &operation.responses[status.to_string()];
            if response.is_null() {
                continue;
            }
            assert!(!shown(response).is_empty(), "{name} {status}");
            // Only the report of a Safe for a multicall is refused like this: see `multicalls`.
            if name == "recordSecurePaymentIntent" && status == 400 {
                continue;
            }
            for shown in shown(response).into_iter().filter(|shown| !is_of_tron(shown)) {
                let (mut path, body) = match status {
                    400 => wrong_call(operation, shown),
                    _ => lost_call(operation),
                };
                let asked = ASKED.iter().find(|(asked, at, _)| *asked == name && *at == status);
                if let Some((.., query)) = asked {
                    path.push_str(query);
                }
                let answer = stage.send(operation, &path, &body).await;
                if facts(&answer.json()) != facts(shown) {
                    surprises.push(format!("{name} {path} {body}: shows {shown}, sends {}", answer.text));
                }
                count += 1;
            }
        }
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
    assert!(count > 70, "{count} refusals");
}

#[tokio::test]
async fn callers_without_access_get_the_documented_errors() {
    let app = TestApp::start().await;
    let credentials = tenant(&app, 7).await.good;
    let mut surprises = Vec::new();
    for operation in operations().iter().filter(|operation| !operation.row.any_of.is_empty()) {
        let path = operation.address(&unknown());
        let other = [Scheme::ApiKey, Scheme::ClientId, Scheme::OrchestratorKey]
            .into_iter()
            .find(|scheme| !operation.row.any_of.contains(scheme))
            .map(|scheme| (scheme, credentials[scheme.id()].as_str()));
        for (status, credential) in [("401", None), ("403", other)] {
            let answer = operation.send_to(&app, credential, &path, &operation.example).await;
            let response = &operation.responses[status];
            if !is_shown(response, &answer) {
                surprises.push(format!(
                    "{} {status}: shows {:?}, sends {}",
                    operation.row.operation,
                    shown(response),
                    answer.text
                ));
            }
        }
    }
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

#[tokio::test]
async fn a_user_without_a_wallet_gets_the_documented_error() {
    let app = TestApp::start().await;
    let account = json!({ "email": "ada@example.com", "password": "correct horse battery" });
    let answer = app.post("/v1/auth/register").json(&account).send().await;
    let cookie = answer.header("set-cookie").expect("a session").to_owned();
    let session = cookie.split(['=', ';']).nth(1).expect("a token");
    let mut count = 0;
    for operation in operations() {
        let operation = &operation;
        let response = &operation.responses["403"];
        if operation.path != "/v1/payee-destination" && operation.row.operation != "deactivateOwnDestination" {
            continue;
        }
        let credential = Some((Scheme::SessionBearer, session));
        let answer = operation
            .send_to(&app, credential, &operation.path, &operation.example)
            .await;
        assert!(
            is_shown(response, &answer),
            "{}: {}",
            operation.row.operation,
            answer.text
        );
        assert_eq!(
            shown(response).len(),
            2,
            "one for a user without a wallet and one for other credentials"
        );
        count += 1;
    }
    assert_eq!(count, 4);
}

#[tokio::test]
async fn a_malformed_destination_id_gets_the_documented_error() {
    let app = TestApp::start().await;
    let call = app.get("/v2/payee-destination/nothing").with_client();
    let answer = call.send().await;
    let operations = operations();
    let mut named = operations.iter();
    let read = named.find(|operation| operation.row.operation == "getPayeeDestination");
    let response = &read.expect("documented").responses["400"];
    assert!(is_shown(response, &answer), "{}", answer.text);
}
