//! `cargo xtask conformance`: whether a deployment does what the documents say, operation by operation.

mod plan;
mod proxy;
mod receiver;
mod report;
mod schema;
mod walk;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use xtask::machine::failure::{Failure, Outcome};
use xtask::machine::{packages, workspace};
use xtask::service::delivery::EVENT;

use self::plan::{BEGIN, Credential, END, EVENTS};
use self::proxy::{Break, Fault};
use self::receiver::Receiver;
use self::report::{Report, Verdict};
use self::walk::Walk;
use crate::verbs::dev;

/// How long a payment may take to be told.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the next try of a refused delivery may take; the first one comes after seconds.
const RETRY_TIMEOUT: Duration = Duration::from_secs(90);

/// What is broken to prove that it is noticed: one of each kind.
const BROKEN: [Break; 4] = [
    Break {
        operation: "getRequest",
        method: "GET",
        path: "/v2/request/{requestId}",
        fault: Fault::Member("hasBeenPaid"),
    },
    Break {
        operation: "createClientId",
        method: "POST",
        path: "/v2/client-ids",
        fault: Fault::Status(200),
    },
    Break {
        operation: "listWebhooks",
        method: "GET",
        path: "/v1/webhook",
        fault: Fault::Header("x-request-id"),
    },
    Break {
        operation: "getDelivery",
        method: "GET",
        path: "/v2/deliveries/{deliveryId}",
        fault: Fault::Refusal("message"),
    },
];

/// What is examined.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Address of the deployment; without it `prs dev` is started and examined
    #[arg(long, requires = "api_key")]
    url: Option<String>,
    /// Address of its auth API, when that is another one
    #[arg(long)]
    auth_url: Option<String>,
    /// A key of a platform that is there for tests
    #[arg(long)]
    api_key: Option<String>,
    /// A key of an orchestrator; without it its operations are only refused
    #[arg(long)]
    orchestrator_key: Option<String>,
    /// A session of a person; without it an account is registered, where everybody may
    #[arg(long)]
    session: Option<String>,
    /// A payee destination of the platform; without it no link for several payers is made
    #[arg(long)]
    destination_id: Option<String>,
    /// Who is to be paid: an address of yours
    #[arg(long, default_value = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8")]
    payee: String,
    /// Whose wallet the calldata is for; with `--rpc-url` an account that its node has unlocked
    #[arg(long, default_value = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")]
    payer: String,
    /// In what is paid
    #[arg(long, default_value = "FAU-sepolia")]
    currency: String,
    /// On which network
    #[arg(long, default_value = "sepolia")]
    network: String,
    /// A node of a test chain that pays; without it no payment is made, and its events are not looked at
    #[arg(long)]
    rpc_url: Option<String>,
    /// Under which address the deployment reaches the receiver of this run; not needed on one machine
    #[arg(long)]
    receiver_url: Option<String>,
    /// On which port of this machine the receiver listens
    #[arg(long, default_value_t = 0)]
    receiver_port: u16,
    /// Write the report as JUnit XML too
    #[arg(long)]
    junit: Option<PathBuf>,
    /// Examine the deployment again through a proxy that breaks one operation, and see that it is named
    #[arg(long)]
    prove: bool,
}

/// Examines a deployment and prints what was found.
pub(crate) fn run(options: &Options) -> Outcome {
    let documents = ["v2", "auth"].map(document);
    let [v2, auth] = documents;
    let (v2, auth) = (v2?, auth?);
    let target;
    let mut deployment = match (&options.url, &options.api_key) {
        (Some(url), Some(key)) => Deployment::given(options, url, key),
        _ => {
            packages::ensure_chain_node()?;
            target = dev::Target::find()?;
            Deployment::of_dev(options, &serde_json::from_str(&fs::read_to_string(&target.file)?)?)?
        }
    };
    let receiver = if options.receiver_url.is_some() || is_loopback(&deployment.url) {
        let receiver = Receiver::listen(options.receiver_port, EVENT)?;
        let url = options.receiver_url.clone().unwrap_or_else(|| receiver.url());
        deployment.values.insert("receiver".to_owned(), url);
        Some(receiver)
    } else {
        None
    };
    println!("examining {}", deployment.url);
    let report = examine(&deployment, [&v2, &auth], receiver.as_ref())?;
    print!("{}", report.text());
    if let Some(path) = &options.junit {
        report.write_junit(path)?;
    }
    let failed = report.failed();
    if !failed.is_empty() {
        return Err(Failure::StepFailed(anyhow!(
            "{} of the operations: {}",
            failed.len(),
            failed.join(", ")
        )));
    }
    if options.prove {
        prove(&deployment, [&v2, &auth])?;
    }
    Ok(())
}

/// What is known about a deployment before the first call.
struct Deployment {
    url: String,
    auth_url: String,
    rpc_url: Option<String>,
    values: BTreeMap<String, String>,
}

impl Deployment {
    fn given(options: &Options, url: &str, key: &str) -> Self {
        let mut values = BTreeMap::from([("apiKey".to_owned(), key.to_owned())]);
        let given = [
            ("payee", Some(&options.payee)),
            ("payer", Some(&options.payer)),
            ("currency", Some(&options.currency)),
            ("network", Some(&options.network)),
            ("orchestratorKey", options.orchestrator_key.as_ref()),
            ("session", options.session.as_ref()),
            ("destinationId", options.destination_id.as_ref()),
        ];
        values.extend(
            given
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?.clone()))),
        );
        let url = url.trim_end_matches('/').to_owned();
        let auth_url = options.auth_url.clone().unwrap_or_else(|| url.clone());
        Self {
            url,
            auth_url,
            rpc_url: options.rpc_url.clone(),
            values,
        }
    }

    fn of_dev(options: &Options, ready: &Value) -> Result<Self> {
        let member = |pointer: &str| {
            let value = ready.pointer(pointer).and_then(Value::as_str);
            value
                .map(str::to_owned)
                .with_context(|| format!("`prs dev --json` names no {pointer}"))
        };
        let mut own = Self::given(options, &member("/baseUrl")?, &member("/apiKey")?);
        own.auth_url = member("/authUrl")?;
        own.rpc_url = Some(member("/chain/rpcUrl")?);
        for (name, pointer) in [
            ("orchestratorKey", "/orchestratorKey"),
            ("destinationId", "/destinationId"),
        ] {
            own.values.insert(name.to_owned(), member(pointer)?);
        }
        Ok(own)
    }
}

fn document(name: &str) -> Result<Value> {
    let path = workspace::root().join("openapi").join(name).with_extension("json");
    serde_json::from_str(&fs::read_to_string(&path)?).with_context(|| path.display().to_string())
}

fn is_loopback(url: &str) -> bool {
    ["http://127.0.0.1", "http://localhost", "http://[::1]"]
        .iter()
        .any(|start| url.starts_with(start))
}

/// One run through everything; what it makes is called `conformance-` and a number.
fn examine(deployment: &Deployment, [v2, auth]: [&Value; 2], receiver: Option<&Receiver>) -> Result<Report> {
    let mut values = deployment.values.clone();
    let number = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    values.insert("name".to_owned(), format!("conformance-{number}"));
    values.insert("email".to_owned(), format!("conformance-{number}@example.com"));
    values.insert("password".to_owned(), format!("conformance of {number}"));
    let mut walk = Walk::new([(v2, &deployment.url), (auth, &deployment.auth_url)], values);
    // The token of the currency, for what is about tokens and not about currencies.
    if let (Ok(operation), Ok(headers)) = (walk.operation("listCurrencies"), walk.headers(Credential::Key)) {
        let query = format!("id={}", walk.values["currency"]);
        let found = walk.call(operation, operation.path, &query, &headers, "")?.json();
        for (name, pointer) in [("tokenAddress", "/0/address"), ("chainId", "/0/chainId")] {
            if let Some(value) = found.pointer(pointer) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                walk.values.insert(name.to_owned(), text);
            }
        }
    }
    walk.steps(BEGIN)?;
    walk.idempotency()?;
    test_event(&mut walk, receiver)?;
    payment(&mut walk, deployment.rpc_url.as_deref(), receiver)?;
    walk.refusals()?;
    walk.steps(END)?;
    for id in walk.ids() {
        if !walk.report.0.iter().any(|check| check.operation == id) {
            walk.report.add(
                &id,
                "calls",
                Verdict::Skipped("nothing is known to call it with".to_owned()),
            );
        }
    }
    Ok(walk.report)
}

/// A test event is sent, and its signature fits.
fn test_event(walk: &mut Walk<'_>, receiver: Option<&Receiver>) -> Result<()> {
    let Some(receiver) = receiver.filter(|_| walk.values.contains_key("secret")) else {
        let why = "the deployment cannot reach a receiver; name one with --receiver-url".to_owned();
        walk.report.add("webhooks", "test event", Verdict::Skipped(why));
        return Ok(());
    };
    let (operation, headers) = (walk.operation("testWebhooks"), walk.headers(Credential::Key));
    let (Ok(operation), Ok(headers)) = (operation, headers) else {
        return Ok(());
    };
    let answer = walk.call(
        operation,
        operation.path,
        "",
        &headers,
        &json!({"eventType": EVENT}).to_string(),
    )?;
    let verdict = walk::judged(operation, &answer, 200);
    walk.report.add("testWebhooks", "200", verdict);
    let secret = walk.values["secret"].clone();
    let arrived = receiver.wait(1, EVENT_TIMEOUT, |_, delivery| {
        delivery.headers.contains_key("x-service-test") && delivery.verify(&secret).is_ok()
    });
    let verdict = match arrived.first() {
        Some(_) => Verdict::Held,
        None => Verdict::Failed(vec![format!(
            "no signed test event after {} s",
            EVENT_TIMEOUT.as_secs()
        )]),
    };
    walk.report.add("webhooks", "test event", verdict);
    Ok(())
}

/// A request is paid on the chain; its event is refused once, comes again, and fits its signature both times.
fn payment(walk: &mut Walk<'_>, rpc_url: Option<&str>, receiver: Option<&Receiver>) -> Result<()> {
    let (Some(rpc_url), Some(receiver), Some(request_id)) = (rpc_url, receiver, walk.values.get("requestId").cloned())
    else {
        let why = "a payment needs --rpc-url of a test chain and a receiver".to_owned();
        walk.report
            .add("webhooks", "payment, retry, signatures", Verdict::Skipped(why));
        return walk.steps(EVENTS);
    };
    let (operation, headers) = (walk.operation("getPaymentCalldata"), walk.headers(Credential::Key));
    let (Ok(operation), Ok(headers)) = (operation, headers) else {
        return Ok(());
    };
    let path = operation.path.replace("{requestId}", &request_id);
    let query = format!("wallet={}", walk.values["payer"]);
    let calldata = walk.call(operation, &path, &query, &headers, "")?.json();
    dev::send_from(rpc_url, &walk.values["payer"], &calldata).context("the payment on the chain")?;
    let secret = walk.values.get("secret").cloned().unwrap_or_default();
    let tries = receiver.wait(2, EVENT_TIMEOUT + RETRY_TIMEOUT, |event, delivery| {
        let is_meant = event["event"] == EVENT && event["requestId"] == request_id.as_str();
        is_meant && !delivery.headers.contains_key("x-service-test")
    });
    let mut wrong = Vec::new();
    match tries.as_slice() {
        [] => wrong.push(format!("no {EVENT} of {request_id}")),
        [_] => wrong.push("a refused delivery did not come again".to_owned()),
        [first, second, ..] => {
            for (number, delivery) in [first, second].into_iter().enumerate() {
                if let Err(error) = delivery.verify(&secret) {
                    wrong.push(format!("try {}: {error:#}", number + 1));
                }
                if delivery.headers.get("x-service-retry-count") != Some(&number.to_string()) {
                    wrong.push(format!("try {} does not say so in x-service-retry-count", number + 1));
                }
            }
            if first.headers.get("x-service-delivery") != second.headers.get("x-service-delivery") {
                wrong.push("the second try has another x-service-delivery".to_owned());
            }
            if first.body != second.body {
                wrong.push("the second try has another body".to_owned());
            }
        }
    }
    let verdict = if wrong.is_empty() {
        Verdict::Held
    } else {
        Verdict::Failed(wrong)
    };
    walk.report.add("webhooks", "payment, retry, signatures", verdict);
    walk.steps(EVENTS)
}

/// Breaks one operation after the other and sees that exactly this one is named.
fn prove(deployment: &Deployment, documents: [&Value; 2]) -> Result<()> {
    for broken in BROKEN {
        let url = proxy::start(&deployment.url, broken)?;
        let behind = Deployment {
            url: url.clone(),
            auth_url: url,
            rpc_url: None,
            values: deployment.values.clone(),
        };
        let report = examine(&behind, documents, None)?;
        let failed = report.failed();
        if failed != [broken.operation] {
            bail!(
                "{} was broken ({:?}), and named was {failed:?}",
                broken.operation,
                broken.fault
            );
        }
        println!(
            "broken {} ({:?}): named, and nothing else",
            broken.operation, broken.fault
        );
    }
    Ok(())
}
