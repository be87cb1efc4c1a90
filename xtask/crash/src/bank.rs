//! An off-ramp partner that keeps running when the service dies. It creates one record for each idempotency key and
//! advances orders on its own. It reports each change again and again until the service accepts the report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use alloy::primitives::{Address, keccak256};
use anyhow::{Context, Result};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// Name of the key with which the service signs its calls to the partner. This partner does not check signatures.
pub(crate) const KEY_ID: &str = "crash";

/// The key.
pub(crate) const KEY_SECRET: &str = "a key that is longer than thirty-two characters";

/// Secret that signs callbacks.
pub(crate) const CALLBACK_SECRET: &str = "a secret that is longer than thirty-two characters";

/// The states through which every order passes, from the first to the last.
const WAY: [&str; 5] = [
    "initiated",
    "pending_internal_assessment",
    "ongoing_checks",
    "sending_fiat",
    "fiat_sent",
];

/// Pause between two checks for changes to report.
const STEP: Duration = Duration::from_millis(20);

/// Version of the first state of a record.
const FIRST: u64 = 1;

#[derive(Default)]
struct State {
    quotes: BTreeMap<String, Value>,
    /// Orders by id. Each has the idempotency key of its call, the id of its quote, and its current step in [`WAY`].
    orders: BTreeMap<String, (String, String, usize)>,
    /// How often the service sent the call for an order, by idempotency key.
    asked: BTreeMap<String, usize>,
    /// Steps of orders whose report the service accepted, each as order id and step.
    taken: BTreeSet<(String, usize)>,
}

/// The partner; it closes its port on drop.
pub(crate) struct Bank {
    state: Arc<Mutex<State>>,
    runtime: Option<Runtime>,
}

/// What the partner has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    /// Number of orders that the partner has.
    pub(crate) orders: usize,
    /// Number of calls in which the service requested an order.
    pub(crate) asked: usize,
    /// Number of orders whose last step the service accepted.
    pub(crate) told: usize,
}

impl Bank {
    /// Listens on a port, and reports changes to the service at `callback_url`.
    pub(crate) fn open(port: u16, callback_url: String) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime
            .block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, port)))
            .context("the port of the partner is in use")?;
        let state = Arc::<Mutex<State>>::default();
        let of_calls = Arc::clone(&state);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&of_calls);
                // The service dies in the middle of calls, so connections may break.
                tokio::spawn(async move { serve(stream, &state).await.ok() });
            }
        });
        let of_tellings = Arc::clone(&state);
        runtime.spawn(async move {
            loop {
                tell(&of_tellings, &callback_url).await;
                tokio::time::sleep(STEP).await;
            }
        });
        Ok(Self {
            state,
            runtime: Some(runtime),
        })
    }

    /// The calls and reports of the partner so far.
    pub(crate) fn done(&self) -> Done {
        let state = lock(&self.state);
        let is_told = |id: &&String| state.taken.contains(&((*id).clone(), WAY.len() - 1));
        Done {
            orders: state.orders.len(),
            asked: state.asked.values().sum(),
            told: state.orders.keys().filter(is_told).count(),
        }
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(stream: TcpStream, state: &Mutex<State>) -> Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let mut words = line.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 || line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.insert(name.trim().to_lowercase(), value.trim().to_owned());
            }
        }
        let length = headers.get("content-length").map_or(Ok(0), |text| text.parse())?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let key = headers.get("idempotency-key").map_or("", String::as_str);
        let (status, answer) = match answer(&mut lock(state), &method, &target, key, &body) {
            Some(answer) => ("200 OK", answer),
            None => ("404 Not Found", json!({ "reason": "unknown" })),
        };
        let answer = answer.to_string();
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n");
        let text = format!("{head}content-length: {}\r\n\r\n{answer}", answer.len());
        stream.get_mut().write_all(text.as_bytes()).await?;
    }
}

fn answer(state: &mut State, method: &str, target: &str, key: &str, body: &Value) -> Option<Value> {
    let path: Vec<&str> = target.trim_start_matches("/v1/").split('/').collect();
    let of_key = |kind: &str| format!("{kind}_{}", key.get(..24).unwrap_or_default());
    match (method, path.as_slice()) {
        ("POST", ["payers"]) => Some(payer(&of_key("pyr"), key)),
        ("GET", ["payers", id]) | ("POST", ["payers", id, "agreement"]) => Some(payer(id, &"0".repeat(64))),
        ("POST", ["payers", payer, "accounts"]) => Some(account(&of_key("acc"), key, payer)),
        ("POST", ["quotes"]) => {
            let id = of_key("qte");
            let mut made = body.clone();
            made["id"] = json!(id);
            made["key"] = json!(key);
            made["depositAddress"] = json!(Address::from_word(keccak256(&id)).to_string());
            made["fee"] = json!("0.000001");
            made["paysOut"] = json!("1");
            made["endsAt"] = json!(ends_at());
            Some(state.quotes.entry(id).or_insert(made).clone())
        }
        ("POST", ["orders"]) => {
            let id = of_key("ord");
            *state.asked.entry(key.to_owned()).or_default() += 1;
            let quote = body["quoteId"].as_str()?.to_owned();
            state.orders.entry(id.clone()).or_insert((key.to_owned(), quote, 0));
            order(state, &id)
        }
        ("GET", ["orders", id]) => order(state, id),
        _ => None,
    }
}

fn payer(id: &str, key: &str) -> Value {
    json!({ "id": id, "key": key, "version": FIRST, "kycStatus": "approved", "agreementStatus": "completed" })
}

fn account(id: &str, key: &str, payer: &str) -> Value {
    json!({ "id": id, "key": key, "payerId": payer, "version": FIRST, "status": "approved" })
}

fn order(state: &State, id: &str) -> Option<Value> {
    let (key, quote, step) = state.orders.get(id)?;
    let status = WAY.get(*step)?;
    Some(json!({
        "id": id, "key": key, "quoteId": quote, "version": FIRST + *step as u64,
        "status": status, "providerStatus": status,
    }))
}

/// An hour from now.
#[expect(clippy::disallowed_methods, reason = "the service compares it with the time of day")]
fn ends_at() -> String {
    let end = SystemTime::now() + Duration::from_secs(3_600);
    let end: chrono::DateTime<chrono::Utc> = end.into();
    end.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// Reports each step that the service has not accepted yet. An order advances to its next step once the current step is
/// accepted.
async fn tell(state: &Mutex<State>, url: &str) {
    let due: Vec<(String, usize, Value)> = {
        let mut state = lock(state);
        let moved: Vec<String> = state
            .orders
            .iter()
            .filter(|(id, (_, _, step))| step + 1 < WAY.len() && state.taken.contains(&((*id).clone(), *step)))
            .map(|(id, _)| id.clone())
            .collect();
        for id in moved {
            if let Some((_, _, step)) = state.orders.get_mut(&id) {
                *step += 1;
            }
        }
        let untold = state
            .orders
            .iter()
            .filter(|(id, (_, _, step))| !state.taken.contains(&((*id).clone(), *step)));
        let told = untold.filter_map(|(id, (_, _, step))| Some((id.clone(), *step, order(&state, id)?)));
        told.collect()
    };
    for (id, step, order) in due {
        let body = json!({ "type": "order", "order": order }).to_string();
        if post(url, &body).await.is_ok_and(|status| status == 200) {
            lock(state).taken.insert((id, step));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the service compares it with the time of day")]
async fn post(url: &str, body: &str) -> Result<u16> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let id = "crash";
    let mut mac = Hmac::<Sha256>::new_from_slice(CALLBACK_SECRET.as_bytes())?;
    mac.update(format!("{time}.{id}.{body}").as_bytes());
    let signature = hex::encode(mac.finalize().into_bytes());
    let host = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).await?;
    let mut text = String::new();
    write!(
        text,
        "POST /v2/provider-callbacks/offramp HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n"
    )?;
    write!(
        text,
        "content-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    )?;
    write!(
        text,
        "x-offramp-time: {time}\r\nx-offramp-id: {id}\r\nx-offramp-signature: {signature}\r\n\r\n{body}"
    )?;
    stream.write_all(text.as_bytes()).await?;
    let mut line = String::new();
    let mut answer = BufReader::new(stream);
    tokio::time::timeout(Duration::from_secs(3), answer.read_line(&mut line)).await??;
    Ok(line.split(' ').nth(1).context("no status")?.parse()?)
}
