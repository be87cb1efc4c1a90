//! Calls of a deployment, each held against what the documents say about it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use ureq::Agent;
use ureq::http::Request;
use xtask::machine::command;

use super::plan::{Credential, Step};
use super::receiver::Headers;
use super::report::{Report, Verdict};
use super::schema::Schemas;

/// How often a call is repeated that came too early.
const TRIES: usize = 4;

/// The longest answer of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The page of the client ID that a run creates.
const ORIGIN: &str = "https://conformance.example";

/// Ids of the right form that nobody has.
const NO_ULID: &str = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ";
const NO_REQUEST: &str = "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";

/// An operation of one of the documents.
pub(super) struct Operation<'a> {
    pub(super) id: &'a str,
    method: String,
    pub(super) path: &'a str,
    description: &'a Value,
    document: &'a Value,
    base_url: String,
}

/// What was answered.
pub(super) struct Exchange {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) body: Vec<u8>,
}

impl Exchange {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// A deployment, and what is known about it so far.
pub(super) struct Walk<'a> {
    agent: Agent,
    operations: Vec<Operation<'a>>,
    /// Texts for the places in braces.
    pub(super) values: BTreeMap<String, String>,
    pub(super) report: Report,
}

/// Every operation of a document, at an address.
fn operations<'a>(document: &'a Value, base_url: &str) -> Vec<Operation<'a>> {
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, description) in methods.as_object().into_iter().flatten() {
            if let Some(id) = description["operationId"].as_str() {
                let method = method.to_uppercase();
                operations.push(Operation {
                    id,
                    method,
                    path,
                    description,
                    document,
                    base_url: base_url.to_owned(),
                });
            }
        }
    }
    operations
}

impl<'a> Walk<'a> {
    pub(super) fn new(documents: [(&'a Value, &str); 2], values: BTreeMap<String, String>) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(CALL_TIMEOUT))
            .allow_non_standard_methods(true)
            .build();
        Self {
            agent: config.into(),
            operations: documents
                .iter()
                .flat_map(|(document, url)| operations(document, url))
                .collect(),
            values,
            report: Report::default(),
        }
    }

    /// Goes through steps in their order; one without the values it needs is left out, and said to be.
    pub(super) fn steps(&mut self, steps: &[Step]) -> Result<()> {
        for step in steps {
            if command::interrupted() {
                bail!("interrupted");
            }
            let verdict = match self.step(step) {
                Ok(verdict) => verdict,
                Err(Missing(why)) => Verdict::Skipped(why),
            };
            self.report.add(step.operation, &step.status.to_string(), verdict);
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<Verdict, Missing> {
        let headers = self.headers(step.credential)?;
        let mut path = self.operation(step.operation)?.path.to_owned();
        for (name, value) in step.path {
            path = path.replace(&format!("{{{name}}}"), &encoded(&self.filled(value)?));
        }
        let mut query = Vec::new();
        for part in step.query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            query.push(format!("{name}={}", encoded(&self.filled(value)?)));
        }
        let body = self.filled_body(step.body)?;
        let operation = self.operation(step.operation)?;
        let answer = self.call(operation, &path, &query.join("&"), &headers, &body);
        let exchange = match answer {
            Ok(exchange) => exchange,
            Err(error) => return Ok(Verdict::Failed(vec![format!("{error:#}")])),
        };
        let verdict = judged(operation, &exchange, step.status);
        let body = exchange.json();
        for (name, pointer) in step.keep {
            if let Some(value) = body.pointer(pointer).and_then(Value::as_str) {
                self.values.insert((*name).to_owned(), value.to_owned());
            }
        }
        if let Some(session) = exchange
            .headers
            .get("set-cookie")
            .and_then(|cookie| cookie.strip_prefix("session_token="))
        {
            let token = session.split(';').next().unwrap_or_default();
            self.values
                .entry("session".to_owned())
                .or_insert_with(|| token.to_owned());
        }
        Ok(verdict)
    }

    /// What every operation refuses: a caller without a credential, a body that is no JSON, an id that nobody has.
    pub(super) fn refusals(&mut self) -> Result<()> {
        let mut found = Vec::new();
        for operation in &self.operations {
            if command::interrupted() {
                bail!("interrupted");
            }
            let path = unknown_path(operation);
            let responses = &operation.description["responses"];
            let has_body = operation.description["requestBody"].is_object();
            let example = example_body(operation);
            if operation.description["security"]
                .as_array()
                .is_some_and(|security| !security.is_empty())
            {
                found.push((operation.id, 401, self.refused(operation, &path, &[], &example, 401)));
            }
            let headers = match self.good_headers(operation) {
                Ok(headers) => headers,
                Err(Missing(why)) => {
                    found.push((operation.id, 400, Verdict::Skipped(why)));
                    continue;
                }
            };
            if has_body && responses["400"].is_object() {
                found.push((operation.id, 400, self.refused(operation, &path, &headers, "{\"", 400)));
            }
            if operation.path.contains('{') && responses["404"].is_object() {
                found.push((
                    operation.id,
                    404,
                    self.refused(operation, &path, &headers, &example, 404),
                ));
            }
        }
        for (operation, status, verdict) in found {
            self.report.add(operation, &status.to_string(), verdict);
        }
        Ok(())
    }

    fn refused(
        &self,
        operation: &Operation<'_>,
        path: &str,
        headers: &[(&'static str, String)],
        body: &str,
        status: u16,
    ) -> Verdict {
        let query = required_query(operation);
        match self.call(operation, path, &query, headers, body) {
            Ok(exchange) => judged(operation, &exchange, status),
            Err(error) => Verdict::Failed(vec![format!("{error:#}")]),
        }
    }

    /// The same call twice with an idempotency key: one answer, which says the second time that it is a repetition.
    pub(super) fn idempotency(&mut self) -> Result<()> {
        let verdict = self.replay()?;
        self.report.add("createRequest", "idempotency", verdict);
        Ok(())
    }

    fn replay(&self) -> Result<Verdict> {
        let (Ok(operation), Ok(mut headers)) = (self.operation("createRequest"), self.headers(Credential::Key)) else {
            return Ok(Verdict::Skipped("there is no such operation or key".to_owned()));
        };
        headers.push(("idempotency-key", format!("{}-idempotency", self.values["name"])));
        let body = r#"{"payee":"{payee}","amount":"1","invoiceCurrency":"{currency}","paymentCurrency":"{currency}","reference":"{name}"}"#;
        let Ok(body) = self.filled_body(body) else {
            return Ok(Verdict::Skipped("no payee is known".to_owned()));
        };
        let mut answers = Vec::new();
        for _ in 0..2 {
            answers.push(self.call(operation, operation.path, "", &headers, &body)?);
        }
        let mut wrong = Vec::new();
        if answers[0].body != answers[1].body {
            wrong.push("the second answer differs from the first".to_owned());
        }
        if answers[1].headers.get("idempotency-replayed").map(String::as_str) != Some("true") {
            wrong.push("the second answer has no `idempotency-replayed: true`".to_owned());
        }
        let other = self.call(operation, operation.path, "", &headers, &body.replace("\"1\"", "\"2\""))?;
        if let Verdict::Failed(further) = judged(operation, &other, 409) {
            wrong.extend(further);
        }
        Ok(if wrong.is_empty() {
            Verdict::Held
        } else {
            Verdict::Failed(wrong)
        })
    }

    /// Calls, and waits when it was too early.
    pub(super) fn call(
        &self,
        operation: &Operation<'_>,
        path: &str,
        query: &str,
        headers: &[(&'static str, String)],
        body: &str,
    ) -> Result<Exchange> {
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{}{path}{mark}{query}", operation.base_url);
        for _ in 0..TRIES {
            let mut request = Request::builder().method(operation.method.as_str()).uri(&url);
            for (name, value) in headers {
                request = request.header(*name, value);
            }
            let response = if operation.description["requestBody"].is_object() {
                let request = request
                    .header("content-type", "application/json")
                    .body(body.to_owned())?;
                self.agent.run(request)
            } else {
                self.agent.run(request.body(())?)
            };
            let mut response = response.with_context(|| format!("{} {path}", operation.method))?;
            let status = response.status().as_u16();
            let headers: Headers = response
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned()))
                .collect();
            if status == 429 {
                let wait = headers.get("retry-after").and_then(|seconds| seconds.parse().ok());
                std::thread::sleep(Duration::from_secs(wait.unwrap_or(1)));
                continue;
            }
            let body = response.body_mut().read_to_vec()?;
            return Ok(Exchange { status, headers, body });
        }
        bail!("{} {path} was answered 429 {TRIES} times", operation.method)
    }

    pub(super) fn operation(&self, id: &str) -> Result<&Operation<'a>, Missing> {
        let found = self.operations.iter().find(|operation| operation.id == id);
        found.ok_or_else(|| Missing(format!("the documents have no {id}")))
    }

    /// The ids of all operations.
    pub(super) fn ids(&self) -> Vec<String> {
        self.operations
            .iter()
            .map(|operation| operation.id.to_owned())
            .collect()
    }

    pub(super) fn headers(&self, credential: Credential) -> Result<Vec<(&'static str, String)>, Missing> {
        let value = |name: &str| {
            self.values
                .get(name)
                .cloned()
                .ok_or_else(|| Missing(format!("no {name} is known")))
        };
        Ok(match credential {
            Credential::Key => vec![("x-api-key", value("apiKey")?)],
            Credential::Client => vec![("x-client-id", value("clientId")?), ("origin", ORIGIN.to_owned())],
            Credential::Orchestrator => vec![("x-orchestrator-key", value("orchestratorKey")?)],
            Credential::Session => vec![("authorization", format!("Bearer {}", value("session")?))],
            Credential::Nobody => Vec::new(),
        })
    }

    /// The first credential that an operation accepts and that there is.
    fn good_headers(&self, operation: &Operation<'_>) -> Result<Vec<(&'static str, String)>, Missing> {
        let accepted = operation.description["security"].as_array().into_iter().flatten();
        let mut missing = None;
        for scheme in accepted.filter_map(Value::as_object).flat_map(Map::keys) {
            let credential = match scheme.as_str() {
                "ApiKey" => Credential::Key,
                "ClientId" => Credential::Client,
                "OrchestratorKey" => Credential::Orchestrator,
                "SessionBearer" => Credential::Session,
                _ => continue,
            };
            match self.headers(credential) {
                Ok(headers) => return Ok(headers),
                Err(why) => missing = Some(why),
            }
        }
        missing.map_or(Ok(Vec::new()), Err)
    }

    fn filled(&self, text: &str) -> Result<String, Missing> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| Missing(format!("`{text}` is not closed")))?;
            let value = self
                .values
                .get(name)
                .ok_or_else(|| Missing(format!("no {name} is known")))?;
            filled.push_str(before);
            filled.push_str(value);
            rest = after;
        }
        Ok(filled + rest)
    }

    /// A body with its places filled; the braces of JSON itself stay.
    fn filled_body(&self, text: &str) -> Result<String, Missing> {
        let Ok(mut body) = serde_json::from_str::<Value>(text) else {
            return Ok(String::new());
        };
        self.fill(&mut body)?;
        Ok(body.to_string())
    }

    fn fill(&self, value: &mut Value) -> Result<(), Missing> {
        match value {
            Value::String(text) => *text = self.filled(text)?,
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.fill(item))?,
            Value::Object(members) => members.values_mut().try_for_each(|member| self.fill(member))?,
            _ => {}
        }
        Ok(())
    }
}

/// Why a check cannot be made.
#[derive(Debug)]
pub(super) struct Missing(pub(super) String);

/// Everything in which an answer differs from the document.
pub(super) fn judged(operation: &Operation<'_>, exchange: &Exchange, status: u16) -> Verdict {
    match differences(operation, exchange, status) {
        Ok(wrong) if wrong.is_empty() => Verdict::Held,
        Ok(wrong) => Verdict::Failed(wrong),
        Err(error) => Verdict::Failed(vec![format!("{error:#}")]),
    }
}

fn differences(operation: &Operation<'_>, exchange: &Exchange, status: u16) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let schemas = Schemas(operation.document);
    let body = exchange.json();
    if exchange.status != status {
        wrong.push(format!(
            "answered {} instead of {status}: {}",
            exchange.status,
            shortened(&exchange.body)
        ));
    }
    match exchange.headers.get("x-request-id") {
        None => wrong.push("the header x-request-id is missing".to_owned()),
        Some(id) if exchange.status >= 400 && body["requestId"] != id.as_str() => {
            wrong.push("requestId of the error is not that of the header x-request-id".to_owned());
        }
        Some(_) => {}
    }
    let mut answer = &operation.description["responses"][exchange.status.to_string()];
    if let Some(reference) = answer["$ref"].as_str() {
        answer = schemas.resolve(reference)?;
    }
    if !answer.is_object() {
        wrong.push(format!("the status {} is not documented", exchange.status));
        return Ok(wrong);
    }
    let kind = exchange
        .headers
        .get("content-type")
        .map(String::as_str)
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match answer["content"].get(kind) {
        Some(content) if kind == "application/json" => wrong.extend(schemas.check(&content["schema"], &body)?),
        Some(_) => {}
        None if answer["content"].is_object() => wrong.push(format!("the media type `{kind}` is not documented")),
        None => {}
    }
    Ok(wrong)
}

fn shortened(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(300).collect()
}

/// The path of an operation with ids that nobody has.
fn unknown_path(operation: &Operation<'_>) -> String {
    let mut path = operation.path.to_owned();
    for parameter in operation.description["parameters"].as_array().into_iter().flatten() {
        if parameter["in"] != "path" {
            continue;
        }
        let name = parameter["name"].as_str().unwrap_or_default();
        let pattern = parameter["schema"]["pattern"].as_str().unwrap_or_default();
        let value = match pattern {
            _ if pattern.starts_with("^[0-7]") => NO_ULID,
            _ if name == "requestId" => NO_REQUEST,
            _ => "NO-SUCH-THING",
        };
        path = path.replace(&format!("{{{name}}}"), value);
    }
    path
}

/// Query parameters without which an operation does not look further, with the values of their examples.
fn required_query(operation: &Operation<'_>) -> String {
    let parameters = operation.description["parameters"].as_array().into_iter().flatten();
    let required = parameters.filter(|parameter| parameter["in"] == "query" && parameter["required"] == true);
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

/// The example of the body of an operation, or an empty object.
fn example_body(operation: &Operation<'_>) -> String {
    let content = &operation.description["requestBody"]["content"]["application/json"];
    let example = match &content["example"] {
        Value::Null => content["examples"]
            .as_object()
            .and_then(|examples| examples.values().next())
            .map(|example| &example["value"]),
        example => Some(example),
    };
    example.map_or_else(|| "{}".to_owned(), Value::to_string)
}

/// A text as a part of a URL.
fn encoded(text: &str) -> String {
    let mut written = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            written.push(char::from(byte));
        } else {
            written.push_str(&format!("%{byte:02X}"));
        }
    }
    written
}
