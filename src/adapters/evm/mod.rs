//! An EVM chain behind JSON-RPC nodes that may be slow, behind, or wrong.
//!
//! **What is believed.** Of final blocks, a header whose hash follows from its fields and on which as many distinct
//! nodes agree as the settings say; and of its content, what its roots prove ([`evidence`]). What one node says alone
//! ([`Chain::told`], [`Chain::new_blocks`]) tells where to look and is never credited.
//!
//! **Who is asked.** Single questions go to one node after the other until one gives an answer that holds: a node that
//! fails, refuses, serves another chain or says something that cannot be true is passed over and, after a few times,
//! left alone for a while. Questions that need agreement go to distinct nodes at the same time; a node that is missing
//! delays the answer and never lowers how many have to agree. Answers that become an amount of money are such questions
//! ([`one_block`]). Source: ADR-0012; rules B.2.

mod answers;
mod connected;
mod decode;
mod evidence;
mod kept;
mod locked;
mod movement;
mod node;
mod one_block;
mod payer;
mod range;
mod receipts;
mod redaction;
mod refusals;
mod relay;
mod settle;
mod share;
mod signature_check;
mod tip;
mod together;
mod wallet;
mod wallet_owners;
mod window;
mod wire;

pub use self::connected::{Connected, connect};
pub use self::node::OUTCOMES;
pub use self::relay::signing_key;
use self::{
    decode::Watched,
    evidence::ProvenHeader,
    kept::Kept,
    locked::{locked, store},
    node::{Failure, Line, Node},
    share::Together,
};
use crate::{
    domain::{
        currency::{ContractKind, KnownContract},
        network::{Family, Network},
        payment::{BlockRef, Finality, SettledBlock},
    },
    ports::chain::{Chain, ChainError, NewBlock, Tip, Told},
};
use alloy::primitives::{Address as EvmAddress, U64};
use anyhow::{Context, bail};
use async_trait::async_trait;
use chrono::{DateTime, Datelike};
use futures_util::{StreamExt, stream::FuturesUnordered};
use serde_json::{Value, json, value::RawValue};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use url::Url;

/// Deadline of one question to one node, where the settings name none.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Deadlines of one question that the content of a block may take.
const CONTENT_SHARES: u32 = 5;

/// Last year that the dates of answers (RFC 3339) can be written with.
const YEAR_MAX: i32 = 9_999;

/// What an [`EvmChain`] needs to know.
#[derive(Clone)]
pub struct EvmChainOptions {
    /// Network whose payments are read.
    pub network: Network,
    /// Chain ID that every node must serve; a local chain may differ from its network.
    pub chain_id: u64,
    /// Nodes, best first.
    pub rpc_urls: Vec<Url>,
    /// Blocks, its own included, after which a block is final; `None` for the tag or depth of the network.
    pub confirmations: Option<u64>,
    /// First block that matters, when it is older than the first start.
    pub start_block: Option<u64>,
    /// Distinct nodes that have to agree on a final block; `None` for two where there are two.
    pub agreement: Option<usize>,
    /// Time without agreement after which one node is enough; `None` for never.
    pub agreement_fallback: Option<Duration>,
    /// Contracts of the protocol on this network.
    pub contracts: Vec<KnownContract>,
    /// How far apart nodes may be about a conversion, in basis points of the smallest answer.
    pub nodes_apart_bps: u16,
    /// Deadline of one question to one node; [`CALL_TIMEOUT`] is usual.
    pub call_timeout: Duration,
    /// Deadline of a lookup on behalf of a waiting caller, over all nodes together.
    pub lookup_timeout: Duration,
}

/// An EVM chain.
pub struct EvmChain {
    network: Network,
    nodes: Vec<Arc<Node>>,
    confirmations: Option<u64>,
    start_block: Option<u64>,
    agreement: usize,
    agreement_fallback: Option<Duration>,
    watched: Arc<Watched>,
    rates: Option<EvmAddress>,
    nodes_apart_bps: u16,
    call_timeout: Duration,
    lookup_timeout: Duration,
    /// The height at which contracts are asked, and since when.
    common_height: Mutex<Option<(u64, Instant)>>,
    /// When enough nodes agreed last.
    agreed_at: Mutex<Instant>,
    /// The newest block that enough nodes called final.
    finalized: Mutex<Option<BlockRef>>,
    /// Looks through the first node alone since all were asked.
    glances: AtomicU32,
    /// The highest head, and since when.
    highest: Mutex<(u64, Instant)>,
    /// Whether one node is believed alone for want of others.
    believes_alone: AtomicBool,
    kept: Kept,
    together: Mutex<Together>,
    /// Held while a proof is computed.
    proving: tokio::sync::Mutex<()>,
}

/// How much time a question has.
#[derive(Debug, Clone, Copy)]
enum Patience {
    /// The full deadline for every node.
    Thorough,
    /// [`CONTENT_SHARES`] of it: the content of a block may be many megabytes, and nobody waits for it.
    Content,
    /// Somebody waits: all nodes together have until then.
    Until(Instant),
}

/// What distinct nodes answered, with their positions in the settings, and how the others failed.
struct Answers<T> {
    given: Vec<(usize, T)>,
    failures: Vec<(usize, Failure)>,
}

impl EvmChain {
    /// Checks the options and sets up the nodes. Nothing is sent before the first question.
    pub fn new(options: EvmChainOptions) -> anyhow::Result<Self> {
        let chain = Self::set_up(options)?;
        if chain.agreement == 1 {
            let network = chain.network;
            tracing::warn!(%network, "one node is believed alone; name a second one to have them checked");
        }
        Ok(chain)
    }

    /// The same network over separate connections with separate breakers. Both share what is known of which nodes follow the
    /// chain. `options` are those of this one.
    fn with_lines_apart(&self, options: EvmChainOptions) -> anyhow::Result<Self> {
        let mut apart = Self::set_up(options)?;
        for (node, known) in apart.nodes.iter_mut().zip(&self.nodes) {
            if let Some(node) = Arc::get_mut(node) {
                node.movement = Arc::clone(&known.movement);
            }
        }
        Ok(apart)
    }

    fn set_up(options: EvmChainOptions) -> anyhow::Result<Self> {
        let EvmChainOptions { network, chain_id, .. } = options;
        if network.family() != Family::Evm {
            bail!("{network} is not an EVM network");
        }
        if options.rpc_urls.is_empty() {
            bail!("{network} needs at least one node");
        }
        if options.call_timeout.is_zero() {
            bail!("the deadline of a call to a node of {network} must be longer than 0");
        }
        let client = super::client()?
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .context("setting up the client for nodes")?;
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        for (index, url) in options.rpc_urls.into_iter().enumerate() {
            if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
                bail!("node {} of {network} needs an http or https URL", index + 1);
            }
            if nodes.iter().any(|node| node.is_at(&url)) {
                bail!(
                    "chains.{network}.rpc_urls names node {} twice; nodes must be distinct",
                    index + 1
                );
            }
            let node = Node::new(index, network, chain_id, url, client.clone());
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
        let mut rates: Vec<&KnownContract> = options
            .contracts
            .iter()
            .filter(|contract| contract.kind == ContractKind::ChainlinkConversionPath)
            .collect();
        rates.sort_by_key(|contract| !contract.is_default);
        Ok(Self {
            network,
            nodes,
            confirmations: options.confirmations.map(|blocks| blocks.max(1)),
            start_block: options.start_block,
            agreement,
            agreement_fallback: options.agreement_fallback,
            watched,
            rates: rates.first().map(|contract| contract.address.bytes()),
            nodes_apart_bps: options.nodes_apart_bps,
            call_timeout: options.call_timeout,
            lookup_timeout: options.lookup_timeout,
            common_height: Mutex::default(),
            agreed_at: Mutex::new(Instant::now()),
            finalized: Mutex::default(),
            glances: AtomicU32::new(0),
            highest: Mutex::new((0, Instant::now())),
            believes_alone: AtomicBool::new(false),
            kept: Kept::default(),
            together: Mutex::default(),
            proving: tokio::sync::Mutex::default(),
        })
    }

    /// Nodes to ask, best first: those that are left alone are missing, those that are out of step come last.
    fn order(&self) -> Vec<Arc<Node>> {
        let mut nodes: Vec<_> = self.nodes.iter().filter(|node| node.is_available()).cloned().collect();
        nodes.sort_by_key(|node| node.movement.turn());
        nodes
    }

    /// Distinct nodes that have to agree now.
    fn agreement_now(&self) -> usize {
        let has_waited = |limit: Duration| locked(&self.agreed_at).elapsed() >= limit;
        let believes_alone = self.agreement > 1 && self.agreement_fallback.is_some_and(has_waited);
        let network = self.network;
        match self.believes_alone.swap(believes_alone, Ordering::Relaxed) {
            false if believes_alone => {
                tracing::warn!(%network, "enough nodes have not agreed for longer than agreement_fallback_s; one is believed alone");
            }
            true if !believes_alone => tracing::info!(%network, "enough nodes answer again; they have to agree"),
            _ => {}
        }
        if believes_alone { 1 } else { self.agreement }
    }

    /// The time of a lookup on behalf of a waiting caller, which begins now.
    fn lookup(&self) -> Patience {
        Patience::Until(Instant::now() + self.lookup_timeout)
    }

    fn deadline(&self, patience: Patience, nodes_left: usize) -> Instant {
        let now = Instant::now();
        let share = match patience {
            Patience::Thorough => self.call_timeout,
            Patience::Content => self.call_timeout * CONTENT_SHARES,
            Patience::Until(end) => {
                let share = end.saturating_duration_since(now) / u32::try_from(nodes_left.max(1)).unwrap_or(u32::MAX);
                share.min(self.call_timeout)
            }
        };
        now + share
    }

    /// Asks one node after the other until one has an answer other than `None`.
    ///
    /// `None` is returned only when at least one node said so and none said otherwise.
    async fn ask_for<T, F>(&self, patience: Patience, question: impl Fn(Line) -> F) -> Result<Option<T>, ChainError>
    where
        F: Future<Output = Result<Option<T>, Failure>>,
    {
        let nodes = self.order();
        let mut failures = Vec::new();
        let mut is_denied = false;
        for (position, node) in nodes.iter().enumerate() {
            let deadline = self.deadline(patience, nodes.len() - position);
            match node.ask(deadline, &question).await {
                Ok(Some(answer)) => return Ok(Some(answer)),
                Ok(None) => is_denied = true,
                Err(Failure::Reverted(reason)) => return Err(ChainError::Reverted(reason)),
                Err(failure) => failures.push((node.index, failure)),
            }
        }
        if is_denied {
            return Ok(None);
        }
        Err(self.sum_up(&failures))
    }

    /// Asks one node after the other until one answers.
    async fn ask<T, F>(&self, patience: Patience, question: impl Fn(Line) -> F) -> Result<T, ChainError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let answer = self.ask_for(patience, |line| {
            let answer = question(line);
            async move { answer.await.map(Some) }
        });
        answer.await?.ok_or_else(|| self.sum_up(&[]))
    }

    /// Asks distinct nodes at the same time until `wanted` of them have answered; a node that fails is replaced by the
    /// next one.
    async fn ask_distinct<T, F>(
        &self,
        wanted: usize,
        patience: Patience,
        except: &[usize],
        question: impl Fn(Line) -> F,
    ) -> Answers<T>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut nodes = self.order();
        nodes.retain(|node| !except.contains(&node.index));
        let spare = nodes.len().saturating_sub(wanted);
        let mut others = nodes.iter();
        let ask = |node: &Arc<Node>, spare: usize| {
            let (node, question) = (Arc::clone(node), &question);
            let deadline = self.deadline(patience, 1 + spare);
            async move { (node.index, node.ask(deadline, question).await) }
        };
        let first = others.by_ref().take(wanted);
        let mut waiting: FuturesUnordered<_> = first.map(|node| ask(node, spare)).collect();
        let mut answers = Answers {
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

    fn sum_up(&self, failures: &[(usize, Failure)]) -> ChainError {
        let network = self.network;
        let reasons: Vec<String> = failures
            .iter()
            .map(|(index, failure)| format!("node {}: {failure}", index + 1))
            .collect();
        let reason = reasons.join("; ");
        if failures.is_empty() {
            let reason = "every node is resting after repeated failures".to_owned();
            ChainError::Unavailable { network, reason }
        } else if failures.iter().all(|(_, failure)| failure.is_untrue()) {
            ChainError::Malformed { network, reason }
        } else {
            ChainError::Unavailable { network, reason }
        }
    }

    fn malformed(&self, reason: String) -> ChainError {
        ChainError::Malformed {
            network: self.network,
            reason,
        }
    }
}

/// The header of a height or of the tag of a block, proven to follow from its fields.
async fn header(line: &Line, which: Value) -> Result<Option<ProvenHeader>, Failure> {
    read_header(line.call("eth_getBlockByNumber", (which, false)).await?)
}

fn read_header(raw: Option<Box<RawValue>>) -> Result<Option<ProvenHeader>, Failure> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    let header = evidence::header(&raw).map_err(|unproven| Failure::Untrue(unproven.to_string()));
    header.map(Some)
}

/// The header of a height, which must say so itself.
async fn header_at(line: &Line, number: u64) -> Result<Option<ProvenHeader>, Failure> {
    let header = header(line, json!(U64::from(number))).await?;
    match header {
        Some(header) if header.number != number => {
            Err(Failure::Untrue(format!("block {} for block {number}", header.number)))
        }
        header => Ok(header),
    }
}

fn block_ref(header: &ProvenHeader) -> Result<BlockRef, Failure> {
    let time_s = header.time_s;
    let time = i64::try_from(time_s)
        .ok()
        .and_then(|time_s| DateTime::from_timestamp(time_s, 0))
        .filter(|time| time.year() <= YEAR_MAX)
        .ok_or_else(|| Failure::Untrue(format!("a block of second {time_s}, which no calendar has")))?;
    Ok(BlockRef {
        number: header.number,
        hash: header.hash,
        parent_hash: header.parent_hash,
        time,
    })
}

#[async_trait]
impl Chain for EvmChain {
    fn network(&self) -> Network {
        self.network
    }

    fn start_block(&self) -> Option<u64> {
        self.start_block
    }

    async fn tip(&self, known: Option<Finality>) -> Result<Tip, ChainError> {
        self.find_tip(known).await
    }

    fn forget_final(&self) {
        store(&self.finalized, None);
    }

    async fn block(&self, number: u64) -> Result<Option<BlockRef>, ChainError> {
        let question = |line: Line| async move {
            let header = header_at(&line, number).await?;
            header.as_ref().map(block_ref).transpose()
        };
        self.ask_for(Patience::Thorough, question).await
    }

    async fn agreed(&self, number: u64) -> Result<BlockRef, ChainError> {
        let header = self.agree(number, Vec::new()).await?;
        block_ref(&header).map_err(|failure| self.malformed(failure.to_string()))
    }

    async fn new_blocks(&self, from: u64, to: u64) -> Result<Vec<NewBlock>, ChainError> {
        self.read_new_blocks(from, to).await
    }

    async fn told(&self, from: u64, to: u64, proves_absence: bool) -> Result<Told, ChainError> {
        self.read_told(from, to, proves_absence).await
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
