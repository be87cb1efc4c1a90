//! A small JSON-RPC client. It keeps the node's error codes and revert bytes, which tests check.

use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const POLL_INTERVAL: Duration = Duration::from_millis(3);
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The node rejected a call.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{method} failed with code {code}: {message}{}",
    .attachment.as_ref().map(|attachment| format!(" ({attachment})")).unwrap_or_default()
)]
pub struct RpcError {
    /// The method that was called.
    pub method: String,
    /// The JSON-RPC error code.
    pub code: i64,
    /// The node's message.
    pub message: String,
    /// Additional data of the error; for a reverted call, the revert bytes in hexadecimal.
    pub attachment: Option<Value>,
}

#[derive(Deserialize)]
struct Answer {
    id: usize,
    // A missing result counts as `null`, because some methods return nothing.
    #[serde(default)]
    result: Value,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    code: i64,
    message: String,
    #[serde(rename = "data")]
    attachment: Option<Value>,
}

/// A client for servers on this machine, whose calls end after `timeout`.
pub(crate) fn client(timeout: Duration) -> anyhow::Result<reqwest::Client> {
    // The client requires a crypto provider even for plain HTTP. It may already be installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(timeout)
        // Loading the system's certificates takes longer than starting the node, and none is ever needed.
        .tls_certs_only([])
        .build()
        .context("an HTTP client cannot be built")
}

/// A client of one node.
pub(crate) struct Rpc {
    client: reqwest::Client,
    url: String,
}

impl Rpc {
    pub(crate) fn new(url: &str) -> anyhow::Result<Self> {
        Ok(Self {
            client: client(CALL_TIMEOUT)?,
            url: url.to_owned(),
        })
    }

    /// Calls one method.
    pub(crate) async fn call(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": params});
        let answer: Answer = self
            .post(&request)
            .await
            .with_context(|| format!("{method} got no response"))?;
        result(method, answer)
    }

    /// Calls several methods in one round trip; the node executes them in any order.
    pub(crate) async fn call_all(&self, calls: &[(&str, Value)]) -> anyhow::Result<Vec<Value>> {
        let requests: Vec<Value> = calls
            .iter()
            .enumerate()
            .map(|(id, (method, params))| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .collect();
        let mut answers: Vec<Answer> = self.post(&requests).await.context("a batch of calls got no response")?;
        answers.sort_by_key(|answer| answer.id);
        if answers.len() != calls.len() {
            bail!("a batch of {} calls got {} responses", calls.len(), answers.len());
        }
        calls
            .iter()
            .zip(answers)
            .map(|((method, _), answer)| result(method, answer))
            .collect()
    }

    /// Waits until the node responds, and checks that it serves the right chain.
    pub(crate) async fn wait_for_chain(&self, chain_id: u64, patience: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            match self.call("eth_chainId", json!([])).await {
                Ok(answer) if answer == format!("{chain_id:#x}") => return Ok(()),
                Ok(answer) => bail!("the node at {} serves chain {answer}, not {chain_id}", self.url),
                Err(error) if Instant::now() >= deadline => return Err(error.context("the node does not respond")),
                Err(_) => sleep(POLL_INTERVAL).await,
            }
        }
    }

    async fn post<T: for<'de> Deserialize<'de>>(&self, body: &impl serde::Serialize) -> anyhow::Result<T> {
        let text = self.client.post(&self.url).json(body).send().await?.text().await?;
        serde_json::from_str(&text).with_context(|| format!("the node returned {text:.200}"))
    }
}

fn result(method: &str, answer: Answer) -> anyhow::Result<Value> {
    match answer.error {
        None => Ok(answer.result),
        Some(Refusal {
            code,
            message,
            attachment,
        }) => Err(RpcError {
            method: method.to_owned(),
            code,
            message,
            attachment,
        }
        .into()),
    }
}
