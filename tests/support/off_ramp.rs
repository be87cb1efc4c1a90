//! An off-ramp partner over HTTP, in the documented formats. It is the partner of `prs dev`; a test can override its
//! response to each call.

use super::{Answer, TestApp};
use chrono::{DateTime, Utc};
use devnet::off_ramp::{CallText, OffRampSandbox, PageKind, Received, SandboxKey, callback_signature};
use prs::{
    domain::{
        off_ramp_sandbox::OffRampBehaviour,
        off_ramp_signature::header,
        payer::{Beneficiary, DescribedPayer},
    },
    ports::off_ramp::OffRampControls,
    settings::{OffRampSource, Settings},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

/// Secret that signs calls.
pub const KEY: &str = "the key with which calls are signed";
/// Secret that signs callbacks.
pub const CALLBACK_SECRET: &str = "the secret of callbacks, the present";
/// Previous secret for callbacks.
pub const FORMER_SECRET: &str = "the secret of callbacks, the former ";

/// Text that a callback contains in place of its record's key. It is replaced with the key when the callback is sent.
const NO_KEY: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// How long a hanging partner waits before it responds: longer than the service waits for a call.
pub const HANGS: Duration = Duration::from_secs(5);

/// A response of the partner that replaces its usual response.
#[derive(Debug, Clone)]
pub enum Scripted {
    /// This status and body.
    Says(u16, String),
    /// The usual response with changed members. A null value stays null, and `Change::Absent` removes the member.
    Changed(Vec<(&'static str, Change)>),
    /// The partner does not respond before the service's timeout.
    Hangs,
    /// The usual response, after this pause. After a pause longer than [`HANGS`], the service no longer waits for it.
    After(Duration),
}

/// Change to a member.
#[derive(Debug, Clone)]
pub enum Change {
    /// It has this value.
    To(Value),
    /// It is absent.
    Absent,
}

/// One call that arrived.
#[derive(Debug, Clone)]
pub struct PartnerCall {
    /// Method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The idempotency key of a call that creates a record; empty for other calls.
    pub key: String,
    /// Body of the call; null if it has none.
    pub body: Value,
}

/// The partner.
pub struct Partner {
    server: MockServer,
    /// Default behaviour.
    pub sandbox: Arc<OffRampSandbox>,
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    overruled: Vec<(String, Scripted)>,
    /// For each record at the partner, by id: the idempotency key of the call that created it.
    keys: HashMap<String, String>,
    told: u64,
}

struct Answers {
    sandbox: Arc<OffRampSandbox>,
    script: Arc<Mutex<Script>>,
}

fn value<'a>(request: &'a Request, name: &str) -> &'a str {
    let value = request.headers.get(name);
    value.map_or("", |value| value.to_str().unwrap_or_default())
}

fn target(request: &Request) -> &str {
    &request.url[url::Position::BeforePath..url::Position::AfterQuery]
}

/// The name of the partner's operation that a method and path call.
fn operation(method: &str, target: &str) -> &'static str {
    let path = target.rsplit_once("/v1/").map_or("", |(_, path)| path);
    match (method, path.split('/').collect::<Vec<_>>().as_slice()) {
        ("POST", ["payers"]) => "register",
        ("GET", ["payers", _]) => "payer",
        ("DELETE", ["payers", _]) => "erase",
        ("DELETE", ["registrations", _]) => "erase_registered",
        ("POST", ["payers", _, "agreement"]) => "agree",
        ("POST", ["payers", _, "accounts"]) => "add_account",
        ("GET", ["accounts", _]) => "account",
        ("POST", ["quotes"]) => "quote",
        ("POST", ["orders"]) => "open_order",
        ("GET", ["orders", _]) => "order",
        other => panic!("unexpected call {other:?}"),
    }
}

impl Respond for Answers {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let text = CallText {
            time: value(request, header::TIME),
            id: value(request, header::ID),
            method: request.method.as_str(),
            target: target(request),
            body: &request.body,
        };
        let received = Received {
            key: value(request, header::KEY),
            text,
            signature: value(request, header::SIGNATURE),
            idempotency_key: value(request, header::IDEMPOTENCY_KEY),
        };
        let name = operation(text.method, text.target);
        let mut script = self.script.lock().expect("a lock");
        for kind in ["pyr", "acc", "ord"] {
            let key = received.idempotency_key;
            let digest = Sha256::digest(format!("{kind} {key}"));
            let id = format!("{kind}_{}", hex::encode(&digest[..12]));
            script.keys.insert(id, key.to_owned());
        }
        let scripted = script.overruled.iter().find(|(known, _)| known == name);
        let scripted = scripted.map(|(_, scripted)| scripted.clone());
        drop(script);
        match &scripted {
            Some(Scripted::Says(status, body)) => return ResponseTemplate::new(*status).set_body_string(body),
            Some(Scripted::Hangs) => return ResponseTemplate::new(503).set_delay(HANGS),
            Some(Scripted::Changed(_) | Scripted::After(_)) | None => {}
        }
        // The partner uses the time that the caller sent.
        let seconds = text.time.parse().expect("seconds");
        let now = DateTime::from_timestamp(seconds, 0).expect("a time");
        let reaction = self.sandbox.react(&received, now);
        let mut body = reaction.body;
        let after = match scripted {
            Some(Scripted::After(after)) => after,
            _ => reaction.after,
        };
        if let Some(Scripted::Changed(changes)) = scripted {
            body = changed(&body, &changes);
        }
        ResponseTemplate::new(reaction.status)
            .set_body_string(body)
            .set_delay(after)
    }
}

fn changed(body: &str, changes: &[(&'static str, Change)]) -> String {
    let mut value: Value = serde_json::from_str(body).expect("JSON");
    for (member, change) in changes {
        match change {
            Change::To(new) => value[*member] = new.clone(),
            Change::Absent => drop(value.as_object_mut().expect("an object").remove(*member)),
        }
    }
    value.to_string()
}

impl Partner {
    /// Starts a partner that behaves as documented. It sends callbacks only when [`Self::tell_due`] is called.
    pub async fn start() -> Self {
        let server = MockServer::start().await;
        let key = SandboxKey {
            id: "prs".to_owned(),
            secret: KEY.to_owned(),
        };
        let sandbox = Arc::new(OffRampSandbox::new(key, "https://pages.example.com".to_owned(), 1));
        let script = Arc::default();
        let answers = Answers {
            sandbox: Arc::clone(&sandbox),
            script: Arc::clone(&script),
        };
        Mock::given(any()).respond_with(answers).mount(&server).await;
        Self {
            server,
            sandbox,
            script,
        }
    }

    /// Settings of a service that uses this partner.
    pub fn settings(&self, mut settings: Settings) -> Settings {
        settings.partners.offramp = OffRampSource::Http;
        settings.offramp.url = Some(format!("{}/bridge", self.server.uri()));
        settings.offramp.key_id = Some("prs".to_owned());
        settings.offramp.key_secret = Some(KEY.to_owned());
        settings.offramp.callback_secret = Some(CALLBACK_SECRET.to_owned());
        settings.offramp.former_callback_secret = Some(FORMER_SECRET.to_owned());
        settings
    }

    /// Sets how the partner behaves from now on.
    pub fn behave(&self, behaviour: OffRampBehaviour) {
        OffRampControls::behave(&*self.sandbox, behaviour);
    }

    /// Overrides the partner's response to an operation from now on; `None` ends this. The operations are `register`,
    /// `agree`, `payer`, `add_account`, `account`, `quote`, `open_order`, `order`, `erase` and `erase_registered`.
    pub fn answer(&self, operation: &str, scripted: Option<Scripted>) {
        let mut script = self.script.lock().expect("a lock");
        script.overruled.retain(|(known, _)| known != operation);
        script.overruled.extend(scripted.map(|one| (operation.to_owned(), one)));
    }

    /// The calls that arrived, in order.
    pub async fn calls(&self) -> Vec<PartnerCall> {
        let requests = self.server.received_requests().await.expect("requests are recorded");
        let call = |request: &Request| PartnerCall {
            method: request.method.to_string(),
            target: target(request).to_owned(),
            key: value(request, header::IDEMPOTENCY_KEY).to_owned(),
            body: serde_json::from_slice(&request.body).unwrap_or_default(),
        };
        requests.iter().map(call).collect()
    }

    /// How many calls of an operation arrived.
    pub async fn count(&self, name: &str) -> usize {
        let calls = self.calls().await;
        calls
            .iter()
            .filter(|call| operation(&call.method, &call.target) == name)
            .count()
    }

    /// Presses a button on the partner's page for the identity of a payer: `submit`, `approve`, `reject` or `ask
    /// again`.
    pub fn decide_kyc(&self, payer: &str, outcome: &str, now: DateTime<Utc>) {
        assert!(
            self.sandbox.press(PageKind::Kyc, payer, outcome, now),
            "{payer} {outcome}"
        );
    }

    /// Presses a button on the partner's page for the terms: `agree`, `decline` or `fail`.
    pub fn decide_agreement(&self, payer: &str, outcome: &str, now: DateTime<Utc>) {
        let is_there = self.sandbox.press(PageKind::Agreement, payer, outcome, now);
        assert!(is_there, "{payer} {outcome}");
    }

    /// The headers of a callback with this body, signed with a secret.
    pub fn signed(secret: &str, now: DateTime<Utc>, id: &str, body: &str) -> Vec<(&'static str, String)> {
        let time = now.timestamp().to_string();
        let signature = callback_signature(secret, &time, id, body);
        vec![
            (header::TIME, time.clone()),
            (header::ID, id.to_owned()),
            (header::SIGNATURE, signature),
        ]
    }

    /// A callback body with the key of its record. A key that the body already has is kept.
    pub fn keyed(&self, news: &Value) -> Value {
        let mut news = news.clone();
        let script = self.script.lock().expect("a lock");
        for record in ["payer", "account", "order"] {
            let key = news[record]["id"].as_str().and_then(|id| script.keys.get(id));
            if let Some(key) = key.filter(|_| news[record]["key"] == NO_KEY) {
                news[record]["key"] = json!(key);
            }
        }
        news
    }

    /// Sends a callback with a correct signature and the key of its record; a key that the body already has is kept.
    pub async fn tell(&self, app: &TestApp, body: &Value) -> Answer {
        let body = self.keyed(body);
        let told = {
            let mut script = self.script.lock().expect("a lock");
            script.told += 1;
            script.told
        };
        self.tell_as(app, &format!("cb_{told}"), &body.to_string()).await
    }

    /// Sends the service every callback that the partner has not sent before; returns the status of each response.
    pub async fn tell_due(&self, app: &TestApp) -> Vec<u16> {
        let mut statuses = Vec::new();
        for telling in self.sandbox.tell(app.ctx.clock.now()) {
            statuses.push(self.tell_as(app, &telling.id, &telling.body).await.status);
        }
        statuses
    }

    async fn tell_as(&self, app: &TestApp, id: &str, body: &str) -> Answer {
        let mut call = app.post("/v2/provider-callbacks/offramp");
        for (name, value) in Self::signed(CALLBACK_SECRET, app.ctx.clock.now(), id, body) {
            call = call.header(name, &value);
        }
        call.text(body).send().await
    }
}

/// Callback body about a payer.
pub fn payer_news(id: &str, version: u64, kyc: &str, agreement: &str) -> Value {
    let payer = json!({
        "id": id,
        "key": NO_KEY,
        "version": version,
        "kycStatus": kyc,
        "agreementStatus": agreement,
        "kycUrl": "https://pages.example.com/kyc",
        "agreementUrl": "https://pages.example.com/agreement",
    });
    json!({ "type": "payer", "payer": payer })
}

/// The body of a callback about a bank account.
pub fn account_news(id: &str, payer: &str, version: u64, status: &str) -> Value {
    let rejection = (status == "failed").then_some("The bank does not know the account");
    let account = json!({
        "id": id,
        "key": NO_KEY,
        "payerId": payer,
        "version": version,
        "status": status,
        "rejection": rejection,
    });
    json!({ "type": "account", "account": account })
}

/// Callback body about an order.
pub fn order_news(id: &str, version: u64, status: &str) -> Value {
    let order = json!({
        "id": id,
        "key": NO_KEY,
        "quoteId": "qte_1",
        "version": version,
        "status": status,
        "providerStatus": status.to_uppercase(),
    });
    json!({ "type": "order", "order": order })
}

/// A person whose family name is this one; all other details are fixed.
pub fn person(family_name: &str) -> DescribedPayer {
    let text = |text: &str| text.to_owned();
    DescribedPayer {
        email: text("ada@example.com"),
        first_name: text("Ada"),
        last_name: text(family_name),
        beneficiary: Beneficiary::Individual,
        company_name: None,
        date_of_birth: text("1985-12-12"),
        address_line_1: text("123 Main Street"),
        address_line_2: None,
        city: text("New York"),
        state: text("NY"),
        postcode: text("10001"),
        country: text("US"),
        nationality: text("US"),
        phone: text("+12125550123"),
        ssn: text("123-45-6789"),
        source_of_funds: None,
        business_activity: None,
    }
}
