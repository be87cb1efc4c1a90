//! One node: its calls, timeout and health. The URL of a node may contain a key, so no message contains the URL.

use super::{
    answers::{self, NodeLimits, ResponseSlot},
    api::NodeApi,
    movement::Movement,
    proven::UnprovenContent,
    redaction::Redaction,
    refusals,
    window::{NarrowingCause, RangeWindow},
    wire::{RawLog, RpcRefusal, RpcResponse},
};
use crate::{
    adapters::breaker::{Breaker, CallAdmission},
    domain::network::Network,
};
use alloy::primitives::U64;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use reqwest::{Client, RequestBuilder, Response, StatusCode, header::CONTENT_TYPE};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};
use url::Url;

/// Responses from this size on are parsed on separate threads.
const PARSE_APART_BYTES: usize = 256 * 1024;

/// Error code for too many calls. Source: rules G.6.
const RATE_LIMITED: i64 = -32_005;

/// Error code for a method that the node does not have. Source: rules G.6.
const NO_SUCH_METHOD: i64 = -32_601;

/// Error code of a reverted call. Source: rules G.6.
const REVERTED: i64 = 3;

/// The only method that runs a contract, and therefore the only method that can revert.
pub(in crate::adapters) const CONTRACT_CALL: &str = "eth_call";

/// Message for a node that cannot be reached.
const NO_CONNECTION: &str = "no connection";

/// Message for an incomplete response.
const BROKEN_OFF: &str = "the response is incomplete";

/// Why a node returned no usable response.
#[derive(Debug, Clone, thiserror::Error)]
pub(in crate::adapters) enum NodeFailure {
    /// Timeout.
    #[error("no response in time")]
    Slow,
    /// No connection, or a broken one.
    #[error("{0}")]
    Transport(&'static str),
    /// HTTP status.
    #[error("HTTP status {0}")]
    Status(u16),
    /// JSON-RPC error.
    #[error("error {code}: {message}")]
    Refused {
        /// Code.
        code: i64,
        /// Text, without keys.
        message: String,
    },
    /// The response exceeds the maximum size.
    #[error("the response is too large")]
    TooLarge,
    /// The response violates the protocol.
    #[error("unreadable response: {0}")]
    Unreadable(String),
    /// The data is false.
    #[error("{0}")]
    Untrue(String),
    /// The node serves another chain.
    #[error("the node serves chain {found} instead of {expected}")]
    WrongChain {
        /// Served chain.
        found: u64,
        /// Configured chain.
        expected: u64,
    },
    /// The chain rejected the call; every other node would do the same.
    #[error("{0}")]
    Reverted(String),
    /// The node does not have the block, which may be gone or not available yet.
    #[error("{0}")]
    Unknown(String),
    /// The node takes no transactions now.
    #[error("takes no transactions now")]
    Busy,
    /// The circuit breaker of the node is open.
    #[error("paused after repeated failures")]
    Resting,
}

/// Labels of the call counter.
pub const OUTCOMES: [&str; 13] = [
    "ok",
    "timeout",
    "transport",
    "http_status",
    "refused",
    "too_large",
    "unreadable",
    "untrue",
    "wrong_chain",
    "reverted",
    "unknown_block",
    "busy",
    "resting",
];

impl From<UnprovenContent> for NodeFailure {
    fn from(unproven: UnprovenContent) -> Self {
        Self::Untrue(unproven.to_string())
    }
}

impl NodeFailure {
    /// Label of the counter, one of [`OUTCOMES`].
    pub(in crate::adapters) const fn outcome(&self) -> &'static str {
        match self {
            Self::Slow => "timeout",
            Self::Transport(_) => "transport",
            Self::Status(_) => "http_status",
            Self::Refused { .. } => "refused",
            Self::TooLarge => "too_large",
            Self::Unreadable(_) => "unreadable",
            Self::Untrue(_) => "untrue",
            Self::WrongChain { .. } => "wrong_chain",
            Self::Reverted(_) => "reverted",
            Self::Unknown(_) => "unknown_block",
            Self::Busy => "busy",
            Self::Resting => "resting",
        }
    }

    /// Whether the response contradicts itself or the settings. A missing response does not.
    pub(in crate::adapters) const fn is_untrue(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::Untrue(_) | Self::WrongChain { .. })
    }

    /// Whether the node does not serve the called interface or method at all.
    pub(super) const fn is_missing_interface(&self) -> bool {
        matches!(
            self,
            Self::Status(404 | 405 | 501)
                | Self::Refused {
                    code: NO_SUCH_METHOD,
                    ..
                }
        )
    }

    /// Whether the node may have acted on the call before it failed.
    pub(in crate::adapters) fn may_have_acted(&self) -> bool {
        match self {
            Self::Transport(cause) => *cause != NO_CONNECTION,
            Self::Status(status) => *status >= 500,
            Self::Slow | Self::TooLarge | Self::Unreadable(_) | Self::Untrue(_) => true,
            _ => false,
        }
    }

    /// Whether this failure counts against the node.
    const fn is_fault(&self) -> bool {
        !matches!(self, Self::Reverted(_) | Self::Unknown(_) | Self::Busy | Self::Resting)
    }

    /// Whether the next call may reach another machine, whose chain ID has to be checked again.
    const fn is_broken_line(&self) -> bool {
        matches!(self, Self::Slow | Self::Transport(_) | Self::Status(_))
    }

    /// Whether a query over fewer blocks may succeed: yes, unless the failure clearly has another cause than the number
    /// of blocks.
    ///
    /// Source: rules G.6.
    pub(in crate::adapters) fn narrower(&self) -> Option<NarrowingCause> {
        match self {
            Self::TooLarge | Self::Status(413) => Some(NarrowingCause::Limit),
            Self::Slow | Self::Transport(BROKEN_OFF) | Self::Status(408 | 500..) => Some(NarrowingCause::Slow),
            // The node rejects the caller, the address or the call rate.
            Self::Status(..=399 | 401..=407 | 410 | 429) => None,
            Self::Status(_) => Some(NarrowingCause::Unclear),
            Self::Refused { code, message } => refusals::narrower(*code, &message.to_lowercase()),
            _ => None,
        }
    }
}

/// The refusal of a call of the HTTP API. Nodes send it with HTTP status 200 too.
#[derive(Deserialize)]
struct ApiRefusal {
    #[serde(alias = "Error")]
    error: Option<String>,
    success: Option<bool>,
}

impl ApiRefusal {
    /// The message of the node; `None` if the response is no refusal.
    fn message(self) -> Option<String> {
        self.error
            .or_else(|| (self.success == Some(false)).then(|| "the node gives no reason".to_owned()))
    }
}

/// Responses that are longer than this are no refusals.
const API_REFUSAL_BYTES_MAX: usize = 16 * 1_024;

/// How a node names its chain.
#[async_trait]
pub(in crate::adapters) trait ChainIdentity: Send + Sync + 'static {
    /// ID of the chain that the node serves.
    async fn chain_id(&self, line: &NodeLookup) -> Result<u64, NodeFailure>;
}

/// A node and its state.
pub(in crate::adapters) struct ChainNode {
    /// Index in the settings, from 0.
    pub(in crate::adapters) index: usize,
    /// Head and final block of the node, compared with those of the other nodes.
    pub(super) movement: Arc<Movement>,
    network: Network,
    chain_id: u64,
    url: Url,
    api: Option<NodeApi>,
    redaction: Redaction,
    identity: Arc<dyn ChainIdentity>,
    client: Client,
    is_verified: AtomicBool,
    /// Whether JSON-RPC beside an HTTP API serves the configured chain.
    is_rpc_verified: AtomicBool,
    refuses_batches: AtomicBool,
    calls: AtomicU64,
    breaker: Mutex<Breaker>,
    trial_ended: Notify,
    window: Mutex<RangeWindow>,
    share: NodeLimits,
}

/// Locks a small state. A panic of another holder cannot leave the state inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ChainNode {
    /// Sets up a node; nothing is sent. Errors: its URL is too long to be redacted.
    pub(in crate::adapters) fn new(
        index: usize,
        (network, chain_id): (Network, u64),
        url: Url,
        api: Option<NodeApi>,
        identity: Arc<dyn ChainIdentity>,
        client: Client,
    ) -> Result<Self, regex::Error> {
        Ok(Self {
            index,
            movement: Arc::new(Movement::new(network, index)),
            network,
            chain_id,
            redaction: Redaction::of(&url, api.as_ref())?,
            url,
            api,
            identity,
            client,
            is_verified: AtomicBool::new(false),
            is_rpc_verified: AtomicBool::new(false),
            refuses_batches: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            breaker: Mutex::default(),
            trial_ended: Notify::new(),
            window: Mutex::default(),
            share: NodeLimits::default(),
        })
    }

    /// Whether a call would be allowed now.
    pub(in crate::adapters) fn is_available(&self) -> bool {
        lock(&self.breaker).is_available(Instant::now())
    }

    /// Whether other calls wait for the outcome of a trial call.
    pub(super) fn is_in_trial(&self) -> bool {
        lock(&self.breaker).is_in_trial(Instant::now())
    }

    /// Runs one lookup on the node, which may take several calls, until the timeout. After a pause of the node, only one
    /// lookup tries it; others wait for the outcome.
    pub(in crate::adapters) async fn ask<T, F: Future<Output = Result<T, NodeFailure>>>(
        self: &Arc<Self>,
        deadline: Instant,
        question: impl FnOnce(NodeLookup) -> F,
    ) -> Result<T, NodeFailure> {
        let trial = self.admit(deadline).await?;
        let line = NodeLookup {
            node: Arc::clone(self),
            deadline,
        };
        let answer = match self.verify(&line).await {
            Ok(()) => question(line).await,
            Err(failure) => Err(failure),
        };
        match &answer {
            Err(failure) if failure.is_fault() => self.record(failure),
            _ => lock(&self.breaker).succeed(),
        }
        // Waiting lookups read the outcome after this.
        drop(trial);
        answer
    }

    /// Waits while another lookup tries the node. Errors: the node is paused.
    async fn admit(&self, deadline: Instant) -> Result<Option<TrialCall<'_>>, NodeFailure> {
        loop {
            let trial_ended = self.trial_ended.notified();
            let admission = lock(&self.breaker).admit(Instant::now());
            match admission {
                CallAdmission::Allowed => return Ok(None),
                CallAdmission::Trial => return Ok(Some(TrialCall { node: self })),
                CallAdmission::Rejected => return Err(NodeFailure::Resting),
                CallAdmission::DuringTrial => {
                    let waited = timeout_at(deadline, trial_ended).await;
                    waited.map_err(|_| NodeFailure::Resting)?;
                }
            }
        }
    }

    /// Reads the chain ID at first use and after every broken connection.
    async fn verify(&self, line: &NodeLookup) -> Result<(), NodeFailure> {
        if self.is_verified.load(Ordering::Acquire) {
            return Ok(());
        }
        let found = self.identity.chain_id(line).await?;
        if found != self.chain_id {
            let expected = self.chain_id;
            return Err(NodeFailure::WrongChain { found, expected });
        }
        self.is_verified.store(true, Ordering::Release);
        Ok(())
    }

    fn record(&self, failure: &NodeFailure) {
        let now = Instant::now();
        let mut breaker = lock(&self.breaker);
        match failure {
            NodeFailure::WrongChain { .. } => breaker.rest(now),
            _ => breaker.fail(now),
        }
        drop(breaker);
        if failure.is_broken_line() {
            self.is_verified.store(false, Ordering::Release);
            self.is_rpc_verified.store(false, Ordering::Release);
        }
        if matches!(failure, NodeFailure::Untrue(_) | NodeFailure::WrongChain { .. }) {
            self.count(failure.outcome());
        }
        tracing::warn!(network = %self.network, node = self.index + 1, %failure, "a node returned no usable response");
    }

    fn count(&self, outcome: &'static str) {
        metrics::counter!(
            "prs_chain_calls_total",
            "network" => self.network.id(),
            "node" => (self.index + 1).to_string(),
            "outcome" => outcome
        )
        .increment(1);
    }

    /// Number of blocks that the node accepts in one query.
    pub(in crate::adapters) fn width(&self) -> u64 {
        lock(&self.window).width()
    }

    /// Adapts the number of blocks per query after a complete response.
    pub(in crate::adapters) fn learn_answered(&self, asked: u64) {
        lock(&self.window).answered(asked);
    }

    /// Adapts the number of blocks per query after an error.
    pub(in crate::adapters) fn learn_refused(&self, asked: u64, why: NarrowingCause) {
        lock(&self.window).refused(asked, why);
    }
}

/// The trial of a node after a pause. If its caller gives it up, the next lookup becomes the trial.
struct TrialCall<'a> {
    node: &'a ChainNode,
}

impl Drop for TrialCall<'_> {
    fn drop(&mut self) {
        // A trial with an outcome is over already.
        lock(&self.node.breaker).abandon_trial(Instant::now());
        self.node.trial_ended.notify_waiters();
    }
}

/// A node during one lookup.
#[derive(Clone)]
pub(in crate::adapters) struct NodeLookup {
    /// The node.
    pub(in crate::adapters) node: Arc<ChainNode>,
    deadline: Instant,
}

#[derive(Serialize)]
struct RpcCall<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

impl NodeLookup {
    /// Makes one call.
    pub(in crate::adapters) async fn call<T: DeserializeOwned + Send + 'static>(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> Result<T, NodeFailure> {
        let answer = match timeout_at(self.deadline, self.call_untimed(method, params)).await {
            Ok(answer) => answer,
            Err(_) => Err(NodeFailure::Slow),
        };
        let outcome = answer.as_ref().map_or_else(NodeFailure::outcome, |_| "ok");
        self.node.count(outcome);
        answer
    }

    /// Lists events over JSON-RPC. Beside an HTTP API, JSON-RPC may lead to another machine, whose chain is checked first:
    /// another chain has no events of the configured contracts. Nothing may be missing up to the block `whole_to`.
    pub(in crate::adapters) async fn list_logs(
        &self,
        filter: Map<String, Value>,
        whole_to: Option<u64>,
    ) -> Result<Vec<RawLog>, NodeFailure> {
        let node = &self.node;
        if node.api.is_some() && !node.is_rpc_verified.load(Ordering::Acquire) {
            let found: U64 = self.call("eth_chainId", [(); 0]).await?;
            if found != U64::from(node.chain_id) {
                let (found, expected) = (found.to(), node.chain_id);
                return Err(NodeFailure::WrongChain { found, expected });
            }
            node.is_rpc_verified.store(true, Ordering::Release);
        }
        // The HTTP API may have blocks that JSON-RPC does not have yet, and JSON-RPC lists no events of unknown blocks.
        if let Some(to) = whole_to.filter(|_| node.api.is_some()) {
            let newest: U64 = self.call("eth_blockNumber", [(); 0]).await?;
            if newest < U64::from(to) {
                return Err(NodeFailure::Unknown(format!(
                    "the JSON-RPC of the node has not reached block {to}"
                )));
            }
        }
        self.call("eth_getLogs", [filter]).await
    }

    /// Makes several calls in one batch request; a node without batch support is called one by one.
    pub(in crate::adapters) async fn batch<T: DeserializeOwned + Send + 'static>(
        &self,
        calls: &[(&str, Value)],
    ) -> Result<Vec<Result<T, NodeFailure>>, NodeFailure> {
        if let [(method, params)] = calls {
            return Ok(vec![Ok(self.call(method, params).await?)]);
        }
        if !self.node.refuses_batches.load(Ordering::Relaxed) {
            let answers = match timeout_at(self.deadline, self.batch_untimed(calls)).await {
                Ok(answers) => answers,
                Err(_) => Err(NodeFailure::Slow),
            };
            let counted = |outcome| calls.iter().for_each(|_| self.node.count(outcome));
            match answers {
                Ok(Some(answers)) => {
                    for answer in &answers {
                        self.node
                            .count(answer.as_ref().map_or_else(NodeFailure::outcome, |_| "ok"));
                    }
                    return Ok(answers);
                }
                Ok(None) => self.node.refuses_batches.store(true, Ordering::Relaxed),
                Err(failure) => {
                    counted(failure.outcome());
                    return Err(failure);
                }
            }
        }
        let answers = calls.iter().map(|(method, params)| self.call::<T>(method, params));
        Ok(join_all(answers).await)
    }

    /// Sends one batch request. `None` if the node returns one error for the whole batch instead of a response to each
    /// call.
    async fn batch_untimed<T: DeserializeOwned + Send + 'static>(
        &self,
        calls: &[(&str, Value)],
    ) -> Result<Option<Vec<Result<T, NodeFailure>>>, NodeFailure> {
        let first = self.node.calls.fetch_add(calls.len() as u64, Ordering::Relaxed);
        let batch: Vec<_> = (first..)
            .zip(calls)
            .map(|(id, (method, params))| RpcCall {
                jsonrpc: "2.0",
                id,
                method,
                params,
            })
            .collect();
        let request = self.rpc(&batch)?;
        let (status, body, place) = self.send(request, answers::bytes_max_of_all(calls)).await?;
        let is_list = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
        if !is_list {
            let first = calls.first().map_or("", |(method, _)| method);
            return match self.refused_by_status(first, status, &body) {
                NodeFailure::Refused { code, .. } if code != RATE_LIMITED => Ok(None),
                failure if status.is_success() => Err(match failure {
                    NodeFailure::Status(_) => {
                        NodeFailure::Unreadable("the node returned a single response to a batch of calls".to_owned())
                    }
                    failure => failure,
                }),
                failure => Err(failure),
            };
        }
        let mut answers: HashMap<u64, RpcResponse<T>> = parse::<Vec<RpcResponse<T>>>(body, place)
            .await?
            .into_iter()
            .filter_map(|answer| Some((answer.id?, answer)))
            .collect();
        let ordered = (first..).zip(calls).map(|(id, (method, _))| {
            let missing = || NodeFailure::Unreadable("a response is missing".to_owned());
            self.opened(method, answers.remove(&id).ok_or_else(missing)?, id)
        });
        Ok(Some(ordered.collect()))
    }

    async fn call_untimed<T: DeserializeOwned + Send + 'static>(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> Result<T, NodeFailure> {
        let id = self.node.calls.fetch_add(1, Ordering::Relaxed);
        let params = serde_json::to_value(params).map_err(|error| NodeFailure::Unreadable(error.to_string()))?;
        let bytes_max = answers::bytes_max(method, &params);
        let call = RpcCall {
            jsonrpc: "2.0",
            id,
            method,
            params,
        };
        let (status, body, place) = self.send(self.rpc(&call)?, bytes_max).await?;
        if !status.is_success() {
            return Err(self.refused_by_status(method, status, &body));
        }
        self.opened(method, parse::<RpcResponse<T>>(body, place).await?, id)
    }

    /// Calls the HTTP API of the node. `bytes_max` is the maximum size of the response.
    pub(in crate::adapters) async fn call_api<T: DeserializeOwned + Send + 'static>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
        bytes_max: usize,
    ) -> Result<T, NodeFailure> {
        let answer = match timeout_at(self.deadline, self.call_api_untimed(path, body, bytes_max)).await {
            Ok(answer) => answer,
            Err(_) => Err(NodeFailure::Slow),
        };
        self.node
            .count(answer.as_ref().map_or_else(NodeFailure::outcome, |_| "ok"));
        answer
    }

    async fn call_api_untimed<T: DeserializeOwned + Send + 'static>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
        bytes_max: usize,
    ) -> Result<T, NodeFailure> {
        let api = self.node.api.as_ref();
        let api = api.ok_or(NodeFailure::Transport("the node has no HTTP API"))?;
        let mut request = self.json_request(api.at(path), body)?;
        if let Some((name, key)) = &api.key {
            request = request.header(name, key.reveal());
        }
        let (status, body, place) = self.send(request, bytes_max).await?;
        if !status.is_success() {
            return Err(NodeFailure::Status(status.as_u16()));
        }
        if body.len() <= API_REFUSAL_BYTES_MAX
            && let Ok(refusal) = serde_json::from_slice::<ApiRefusal>(&body)
            && let Some(message) = refusal.message()
        {
            return Err(self.refused_call(&message));
        }
        parse(body, place).await
    }

    /// The failure of a call that the node refused with this message.
    pub(in crate::adapters) fn refused_call(&self, message: &str) -> NodeFailure {
        NodeFailure::Refused {
            code: 0,
            message: self.without_secrets(message),
        }
    }

    /// A text of the node without its URL and key, which some nodes repeat.
    pub(in crate::adapters) fn without_secrets(&self, text: &str) -> String {
        self.node.redaction.redact(text)
    }

    fn rpc(&self, call: &impl Serialize) -> Result<RequestBuilder, NodeFailure> {
        let node = &self.node;
        let request = self.json_request(node.url.clone(), call)?;
        // Another host must not learn the key.
        let api = node.api.as_ref().filter(|api| api.url.origin() == node.url.origin());
        Ok(match api.and_then(|api| api.key.as_ref()) {
            Some((name, key)) => request.header(name, key.reveal()),
            None => request,
        })
    }

    fn json_request(&self, url: Url, body: &impl Serialize) -> Result<RequestBuilder, NodeFailure> {
        let body = serde_json::to_vec(body).map_err(|error| NodeFailure::Unreadable(error.to_string()))?;
        let request = self.node.client.post(url).header(CONTENT_TYPE, "application/json");
        Ok(request.body(body))
    }

    async fn send(
        &self,
        request: RequestBuilder,
        bytes_max: usize,
    ) -> Result<(StatusCode, Bytes, ResponseSlot), NodeFailure> {
        let response = request.send().await.map_err(|error| {
            NodeFailure::Transport(if error.is_connect() {
                NO_CONNECTION
            } else {
                "the connection broke"
            })
        })?;
        let status = response.status();
        let (body, place) = self.read(response, bytes_max).await?;
        Ok((status, body, place))
    }

    /// Reads a body up to the maximum size.
    async fn read(&self, mut response: Response, bytes_max: usize) -> Result<(Bytes, ResponseSlot), NodeFailure> {
        let mut place = ResponseSlot::default();
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Err(_) => return Err(NodeFailure::Transport(BROKEN_OFF)),
                Ok(None) => return Ok((body.into(), place)),
                Ok(Some(chunk)) if body.len() + chunk.len() > bytes_max => return Err(NodeFailure::TooLarge),
                Ok(Some(chunk)) => {
                    place.grow(&self.node.share, body.len() + chunk.len()).await;
                    body.extend_from_slice(&chunk);
                }
            }
        }
    }

    fn opened<T>(&self, method: &str, envelope: RpcResponse<T>, id: u64) -> Result<T, NodeFailure> {
        match (envelope.result, envelope.error) {
            (_, Some(refusal)) => Err(self.refused(method, &refusal)),
            (Some(_), None) if envelope.id != Some(id) => Err(NodeFailure::Unreadable(
                "the response has the id of another call".to_owned(),
            )),
            (Some(result), None) => Ok(result),
            (None, None) => Err(NodeFailure::Unreadable("neither result nor error".to_owned())),
        }
    }

    /// Only the error of a contract call counts as a revert. A node therefore cannot present its own error about a
    /// block as a revert by the chain.
    fn refused(&self, method: &str, refusal: &RpcRefusal) -> NodeFailure {
        let message = self.node.redaction.redact(&refusal.message);
        let is_reverted = refusal.code == REVERTED || message.to_lowercase().contains("revert");
        if method == CONTRACT_CALL && is_reverted {
            return NodeFailure::Reverted(message);
        }
        NodeFailure::Refused {
            code: refusal.code,
            message,
        }
    }

    /// Some providers send call errors with an HTTP status; others send only the status. A failing server may also
    /// return JSON, which counts as an error of the call only if it names a limit.
    fn refused_by_status(&self, method: &str, status: StatusCode, body: &Bytes) -> NodeFailure {
        let refuses = |refusal: &RpcRefusal| {
            status != StatusCode::TOO_MANY_REQUESTS
                && (!status.is_server_error() || refusals::names_limit(&refusal.message.to_lowercase()))
        };
        match serde_json::from_slice::<RpcResponse<IgnoredAny>>(body) {
            Ok(RpcResponse {
                error: Some(refusal), ..
            }) if refuses(&refusal) => self.refused(method, &refusal),
            _ => NodeFailure::Status(status.as_u16()),
        }
    }
}

/// Parses a response. The permit of the response is held until parsing ends, even if the caller no longer waits.
async fn parse<T: DeserializeOwned + Send + 'static>(body: Bytes, place: ResponseSlot) -> Result<T, NodeFailure> {
    let parsed = if body.len() < PARSE_APART_BYTES {
        serde_json::from_slice(&body)
    } else {
        let parse = move || {
            let parsed = serde_json::from_slice(&body);
            drop((body, place));
            parsed
        };
        tokio::task::spawn_blocking(parse)
            .await
            .map_err(|_| NodeFailure::Unreadable("the parser stopped".to_owned()))?
    };
    // The parser's message may quote the response; its kind and position are sufficient.
    parsed.map_err(|error| {
        NodeFailure::Unreadable(format!(
            "{:?} error at column {} of the response",
            error.classify(),
            error.column()
        ))
    })
}

#[cfg(test)]
mod tests;
