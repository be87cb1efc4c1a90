//! A chain behind nodes that may be slow, behind, or return false data. [`NodeProtocol`] is what differs between families
//! of chains; everything else is the same for all of them.
//!
//! **Trusted data.** The service credits final blocks only. As many distinct nodes as configured must agree on the
//! header, whose hash must match its fields. The header must prove the content ([`proven`]). Data from a single node
//! ([`Chain::list_events`], [`Chain::new_blocks`]) only shows where to look and is never credited.
//!
//! **Queried nodes.** A single lookup goes to one node after the other until a node returns a valid response. A node
//! that fails, rejects the lookup, serves another chain or returns invalid data is skipped; after a few failures, it is
//! not used for a while. Lookups that need agreement go to distinct nodes concurrently. An unavailable node delays the
//! result. It lowers the number of nodes that must agree only if `agreement_fallback` is set, and never for lookups
//! whose result becomes an amount of money. Source: ADR-0012; rules B.2.

mod answers;
mod api;
mod decode;
mod kept;
pub(super) mod locked;
pub(super) mod movement;
pub(super) mod node;
pub(super) mod protocol;
pub(super) mod proven;
mod range;
mod redaction;
mod refusals;
pub(super) mod settle;
mod share;
mod tip;
mod together;
pub(super) mod window;
pub(super) mod wire;

pub use self::node::OUTCOMES;
use self::{
    api::NodeApi,
    decode::Watched,
    kept::ProvenBlocks,
    locked::{locked, store},
    node::{ChainNode, NodeFailure, NodeLookup},
    protocol::NodeProtocol,
    proven::ProvenHeader,
    share::BlocksPerQuery,
};
use crate::{
    domain::{
        currency::KnownContract,
        ids::Secret,
        network::Network,
        payment::{BlockRef, Finality, SettledBlock},
    },
    ports::chain::{Chain, ChainError, ChainTip, NewBlock, ReportedEvents},
};
use anyhow::{Context, bail};
use async_trait::async_trait;
use chrono::{DateTime, Datelike};
use futures_util::{StreamExt, stream::FuturesUnordered};
use reqwest::header::HeaderName;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use url::Url;

/// Default timeout of one lookup on one node.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout for the content of a block, as a multiple of the timeout of one lookup.
const CONTENT_SHARES: u32 = 5;

/// Last year that RFC 3339 dates in responses can represent.
const YEAR_MAX: i32 = 9_999;

/// Options of a chain.
#[derive(Clone)]
pub struct ChainOptions {
    /// Network whose payments are read.
    pub network: Network,
    /// Chain ID that every node must serve; a local chain may have another chain ID than its network.
    pub chain_id: u64,
    /// Nodes, best first.
    pub nodes: Vec<NodeUrls>,
    /// Name of the header with the key of the HTTP APIs, and the key.
    pub api_key: Option<(HeaderName, Secret)>,
    /// Number of blocks after which a block is final, the block itself included; `None` for the tag or depth of the
    /// network.
    pub confirmations: Option<u64>,
    /// First block to read, for payments from before the first start of the service.
    pub start_block: Option<u64>,
    /// Number of distinct nodes that must agree on a final block. `None` means two, or one if there is only one node.
    pub agreement: Option<usize>,
    /// Time without agreement after which one node is sufficient; `None` if one node is never sufficient.
    pub agreement_fallback: Option<Duration>,
    /// Contracts of the protocol on this network.
    pub contracts: Vec<KnownContract>,
    /// Timeout of one lookup on one node; usually [`CALL_TIMEOUT`].
    pub call_timeout: Duration,
    /// Timeout of a lookup for a waiting caller, over all nodes together.
    pub lookup_timeout: Duration,
}

/// The URLs of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeUrls {
    /// JSON-RPC.
    pub rpc: Url,
    /// HTTP API; `None` on networks whose nodes have only JSON-RPC.
    pub api: Option<Url>,
}

impl NodeUrls {
    /// A node that has only JSON-RPC.
    pub const fn of_rpc(rpc: Url) -> Self {
        Self { rpc, api: None }
    }

    /// Whether both are the same node. A node with two APIs is one node, whichever of its URLs is written twice.
    fn is_same_node(&self, other: &Self) -> bool {
        self.rpc == other.rpc || (self.api.is_some() && self.api == other.api)
    }
}

/// A chain behind its nodes.
pub(in crate::adapters) struct NodeChain {
    pub(in crate::adapters) network: Network,
    pub(in crate::adapters) nodes: Vec<Arc<ChainNode>>,
    confirmations: Option<u64>,
    start_block: Option<u64>,
    pub(in crate::adapters) agreement: usize,
    agreement_fallback: Option<Duration>,
    protocol: Arc<dyn NodeProtocol>,
    watched: Arc<Watched>,
    call_timeout: Duration,
    pub(in crate::adapters) lookup_timeout: Duration,
    /// When enough nodes last agreed.
    agreed_at: Mutex<Instant>,
    /// The newest block that enough nodes reported as final.
    finalized: Mutex<Option<BlockRef>>,
    /// Number of polls of only the first node since all nodes were last queried.
    glances: AtomicU32,
    /// The highest head, and when it became the highest.
    highest: Mutex<(u64, Instant)>,
    /// Whether a single node is trusted because others are missing.
    believes_alone: AtomicBool,
    kept: ProvenBlocks,
    together: Mutex<BlocksPerQuery>,
    /// Held while a proof is computed.
    proving: tokio::sync::Mutex<()>,
}

/// Timeout of a lookup.
#[derive(Debug, Clone, Copy)]
pub(in crate::adapters) enum LookupTimeout {
    /// The full timeout for every node.
    Thorough,
    /// [`CONTENT_SHARES`] times the full timeout, for the content of a block. The content may be many megabytes, and no
    /// caller waits for it.
    Content,
    /// A caller waits: one deadline for all nodes together.
    Until(Instant),
}

/// Responses of distinct nodes, with their indexes in the settings, and the failures of the other nodes.
pub(in crate::adapters) struct NodeResponses<T> {
    pub(in crate::adapters) given: Vec<(usize, T)>,
    pub(in crate::adapters) failures: Vec<(usize, NodeFailure)>,
}

impl NodeChain {
    /// Checks the options and sets up the nodes. Nothing is sent before the first lookup.
    pub(in crate::adapters) fn new(protocol: Arc<dyn NodeProtocol>, options: ChainOptions) -> anyhow::Result<Self> {
        let chain = Self::set_up(protocol, options)?;
        if chain.agreement == 1 {
            let network = chain.network;
            tracing::warn!(%network, "the service trusts a single node; configure two nodes and set agreement to 2");
        }
        Ok(chain)
    }

    /// The same network over separate connections with separate breakers. This copy and the original share the record
    /// of which nodes follow the chain. `options` must be those of this network.
    pub(in crate::adapters) fn with_lines_apart(&self, options: ChainOptions) -> anyhow::Result<Self> {
        let mut apart = Self::set_up(Arc::clone(&self.protocol), options)?;
        for (node, known) in apart.nodes.iter_mut().zip(&self.nodes) {
            if let Some(node) = Arc::get_mut(node) {
                node.movement = Arc::clone(&known.movement);
            }
        }
        Ok(apart)
    }

    /// Like [`NodeChain::new`], without a warning.
    pub(in crate::adapters) fn set_up(protocol: Arc<dyn NodeProtocol>, options: ChainOptions) -> anyhow::Result<Self> {
        let ChainOptions { network, chain_id, .. } = options;
        if options.nodes.is_empty() {
            bail!("{network} needs at least one node");
        }
        if options.call_timeout.is_zero() {
            bail!("the timeout of a call to a node of {network} must be greater than 0");
        }
        let client = super::client()?
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .context("the HTTP client for the nodes cannot be built")?;
        let mut nodes: Vec<Arc<ChainNode>> = Vec::new();
        for (index, urls) in options.nodes.iter().enumerate() {
            let mut own = [Some(&urls.rpc), urls.api.as_ref()].into_iter().flatten();
            if own.any(|url| !matches!(url.scheme(), "http" | "https") || !url.has_host()) {
                bail!("node {} of {network} needs an http or https URL", index + 1);
            }
            if options
                .nodes
                .iter()
                .take(index)
                .any(|earlier| earlier.is_same_node(urls))
            {
                bail!(
                    "{} names node {} twice; nodes must be distinct",
                    network.node_setting(),
                    index + 1
                );
            }
            let api = urls.api.clone().map(|url| NodeApi {
                url,
                key: options.api_key.clone(),
            });
            let url = urls.rpc.clone();
            let node = ChainNode::new(index, (network, chain_id), url, api, protocol.clone(), client.clone());
            nodes.push(Arc::new(
                node.with_context(|| format!("node {} of {network}", index + 1))?,
            ));
        }
        let watched = Arc::new(Watched::new(network, &options.contracts));
        let agreement = options.agreement.unwrap_or_else(|| nodes.len().min(2));
        if !(1..=nodes.len()).contains(&agreement) {
            bail!(
                "chains.{network}.agreement must be between 1 and the number of nodes, {}",
                nodes.len()
            );
        }
        Ok(Self {
            network,
            nodes,
            confirmations: options.confirmations.map(|blocks| blocks.max(1)),
            start_block: options.start_block,
            agreement,
            agreement_fallback: options.agreement_fallback,
            protocol,
            watched,
            call_timeout: options.call_timeout,
            lookup_timeout: options.lookup_timeout,
            agreed_at: Mutex::new(Instant::now()),
            finalized: Mutex::default(),
            glances: AtomicU32::new(0),
            highest: Mutex::new((0, Instant::now())),
            believes_alone: AtomicBool::new(false),
            kept: ProvenBlocks::default(),
            together: Mutex::default(),
            proving: tokio::sync::Mutex::default(),
        })
    }

    /// The protocol of the nodes.
    pub(in crate::adapters) fn protocol(&self) -> &dyn NodeProtocol {
        self.protocol.as_ref()
    }

    /// Nodes to query, best first: nodes with an open breaker are omitted, out-of-sync nodes and nodes under trial are
    /// last.
    pub(in crate::adapters) fn order(&self) -> Vec<Arc<ChainNode>> {
        let mut nodes: Vec<_> = self.nodes.iter().filter(|node| node.is_available()).cloned().collect();
        nodes.sort_by_key(|node| (node.is_in_trial(), node.movement.turn()));
        nodes
    }

    /// Number of distinct nodes that must agree now.
    pub(in crate::adapters) fn agreement_now(&self) -> usize {
        let has_waited = |limit: Duration| locked(&self.agreed_at).elapsed() >= limit;
        let believes_alone = self.agreement > 1 && self.agreement_fallback.is_some_and(has_waited);
        let network = self.network;
        match self.believes_alone.swap(believes_alone, Ordering::Relaxed) {
            false if believes_alone => {
                tracing::warn!(
                    %network,
                    "for longer than agreement_fallback_s, too few nodes have agreed; the service now trusts a single \
                     node"
                );
            }
            true if !believes_alone => tracing::info!(
                %network,
                "enough nodes agree again; the service no longer trusts a single node"
            ),
            _ => {}
        }
        if believes_alone { 1 } else { self.agreement }
    }

    /// The timeout of a lookup for a waiting caller that begins now.
    pub(in crate::adapters) fn lookup(&self) -> LookupTimeout {
        LookupTimeout::Until(Instant::now() + self.lookup_timeout)
    }

    pub(in crate::adapters) fn deadline(&self, patience: LookupTimeout, nodes_left: usize) -> Instant {
        let now = Instant::now();
        let share = match patience {
            LookupTimeout::Thorough => self.call_timeout,
            LookupTimeout::Content => self.call_timeout * CONTENT_SHARES,
            LookupTimeout::Until(end) => {
                let share = end.saturating_duration_since(now) / u32::try_from(nodes_left.max(1)).unwrap_or(u32::MAX);
                share.min(self.call_timeout)
            }
        };
        now + share
    }

    /// Queries one node after the other until one returns something other than `None`.
    ///
    /// `None` is returned only if at least one node returned it and no node returned a value.
    pub(in crate::adapters) async fn ask_for<T, F>(
        &self,
        patience: LookupTimeout,
        question: impl Fn(NodeLookup) -> F,
    ) -> Result<Option<T>, ChainError>
    where
        F: Future<Output = Result<Option<T>, NodeFailure>>,
    {
        let nodes = self.order();
        let mut failures = Vec::new();
        let mut is_denied = false;
        for (position, node) in nodes.iter().enumerate() {
            let deadline = self.deadline(patience, nodes.len() - position);
            match node.ask(deadline, &question).await {
                Ok(Some(answer)) => return Ok(Some(answer)),
                Ok(None) => is_denied = true,
                Err(NodeFailure::Reverted(reason)) => return Err(ChainError::Reverted(reason)),
                Err(failure) => failures.push((node.index, failure)),
            }
        }
        if is_denied {
            return Ok(None);
        }
        Err(self.sum_up(&failures))
    }

    /// Queries one node after the other until one responds.
    pub(in crate::adapters) async fn ask<T, F>(
        &self,
        patience: LookupTimeout,
        question: impl Fn(NodeLookup) -> F,
    ) -> Result<T, ChainError>
    where
        F: Future<Output = Result<T, NodeFailure>>,
    {
        let answer = self.ask_for(patience, |line| {
            let answer = question(line);
            async move { answer.await.map(Some) }
        });
        answer.await?.ok_or_else(|| self.sum_up(&[]))
    }

    /// Queries distinct nodes concurrently until `wanted` of them have responded; a failed node is replaced by the next
    /// one.
    pub(in crate::adapters) async fn ask_distinct<T, F>(
        &self,
        wanted: usize,
        patience: LookupTimeout,
        except: &[usize],
        question: impl Fn(NodeLookup) -> F,
    ) -> NodeResponses<T>
    where
        F: Future<Output = Result<T, NodeFailure>>,
    {
        let mut nodes = self.order();
        nodes.retain(|node| !except.contains(&node.index));
        let spare = nodes.len().saturating_sub(wanted);
        let mut others = nodes.iter();
        let ask = |node: &Arc<ChainNode>, spare: usize| {
            let (node, question) = (Arc::clone(node), &question);
            let deadline = self.deadline(patience, 1 + spare);
            async move { (node.index, node.ask(deadline, question).await) }
        };
        let first = others.by_ref().take(wanted);
        let mut waiting: FuturesUnordered<_> = first.map(|node| ask(node, spare)).collect();
        let mut answers = NodeResponses {
            given: Vec::new(),
            failures: Vec::new(),
        };
        while let Some((index, answer)) = waiting.next().await {
            match answer {
                Ok(answer) => answers.given.push((index, answer)),
                Err(failure) => {
                    answers.failures.push((index, failure));
                    let next = others.next();
                    waiting.extend(next.map(|node| ask(node, others.len())));
                }
            }
        }
        answers.given.sort_by_key(|(index, _)| *index);
        answers
    }

    pub(in crate::adapters) fn sum_up(&self, failures: &[(usize, NodeFailure)]) -> ChainError {
        let network = self.network;
        let reasons: Vec<String> = failures
            .iter()
            .map(|(index, failure)| format!("node {}: {failure}", index + 1))
            .collect();
        let reason = reasons.join("; ");
        if failures.is_empty() {
            let reason = "calls to every node are paused after repeated failures".to_owned();
            ChainError::Unavailable { network, reason }
        } else if failures.iter().all(|(_, failure)| failure.is_untrue()) {
            ChainError::Malformed { network, reason }
        } else {
            ChainError::Unavailable { network, reason }
        }
    }

    pub(in crate::adapters) fn malformed(&self, reason: String) -> ChainError {
        ChainError::Malformed {
            network: self.network,
            reason,
        }
    }

    /// The header of a height; a header that states another height is an error.
    pub(in crate::adapters) async fn header_at(
        &self,
        line: &NodeLookup,
        number: u64,
    ) -> Result<Option<ProvenHeader>, NodeFailure> {
        Ok(self.headers(line, &[number]).await?.pop().flatten())
    }

    /// The headers of heights; `None` for missing ones. Errors: a header states another height.
    async fn headers(&self, line: &NodeLookup, numbers: &[u64]) -> Result<Vec<Option<ProvenHeader>>, NodeFailure> {
        let headers = self.protocol.headers(line, numbers).await?;
        for (number, header) in numbers.iter().zip(&headers) {
            if let Some(header) = header.as_ref().filter(|header| header.number != *number) {
                return Err(NodeFailure::Untrue(format!(
                    "the node returned block {} instead of block {number}",
                    header.number
                )));
            }
        }
        Ok(headers)
    }
}

pub(in crate::adapters) fn block_ref(header: &ProvenHeader) -> Result<BlockRef, NodeFailure> {
    let time_s = header.time_s;
    let time = i64::try_from(time_s)
        .ok()
        .and_then(|time_s| DateTime::from_timestamp(time_s, 0))
        .filter(|time| time.year() <= YEAR_MAX)
        .ok_or_else(|| NodeFailure::Untrue(format!("a block has the invalid timestamp {time_s}")))?;
    Ok(BlockRef {
        number: header.number,
        hash: header.hash,
        parent_hash: header.parent_hash,
        time,
    })
}

#[async_trait]
impl Chain for NodeChain {
    fn network(&self) -> Network {
        self.network
    }

    fn start_block(&self) -> Option<u64> {
        self.start_block
    }

    async fn tip(&self, known: Option<Finality>) -> Result<ChainTip, ChainError> {
        self.find_tip(known).await
    }

    fn forget_final(&self) {
        store(&self.finalized, None);
    }

    async fn block(&self, number: u64) -> Result<Option<BlockRef>, ChainError> {
        let question = |line: NodeLookup| async move {
            let header = self.header_at(&line, number).await?;
            header.as_ref().map(block_ref).transpose()
        };
        self.ask_for(LookupTimeout::Thorough, question).await
    }

    async fn agreed(&self, number: u64) -> Result<BlockRef, ChainError> {
        let header = self.agree(number, Vec::new()).await?;
        block_ref(&header).map_err(|failure| self.malformed(failure.to_string()))
    }

    async fn new_blocks(&self, from: u64, to: u64) -> Result<Vec<NewBlock>, ChainError> {
        self.read_new_blocks(from, to).await
    }

    async fn list_events(&self, from: u64, to: u64, proves_absence: bool) -> Result<ReportedEvents, ChainError> {
        self.read_reported_events(from, to, proves_absence).await
    }

    async fn settled(&self, number: u64) -> Result<SettledBlock, ChainError> {
        self.settle(number).await
    }

    async fn settled_all(&self, numbers: &[u64]) -> Vec<(u64, Result<SettledBlock, ChainError>)> {
        self.settle_all(numbers).await
    }

    async fn noted(&self, block: &BlockRef) -> Result<SettledBlock, ChainError> {
        self.note(block).await
    }
}
