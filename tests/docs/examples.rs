//! The calls that the examples of the documents describe, with their expected statuses. They are in an order in which
//! no call ends an object that a later call needs.

use crate::support::{
    contract::{documents, resolved},
    dev::Dev,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// Names of the documents in the URLs of the pages.
pub const DOCUMENTS: [&str; 2] = ["v2", "auth"];

/// Examples that cannot succeed with any value, the status that they return instead, and why.
pub const REFUSED: [(&str, u16, &str); 7] = [
    (
        "endSession",
        404,
        "a session id is random and created at sign-in, so no example can contain one",
    ),
    (
        "changePassword",
        403,
        "the user of the examples signs in with a wallet, and has no password",
    ),
    (
        "addPayeeDestination",
        400,
        "a nonce is valid once, for five minutes, with a signature of the wallet",
    ),
    (
        "deactivatePayeeDestination",
        400,
        "a nonce is valid once, for five minutes, with a signature of the wallet",
    ),
    (
        "verifyWalletChallenge",
        401,
        "a challenge is valid once, for ten minutes, with a signature of the wallet",
    ),
    (
        "broadcastTronTransaction",
        403,
        "a signed transaction expires after a minute, and the link of the examples is on Sepolia",
    ),
    (
        "receiveOffRampNews",
        401,
        "the partner signs each callback with its secret and the time",
    ),
];

/// Operations that end or delete an object that other examples name.
const ENDS: [&str; 10] = [
    "updateRecurringPayment",
    "cancelRequest",
    "withdrawSecurePayment",
    "revokeClientId",
    "erasePayer",
    "revokeOwnClientId",
    "deactivateOwnDestination",
    "revokeApiKey",
    "deleteWebhook",
    SIGNS_OUT,
];

/// The operation that signs out: it ends the session that all other examples use.
const SIGNS_OUT: &str = "endSessions";

/// An operation whose response never ends.
pub const STREAM: &str = "followEvents";

/// Time limit of a delivery: its four attempts and, if the service starts slowly, the first recovery round.
const PATIENCE: Duration = Duration::from_secs(150);

/// The operation that replays a delivery. It is refused while an attempt of the delivery is in progress.
pub const RETRY: &str = "retryDelivery";

/// A call from an example.
pub struct Example {
    /// Index of the operation's document in [`DOCUMENTS`].
    pub document: usize,
    pub operation: &'static str,
    pub method: String,
    /// Path and query.
    pub target: String,
    pub body: Option<&'static Value>,
    /// The first credential of the operation's security requirement.
    pub scheme: Option<&'static str>,
    /// Its expected status.
    pub wanted: u16,
}

impl Example {
    fn of(document: usize, path: &str, method: &str, operation: &'static Value) -> Self {
        let contract = &documents()[document];
        let id = operation["operationId"].as_str().expect("a name");
        let (mut target, mut query) = (path.to_owned(), Vec::new());
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let parameter = resolved(contract, parameter);
            let name = parameter["name"].as_str().expect("a name");
            // A parameter with several examples is left out, as in the first of them.
            let Some(value) = parameter.get("example") else {
                assert_ne!(parameter["required"], true, "{id}: {name} has no example");
                continue;
            };
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let text = utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string();
            match parameter["in"].as_str() {
                Some("path") => target = target.replace(&format!("{{{name}}}"), &text),
                Some("query") => query.push(format!("{name}={text}")),
                other => panic!("{id}: {name} in {other:?}"),
            }
        }
        if !query.is_empty() {
            target = format!("{target}?{}", query.join("&"));
        }
        let body = operation.get("requestBody").map(|body| {
            let media = &resolved(contract, body)["content"]["application/json"];
            media.get("example").unwrap_or_else(|| panic!("{id}: no example"))
        });
        let scheme = operation["security"][0].as_object().and_then(|any| any.keys().next());
        let success = operation["responses"].as_object().expect("answers").keys();
        let success = success
            .filter_map(|status| status.parse().ok())
            .min()
            .expect("a status");
        let refused = REFUSED
            .iter()
            .find(|(name, ..)| *name == id)
            .map(|(_, status, _)| *status);
        Self {
            document,
            operation: id,
            method: method.to_uppercase(),
            target,
            body,
            scheme: scheme.map(String::as_str),
            wanted: refused.unwrap_or(success),
        }
    }

    fn is_end(&self) -> bool {
        ENDS.contains(&self.operation)
    }

    /// The printed call and response.
    pub fn line(&self, got: &str) -> String {
        let document = DOCUMENTS[self.document];
        format!(
            "{document:<5} {:<34} {:>3}  {got:>3}  {} {}",
            self.operation, self.wanted, self.method, self.target
        )
    }
}

/// All calls: reads first, calls that end objects last.
pub fn all() -> Vec<Example> {
    let mut all = Vec::new();
    for (number, document) in documents().iter().enumerate() {
        for (path, item) in document["paths"].as_object().expect("paths") {
            let operations = item.as_object().expect("operations").iter();
            all.extend(operations.map(|(method, operation)| Example::of(number, path, method, operation)));
        }
    }
    let known: BTreeSet<&str> = all.iter().map(|example| example.operation).collect();
    let named = REFUSED.iter().map(|(name, ..)| *name).chain(ENDS);
    named.for_each(|name| assert!(known.contains(name), "{name} is not an operation"));
    all.sort_by_key(|example| {
        (
            example.operation == SIGNS_OUT,
            example.is_end(),
            example.document,
            example.method != "GET",
        )
    });
    all
}

/// The header, as name and value, with the credential of this run for a security scheme.
fn header(dev: &Dev, scheme: &str) -> (&'static str, String) {
    let (name, value) = match scheme {
        "ApiKey" => ("x-api-key", dev.text("/apiKey")),
        "ClientId" => ("x-client-id", dev.text("/backendClientId")),
        "OrchestratorKey" => ("x-orchestrator-key", dev.text("/orchestratorKey")),
        "SessionBearer" => return ("authorization", format!("Bearer {}", dev.text("/sessionToken"))),
        other => panic!("no credential for {other}"),
    };
    (name, value.to_owned())
}

/// Waits until the delivery that the examples name has arrived: a delivery in progress cannot be replayed.
pub async fn delivered(dev: &Dev) {
    let asked = Instant::now();
    let path = all().into_iter().find(|example| example.operation == "getDelivery");
    let path = path.expect("an operation").target;
    loop {
        let delivery = dev.call(&path, None).await;
        if delivery["delivery"]["state"] == "delivered" {
            return;
        }
        assert!(asked.elapsed() < PATIENCE, "{delivery}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Executes a call as the documentation page does; returns status and body, and no body for a stream.
async fn executed(client: &reqwest::Client, dev: &Dev, example: &Example) -> (u16, String) {
    let url = format!("{}{}", dev.text("/baseUrl"), example.target);
    let method = example.method.parse().expect("a method");
    let mut call = client.request(method, url).header("sec-fetch-site", "same-origin");
    if let Some(scheme) = example.scheme {
        let (name, value) = header(dev, scheme);
        call = call.header(name, value);
    }
    if let Some(body) = example.body {
        call = call.header("content-type", "application/json").body(body.to_string());
    }
    let answer = call.send().await.expect("an answer");
    let status = answer.status().as_u16();
    let text = match example.operation {
        STREAM => String::new(),
        _ => answer.text().await.expect("a text"),
    };
    (status, text)
}

#[tokio::test]
async fn every_unchanged_example_returns_its_expected_status() {
    prs::adapters::install_tls();
    let folder = tempfile::tempdir().expect("a folder");
    let dev = Dev::start(folder.path());
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let (all, mut wrong) = (all(), Vec::new());
    for example in &all {
        if example.operation == RETRY {
            delivered(&dev).await;
        }
        let (status, text) = executed(&client, &dev, example).await;
        println!("{}", example.line(&status.to_string()));
        let flaws = crate::support::contract::flaws(&example.method, &example.target, status, &text);
        if status != example.wanted || !flaws.is_empty() {
            wrong.push(format!("{} {flaws:?} {text}", example.line(&status.to_string())));
        }
    }
    for (operation, status, why) in REFUSED {
        println!("{status} as expected, {operation}: {why}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} examples by HTTP, {} expected refusals", all.len(), REFUSED.len());
    kept(dev, folder.path()).await;
}

/// Checks a restart of `prs dev` on an existing database: the program starts, and the developer's own objects stay
/// unchanged.
async fn kept(dev: Dev, folder: &std::path::Path) {
    drop(dev);
    let dev = Dev::start(folder);
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    for (operation, status) in [
        ("getRequest", 200),
        ("getRecurringPayment", 200),
        ("getClientId", 200),
        ("rotateOrchestratorWebhookSecret", 200),
        ("getEvent", 200),
        ("findSecurePayment", 200),
        ("getPayer", 404),
    ] {
        let example = all().into_iter().find(|example| example.operation == operation);
        let (got, text) = executed(&client, &dev, &example.expect("an operation")).await;
        assert_eq!(got, status, "{operation}: {text}");
    }
}
