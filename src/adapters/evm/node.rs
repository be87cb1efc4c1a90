//! One node: its calls, its deadline, its health. Its URL may hold a key, so it never appears in a text.

use super::{
    answers::{self, Place, Share},
    movement::Movement,
    redaction::Redaction,
    refusals,
    window::{Narrower, Window},
    wire::{Envelope, Refusal},
};
use crate::{adapters::breaker::Breaker, domain::network::Network};
use alloy::primitives::U64;
use bytes::Bytes;
use futures_util::future::join_all;
use reqwest::{Client, Response, StatusCode, header::CONTENT_TYPE};
use serde::{
    Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tokio::time::{Instant, timeout_at};
use url::Url;

/// Answers from this size on are parsed away from the threads that serve everything else.
const PARSE_APART_BYTES: usize = 256 * 1024;

/// Code of a provider that is asked too often. Source: rules G.6.
const RATE_LIMITED: i64 = -32_005;

/// Code of a reverted call. Source: rules G.6.
const REVERTED: i64 = 3;

/// The only method that runs a contract, which alone can revert.
pub(super) const CONTRACT_CALL: &str = "eth_call";

/// What is said of an answer that ended in its middle.
const BROKEN_OFF: &str = "the answer broke off";

/// Why one node gave no usable answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Failure {
    /// Too slow.
    #[error("no answer in time")]
    Slow,
    /// No connection, or a broken one.
    #[error("{0}")]
    Transport(&'static str),
    /// HTTP status.
    #[error("HTTP status {0}")]
    Status(u16),
    /// JSON-RPC refusal.
    #[error("error {code}: {message}")]
    Refused {
        /// Code.
        code: i64,
        /// Text, without keys.
        message: String,
    },
    /// The answer is larger than anything that is read.
    #[error("the answer is too large")]
    TooLarge,
    /// Not what the protocol allows.
    #[error("unreadable answer: {0}")]
    Unreadable(String),
    /// It cannot be true.
    #[error("{0}")]
    Untrue(String),
    /// The node serves another chain.
    #[error("the node serves chain {found} instead of {expected}")]
    WrongChain {
        /// What it serves.
        found: u64,
        /// What was configured.
        expected: u64,
    },
    /// The call itself was refused by the chain; no other node would say otherwise.
    #[error("{0}")]
    Reverted(String),
    /// The node does not know the block, which may be gone or not there yet.
    #[error("{0}")]
    Unknown(String),
    /// The node is left alone for a while.
    #[error("resting after repeated failures")]
    Resting,
}

/// Labels of the counter of calls.
pub const OUTCOMES: [&str; 12] = [
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
    "resting",
];

impl Failure {
    /// Label of the counter, one of [`OUTCOMES`].
    pub(super) const fn outcome(&self) -> &'static str {
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
            Self::Resting => "resting",
        }
    }

    /// Whether the answer contradicts itself or the settings, rather than being missing.
    pub(super) const fn is_untrue(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::Untrue(_) | Self::WrongChain { .. })
    }

    /// Whether it speaks against the node.
    const fn is_fault(&self) -> bool {
        !matches!(self, Self::Reverted(_) | Self::Unknown(_) | Self::Resting)
    }

    /// Whether the next call may reach another machine, whose chain has to be asked for again.
    const fn is_broken_line(&self) -> bool {
        matches!(self, Self::Slow | Self::Transport(_) | Self::Status(_))
    }

    /// Whether a narrower question may be answered: yes, unless it is clear that its width is not what was refused.
    ///
    /// Source: rules G.6.
    pub(super) fn narrower(&self) -> Option<Narrower> {
        match self {
            Self::TooLarge | Self::Status(413) => Some(Narrower::Limit),
            Self::Slow | Self::Transport(BROKEN_OFF) | Self::Status(408 | 500..) => Some(Narrower::Slow),
            // Who asks, where, or how often.
            Self::Status(..=399 | 401..=407 | 410 | 429) => None,
            Self::Status(_) => Some(Narrower::Unclear),
            Self::Refused { code, message } => refusals::narrower(*code, &message.to_lowercase()),
            _ => None,
        }
    }
}

/// A node and what is known about it.
pub(super) struct Node {
    /// Position in the settings, from 0.
    pub(super) index: usize,
    /// Whether its head moves with the chain.
    pub(super) movement: Arc<Movement>,
    network: Network,
    chain_id: u64,
    url: Url,
    redaction: Redaction,
    client: Client,
    is_verified: AtomicBool,
    refuses_batches: AtomicBool,
    calls: AtomicU64,
    breaker: Mutex<Breaker>,
    window: Mutex<Window>,
    share: Share,
}

/// Locks; a panic elsewhere leaves nothing half-done in these small states.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// Sets up a node; nothing is sent. Errors: its URL is too long to be cut out of texts.
    pub(super) fn new(
        index: usize,
        network: Network,
        chain_id: u64,
        url: Url,
        client: Client,
    ) -> Result<Self, regex::Error> {
        Ok(Self {
            index,
            movement: Arc::new(Movement::new(network, index)),
            network,
            chain_id,
            redaction: Redaction::of(&url)?,
            url,
            client,
            is_verified: AtomicBool::new(false),
            refuses_batches: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            breaker: Mutex::default(),
            window: Mutex::default(),
            share: Share::default(),
        })
    }

    /// Whether the node has this address.
    pub(super) fn is_at(&self, url: &Url) -> bool {
        self.url == *url
    }

    /// Whether a call would be let through now.
    pub(super) fn is_available(&self) -> bool {
        lock(&self.breaker).is_available(Instant::now())
    }

    /// Asks the node one question, which may take several calls, until the deadline.
    pub(super) async fn ask<T, F: Future<Output = Result<T, Failure>>>(
        self: &Arc<Self>,
        deadline: Instant,
        question: impl FnOnce(Line) -> F,
    ) -> Result<T, Failure> {
        if !lock(&self.breaker).admit(Instant::now()) {
            return Err(Failure::Resting);
        }
        let line = Line {
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
        answer
    }

    /// Asks for the chain ID at first use and after every broken line.
    async fn verify(&self, line: &Line) -> Result<(), Failure> {
        if self.is_verified.load(Ordering::Acquire) {
            return Ok(());
        }
        let found = line.call::<U64>("eth_chainId", ()).await?.to();
        if found != self.chain_id {
            let expected = self.chain_id;
            return Err(Failure::WrongChain { found, expected });
        }
        self.is_verified.store(true, Ordering::Release);
        Ok(())
    }

    fn record(&self, failure: &Failure) {
        let now = Instant::now();
        let mut breaker = lock(&self.breaker);
        match failure {
            Failure::WrongChain { .. } => breaker.rest(now),
            _ => breaker.fail(now),
        }
        drop(breaker);
        if failure.is_broken_line() {
            self.is_verified.store(false, Ordering::Release);
        }
        if matches!(failure, Failure::Untrue(_) | Failure::WrongChain { .. }) {
            self.count(failure.outcome());
        }
        tracing::warn!(network = %self.network, node = self.index + 1, %failure, "a node gave no usable answer");
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

    /// Blocks that the node answers for at once.
    pub(super) fn width(&self) -> u64 {
        lock(&self.window).width()
    }

    /// Learns from a full answer.
    pub(super) fn learn_answered(&self, asked: u64) {
        lock(&self.window).answered(asked);
    }

    /// Learns from a refusal.
    pub(super) fn learn_refused(&self, asked: u64, why: Narrower) {
        lock(&self.window).refused(asked, why);
    }
}

/// A node for the time of one question.
#[derive(Clone)]
pub(super) struct Line {
    /// The node.
    pub(super) node: Arc<Node>,
    deadline: Instant,
}

#[derive(Serialize)]
struct Call<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

impl Line {
    /// Makes one call.
    pub(super) async fn call<T: DeserializeOwned + Send + 'static>(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> Result<T, Failure> {
        let answer = match timeout_at(self.deadline, self.call_untimed(method, params)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Slow),
        };
        let outcome = answer.as_ref().map_or_else(Failure::outcome, |_| "ok");
        self.node.count(outcome);
        answer
    }

    /// Makes several calls in one request; a node that does not take that is asked one by one.
    pub(super) async fn batch<T: DeserializeOwned + Send + 'static>(
        &self,
        calls: &[(&str, Value)],
    ) -> Result<Vec<Result<T, Failure>>, Failure> {
        if let [(method, params)] = calls {
            return Ok(vec![Ok(self.call(method, params).await?)]);
        }
        if !self.node.refuses_batches.load(Ordering::Relaxed) {
            let answers = match timeout_at(self.deadline, self.batch_untimed(calls)).await {
                Ok(answers) => answers,
                Err(_) => Err(Failure::Slow),
            };
            let counted = |outcome| calls.iter().for_each(|_| self.node.count(outcome));
            match answers {
                Ok(Some(answers)) => {
                    for answer in &answers {
                        self.node.count(answer.as_ref().map_or_else(Failure::outcome, |_| "ok"));
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

    /// `None` when the node answers with one refusal instead of an answer to each call.
    async fn batch_untimed<T: DeserializeOwned + Send + 'static>(
        &self,
        calls: &[(&str, Value)],
    ) -> Result<Option<Vec<Result<T, Failure>>>, Failure> {
        let first = self.node.calls.fetch_add(calls.len() as u64, Ordering::Relaxed);
        let batch: Vec<_> = (first..)
            .zip(calls)
            .map(|(id, (method, params))| Call {
                jsonrpc: "2.0",
                id,
                method,
                params,
            })
            .collect();
        let (status, body, place) = self.post(&batch, answers::bytes_max_of_all(calls)).await?;
        let is_list = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
        if !is_list {
            let first = calls.first().map_or("", |(method, _)| method);
            return match self.refused_by_status(first, status, &body) {
                Failure::Refused { code, .. } if code != RATE_LIMITED => Ok(None),
                failure if status.is_success() => Err(match failure {
                    Failure::Status(_) => Failure::Unreadable("one answer to several calls".to_owned()),
                    failure => failure,
                }),
                failure => Err(failure),
            };
        }
        let mut answers: HashMap<u64, Envelope<T>> = parse::<Vec<Envelope<T>>>(body, place)
            .await?
            .into_iter()
            .filter_map(|answer| Some((answer.id?, answer)))
            .collect();
        let ordered = (first..).zip(calls).map(|(id, (method, _))| {
            let missing = || Failure::Unreadable("an answer is missing".to_owned());
            self.opened(method, answers.remove(&id).ok_or_else(missing)?, id)
        });
        Ok(Some(ordered.collect()))
    }

    async fn call_untimed<T: DeserializeOwned + Send + 'static>(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> Result<T, Failure> {
        let id = self.node.calls.fetch_add(1, Ordering::Relaxed);
        let params = serde_json::to_value(params).map_err(|error| Failure::Unreadable(error.to_string()))?;
        let bytes_max = answers::bytes_max(method, &params);
        let call = Call {
            jsonrpc: "2.0",
            id,
            method,
            params,
        };
        let (status, body, place) = self.post(&call, bytes_max).await?;
        if !status.is_success() {
            return Err(self.refused_by_status(method, status, &body));
        }
        self.opened(method, parse::<Envelope<T>>(body, place).await?, id)
    }

    async fn post(&self, call: &impl Serialize, bytes_max: usize) -> Result<(StatusCode, Bytes, Place), Failure> {
        let node = &self.node;
        let body = serde_json::to_vec(call).map_err(|error| Failure::Unreadable(error.to_string()))?;
        let request = node.client.post(node.url.clone());
        let response = request
            .header(CONTENT_TYPE, "application/json")
            .body(body)
            .send()
            .await
            .map_err(|error| {
                Failure::Transport(if error.is_connect() {
                    "no connection"
                } else {
                    "the connection broke"
                })
            })?;
        let status = response.status();
        let (body, place) = self.read(response, bytes_max).await?;
        Ok((status, body, place))
    }

    /// Reads a body up to the cap.
    async fn read(&self, mut response: Response, bytes_max: usize) -> Result<(Bytes, Place), Failure> {
        let mut place = Place::default();
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Err(_) => return Err(Failure::Transport(BROKEN_OFF)),
                Ok(None) => return Ok((body.into(), place)),
                Ok(Some(chunk)) if body.len() + chunk.len() > bytes_max => return Err(Failure::TooLarge),
                Ok(Some(chunk)) => {
                    place.grow(&self.node.share, body.len() + chunk.len()).await;
                    body.extend_from_slice(&chunk);
                }
            }
        }
    }

    fn opened<T>(&self, method: &str, envelope: Envelope<T>, id: u64) -> Result<T, Failure> {
        match (envelope.result, envelope.error) {
            (_, Some(refusal)) => Err(self.refused(method, &refusal)),
            (Some(_), None) if envelope.id != Some(id) => {
                Err(Failure::Unreadable("the answer belongs to another call".to_owned()))
            }
            (Some(result), None) => Ok(result),
            (None, None) => Err(Failure::Unreadable("neither result nor error".to_owned())),
        }
    }

    /// Only the call of a contract can revert, so that no node can pass off its word about a block as the chain's.
    fn refused(&self, method: &str, refusal: &Refusal) -> Failure {
        let message = self.node.redaction.redact(&refusal.message);
        let is_reverted = refusal.code == REVERTED || message.to_lowercase().contains("revert");
        if method == CONTRACT_CALL && is_reverted {
            return Failure::Reverted(message);
        }
        Failure::Refused {
            code: refusal.code,
            message,
        }
    }

    /// Some providers put refusals of the call behind a status; others only have the status. A server that breaks down
    /// says so in JSON too, which refuses nothing unless it names a limit.
    fn refused_by_status(&self, method: &str, status: StatusCode, body: &Bytes) -> Failure {
        let refuses = |refusal: &Refusal| {
            status != StatusCode::TOO_MANY_REQUESTS
                && (!status.is_server_error() || refusals::names_limit(&refusal.message.to_lowercase()))
        };
        match serde_json::from_slice::<Envelope<IgnoredAny>>(body) {
            Ok(Envelope {
                error: Some(refusal), ..
            }) if refuses(&refusal) => self.refused(method, &refusal),
            _ => Failure::Status(status.as_u16()),
        }
    }
}

/// Parses an answer, whose place is kept until that is over, also when nobody waits for it any more.
async fn parse<T: DeserializeOwned + Send + 'static>(body: Bytes, place: Place) -> Result<T, Failure> {
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
            .map_err(|_| Failure::Unreadable("the parser stopped".to_owned()))?
    };
    // The parser's text may quote the answer; its kind and place are enough.
    parsed.map_err(|error| Failure::Unreadable(format!("{:?} error at column {}", error.classify(), error.column())))
}

#[cfg(test)]
mod tests;
