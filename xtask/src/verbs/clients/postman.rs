//! What Postman makes of the documents: each is converted by the program that Postman imports with, and every request of
//! the collection of `v2` is sent. The examples cancel what they name, so a service answers them well once.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::documents;
use super::language::{installed, said};

/// What it is called on the command line.
pub(super) const NAME: &str = "postman";

/// Seconds in which a document is converted; a document that is imported takes one.
const CONVERSION_S: &str = "60";

/// Milliseconds for each answer.
const ANSWER_MS: &str = "15000";

/// The request whose answer never ends.
const STREAM: &str = "v2/events/stream";

/// Requests that need one search parameter, where all of them are optional.
const SEARCHES: [&str; 2] = ["v2/payments", "v2/payments/export"];

/// The parameter that is sent with them.
const SEARCHED_BY: &str = "reference";

/// Converts the documents and sends the requests of the first; returns what there is to tell.
pub(super) fn run(documents: &Path, service: &Path) -> Result<String> {
    let folder = installed(NAME, "Postman's converter and newman")?;
    let program = |name: &str| folder.join("node_modules/.bin").join(name);
    let options = json!({
        "folderStrategy": "Tags", "parametersResolution": "Example", "enableOptionalParameters": false,
    });
    fs::write(folder.join("options.json"), options.to_string())?;
    for name in documents::NAMES {
        let document = documents.join(name).with_extension("json").canonicalize()?;
        // As Postman does it by itself, with examples that it makes of schemas; then with those of the document.
        for options in [&[][..], &["-c", "options.json"]] {
            let mut convert = Command::new("timeout");
            convert
                .current_dir(&folder)
                .arg(CONVERSION_S)
                .arg(program("openapi2postmanv2"));
            convert
                .arg("-s")
                .arg(&document)
                .args(["-o", &format!("{name}.collection.json")]);
            said(convert.args(options))
                .with_context(|| format!("{name}.json was not converted within {CONVERSION_S} s"))?;
        }
    }
    let path = folder.join("v2.collection.json");
    let mut collection: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
    let requests = adapt(&mut collection["item"]);
    fs::write(&path, collection.to_string())?;

    let ready: Value = serde_json::from_str(&fs::read_to_string(service)?)?;
    let report = folder.join("report.json");
    let _ = fs::remove_file(&report);
    let mut send = Command::new(program("newman"));
    send.arg("run")
        .arg(&path)
        .args(["-r", "json", "--timeout-request", ANSWER_MS]);
    send.arg("--reporter-json-export").arg(&report);
    for name in ["baseUrl", "apiKey"] {
        let value = ready[name].as_str();
        let value = value.with_context(|| format!("`prs dev --json` names no {name}"))?;
        send.arg("--env-var").arg(format!("{name}={value}"));
    }
    said(&mut send)?;
    let report: Value = serde_json::from_str(&fs::read_to_string(&report)?)?;
    let sent = report["run"]["executions"].as_array().map_or(&[][..], Vec::as_slice);
    let refused: Vec<String> = sent.iter().filter_map(complaint).collect();
    if sent.len() != requests || !refused.is_empty() {
        bail!("{} of {requests} requests sent; {}", sent.len(), refused.join("; "));
    }
    Ok(format!(
        "{requests} requests of the collection of v2 sent, none was refused as wrong"
    ))
}

/// Leaves out what has no end, and gives a search what it searches by; returns how many requests are left.
fn adapt(items: &mut Value) -> usize {
    let Some(items) = items.as_array_mut() else {
        return 0;
    };
    items.retain(|item| path(&item["request"]) != STREAM);
    let mut requests = 0;
    for item in items {
        if item.get("request").is_none() {
            requests += adapt(&mut item["item"]);
            continue;
        }
        requests += 1;
        if SEARCHES.contains(&path(&item["request"]).as_str()) {
            for parameter in item["request"]["url"]["query"].as_array_mut().into_iter().flatten() {
                if parameter["key"] == SEARCHED_BY {
                    parameter["disabled"] = false.into();
                }
            }
        }
    }
    requests
}

/// The path of a request, with its parameters as they are.
fn path(request: &Value) -> String {
    let segments = request["url"]["path"].as_array().into_iter().flatten();
    segments.filter_map(Value::as_str).collect::<Vec<_>>().join("/")
}

/// What is wrong with an answer: it says that the request is malformed, that the service failed, or is missing. Requests
/// of other credentials are refused, and what an example names need not be there.
fn complaint(sent: &Value) -> Option<String> {
    let status = sent["response"]["code"].as_u64();
    let is_fine = status.is_some_and(|status| (200..300).contains(&status) || [401, 403, 404, 409].contains(&status));
    let bytes = sent["response"]["stream"]["data"].as_array().into_iter().flatten();
    let bytes: Vec<u8> = bytes.filter_map(|byte| u8::try_from(byte.as_u64()?).ok()).collect();
    let body = String::from_utf8_lossy(&bytes);
    (!is_fine).then(|| {
        format!(
            "{} {}: {} {body}",
            sent["request"]["method"].as_str().unwrap_or_default(),
            path(&sent["request"]),
            status.map_or_else(|| "no answer".to_owned(), |status| status.to_string())
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_gets_its_parameter_and_a_stream_is_left_out() {
        let request = |path: &[&str]| json!({ "request": { "url": { "path": path, "query": [{ "key": "reference", "disabled": true }] } } });
        let mut items = json!([
            { "item": [request(&["v2", "payments"]), request(&["v2", "events", "stream"])] },
            request(&["v2", "request"]),
        ]);
        assert_eq!(adapt(&mut items), 2);
        let disabled = |pointer: &str| items.pointer(pointer).and_then(Value::as_bool);
        assert_eq!(disabled("/0/item/0/request/url/query/0/disabled"), Some(false));
        assert_eq!(disabled("/1/request/url/query/0/disabled"), Some(true));
    }

    #[test]
    fn a_refusal_of_the_request_is_a_complaint_and_one_of_the_credential_is_none() {
        let sent = |code: u64| json!({ "request": { "method": "GET", "url": { "path": ["v2"] } }, "response": { "code": code, "stream": { "data": [104, 105] } } });
        assert_eq!(complaint(&sent(200)), None);
        assert_eq!(complaint(&sent(401)), None);
        assert_eq!(complaint(&sent(400)).as_deref(), Some("GET v2: 400 hi"));
        assert!(complaint(&json!({})).is_some_and(|said| said.contains("no answer")));
    }
}
