//! Several nodes of one network, tried in order. An answer counts only after it was validated.

use crate::{
    domain::network::Network,
    ports::chain::{ChainError, Reader},
};
use anyhow::Context;
use reqwest::{Client, StatusCode};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, timeout, timeout_at};

/// Failures in a row after which a node is left alone for a while.
const FAILURES_MAX: u32 = 3;

/// How long a failing node is left alone at first, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Largest answer that is read, so that a broken node cannot fill the memory.
const ANSWER_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Why one node's answer does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NodeError {
    /// No answer, or one that is none.
    Failed(String),
    /// An answer that cannot be true.
    Malformed(String),
    /// The range was too large for this node.
    TooLarge(String),
    /// The chain refused the call; every node would say so.
    Reverted(String),
}

/// One node.
struct Node {
    url: String,
    chain_checked: AtomicBool,
    failures: AtomicU32,
    resting_until: Mutex<Option<Instant>>,
}

impl Node {
    fn is_resting(&self) -> bool {
        self.resting_until
            .lock()
            .is_ok_and(|until| until.is_some_and(|until| Instant::now() < until))
    }

    fn succeeded(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// After a failure the chain ID is asked again: the address may lead somewhere else now.
    fn failed(&self) {
        self.chain_checked.store(false, Ordering::Relaxed);
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures >= FAILURES_MAX {
            self.rest(
                PAUSE_MIN
                    .saturating_mul(1 << (failures - FAILURES_MAX).min(6))
                    .min(PAUSE_MAX),
            );
        }
    }

    fn rest(&self, pause: Duration) {
        if let Ok(mut until) = self.resting_until.lock() {
            *until = Some(Instant::now() + pause);
        }
    }
}

/// How long a question may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// One node.
    pub node: Duration,
    /// All nodes together.
    pub total: Duration,
}

/// The nodes of a network.
pub(super) struct Nodes {
    network: Network,
    chain_id: u64,
    nodes: Vec<Node>,
    client: Client,
    next_id: AtomicU64,
}

impl Nodes {
    pub(super) fn new(network: Network, chain_id: u64, urls: &[String]) -> anyhow::Result<Self> {
        super::super::install_tls();
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .connect_timeout(Duration::from_secs(2))
            .user_agent("payment-request-service")
            .build()
            .context("HTTP client of the nodes")?;
        let nodes = urls
            .iter()
            .map(|url| Node {
                url: url.clone(),
                chain_checked: AtomicBool::new(false),
                failures: AtomicU32::new(0),
                resting_until: Mutex::new(None),
            })
            .collect();
        Ok(Self {
            network,
            chain_id,
            nodes,
            client,
            next_id: AtomicU64::new(1),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Asks one node after the other until an answer passes `accept`.
    ///
    /// Errors: [`ChainError::Reverted`] from the first node that says so; otherwise the last failure.
    pub(super) async fn ask<T: DeserializeOwned, U>(
        &self,
        method: &str,
        params: Value,
        reader: Reader,
        patience: Patience,
        accept: impl Fn(T) -> Result<U, NodeError>,
    ) -> Result<U, ChainError> {
        let deadline = Instant::now() + patience.total;
        let mut last = NodeError::Failed("no node is configured".to_owned());
        for index in self.order(reader) {
            let answer = match timeout_at(deadline, self.ask_node(index, method, &params, patience.node)).await {
                Ok(answer) => answer.and_then(&accept),
                Err(_) => {
                    self.judge(index, &Err::<(), _>(NodeError::Failed("out of time".to_owned())));
                    break;
                }
            };
            self.judge(index, &answer);
            match answer {
                Ok(answer) => return Ok(answer),
                Err(NodeError::Reverted(reason)) => return Err(ChainError::Reverted(reason)),
                Err(error) => last = error,
            }
        }
        Err(self.error(last))
    }

    /// Asks one certain node.
    pub(super) async fn ask_at<T: DeserializeOwned>(
        &self,
        index: usize,
        method: &str,
        params: &Value,
        patience: Duration,
    ) -> Result<T, NodeError> {
        let answer = self.ask_node(index, method, params, patience).await;
        self.judge(index, &answer);
        answer
    }

    /// Counts an answer for or against its node.
    pub(super) fn judge<T>(&self, index: usize, answer: &Result<T, NodeError>) {
        let node = &self.nodes[index];
        let outcome = match answer {
            Ok(_) | Err(NodeError::Reverted(_)) => {
                node.succeeded();
                "ok"
            }
            // The node is fine; the question was too large.
            Err(NodeError::TooLarge(_)) => "too_large",
            Err(NodeError::Failed(reason)) => {
                node.failed();
                tracing::debug!(network = %self.network, node = index + 1, reason, "node failed");
                "failed"
            }
            Err(NodeError::Malformed(reason)) => {
                node.failed();
                tracing::warn!(network = %self.network, node = index + 1, reason, "node answered with something that cannot be true");
                "malformed"
            }
        };
        metrics::counter!(
            "prs_chain_calls_total", "network" => self.network.id(), "node" => (index + 1).to_string(), "outcome" => outcome
        )
        .increment(1);
    }

    /// Leaves a node alone for a while, because it stopped following the chain.
    pub(super) fn rest(&self, index: usize, pause: Duration) {
        self.nodes[index].rest(pause);
    }

    /// Nodes in the order in which they are asked: resting ones last, and for a second opinion not the first one first.
    pub(super) fn order(&self, reader: Reader) -> Vec<usize> {
        let (mut order, resting): (Vec<usize>, Vec<usize>) =
            (0..self.nodes.len()).partition(|index| !self.nodes[*index].is_resting());
        if reader == Reader::Second && order.len() > 1 {
            order.rotate_left(1);
        }
        order.extend(resting);
        order
    }

    pub(super) fn error(&self, error: NodeError) -> ChainError {
        let network = self.network;
        match error {
            NodeError::Failed(reason) | NodeError::TooLarge(reason) => ChainError::Unavailable { network, reason },
            NodeError::Malformed(reason) => ChainError::Malformed { network, reason },
            NodeError::Reverted(reason) => ChainError::Reverted(reason),
        }
    }

    async fn ask_node<T: DeserializeOwned>(
        &self,
        index: usize,
        method: &str,
        params: &Value,
        patience: Duration,
    ) -> Result<T, NodeError> {
        let node = &self.nodes[index];
        let question = async {
            if !node.chain_checked.load(Ordering::Relaxed) {
                let id: alloy::primitives::U64 = self.exchange(node, "eth_chainId", &json!([])).await?;
                if id.to::<u64>() != self.chain_id {
                    return Err(NodeError::Malformed(format!(
                        "the node serves chain {id}, not {}",
                        self.chain_id
                    )));
                }
                node.chain_checked.store(true, Ordering::Relaxed);
            }
            self.exchange(node, method, params).await
        };
        timeout(patience, question).await.unwrap_or_else(|_| {
            Err(NodeError::Failed(format!(
                "no answer within {} ms",
                patience.as_millis()
            )))
        })
    }

    async fn exchange<T: DeserializeOwned>(&self, node: &Node, method: &str, params: &Value) -> Result<T, NodeError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let question = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        // Errors of the client name the address, which may hold a key; only their kind is passed on.
        let sent = self.client.post(&node.url).json(&question).send().await;
        let mut response = sent.map_err(|error| NodeError::Failed(kind(&error).to_owned()))?;
        let status = response.status();
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            return Err(NodeError::TooLarge("HTTP status 413".to_owned()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| NodeError::Failed(kind(&error).to_owned()))?
        {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(NodeError::TooLarge("the answer is too large".to_owned()));
            }
            body.extend_from_slice(&chunk);
        }
        let envelope: Envelope<T> = match serde_json::from_slice(&body) {
            Ok(envelope) => envelope,
            Err(_) if !status.is_success() => {
                return Err(NodeError::Failed(format!("HTTP status {}", status.as_u16())));
            }
            Err(error) => {
                return Err(NodeError::Malformed(format!(
                    "the answer to {method} does not parse: {}",
                    plain(&error)
                )));
            }
        };
        if let Some(error) = envelope.error {
            return Err(error.judged());
        }
        if !status.is_success() {
            return Err(NodeError::Failed(format!("HTTP status {}", status.as_u16())));
        }
        match envelope.result {
            Found::Some(result) => Ok(result),
            Found::Missing => Err(NodeError::Malformed(format!("the answer to {method} has no result"))),
        }
    }
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Envelope<T> {
    #[serde(default)]
    result: Found<T>,
    #[serde(default)]
    error: Option<RpcFailure>,
}

/// Tells a `null` result, which `T` may accept, from a missing one.
enum Found<T> {
    Some(T),
    Missing,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self::Missing
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Found<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::Some)
    }
}

#[derive(Deserialize)]
struct RpcFailure {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
}

impl RpcFailure {
    /// Texts by which providers say that a range holds too much. Source: chain facts, indexer-facts `splitOn`.
    const TOO_LARGE: [&str; 10] = [
        "query returned more than",
        "block range",
        "range limit",
        "exceeds limit",
        "exceed max",
        "response size",
        "too large",
        "too many results",
        "range is too",
        "limited to",
    ];

    fn judged(self) -> NodeError {
        let message = self.message.to_lowercase();
        let text = format!("JSON-RPC error {}", self.code);
        if self.code == 3 || message.contains("revert") {
            return NodeError::Reverted(text);
        }
        if Self::TOO_LARGE.iter().any(|known| message.contains(known)) {
            return NodeError::TooLarge(text);
        }
        NodeError::Failed(text)
    }
}

fn kind(error: &reqwest::Error) -> &'static str {
    if error.is_connect() {
        "no connection"
    } else if error.is_timeout() {
        "out of time"
    } else {
        "the connection broke"
    }
}

/// Where an answer stopped making sense, without its content.
fn plain(error: &serde_json::Error) -> String {
    format!("line {}, column {}", error.line(), error.column())
}
