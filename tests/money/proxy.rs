//! A node whose responses can be changed and counted: a proxy in front of an honest node. It relays JSON-RPC and the HTTP
//! API of Tron. A call of the API is shown as a call whose method is its path, and whose parameters are its body.

use axum::{
    Json, Router,
    extract::State,
    http::{Uri, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::net::TcpListener;

/// Delay of a late response.
const LATE: Duration = Duration::from_secs(3);

/// What happens to a response.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// This result.
    Result(Value),
    /// A response with neither a result nor an error. The HTTP API returns an empty body.
    Absent,
    /// An error with a code and a message. The HTTP API returns only the message, with status 200.
    Error(i64, String),
    /// The honest result, three seconds later.
    Late,
}

/// How a proxy falsifies calls and responses of its node.
pub trait Tamper: Send + Sync + 'static {
    /// Changes a call before the honest node receives it.
    fn ask(&self, _call: &mut Value) {}
    /// Changes the result of a call.
    fn tell(&self, _call: &Value, result: Value) -> Told {
        Told::Result(result)
    }
}

/// No fault.
pub struct Honest;

impl Tamper for Honest {}

/// A kind of false data: a function that gets a call and its true result, and returns the false result.
pub struct Lie<F>(pub F);

impl<F: Fn(&Value, Value) -> Told + Send + Sync + 'static> Tamper for Lie<F> {
    fn tell(&self, call: &Value, result: Value) -> Told {
        (self.0)(call, result)
    }
}

/// False data that changes only the results of one method.
pub fn in_method(method: &'static str, change: impl Fn(&mut Value) + Send + Sync + 'static) -> impl Tamper {
    Lie(move |call: &Value, mut result: Value| {
        if call["method"] == method {
            change(&mut result);
        }
        Told::Result(result)
    })
}

/// The proxy.
#[derive(Clone)]
pub struct Proxy {
    /// Its URL.
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: String,
    client: reqwest::Client,
    tamper: Mutex<Arc<dyn Tamper>>,
    calls: Mutex<Vec<String>>,
    changed: AtomicUsize,
    distance: Mutex<Duration>,
}

impl Proxy {
    /// Starts an honest proxy in front of a node.
    pub async fn start(upstream: &str) -> Self {
        prs::adapters::install_tls();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            client: reqwest::Client::builder().no_proxy().build().expect("a client"),
            tamper: Mutex::new(Arc::new(Honest)),
            calls: Mutex::default(),
            changed: AtomicUsize::new(0),
            distance: Mutex::default(),
        });
        let router = Router::new().fallback(post(serve)).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, shared }
    }

    /// Sets how the proxy changes responses from now on.
    pub fn tamper(&self, tamper: impl Tamper) {
        self.tamper_with(Arc::new(tamper));
    }

    /// Sets how the proxy changes responses from now on; other proxies may share the same changes.
    pub fn tamper_with(&self, tamper: Arc<dyn Tamper>) {
        *self.shared.tamper.lock().expect("unpoisoned") = tamper;
        self.shared.changed.store(0, Ordering::SeqCst);
        self.shared.calls.lock().expect("unpoisoned").clear();
    }

    /// Makes the proxy return the truth from now on.
    pub fn end(&self) {
        self.tamper(Honest);
    }

    /// Delays every response by this round trip from now on, so that the node appears distant.
    pub fn move_away(&self, distance: Duration) {
        *self.shared.distance.lock().expect("unpoisoned") = distance;
    }

    /// Number of responses that were changed since the behaviour was last set.
    pub fn changed(&self) -> usize {
        self.shared.changed.load(Ordering::SeqCst)
    }

    /// Methods that were called since the behaviour was last set.
    pub fn calls(&self) -> Vec<String> {
        self.shared.calls.lock().expect("unpoisoned").clone()
    }
}

async fn serve(State(shared): State<Arc<Shared>>, uri: Uri, Json(asked): Json<Value>) -> Response {
    let tamper = shared.tamper.lock().expect("unpoisoned").clone();
    let path = uri.path().trim_start_matches('/');
    let (body, is_late) = if path.starts_with("wallet") {
        shared.relay_api(tamper.as_ref(), path, asked).await
    } else {
        shared.relay_rpc(tamper.as_ref(), path, asked).await
    };
    let distance = *shared.distance.lock().expect("unpoisoned");
    let pause = if is_late { LATE } else { distance };
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

impl Shared {
    async fn ask(&self, path: &str, body: &Value) -> Option<Value> {
        let url = format!("{}/{path}", self.upstream.trim_end_matches('/'));
        let answer = self.client.post(url).json(body).send().await.ok()?;
        answer.json().await.ok()
    }

    fn record(&self, call: &Value) {
        let method = call["method"].as_str().unwrap_or_default();
        self.calls.lock().expect("unpoisoned").push(method.to_owned());
    }

    /// Changes the result of a call, and counts whether it changed.
    fn bend(&self, tamper: &dyn Tamper, call: &Value, result: &Value) -> Told {
        let told = tamper.tell(call, result.clone());
        let is_honest = matches!(&told, Told::Result(told) if told == result);
        self.changed.fetch_add(usize::from(!is_honest), Ordering::SeqCst);
        told
    }

    /// Returns the body of the response, and whether it is late.
    async fn relay_api(&self, tamper: &dyn Tamper, path: &str, body: Value) -> (String, bool) {
        let mut call = json!({ "method": path, "params": body });
        self.record(&call);
        tamper.ask(&mut call);
        let honest = self.ask(path, &call["params"]).await.unwrap_or_default();
        match self.bend(tamper, &call, &honest) {
            Told::Result(result) => (result.to_string(), false),
            Told::Absent => (String::new(), false),
            Told::Error(_, message) => (json!({ "Error": message }).to_string(), false),
            Told::Late => (honest.to_string(), true),
        }
    }

    /// Returns the body of the response, and whether it is late.
    async fn relay_rpc(&self, tamper: &dyn Tamper, path: &str, asked: Value) -> (String, bool) {
        let mut calls = match asked.clone() {
            Value::Array(calls) => calls,
            call => vec![call],
        };
        calls.iter().for_each(|call| self.record(call));
        calls.iter_mut().for_each(|call| tamper.ask(call));
        let answers = self.ask(path, &json!(calls)).await;
        let answers: Vec<Value> = answers
            .and_then(|answers| serde_json::from_value(answers).ok())
            .unwrap_or_default();
        let mut is_late = false;
        let mut told = Vec::new();
        for call in &calls {
            let honest = answers.iter().find(|answer| answer["id"] == call["id"]);
            let mut answer = honest.cloned().unwrap_or_else(|| refusal(call, -32_603, "no upstream"));
            if answer.get("error").is_none() {
                match self.bend(tamper, call, &answer["result"]) {
                    Told::Result(changed) => answer["result"] = changed,
                    Told::Absent => drop(answer.as_object_mut().expect("an object").remove("result")),
                    Told::Error(code, message) => answer = refusal(call, code, &message),
                    Told::Late => is_late = true,
                }
            }
            told.push(answer);
        }
        let body = match (asked.is_array(), told.pop()) {
            (false, Some(answer)) => answer,
            (_, last) => {
                told.extend(last);
                Value::Array(told)
            }
        };
        (body.to_string(), is_late)
    }
}

fn refusal(call: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": call["id"], "error": { "code": code, "message": message } })
}

/// A number as nodes write it: in hexadecimal digits, or in JSON in the HTTP API.
pub fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        value => value.as_u64(),
    }
}
