//! An off-ramp partner that approves every payer at once, or never responds.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::{
    Json, Router,
    extract::{Path, State},
    http::HeaderMap,
    routing::{get, post},
};
use devnet::off_ramp::callback_signature;
use prs::{
    adapters::clock::SystemClock,
    domain::off_ramp_signature::header,
    ports::clock::Clock,
    settings::{OffRampSource, Settings},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::load;

/// Path of callbacks.
const CALLBACKS: &str = "/v2/provider-callbacks/offramp";

/// Secret that signs calls; the partner does not check it.
const KEY: &str = "the key with which calls are signed";

/// Secret that signs callbacks.
const CALLBACK_SECRET: &str = "the secret with which callbacks are signed";

/// Longer than any client waits.
const HANGS: Duration = Duration::from_secs(3_600);

/// A running partner; it listens until the process ends.
pub(super) struct Partner {
    hangs: Arc<AtomicBool>,
    address: SocketAddr,
}

impl Partner {
    /// Starts a partner on its own thread.
    pub(super) fn start() -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let hangs = Arc::new(AtomicBool::new(false));
        let router = Router::new()
            .route("/v1/payers", post(register))
            .route("/v1/payers/{id}", get(read))
            .with_state(hangs.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn(move || {
            runtime.block_on(async move { axum::serve(TcpListener::from_std(listener)?, router).await })
        });
        Ok(Self { hangs, address })
    }

    /// Settings of a service that calls this partner.
    pub(super) fn known_to(&self, settings: &mut Settings) {
        settings.partners.offramp = OffRampSource::Http;
        settings.offramp.url = Some(format!("http://{}", self.address));
        settings.offramp.key_id = Some("bench".to_owned());
        settings.offramp.key_secret = Some(KEY.to_owned());
        settings.offramp.callback_secret = Some(CALLBACK_SECRET.to_owned());
    }

    /// Stops responding to calls, or responds again.
    pub(super) fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::Relaxed);
    }
}

/// Registers a payer under an id that is derived from the e-mail address.
async fn register(State(hangs): State<Arc<AtomicBool>>, headers: HeaderMap, Json(call): Json<Value>) -> Json<Value> {
    if hangs.load(Ordering::Relaxed) {
        tokio::time::sleep(HANGS).await;
    }
    let email = call["email"].as_str().unwrap_or_default();
    let (id, _) = email.split_once('@').unwrap_or_default();
    let key = headers.get(header::IDEMPOTENCY_KEY).and_then(|key| key.to_str().ok());
    let key = key.unwrap_or_default();
    keys().insert(id.to_owned(), key.to_owned());
    Json(record(id, key, 1, "not_started"))
}

/// Idempotency keys under which payers were created, by the ids of the payers. Callbacks contain these keys.
static KEYS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

fn keys() -> MutexGuard<'static, BTreeMap<String, String>> {
    KEYS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn key_of(id: &str) -> String {
    keys().get(id).cloned().unwrap_or_else(|| "0".repeat(64))
}

async fn read(Path(id): Path<String>) -> Json<Value> {
    Json(record(&id, &key_of(&id), 1, "not_started"))
}

fn record(id: &str, key: &str, version: u64, kyc: &str) -> Value {
    json!({
        "id": id,
        "key": key,
        "version": version,
        "kycStatus": kyc,
        "agreementStatus": "not_started",
        "kycUrl": "https://pages.example.com/kyc",
        "agreementUrl": "https://pages.example.com/agreement",
    })
}

/// How a callback is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signed {
    /// Correctly.
    Well,
    /// With a wrong secret.
    Forged,
}

/// A callback that reports an approved identity, as raw bytes.
pub(super) fn callback(service: SocketAddr, payer: &str, signed: Signed) -> Vec<u8> {
    let payer = record(payer, &key_of(payer), 2, "approved");
    let body = json!({ "type": "payer", "payer": payer }).to_string();
    let time = SystemClock.now().timestamp().to_string();
    let secret = match signed {
        Signed::Well => CALLBACK_SECRET,
        Signed::Forged => KEY,
    };
    let signature = callback_signature(secret, &time, "cb_1", &body);
    let headers = [
        (header::TIME, &*time),
        (header::ID, "cb_1"),
        (header::SIGNATURE, &*signature),
    ];
    load::post(service, CALLBACKS, &headers, &body)
}
