//! A node whose answers can be changed and counted: a proxy in front of an honest one.

use axum::{Json, Router, extract::State, routing::post};
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

/// How long a late answer takes.
const LATE: Duration = Duration::from_secs(3);

/// What becomes of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// This result.
    Result(Value),
    /// Neither result nor error.
    Absent,
    /// A refusal with a code and a text.
    Error(i64, String),
    /// The honest result, three seconds later.
    Late,
}

/// What is wrong with a node.
pub trait Tamper: Send + Sync + 'static {
    /// Changes a call before the honest node answers it.
    fn ask(&self, _call: &mut Value) {}
    /// Changes the result of a call.
    fn tell(&self, _call: &Value, result: Value) -> Told {
        Told::Result(result)
    }
}

/// Nothing is wrong.
pub struct Honest;

impl Tamper for Honest {}

/// The proxy.
#[derive(Clone)]
pub struct Proxy {
    /// Where it answers.
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
    /// Starts an honest one in front of a node.
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

    /// Answers like this from now on.
    pub fn tamper(&self, tamper: impl Tamper) {
        self.tamper_with(Arc::new(tamper));
    }

    /// Answers like this from now on, alike with others.
    pub fn tamper_with(&self, tamper: Arc<dyn Tamper>) {
        *self.shared.tamper.lock().expect("unpoisoned") = tamper;
        self.shared.changed.store(0, Ordering::SeqCst);
        self.shared.calls.lock().expect("unpoisoned").clear();
    }

    /// Tells the truth from now on.
    pub fn end(&self) {
        self.tamper(Honest);
    }

    /// Takes so long to and fro with every answer from now on, as a node that is far away does.
    pub fn move_away(&self, distance: Duration) {
        *self.shared.distance.lock().expect("unpoisoned") = distance;
    }

    /// Answers that were changed since the last change of mind.
    pub fn changed(&self) -> usize {
        self.shared.changed.load(Ordering::SeqCst)
    }

    /// Methods that were called since the last change of mind.
    pub fn calls(&self) -> Vec<String> {
        self.shared.calls.lock().expect("unpoisoned").clone()
    }
}

async fn serve(State(shared): State<Arc<Shared>>, Json(asked): Json<Value>) -> Json<Value> {
    let tamper = shared.tamper.lock().expect("unpoisoned").clone();
    let mut calls = match asked.clone() {
        Value::Array(calls) => calls,
        call => vec![call],
    };
    {
        let mut counted = shared.calls.lock().expect("unpoisoned");
        counted.extend(
            calls
                .iter()
                .map(|call| call["method"].as_str().unwrap_or_default().to_owned()),
        );
    }
    calls.iter_mut().for_each(|call| tamper.ask(call));
    let upstream = shared.client.post(&shared.upstream).json(&calls).send().await;
    let answers: Vec<Value> = match upstream {
        Ok(answer) => answer.json().await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let mut is_late = false;
    let mut told = Vec::new();
    for call in &calls {
        let honest = answers.iter().find(|answer| answer["id"] == call["id"]);
        let mut answer = honest.cloned().unwrap_or_else(|| refusal(call, -32_603, "no upstream"));
        if answer.get("error").is_none() {
            let result = answer["result"].take();
            match tamper.tell(call, result.clone()) {
                Told::Result(changed) => {
                    count(&shared, changed != result);
                    answer["result"] = changed;
                }
                Told::Absent => {
                    count(&shared, true);
                    answer.as_object_mut().expect("an object").remove("result");
                }
                Told::Error(code, message) => {
                    count(&shared, true);
                    answer = refusal(call, code, &message);
                }
                Told::Late => {
                    count(&shared, true);
                    is_late = true;
                    answer["result"] = result;
                }
            }
        }
        told.push(answer);
    }
    let distance = *shared.distance.lock().expect("unpoisoned");
    let pause = if is_late { LATE } else { distance };
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    Json(match (asked.is_array(), told.pop()) {
        (false, Some(answer)) => answer,
        (_, last) => {
            told.extend(last);
            Value::Array(told)
        }
    })
}

fn count(shared: &Shared, is_changed: bool) {
    shared.changed.fetch_add(usize::from(is_changed), Ordering::SeqCst);
}

fn refusal(call: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": call["id"], "error": { "code": code, "message": message } })
}

/// A number as nodes write it.
pub fn number(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}
