//! Checks that Postman can use the documents. Postman's own import converter converts each document, and newman sends
//! every request of the `v2` collection. A running service accepts some examples only once, because they cancel the
//! object that they name.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::documents;
use super::language::{installed, said};

/// Name on the command line.
pub(super) const NAME: &str = "postman";

/// Time limit in seconds for a conversion. A valid document takes about one second.
const CONVERSION_S: &str = "60";

/// Time limit in milliseconds for each response.
const ANSWER_MS: &str = "15000";

/// The request whose response never ends.
const STREAM: &str = "v2/events/stream";

/// Requests that fail without any search parameter, although each single search parameter is optional.
const SEARCHES: [&str; 2] = ["v2/payments", "v2/payments/export"];

/// The search parameter that is sent with these requests.
const SEARCHED_BY: &str = "reference";

/// Converts the documents and sends the requests of the first document; returns a summary.
pub(super) fn run(documents: &Path, service: &Path) -> Result<String> {
    let folder = installed(NAME, "Postman's converter and newman")?;
    let program = |name: &str| folder.join("node_modules/.bin").join(name);
    let options = json!({
        "folderStrategy": "Tags", "parametersResolution": "Example", "enableOptionalParameters": false,
    });
    fs::write(folder.join("options.json"), options.to_string())?;
    for name in documents::NAMES {
        let document = documents.join(name).with_extension("json").canonicalize()?;
        // Converts each document twice: with examples derived from schemas, as Postman does by default, and with the
        // examples of the document.
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
        "{requests} requests of the v2 collection sent, none was rejected as malformed"
    ))
}

/// Removes the request whose response never ends and adds a parameter to searches; returns the number of remaining
/// requests.
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

/// The path of a request, with the placeholders of its parameters.
fn path(request: &Value) -> String {
    let segments = request["url"]["path"].as_array().into_iter().flatten();
    segments.filter_map(Value::as_str).collect::<Vec<_>>().join("/")
}

/// Why a response counts as a failure; `None` if it does not. It counts if the request was malformed, the service
/// failed, or no response came. Other refusals do not count, because a request may need another credential, and the
/// objects in the examples may not exist.
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
    fn a_malformed_request_is_a_complaint_and_a_refused_credential_is_not() {
        let sent = |code: u64| json!({ "request": { "method": "GET", "url": { "path": ["v2"] } }, "response": { "code": code, "stream": { "data": [104, 105] } } });
        assert_eq!(complaint(&sent(200)), None);
        assert_eq!(complaint(&sent(401)), None);
        assert_eq!(complaint(&sent(400)).as_deref(), Some("GET v2: 400 hi"));
        assert!(complaint(&json!({})).is_some_and(|said| said.contains("no answer")));
    }
}
