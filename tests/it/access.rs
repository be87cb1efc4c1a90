//! Who may do what: every operation of the exported documents with every kind of credential, in every state.
//!
//! What is expected comes from `prs::http::gate::access`. An operation that comes later is checked by existing; one whose path
//! names an object that is not known here fails until the object is made below. Source: rules F.21.

use crate::support::{
    Answer, TestApp,
    app::{Call, PAGE},
    contract::resolved,
    payers::{person, with_partner},
    requests::fau,
    schedules::waiting,
    session::sign_in,
    wallet::{TestWallet, token},
};
use poem::http::Method;
use prs::{
    flows::{keys, orchestrators},
    http::gate::{
        access::{self, Row},
        scheme::{Mark, Scheme},
    },
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Kinds of credentials: one for each scheme, and the client ID of a page, which is no secret.
pub const KINDS: [Kind; 6] = [
    Kind::Of(Scheme::OrchestratorKey),
    Kind::Of(Scheme::ApiKey),
    Kind::Of(Scheme::ClientId),
    Kind::PublicClientId,
    Kind::Of(Scheme::SessionBearer),
    Kind::Of(Scheme::Session),
];

/// A kind of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The credential of a scheme; a client ID without pages.
    Of(Scheme),
    /// A client ID of a page.
    PublicClientId,
}

impl Kind {
    /// How it is shown.
    pub fn scheme(self) -> Scheme {
        match self {
            Self::Of(scheme) => scheme,
            Self::PublicClientId => Scheme::ClientId,
        }
    }

    /// Under which name a tenant keeps it.
    pub fn id(self) -> &'static str {
        match self {
            Self::Of(scheme) => scheme.id(),
            Self::PublicClientId => "PublicClientId",
        }
    }

    fn opens(self, row: &Row) -> bool {
        let is_closed = self == Self::PublicClientId && row.marks.contains(&Mark::Secret);
        row.any_of.contains(&self.scheme()) && !is_closed
    }
}

/// State of the credential that a cell shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Nobody knows it.
    Unknown,
    /// It was good once.
    Revoked,
    /// Another tenant's.
    Foreign,
    /// The tenant's own.
    Own,
}

/// A tenant with a credential of each kind.
pub struct Tenant {
    pub good: BTreeMap<&'static str, String>,
    revoked: BTreeMap<&'static str, String>,
    pub wallet: TestWallet,
}

/// An operation of the documents.
#[derive(Clone)]
pub struct Operation {
    pub method: Method,
    pub path: String,
    pub row: &'static Row,
    query: Vec<String>,
    /// The query parameters that it needs, with their documented examples.
    pub needed: Vec<(String, String)>,
    /// The others, with theirs.
    optional: Vec<(String, String)>,
    /// Whether it takes an `Idempotency-Key`.
    pub is_keyed: bool,
    /// The documented example of its body.
    pub example: Value,
    /// Its documented answers.
    pub responses: Value,
}

pub fn operations() -> Vec<Operation> {
    let mut found = Vec::new();
    for name in ["v2", "auth"] {
        let path = format!("{}/openapi/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let document: Value = serde_json::from_str(&std::fs::read_to_string(&path).expect(&path)).expect("JSON");
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                let id = operation["operationId"].as_str().expect("an id");
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let parameters = parameters.map(|parameter| resolved(&document, parameter));
                let is_keyed = parameters
                    .clone()
                    .any(|parameter| parameter["name"] == "Idempotency-Key");
                let queried = parameters.filter(|parameter| parameter["in"] == "query");
                let (needed, optional): (Vec<_>, Vec<_>) =
                    queried.clone().partition(|parameter| parameter["required"] == true);
                // Of what may be left out, the first example says nothing, unless it is filled in all the same.
                let shown = |parameter: &Value| {
                    let several = &parameter["examples"]["one"]["value"];
                    let example = parameter.get("example").unwrap_or(several);
                    (text(&parameter["name"]), text(example))
                };
                let responses = operation["responses"].as_object().expect("responses").iter();
                let responses =
                    responses.map(|(status, response)| (status.clone(), resolved(&document, response).clone()));
                found.push(Operation {
                    method: method.to_uppercase().parse().expect("a method"),
                    path: path.clone(),
                    row: access::row(id).unwrap_or_else(|| panic!("{id} has no row in http::access")),
                    responses: responses.collect(),
                    needed: needed.into_iter().map(shown).collect(),
                    optional: optional.into_iter().map(shown).collect(),
                    is_keyed,
                    example: operation["requestBody"]["content"]["application/json"]["example"].clone(),
                    query: queried.map(|parameter| text(&parameter["name"])).collect(),
                });
            }
        }
    }
    // What ends an object comes late, and what ends a session last.
    found.sort_by_key(|operation| {
        let mut methods = ["GET", "PATCH", "PUT", "POST", "DELETE"].iter();
        let position = methods.position(|method| *method == operation.method.as_str());
        let ends_sessions = operation.row.operation == ENDS_SESSIONS;
        (operation.row.any_of.is_empty(), ends_sessions, position)
    });
    found
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("text in {value}")).to_owned()
}

async fn by_session(app: &TestApp, session: &str, method: Method, path: &str, body: &Value) -> Value {
    let call = app
        .call(method, path)
        .header("authorization", &format!("Bearer {session}"));
    let answer = call.json(body).send().await;
    assert!((200..300).contains(&answer.status), "{path}: {}", answer.text);
    answer.json()
}

pub async fn tenant(app: &TestApp, number: u8) -> Tenant {
    let wallet = TestWallet::new(number);
    let session = sign_in(app, &wallet).await;
    let ended = sign_in(app, &wallet).await;
    by_session(app, &ended, Method::POST, "/v1/auth/logout", &json!({})).await;
    let post = |path: &'static str, body: Value| {
        let session = session.clone();
        async move { by_session(app, &session, Method::POST, path, &body).await }
    };
    let key = post("/v1/api-keys", json!({ "label": "Good" })).await;
    let lost = post("/v1/api-keys", json!({ "label": "Lost" })).await;
    let client = post("/v1/client-ids", json!({ "label": "Good" })).await;
    let page = post("/v1/client-ids", json!({ "label": "Page", "allowedDomains": [PAGE] })).await;
    let former = post("/v1/client-ids", json!({ "label": "Former" })).await;
    let former_page = json!({ "label": "Former page", "allowedDomains": [PAGE] });
    let former_page = post("/v1/client-ids", former_page).await;
    for path in [
        format!("/v1/api-keys/{}", text(&lost["id"])),
        format!("/v1/client-ids/{}", text(&former["id"])),
        format!("/v1/client-ids/{}", text(&former_page["id"])),
    ] {
        by_session(app, &session, Method::DELETE, &path, &json!({})).await;
    }
    let partner = orchestrators::create::run(&app.ctx, "Partner")
        .await
        .expect("a partner");
    let past = keys::create(&app.ctx, &partner.id, None).await.expect("a key");
    keys::revoke(&app.ctx, &partner.id, &past.row.id)
        .await
        .expect("revoked");
    let each = |session: &str, key: &Value, [client, page]: [&Value; 2], partner: &str| {
        BTreeMap::from([
            (Scheme::Session.id(), session.to_owned()),
            (Scheme::SessionBearer.id(), session.to_owned()),
            (Scheme::ApiKey.id(), text(&key["apiKey"])),
            (Scheme::ClientId.id(), text(&client["clientId"])),
            (Kind::PublicClientId.id(), text(&page["clientId"])),
            (Scheme::OrchestratorKey.id(), partner.to_owned()),
        ])
    };
    Tenant {
        good: each(&session, &key, [&client, &page], partner.key.reveal()),
        revoked: each(&ended, &lost, [&former, &former_page], past.key.reveal()),
        wallet,
    }
}

fn by_client<'a>(call: Call<'a>, owner: &Tenant) -> Call<'a> {
    call.header("x-client-id", &owner.good[Scheme::ClientId.id()])
}

/// The objects of a tenant, by where a path or query names them.
pub async fn objects(app: &TestApp, owner: &Tenant) -> BTreeMap<&'static str, String> {
    let session = owner.good[Scheme::Session.id()].clone();
    let post = |path: &'static str, body: Value| {
        let session = session.clone();
        async move { by_session(app, &session, Method::POST, path, &body).await }
    };
    let client = post("/v1/client-ids", json!({ "label": "Object" })).await;
    let key = post("/v1/api-keys", json!({ "label": "Object" })).await;
    let destination = json!({ "tokenAddress": token(app, "FAU-sepolia"), "chainId": 11_155_111 });
    let destination = post("/v1/payee-destination", destination).await;
    let mut request = fau("10.5");
    request["recurrence"] = json!({ "startDate": "2030-01-01", "frequency": "MONTHLY" });
    let credential = ("x-client-id", owner.good[Scheme::ClientId.id()].as_str());
    let request = app.create_request_as(credential, &request).await;
    let hook = json!({ "url": "http://127.0.0.1:9/hook" });
    let webhook = by_client(app.post("/v1/webhook"), owner)
        .json(&hook)
        .send()
        .await
        .expect(201);
    let test = json!({ "eventType": "payment.confirmed" });
    by_client(app.post("/v1/webhook/test"), owner)
        .json(&test)
        .send()
        .await
        .expect(200);
    let events = by_client(app.get("/v2/events"), owner).send().await.expect(200);
    let deliveries = by_client(app.get("/v2/deliveries"), owner).send().await.expect(200);
    let client_id = &owner.good[Scheme::ClientId.id()];
    let schedule = waiting(app, client_id, owner.wallet.address()).await;
    let link = json!({ "requests": [{ "amount": "10.5" }] });
    let link = post("/v2/secure-payments", link).await;
    let payer = "user-of-access";
    if app.ctx.partners.off_ramp.is_some() {
        let key = &owner.good[Scheme::ApiKey.id()];
        let call = app.post("/v2/payer").header("x-api-key", key);
        call.json(&person(payer)).send().await.expect(200);
    }
    sign_in(app, &owner.wallet).await;
    let sessions = by_session(app, &session, Method::GET, "/v1/auth/sessions", &json!({})).await;
    let sessions = sessions["sessions"].as_array().expect("a list");
    let elsewhere = sessions.iter().find(|one| one["isCurrent"] == false);
    let elsewhere = text(&elsewhere.expect("another one")["id"]);
    let partner = owner.good[Scheme::OrchestratorKey.id()].clone();
    let call = app
        .post("/v2/orchestrators/webhooks")
        .header("x-orchestrator-key", &partner);
    let partner_hook = call.json(&hook).send().await.expect(201);
    BTreeMap::from([
        ("/v2/client-ids/{id}", text(&client["id"])),
        ("/v1/client-ids/{id}", text(&client["id"])),
        ("/v1/api-keys/{id}", text(&key["id"])),
        ("/v1/auth/sessions/{id}", elsewhere),
        ("/v2/orchestrators/webhooks/{id}", text(&partner_hook["webhook"]["id"])),
        ("/v2/payouts/recurring/{id}", schedule.id.to_string()),
        ("{requestId}", request),
        ("{webhookId}", text(&webhook["id"])),
        ("{eventId}", text(&events["events"][0]["id"])),
        ("{deliveryId}", text(&deliveries["deliveries"][0]["id"])),
        ("{destinationId}", text(&destination["destinationId"])),
        ("{token}", text(&link["token"])),
        ("{clientUserId}", payer.to_owned()),
        (OF_LINK, text(&link["requestIds"][0])),
    ])
}

/// Objects that nobody has, in the same forms.
pub fn unknown() -> BTreeMap<&'static str, String> {
    let ulid = "01K9Z0T3G9R5M1N2P3Q4R5S6T7";
    let destination =
        "0x6923831ACf5c327260D7ac7C9DfF5b1c3cB3C7D7@eip155:8453#89CDCBED:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
    BTreeMap::from([
        ("/v2/client-ids/{id}", ulid.to_owned()),
        ("/v1/client-ids/{id}", ulid.to_owned()),
        ("/v1/api-keys/{id}", ulid.to_owned()),
        ("/v1/auth/sessions/{id}", ulid.to_owned()),
        ("/v2/orchestrators/webhooks/{id}", ulid.to_owned()),
        ("/v2/payouts/recurring/{id}", ulid.to_owned()),
        ("{requestId}", format!("01{}", "ab".repeat(32))),
        ("{webhookId}", ulid.to_owned()),
        ("{eventId}", ulid.to_owned()),
        ("{deliveryId}", ulid.to_owned()),
        ("{destinationId}", destination.to_owned()),
        ("{token}", ulid.to_owned()),
        ("{clientUserId}", "user-1042".to_owned()),
        (OF_LINK, format!("01{}", "ab".repeat(32))),
    ])
}

/// The request of the link, which the owner of the link looks it up by.
const OF_LINK: &str = "request of the link";

/// The operation that does so.
const FINDS_LINK: &str = "findSecurePayment";

/// The operation that ends every session of a person.
const ENDS_SESSIONS: &str = "endSessions";

/// Operations that a token opens for whoever has it, of whatever tenant.
const BY_TOKEN: [&str; 4] = [
    "getSecurePayment",
    "getSecurePaymentCalldata",
    "recordSecurePaymentIntent",
    "reportSecurePaymentEvent",
];

/// Path parameters that name what everybody may see.
const PUBLIC: [(&str, &str); 1] = [("{currencyId}", "USD")];

impl Operation {
    fn names_an_object(&self) -> bool {
        let named = self.path.contains('{') || self.query.iter().any(|name| name == "destinationId");
        let is_open = PUBLIC.iter().any(|(name, _)| self.path.contains(name));
        (named || self.row.operation == FINDS_LINK) && !is_open
    }

    /// The path with its objects.
    pub fn address(&self, objects: &BTreeMap<&str, String>) -> String {
        let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let mut path = self.path.clone();
        for (name, value) in PUBLIC {
            path = path.replace(name, value);
        }
        for (name, value) in objects {
            if let Some(start) = name
                .find('{')
                .filter(|_| path.starts_with(*name) || name.starts_with('{'))
            {
                path = path.replace(&name[start..], &encode(value));
            }
        }
        assert!(
            !path.contains('{'),
            "{path}: make the object that it names, see `objects`"
        );
        if self.query.iter().any(|name| name == "destinationId") {
            path = format!("{path}?destinationId={}", encode(&objects["{destinationId}"]));
        }
        if self.row.operation == FINDS_LINK {
            path = format!("{path}?requestId={}", encode(&objects[OF_LINK]));
        }
        path
    }

    async fn call(
        &self,
        app: &TestApp,
        credential: Option<(Scheme, &str)>,
        objects: &BTreeMap<&str, String>,
    ) -> Answer {
        self.send(app, credential, objects, &json!({})).await
    }

    async fn send(
        &self,
        app: &TestApp,
        credential: Option<(Scheme, &str)>,
        objects: &BTreeMap<&str, String>,
        body: &Value,
    ) -> Answer {
        self.send_to(app, credential, &self.address(objects), body).await
    }

    /// The same operation at another path.
    pub fn at(&self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..self.clone()
        }
    }

    /// The path with its objects, and the documented examples of all query parameters that do not name one.
    fn shown_address(&self, objects: &BTreeMap<&str, String>) -> String {
        let address = self.address(objects);
        let shown = self.needed.iter().chain(&self.optional);
        // Nobody can make up the cursor of a search.
        let is_made = |name: &str| self.row.operation == "searchPayments" && name == "cursor";
        let shown = shown.filter(|(name, _)| name != "destinationId" && !NOT_BUILT.contains(&name.as_str()));
        let shown =
            shown.filter(|(name, _)| !(is_made(name) || self.row.operation == FINDS_LINK && name == "requestId"));
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(shown)
            .finish();
        let joint = if address.contains('?') { '&' } else { '?' };
        format!("{address}{joint}{query}")
    }

    /// The path with its objects, and the documented examples of the query parameters that it needs.
    pub fn needed_address(&self, objects: &BTreeMap<&str, String>) -> String {
        let address = self.address(objects);
        if address.contains('?') || self.needed.is_empty() {
            return address;
        }
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        format!("{address}?{}", query.extend_pairs(&self.needed).finish())
    }

    /// Begins a call with a credential.
    pub fn call_as<'a>(&self, app: &'a TestApp, credential: Option<(Scheme, &str)>, path: &str) -> Call<'a> {
        let call = app.call(self.method.clone(), path);
        let Some((scheme, value)) = credential else {
            return call;
        };
        match scheme {
            Scheme::OrchestratorKey => call.header("x-orchestrator-key", value),
            Scheme::ApiKey => call.header("x-api-key", value),
            // Signing in is for pages of the service; elsewhere programs write what they like.
            Scheme::ClientId if self.row.any_of.is_empty() => call.header("x-client-id", value),
            Scheme::ClientId => call.header("x-client-id", value).header("origin", PAGE),
            Scheme::SessionBearer => call.header("authorization", &format!("Bearer {value}")),
            // A browser says which page calls, and without it a cookie changes nothing.
            Scheme::Session => call
                .header("cookie", &format!("session_token={value}"))
                .header("origin", &app.ctx.own_pages.origin),
        }
    }

    pub async fn send_to(&self, app: &TestApp, credential: Option<(Scheme, &str)>, path: &str, body: &Value) -> Answer {
        let call = self.call_as(app, credential, path);
        match self.method {
            Method::GET => call.send().await,
            _ => call.json(body).send().await,
        }
    }
}

/// Why an answer is not what the row of the operation says.
fn surprise(operation: &Operation, shown: Option<(Kind, Shown)>, answer: &Answer) -> Option<String> {
    let is_open = operation.row.any_of.is_empty();
    let is_let_in = !matches!(answer.status, 401 | 403 | 429 | 500..);
    let expected = match shown {
        // No credential makes up for a signature.
        _ if operation.row.marks.contains(&Mark::Signed) => "401",
        _ if is_open => "let in",
        None => "401",
        Some((_, Shown::Unknown)) => "401",
        // That a client ID was revoked is no secret.
        Some((kind, Shown::Revoked)) if kind.scheme() == Scheme::ClientId => "403",
        Some((_, Shown::Revoked)) => "401",
        Some((kind, Shown::Own | Shown::Foreign)) if kind.opens(operation.row) => "let in",
        Some((_, Shown::Own | Shown::Foreign)) => "403",
    };
    let fits = match expected {
        "let in" => is_let_in,
        status => answer.status.to_string() == status,
    };
    (!fits).then(|| format!("expected {expected}, got {} {}", answer.status, answer.text))
}

#[tokio::test]
async fn every_operation_answers_each_credential_as_its_row_says() {
    let (app, _partner) = with_partner().await;
    let own = tenant(&app, 7).await;
    let foreign = tenant(&app, 8).await;
    let objects = objects(&app, &own).await;
    let unknown = unknown();
    let operations = operations();
    let (mut cells, mut surprises) = (0, Vec::new());
    for shown in [Shown::Unknown, Shown::Revoked, Shown::Foreign, Shown::Own] {
        for operation in &operations {
            let mut note = |cell: Option<(Kind, Shown)>, problem: Option<String>| {
                cells += 1;
                let name = operation.row.operation;
                surprises.extend(problem.map(|problem| format!("{name} {cell:?}: {problem}")));
            };
            if shown == Shown::Unknown {
                let answer = operation.call(&app, None, &objects).await;
                note(None, surprise(operation, None, &answer));
            }
            for kind in KINDS {
                let scheme = kind.scheme();
                let guess = format!("{}nobody", if scheme == Scheme::ClientId { "cli_" } else { "sk_" });
                let credential = match shown {
                    Shown::Unknown => &guess,
                    Shown::Revoked => &own.revoked[kind.id()],
                    Shown::Foreign => &foreign.good[kind.id()],
                    Shown::Own => &own.good[kind.id()],
                };
                // It ends the session that it is called with, and all others of the person.
                let renewed = match shown {
                    Shown::Foreign => Some(&foreign.wallet),
                    Shown::Own => Some(&own.wallet),
                    Shown::Unknown | Shown::Revoked => None,
                };
                let is_session = matches!(scheme, Scheme::Session | Scheme::SessionBearer);
                let renewed = renewed.filter(|_| is_session && operation.row.operation == ENDS_SESSIONS);
                let renewed = match renewed {
                    Some(wallet) => Some(sign_in(&app, wallet).await),
                    None => None,
                };
                let credential = renewed.as_ref().unwrap_or(credential);
                let cell = Some((kind, shown));
                let answer = operation.call(&app, Some((scheme, credential)), &objects).await;
                let mut problem = surprise(operation, cell, &answer);
                let is_let_in = problem.is_none() && kind.opens(operation.row);
                if is_let_in && shown == Shown::Foreign && !BY_TOKEN.contains(&operation.row.operation) {
                    problem = leak(&app, operation, (scheme, credential), &answer, &objects, &unknown).await;
                }
                if is_let_in && shown == Shown::Own && operation.method == Method::GET && answer.status == 404 {
                    problem = Some("the owner does not find the object".to_owned());
                }
                note(cell, problem);
            }
        }
    }
    println!(
        "access: {cells} cells over {} operations, {} surprises",
        operations.len(),
        surprises.len()
    );
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
    for scheme in Scheme::ALL {
        assert!(KINDS.contains(&Kind::Of(*scheme)), "{scheme:?} has no cells");
    }
    // The wallets are told apart, so that the tenants are.
    assert_ne!(own.wallet.address(), foreign.wallet.address());
}

/// What a stranger learns about the objects of another tenant.
async fn leak(
    app: &TestApp,
    operation: &Operation,
    credential: (Scheme, &str),
    answer: &Answer,
    objects: &BTreeMap<&str, String>,
    unknown: &BTreeMap<&str, String>,
) -> Option<String> {
    if operation.names_an_object() {
        let nothing = operation.call(app, Some(credential), unknown).await;
        // Payers are named in the sentence, by who asks.
        let facts = |answer: &Answer, of: &BTreeMap<&str, String>| {
            let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
            (answer.status, message.replace(&of["{clientUserId}"], "…"))
        };
        let is_found = (200..300).contains(&answer.status);
        return (is_found || facts(answer, objects) != facts(&nothing, unknown)).then(|| {
            format!(
                "another tenant's object answers {} and an unknown one {}",
                answer.text, nothing.text
            )
        });
    }
    let found = objects.values().find(|id| answer.text.contains(id.as_str()));
    found.map(|id| format!("the answer tells of {id}: {}", answer.text))
}

/// Parameters of payments over other networks, to bank accounts and by Safe accounts, which are refused so far.
const NOT_BUILT: [&str; 5] = ["chain", "token", "clientUserId", "paymentDetailsId", "isSafe"];

/// Examples that this test cannot judge: what they hold is made by the call before or by a wallet, or is there in `prs dev`
/// alone, and only the event of a payment is replayed.
const NOT_ALONE: [&str; 10] = [
    "logIn",
    "changePassword",
    "activateRecurringPayment",
    "combineSecurePayouts",
    "verifyWalletChallenge",
    "addPayeeDestination",
    "deactivatePayeeDestination",
    "deactivateOwnDestination",
    "replayEvent",
    "retryDelivery",
];

/// The operations that ask a chain; the others are called without one.
const ON_CHAIN: [&str; 3] = ["getPaymentCalldata", "createBatchPayout", "getSecurePaymentCalldata"];

/// Calls operations with everything that the documents show; returns how many, and what did not work.
async fn shown_calls(app: &TestApp, wanted: impl Fn(&Operation) -> bool) -> (usize, Vec<String>) {
    let own = tenant(app, 7).await;
    let objects = objects(app, &own).await;
    let (mut count, mut failed) = (0, Vec::new());
    for operation in operations().iter().filter(|operation| wanted(operation)) {
        let scheme = operation.row.any_of.first();
        let credential = scheme.map(|scheme| (*scheme, own.good[scheme.id()].as_str()));
        let address = operation.shown_address(&objects);
        let answer = operation.send_to(app, credential, &address, &operation.example).await;
        if !(200..300).contains(&answer.status) {
            failed.push(format!("{address}: {} {}", answer.status, answer.text));
        }
        count += 1;
    }
    (count, failed)
}

#[tokio::test]
async fn the_documented_examples_of_every_operation_work() {
    // What ends an object would leave the others without it.
    let is_judged = |operation: &Operation| {
        let name = operation.row.operation;
        let is_signed = operation.row.marks.contains(&Mark::Signed);
        operation.method != Method::DELETE && !ON_CHAIN.contains(&name) && !NOT_ALONE.contains(&name) && !is_signed
    };
    let (app, _partner) = with_partner().await;
    let (count, failed) = shown_calls(&app, is_judged).await;
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(count > 40, "{count} operations");
    let asks_a_chain = |operation: &Operation| ON_CHAIN.contains(&operation.row.operation);
    let of_chain = shown_calls(&TestApp::on_chain().await, asks_a_chain).await;
    assert_eq!(of_chain, (ON_CHAIN.len(), Vec::new()));
}

/// The row of the table is what the documents say; see the unit test of `prs::http::gate::access` for the other direction.
#[test]
fn no_operation_is_documented_without_a_row() {
    assert_eq!(operations().len(), access::TABLE.len());
}

#[tokio::test]
async fn reads_are_answered_while_somebody_else_writes() {
    let app = TestApp::start().await;
    let session = format!("Bearer {}", sign_in(&app, &TestWallet::new(7)).await);
    let credentials = [
        ("x-api-key", app.key.as_str()),
        ("x-client-id", app.backend_client.as_str()),
        ("authorization", session.as_str()),
    ];
    // The use of each is due to be noted.
    app.advance_ms(61_000);
    let writing = app.ctx.db.begin("somebody else").await.expect("begins");
    let started = std::time::Instant::now();
    for (name, value) in credentials {
        let call = app.get("/v2/request?limit=1").header(name, value);
        call.send().await.expect(200);
    }
    let took = started.elapsed();
    assert!(took < std::time::Duration::from_secs(4), "{took:?}");
    drop(writing);
    let is_noted = async || {
        let keys = prs::flows::keys::list(&app.ctx, &app.platform).await.expect("a list");
        keys.iter().any(|key| key.last_used_at == Some(app.ctx.clock.now()))
    };
    for _ in 0..100 {
        if is_noted().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the use of the key is never noted");
}
