//! Checks how every operation refuses wrong calls: without a credential, with a body that is not JSON, with a malformed
//! value, or with an unknown id. Also checks the response to a repeated call.

use anyhow::Result;
use serde_json::Value;
use xtask::machine::command;

use crate::document::Operation;
use crate::plan::Credential;
use crate::report::Verdict;
use crate::walk::{Ended, Missing, STOPPED, Sent, Walk, encoded};

/// Well-formed ids that do not exist.
const NO_ULID: &str = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
const NO_REQUEST: &str = "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";
/// An unknown destination id. The format has a checksum, so this is an example of the hosted service, on a network that
/// no test platform uses.
const NO_DESTINATION: &str =
    "0x742d35Cc6634C0532925a3b844Bc454e4438f44e@eip155:10#9DE83AA2:0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85";
const NO_NAME: &str = "NO-SUCH-THING";
const NO_CLIENT_ID: &str = "cli_000000000000000000000000000000";

/// How the pattern of a ULID begins.
const ULID: &str = "^[0-7]";

/// How the pattern of a number or a time begins.
const DIGITS: &str = "^[0-9]";

/// A malformed value for a parameter: it is neither a ULID nor a number nor a time.
const WRONG: &str = "~";

/// Path prefix of callbacks by partners of the operator.
const CALLBACKS: &str = "/v2/provider-callbacks/";

/// A truncated body.
const NO_JSON: &str = "{\"";

/// Checks for every operation that it returns the errors that its document lists.
pub(crate) fn all(walk: &mut Walk<'_>) {
    for operation in walk.operations().to_vec() {
        if command::interrupted() {
            walk.report
                .add(operation.id, "refusals", Verdict::LeftOut(STOPPED.to_owned()));
            continue;
        }
        let path = path_of(operation, None);
        let query = required_query(operation);
        let example = operation.example_body().to_string();
        // The off-ramp partner authenticates with a signature, which is checked before everything else.
        let is_signed = operation.path.starts_with(CALLBACKS);
        if operation.schemes().next().is_some() || is_signed {
            refuse(walk, operation, (&path, &query), &Vec::new(), &example, 401);
        }
        if is_signed {
            let why = "only the partner can sign a callback".to_owned();
            walk.report.add(operation.id, "200", Verdict::LeftOut(why));
            continue;
        }
        let headers = match walk.good_headers(operation) {
            Ok(headers) => headers,
            Err(Missing(why)) => {
                walk.report.add(operation.id, "400", Verdict::LeftOut(why));
                continue;
            }
        };
        if operation.response(400).is_some() {
            if operation.takes_body() {
                refuse(walk, operation, (&path, &query), &headers, NO_JSON, 400);
            }
            if let Some(name) = parameter_of(operation, "path", ULID) {
                let path = path_of(operation, Some(name));
                refuse(walk, operation, (&path, &query), &headers, &example, 400);
            }
            if let Some(name) = parameter_of(operation, "query", DIGITS) {
                let query = format!("{name}={WRONG}");
                refuse(walk, operation, (&path, &query), &headers, &example, 400);
            }
        }
        if operation.path.contains('{') && operation.response(404).is_some() {
            refuse(walk, operation, (&path, &query), &headers, &example, 404);
        }
    }
}

fn refuse(
    walk: &mut Walk<'_>,
    operation: Operation<'_>,
    (path, query): (&str, &str),
    headers: &Sent,
    body: &str,
    status: u16,
) {
    let answer = walk.call(operation, path, query, headers, body).map_err(Ended::from);
    let verdict = answer.map_or_else(Verdict::from, |answer| walk.judged(operation, &answer, status));
    walk.report.add(operation.id, &status.to_string(), verdict);
}

/// Makes the same call twice with one idempotency key. Both responses must be equal, and the second must be marked as a
/// repetition. A call with the same key and another body must be refused.
pub(crate) fn idempotency(walk: &mut Walk<'_>) {
    let verdict = repeated(walk).unwrap_or_else(Verdict::from);
    walk.report.add("createRequest", "idempotency", verdict);
}

fn repeated(walk: &Walk<'_>) -> Result<Verdict, Ended> {
    const BODY: &str = r#"{"payee":"{payee}","amount":"1","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}"}"#;
    const OTHER: &str = r#"{"payee":"{payee}","amount":"2","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}"}"#;
    let operation = walk.operation("createRequest")?;
    let mut headers = walk.headers(Credential::Key)?;
    headers.push(("idempotency-key", walk.filled("{name}-idempotency")?));
    let (body, other) = (walk.filled_body(BODY)?, walk.filled_body(OTHER)?);
    let first = walk.call(operation, operation.path, "", &headers, &body)?;
    let second = walk.call(operation, operation.path, "", &headers, &body)?;
    let mut wrong = Vec::new();
    if first.body != second.body {
        wrong.push("the second response differs from the first".to_owned());
    }
    if second.headers.get("idempotency-replayed").map(String::as_str) != Some("true") {
        wrong.push("the second response has no `idempotency-replayed: true`".to_owned());
    }
    let other = walk.call(operation, operation.path, "", &headers, &other)?;
    if let Verdict::Failed(further) = walk.judged(operation, &other, 409) {
        wrong.extend(further);
    }
    Ok(Verdict::of(wrong))
}

/// The path of an operation with unknown ids, except for one malformed parameter.
fn path_of(operation: Operation<'_>, wrong: Option<&str>) -> String {
    let mut path = operation.path.to_owned();
    for parameter in operation.parameters("path") {
        let name = parameter["name"].as_str().unwrap_or_default();
        let value = match pattern(parameter) {
            _ if wrong == Some(name) => WRONG,
            pattern if pattern.starts_with(ULID) => NO_ULID,
            _ if name == "requestId" => NO_REQUEST,
            _ if name == "destinationId" => NO_DESTINATION,
            _ if name == "clientId" => NO_CLIENT_ID,
            _ => NO_NAME,
        };
        path = path.replace(&format!("{{{name}}}"), &encoded(value));
    }
    path
}

/// The first parameter of a kind (path, query or header) whose pattern begins with this text.
fn parameter_of<'a>(operation: Operation<'a>, kind: &'static str, form: &str) -> Option<&'a str> {
    let mut parameters = operation.parameters(kind);
    let found = parameters.find(|parameter| pattern(parameter).starts_with(form))?;
    found["name"].as_str()
}

fn pattern(parameter: &Value) -> &str {
    parameter["schema"]["pattern"].as_str().unwrap_or_default()
}

/// The query parameters that an operation checks before anything else, with the values of their examples.
fn required_query(operation: Operation<'_>) -> String {
    let required = operation
        .parameters("query")
        .filter(|parameter| parameter["required"] == true);
    let texts = required.filter_map(|parameter| {
        let example = match &parameter["example"] {
            Value::String(text) => text.clone(),
            Value::Null => return None,
            other => other.to_string(),
        };
        Some(format!("{}={}", parameter["name"].as_str()?, encoded(&example)))
    });
    texts.collect::<Vec<_>>().join("&")
}
