//! Calls a deployment, and compares each response with the documents.

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;
use xtask::machine::command::{self, POLL};
use xtask::service::chain::Chain;
use xtask::service::hooks::Headers;
use xtask::service::permit;
use xtask::service::tron;

use crate::document::Operation;
use crate::judge::{Exchange, Judge};
use crate::plan::{COOKIE, Credential, Signing, Step, Values};
use crate::report::{Report, Verdict};
use crate::target::Deployment;

/// Maximum number of attempts of a call that returned 429.
const TRIES: usize = 4;

/// After this number of consecutive calls without a response, the remaining calls are skipped.
const UNANSWERED_MAX: u32 = 5;

/// How long an unreachable service may take to come back.
const BACK_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest pause between two attempts of a call.
const PAUSE_MAX: Duration = Duration::from_secs(120);

/// Time limit of a response.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The page of the client ID that a run creates.
const ORIGIN: &str = "https://conformance.example";

/// The reason that is reported for a check that was skipped because the run was stopped.
pub(crate) const STOPPED: &str = "the run was stopped";

/// The media type of a stream, which never ends.
const STREAM: &str = "text/event-stream";

/// Headers of a call.
pub(crate) type Sent = Vec<(&'static str, String)>;

/// The run of a plan on one deployment, with the values that earlier responses returned.
pub(crate) struct Walk<'a> {
    agent: Agent,
    operations: Vec<Operation<'a>>,
    /// The node that signs for the payer, whose account it has unlocked.
    chain: Option<Chain>,
    judge: RefCell<Judge>,
    /// Number of calls in a row that got no response.
    unanswered: Cell<u32>,
    /// Whether any call got a response.
    was_there: Cell<bool>,
    /// The values that replace the placeholders in texts, by name.
    pub(crate) values: Values,
    pub(crate) report: Report,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(deployment: &'a Deployment<'_>, values: Values) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(CALL_TIMEOUT))
            .allow_non_standard_methods(true)
            .build();
        let documents = deployment.documents;
        let mut operations = Operation::all(&documents.v2, &deployment.url);
        operations.extend(Operation::all(&documents.auth, &deployment.auth_url));
        Self {
            agent: config.into(),
            operations,
            chain: deployment.rpc_url.as_deref().map(Chain::at),
            judge: RefCell::default(),
            unanswered: Cell::new(0),
            was_there: Cell::new(false),
            values,
            report: Report::default(),
        }
    }

    /// Every operation of the documents.
    pub(crate) fn operations(&self) -> &[Operation<'a>] {
        &self.operations
    }

    /// Runs steps in order. A step that lacks a value is reported as skipped, and so is every step after a stop.
    pub(crate) fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            let verdict = if command::interrupted() {
                Verdict::LeftOut(STOPPED.to_owned())
            } else {
                self.step(step).unwrap_or_else(Verdict::from)
            };
            self.add(step, verdict);
        }
    }

    /// Waits until an unreachable service responds again, for a limited time, so that the objects of the run can be
    /// removed.
    pub(crate) fn wait_until_back(&self) {
        if command::interrupted() {
            // A stopped run tries to remove its objects once, even if the service did not respond before.
            self.unanswered.set(0);
        }
        if !self.was_there.get() {
            return;
        }
        let deadline = Instant::now() + BACK_TIMEOUT;
        while self.unanswered.get() > 0 && Instant::now() < deadline && !command::interrupted() {
            self.unanswered.set(1);
            std::thread::sleep(POLL);
            if let Ok(operation) = self.operation("listCurrencies") {
                let _ = self.call(operation, operation.path, "", &Sent::new(), "");
            }
        }
    }

    /// Removes the remaining objects of the run. A step whose values are missing has nothing to remove and is not
    /// reported.
    pub(crate) fn end(&mut self, steps: &[Step]) {
        for step in steps {
            match self.step(step) {
                Err(Ended::Missing(_)) => {}
                ended => self.add(step, ended.unwrap_or_else(Verdict::from)),
            }
        }
    }

    /// Skips steps.
    pub(crate) fn leave_out(&mut self, steps: &[Step], why: &str) {
        for step in steps {
            self.add(step, Verdict::LeftOut(why.to_owned()));
        }
    }

    /// Runs the steps that remove the objects of the run, also after a stop.
    pub(crate) fn take_away(&mut self, steps: &[Step]) {
        for step in steps {
            let verdict = self.step(step).unwrap_or_else(Verdict::from);
            self.add(step, verdict);
        }
    }

    fn add(&mut self, step: &Step, verdict: Verdict) {
        self.report.add(step.operation, &step.status.to_string(), verdict);
    }

    fn step(&mut self, step: &Step) -> Result<Verdict, Ended> {
        let operation = self.operation(step.operation)?;
        let headers = self.headers(step.credential)?;
        step.needs.map_or(Ok(String::new()), |name| self.value(name))?;
        let mut path = operation.path.to_owned();
        for (name, value) in step.path {
            path = path.replace(&format!("{{{name}}}"), &encoded(&self.filled(value)?));
        }
        let mut query = Vec::new();
        for part in step.query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            query.push(format!("{name}={}", encoded(&self.filled(value)?)));
        }
        let body = self.filled_body(step.body)?;
        let exchange = self.call(operation, &path, &query.join("&"), &headers, &body)?;
        if let Some(refusal) = refused(step, &exchange) {
            return Ok(match self.judged(operation, &exchange, exchange.status) {
                Verdict::Held => Verdict::LeftOut(format!("not offered: {refusal}")),
                wrong => wrong,
            });
        }
        let verdict = self.judged(operation, &exchange, step.status);
        // Stores the ids even if the response was wrong otherwise, so that the created objects can be removed.
        if (200..300).contains(&exchange.status) {
            self.keep(step, &exchange);
            for name in step.ends.unwrap_or_default().split(' ') {
                self.values.remove(name);
            }
        }
        Ok(verdict)
    }

    /// Stores the values of a response that later calls need, and the payer's signature over it if there is a signer.
    fn keep(&mut self, step: &Step, exchange: &Exchange) {
        let body = exchange.json();
        for (name, pointer) in step.keep {
            let value = match (*pointer == COOKIE, body.pointer(pointer)) {
                (true, _) => session(&exchange.headers),
                (false, value) => value.and_then(text),
            };
            self.values.extend(value.map(|value| ((*name).to_owned(), value)));
        }
        if let (Some((name, signing)), Some(chain)) = (step.signed, &self.chain) {
            match self.sign(chain, &body, signing) {
                Ok(signature) => drop(self.values.insert(name.to_owned(), signature)),
                Err(error) => eprintln!("{}: nothing was signed: {error:#}", step.operation),
            }
        }
    }

    /// The signature of the payer; on Tron, the signed transaction.
    fn sign(&self, chain: &Chain, answer: &Value, signing: Signing) -> Result<String> {
        let value = |name: &str| self.values.get(name).map_or("", String::as_str);
        match signing {
            Signing::Text(member) => {
                let message = answer.pointer(member).and_then(Value::as_str);
                chain.sign_text(value("payer"), message.context("nothing to sign")?)
            }
            Signing::Data => {
                let mut data = answer.clone();
                data["types"]["EIP712Domain"] = json!([
                    { "name": "name", "type": "string" },
                    { "name": "version", "type": "string" },
                    { "name": "chainId", "type": "uint256" },
                ]);
                chain.sign_data(value("payer"), &data)
            }
            Signing::Permit => {
                let (payer, data) = permit::typed_data(answer)?;
                chain.sign_data(payer, &data)
            }
            Signing::Tron => {
                let signed = tron::sign(answer, value("tronKey"))?;
                Ok(signed.first().context("nothing to sign")?.to_string())
            }
        }
    }

    /// All differences between a response and the document.
    pub(crate) fn judged(&self, operation: Operation<'_>, exchange: &Exchange, status: u16) -> Verdict {
        self.judge.borrow_mut().verdict(operation, exchange, status)
    }

    /// Makes a call, and waits and repeats it if it returned 429. Reads only the first message of a stream.
    pub(crate) fn call(
        &self,
        operation: Operation<'_>,
        path: &str,
        query: &str,
        headers: &Sent,
        body: &str,
    ) -> Result<Exchange> {
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{}{path}{mark}{query}", operation.base_url);
        let method = operation.method.to_uppercase();
        // A stopped run must not wait for an unreachable service on every call.
        let most = if command::interrupted() { 1 } else { UNANSWERED_MAX };
        if self.unanswered.get() >= most {
            bail!("{method} {path}: skipped, since earlier calls got no response");
        }
        for _ in 0..TRIES {
            let mut request = Request::builder().method(method.as_str()).uri(&url);
            for (name, value) in headers {
                request = request.header(*name, value);
            }
            let response = if operation.takes_body() {
                let request = request.header("content-type", "application/json");
                self.agent.run(request.body(body.to_owned())?)
            } else {
                self.agent.run(request.body(())?)
            };
            self.unanswered.set(match response {
                Ok(_) => 0,
                Err(_) => self.unanswered.get() + 1,
            });
            self.was_there.set(self.was_there.get() || response.is_ok());
            let mut response = response.with_context(|| format!("{method} {path}"))?;
            let status = response.status().as_u16();
            let headers: Headers = response
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned()))
                .collect();
            if status == 429 {
                let wait = headers.get("retry-after").and_then(|seconds| seconds.parse().ok());
                wait_out(Duration::from_secs(wait.unwrap_or(1))).with_context(|| format!("{method} {path}"))?;
                continue;
            }
            let is_stream = headers.get("content-type").is_some_and(|kind| kind.starts_with(STREAM));
            let body = if is_stream {
                first_message(response.body_mut().as_reader())?
            } else {
                response.body_mut().read_to_vec()?
            };
            return Ok(Exchange { status, headers, body });
        }
        bail!("{method} {path} returned 429 {TRIES} times")
    }

    pub(crate) fn operation(&self, id: &str) -> Result<Operation<'a>, Missing> {
        let found = self.operations.iter().find(|operation| operation.id == id);
        found
            .copied()
            .ok_or_else(|| Missing(format!("the documents have no {id}")))
    }

    pub(crate) fn headers(&self, credential: Credential) -> Result<Sent, Missing> {
        let session = |own: &str| -> Result<Sent, Missing> {
            let found = self.values.get(own).or_else(|| self.values.get("session"));
            let token = found.ok_or_else(|| missing("session"))?;
            Ok(vec![("authorization", format!("Bearer {token}"))])
        };
        Ok(match credential {
            Credential::Key => vec![("x-api-key", self.value("apiKey")?)],
            Credential::Client => vec![("x-client-id", self.value("clientId")?), ("origin", ORIGIN.to_owned())],
            Credential::Orchestrator => vec![("x-orchestrator-key", self.value("orchestratorKey")?)],
            Credential::Wallet => session("walletSession")?,
            Credential::Account => session("accountSession").or_else(|_| session("walletSession"))?,
            Credential::Nobody => Vec::new(),
        })
    }

    /// The first credential that an operation accepts and that is available.
    pub(crate) fn good_headers(&self, operation: Operation<'_>) -> Result<Sent, Missing> {
        let mut missing = None;
        for scheme in operation.schemes() {
            let credential = match scheme {
                "ApiKey" => Credential::Key,
                "ClientId" => Credential::Client,
                "OrchestratorKey" => Credential::Orchestrator,
                "SessionBearer" => Credential::Account,
                _ => continue,
            };
            match self.headers(credential) {
                Ok(headers) => return Ok(headers),
                Err(why) => missing = Some(why),
            }
        }
        missing.map_or(Ok(Vec::new()), Err)
    }

    fn value(&self, name: &str) -> Result<String, Missing> {
        self.values.get(name).cloned().ok_or_else(|| missing(name))
    }

    /// A text with its placeholders replaced.
    pub(crate) fn filled(&self, text: &str) -> Result<String, Missing> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else {
                break;
            };
            filled.push_str(before);
            filled.push_str(&self.value(name)?);
            rest = after;
        }
        Ok(filled + rest)
    }

    /// A body with its placeholders replaced; the braces of JSON itself stay.
    pub(crate) fn filled_body(&self, text: &str) -> Result<String, Missing> {
        let Ok(mut body) = serde_json::from_str::<Value>(text) else {
            return Ok(String::new());
        };
        self.fill(&mut body)?;
        Ok(body.to_string())
    }

    fn fill(&self, value: &mut Value) -> Result<(), Missing> {
        match value {
            // Numbers are written without quotes.
            Value::String(text) if text == "{chainId}" => *value = json!(self.value("chainId")?.parse::<u64>().ok()),
            Value::String(text) if text == "{signedTransaction}" => {
                *value = serde_json::from_str(&self.value("signedTransaction")?).unwrap_or_default();
            }
            Value::String(text) => *text = self.filled(text)?,
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.fill(item))?,
            Value::Object(members) => members.values_mut().try_for_each(|member| self.fill(member))?,
            _ => {}
        }
        Ok(())
    }
}

/// Why a check cannot be made: the value that it lacks.
#[derive(Debug)]
pub(crate) struct Missing(pub(crate) String);

/// Why a check had no result.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It was not started.
    Missing(Missing),
    /// The call got no response, or an unreadable one.
    Unanswered(anyhow::Error),
}

impl From<Missing> for Ended {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

impl From<anyhow::Error> for Ended {
    fn from(error: anyhow::Error) -> Self {
        Self::Unanswered(error)
    }
}

impl From<Ended> for Verdict {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Missing(Missing(why)) => Self::LeftOut(why),
            Ended::Unanswered(error) => Self::Failed(vec![format!("{error:#}")]),
        }
    }
}

/// Says how to enable a check that lacks a value.
pub(crate) fn missing(name: &str) -> Missing {
    Missing(match name {
        "receiver" | "webhookId" | "secret" | "clientWebhookId" | "orchestratorWebhookId" => {
            "the deployment cannot reach the receiver of this run; name its URL with --receiver-url".to_owned()
        }
        "destinationId" => "no destination of the platform is known; name one with --destination-id".to_owned(),
        "orchestratorKey" => "no orchestrator is known; pass a key with --orchestrator-key".to_owned(),
        "session" => {
            "no user is signed in; pass a session with --session, or sign in a wallet with --rpc-url".to_owned()
        }
        "paidRequestId" | "eventId" | "deliveryId" => {
            "no payment was made; name a node of a test chain with --rpc-url".to_owned()
        }
        "accountId" => "no account was registered".to_owned(),
        "tronPayer" | "tronPayee" => {
            "links on Tron are paid only on the local chain of `prs dev`, because the interface has no test network of \
             Tron"
                .to_owned()
        }
        "payerId" => "no payer was registered".to_owned(),
        "recurringId" => "no recurring payment was created".to_owned(),
        _ if name.ends_with("ignature") => {
            "there is no signer for the payer; name a node that has the account unlocked with --rpc-url".to_owned()
        }
        _ => format!("no earlier response had {name}"),
    })
}

/// The error message, if the response says that the deployment does not offer the operation; `None` for any other
/// response.
fn refused(step: &Step, exchange: &Exchange) -> Option<String> {
    let (status, words) = step.unless?;
    let body = exchange.json();
    let sentence = body["errors"][0]["message"]
        .as_str()
        .or_else(|| body["message"].as_str())?;
    (exchange.status == status && sentence.contains(words)).then(|| sentence.to_owned())
}

/// The session that a response opened.
fn session(headers: &Headers) -> Option<String> {
    let cookie = headers.get(COOKIE)?.split(';').next()?;
    Some(cookie.split_once("session_token=")?.1.to_owned())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Waits until a call may be repeated. Returns an error if the pause is too long or the run is stopped.
fn wait_out(pause: Duration) -> Result<()> {
    if pause > PAUSE_MAX {
        bail!("returned 429, and may be called again after {} s", pause.as_secs());
    }
    let end = Instant::now() + pause;
    while Instant::now() < end {
        if command::interrupted() {
            bail!("{STOPPED}");
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Reads a stream up to the end of the first message with content.
fn first_message(mut reader: impl Read) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut byte = [0];
    while reader.read(&mut byte)? == 1 {
        text.extend(byte);
        let has_said = text.windows(5).any(|window| window == b"data:");
        if has_said && text.ends_with(b"\n\n") {
            break;
        }
    }
    Ok(text)
}

/// A text, percent-encoded for a URL.
pub(crate) fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_read_from_the_cookie() {
        let headers = |cookie: &str| Headers::from([(COOKIE.to_owned(), cookie.to_owned())]);
        assert_eq!(session(&headers("session_token=ab; Path=/")).as_deref(), Some("ab"));
        assert_eq!(
            session(&headers("__Host-session_token=ab; Secure")).as_deref(),
            Some("ab")
        );
        assert_eq!(session(&headers("other=ab")), None);
    }

    #[test]
    fn a_stream_is_read_to_the_end_of_its_first_message() {
        let stream: &[u8] = b": \n\nid: 01\ndata: {}\n\nid: 02\n";
        assert_eq!(first_message(stream).unwrap(), b": \n\nid: 01\ndata: {}\n\n");
    }

    #[test]
    fn values_in_a_url_are_encoded() {
        assert_eq!(encoded("a#b:c d"), "a%23b%3Ac%20d");
    }
}
