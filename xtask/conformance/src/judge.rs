//! Compares a response with the document: status, headers, media type, body.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use contract::validation::{json_schema, resolved, unlike_ours};
use jsonschema::Validator;
use serde_json::{Map, Value};
use xtask::service::hooks::Headers;

use crate::document::Operation;
use crate::report::Verdict;

/// Every response has this header; errors repeat it in the body.
const CALL_ID: &str = "x-request-id";

/// Maximum length of a printed unexpected response.
const LETTERS_SHOWN: usize = 300;

/// A response.
pub(crate) struct Exchange {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

impl Exchange {
    /// The response body as JSON; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// Compares responses with the document, and caches compiled schemas.
#[derive(Default)]
pub(crate) struct Judge(BTreeMap<(String, u16, String), Validator>);

impl Judge {
    /// All differences between a response and the documented response for this status.
    pub(crate) fn verdict(&mut self, operation: Operation<'_>, exchange: &Exchange, status: u16) -> Verdict {
        match self.differences(operation, exchange, status) {
            Ok(wrong) => Verdict::of(wrong),
            Err(error) => Verdict::Failed(vec![format!("{error:#}")]),
        }
    }

    fn differences(&mut self, operation: Operation<'_>, exchange: &Exchange, status: u16) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        if exchange.status != status {
            // Only refusals are shown: created objects may contain a secret.
            let told = if exchange.status < 400 {
                String::new()
            } else {
                format!(": {}", shortened(&exchange.body))
            };
            wrong.push(format!("returned {} instead of {status}{told}", exchange.status));
        }
        match exchange.headers.get(CALL_ID) {
            None => wrong.push(format!("the header {CALL_ID} is missing")),
            Some(id) if exchange.status >= 400 && exchange.json()["requestId"] != id.as_str() => {
                wrong.push(format!("requestId of the error differs from the header {CALL_ID}"));
            }
            Some(_) => {}
        }
        let said = &exchange.json()["statusCode"];
        if exchange.status >= 400 && said.is_number() && *said != exchange.status {
            wrong.push(format!(
                "statusCode of the error is {said}, but the status is {}",
                exchange.status
            ));
        }
        let Some(response) = operation.response(exchange.status) else {
            wrong.push(format!("the status {} is not documented", exchange.status));
            return Ok(wrong);
        };
        for (name, header) in response["headers"].as_object().into_iter().flatten() {
            let header = resolved(operation.document, header);
            let sent = exchange.headers.get(&name.to_lowercase());
            if sent.is_none() && header["required"] == true {
                wrong.push(format!("the header {name} is missing"));
            }
            if let Some(text) = sent {
                let value = written(text, &header["schema"]);
                let place = format!("header {name}: ");
                wrong.extend(self.flaws(operation, (exchange.status, name), &header["schema"], &value, &place)?);
            }
        }
        let kind = exchange.headers.get("content-type").map_or("", String::as_str);
        if charset(kind).is_some_and(|charset| !charset.eq_ignore_ascii_case("utf-8")) {
            wrong.push(format!("the media type `{kind}` is not in UTF-8"));
        }
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let Some(content) = response["content"].as_object().filter(|content| !content.is_empty()) else {
            if !exchange.body.is_empty() {
                wrong.push("the body is not documented".to_owned());
            }
            return Ok(wrong);
        };
        let Some(schema) = content.get(kind).map(|content| &content["schema"]) else {
            wrong.push(format!("the media type `{kind}` is not documented"));
            return Ok(wrong);
        };
        for value in values(kind, &exchange.body) {
            wrong.extend(match value {
                Ok(value) => self.flaws(operation, (exchange.status, kind), schema, &value, "")?,
                Err(error) => vec![error],
            });
        }
        Ok(wrong)
    }

    fn flaws(
        &mut self,
        operation: Operation<'_>,
        (status, part): (u16, &str),
        schema: &Value,
        value: &Value,
        place: &str,
    ) -> Result<Vec<String>> {
        let key = (operation.id.to_owned(), status, part.to_owned());
        if !self.0.contains_key(&key) {
            let compiled = validator(&json_schema(operation.document, schema));
            let compiled = compiled.with_context(|| format!("the schema of {} {status} {part}", operation.id))?;
            self.0.insert(key.clone(), compiled);
        }
        let mut found: Vec<String> = self
            .0
            .get(&key)
            .map_or_else(Vec::new, |validator| flaws(validator, value));
        let fits = |schema: &Value, value: &Value| {
            validator(&json_schema(operation.document, schema)).is_ok_and(|validator| validator.is_valid(value))
        };
        found.extend(unlike_ours(operation.document, schema, value, &fits));
        Ok(found.into_iter().map(|flaw| format!("{place}{flaw}")).collect())
    }
}

/// A validator of a JSON Schema, formats included.
pub(crate) fn validator(schema: &Value) -> Result<Validator> {
    Ok(jsonschema::options().should_validate_formats(true).build(schema)?)
}

/// Violations of the schema in a value. The value itself is not shown: it may be a secret.
pub(crate) fn flaws(validator: &Validator, value: &Value) -> Vec<String> {
    validator
        .iter_errors(value)
        .map(|error| format!("{}: {}", error.instance_path(), error.masked()))
        .collect()
}

/// A header value as JSON: a number if its schema is an integer, and otherwise a text.
fn written(text: &str, schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("integer") => text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from),
        _ => Value::from(text),
    }
}

/// The values in a body that the schema describes: the whole body, or each of its lines, or each message of a stream.
fn values(kind: &str, body: &[u8]) -> Vec<Result<Value, String>> {
    let text = String::from_utf8_lossy(body);
    match kind {
        "application/json" => vec![serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))],
        "application/jsonl" => text
            .lines()
            .map(|line| serde_json::from_str(line).map_err(|error| format!("a line is not JSON: {error}")))
            .collect(),
        "text/csv" if text.lines().next().is_none() => vec![Err("the table has no header".to_owned())],
        "text/event-stream" => text.split("\n\n").filter_map(message).map(Ok).collect(),
        _ => Vec::new(),
    }
}

/// The character set in a media type.
fn charset(kind: &str) -> Option<&str> {
    let mut parameters = kind
        .split(';')
        .skip(1)
        .filter_map(|parameter| parameter.split_once('='));
    let (_, charset) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(charset.trim().trim_matches('"'))
}

/// A message of an event stream; `None` for a keep-alive without content.
fn message(text: &str) -> Option<Value> {
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let members: Map<String, Value> = fields
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_owned(), Value::from(value.strip_prefix(' ').unwrap_or(value))))
        .collect();
    members.contains_key("data").then_some(Value::Object(members))
}

fn shortened(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(LETTERS_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(status: u16, headers: &[(&str, &str)], body: &str) -> Vec<String> {
        let document = json!({"paths": {"/a": {"get": {"operationId": "getA", "responses": {
            "200": {
                "headers": {"RateLimit-Limit": {"schema": {"type": "integer", "minimum": 0}}},
                "content": {"application/json": {"schema": {
                    "type": "object", "required": ["a"], "properties": {"a": {"type": "string", "maxLength": 3}},
                }}},
            },
            "404": {"content": {"application/json": {"schema": {"type": "object"}}}},
        }}}}});
        let operation = Operation::all(&document, "").remove(0);
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let exchange = Exchange {
            status,
            headers: headers.collect(),
            body: body.as_bytes().to_vec(),
        };
        match Judge::default().verdict(operation, &exchange, 200) {
            Verdict::Failed(wrong) => wrong,
            _ => Vec::new(),
        }
    }

    #[test]
    fn a_response_differs_in_status_header_media_type_and_body() {
        let json = ("content-type", "application/json; charset=utf-8");
        let id = ("x-request-id", "01");
        assert_eq!(
            wrong(200, &[json, id, ("ratelimit-limit", "5")], r#"{"a":"b"}"#),
            [""; 0]
        );
        assert_eq!(
            wrong(200, &[json], r#"{"a":"b"}"#),
            ["the header x-request-id is missing"]
        );
        assert_eq!(
            wrong(200, &[id, ("content-type", "text/html")], "<p>"),
            ["the media type `text/html` is not documented"]
        );
        for (limit, body) in [
            ("-1", r#"{"a":"b"}"#),
            ("x", r#"{"a":"b"}"#),
            ("1", r#"{"a":"abcd"}"#),
            ("1", "{}"),
            ("1", r#"{"a":"b","c":1}"#),
        ] {
            assert_eq!(
                wrong(200, &[json, id, ("ratelimit-limit", limit)], body).len(),
                1,
                "{limit} {body}"
            );
        }
        assert_eq!(
            wrong(
                200,
                &[id, ("content-type", "application/json; charset=latin1")],
                r#"{"a":"b"}"#
            ),
            ["the media type `application/json; charset=latin1` is not in UTF-8"]
        );
        assert_eq!(
            wrong(404, &[json, id], r#"{"requestId":"01","statusCode":404}"#).len(),
            1
        );
        assert_eq!(
            wrong(404, &[json, id], r#"{"requestId":"01","statusCode":418}"#).len(),
            2
        );
        assert_eq!(wrong(404, &[json, id], r#"{"requestId":"02"}"#).len(), 2);
        assert_eq!(wrong(503, &[json, id], r#"{"requestId":"01"}"#).len(), 2);
    }

    #[test]
    fn a_table_has_its_header() {
        assert_eq!(values("text/csv", b"").len(), 1);
        assert!(values("text/csv", b"id,amount\n").is_empty());
    }

    #[test]
    fn a_stream_has_messages_and_silence() {
        let found = values("text/event-stream", b": \n\nid: 01\nevent: a.b\ndata: {\"x\": 1}\n\n");
        assert_eq!(found, [Ok(json!({"id": "01", "event": "a.b", "data": "{\"x\": 1}"}))]);
    }
}
