//! An EVM chain behind JSON-RPC nodes that may be slow, behind, or wrong.
//!
//! Every question goes to one node after the other until one gives an answer that holds: a node that fails, refuses,
//! serves another chain or says something that cannot be true is passed over and, after a few times, left alone for a
//! while. Nothing is put to a vote here; what no single answer can show (a left-out event, a changed amount) is found
//! by the watcher, which reads twice through [`Witness::Second`]. Source: rules B.2.

mod breaker;
mod decode;
#[cfg_attr(not(test), expect(dead_code, reason = "the watcher does not settle by blocks yet"))]
mod evidence;
mod node;
mod payer;
mod receipts;
mod signature_check;
mod wallet;
mod window;
mod wire;

use self::{
    decode::{PlacedLog, Watched, bloom_of, in_order},
    node::{Failure, Line, Node},
    signature_check::SignatureCheck,
    wire::{Header, RawLog, Receipt, Transaction},
};
use super::install_tls;
use crate::{
    domain::{
        address::Address,
        currency::{ContractKind, KnownContract},
        network::{Family, Network},
        payment::{BlockRef, Observation, TxProof},
    },
    ports::{
        chain::{Chain, ChainError, Witness},
        clock::Clock,
    },
};
use alloy::primitives::{Address as EvmAddress, B256, U64};
use anyhow::{Context, bail};
use async_trait::async_trait;
use chrono::{DateTime, Datelike};
use futures_util::future::{join, join_all, try_join};
use serde_json::json;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use url::Url;

/// Deadline of one question to one node, where the settings name none.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// Most time that a lookup on behalf of a waiting caller may take, over all nodes together.
///
/// Source: rules F.20 (the caller has its answer within two seconds).
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(1_800);

/// Block times that a head may stand still before other nodes are asked.
const STILL_BLOCKS: u64 = 5;

/// Shortest time that counts as standing still; short block times would otherwise ask all the time.
const STILL_MIN: Duration = Duration::from_secs(5);

/// How far nodes may be apart, in time, before the slower one counts as behind.
const BEHIND: Duration = Duration::from_secs(30);

/// Questions that one call of [`Chain::observations_in`] puts to one node while it looks for a width that works.
const NARROWINGS_MAX: usize = 14;

/// Last year that the dates of answers (RFC 3339) can be written with.
const YEAR_MAX: i32 = 9_999;

/// Texts by which nodes say that they know no `finalized` block.
const NO_TAG_TEXTS: [&str; 5] = ["finalized", "tag", "unknown block", "invalid block", "hex string"];

/// What an [`EvmChain`] needs to know.
pub struct EvmChainOptions {
    /// Network whose payments are read.
    pub network: Network,
    /// Chain ID that every node must serve; a local chain may differ from its network.
    pub chain_id: u64,
    /// Nodes, best first.
    pub rpc_urls: Vec<Url>,
    /// Blocks, its own included, after which a block is final; `None` for the tag or depth of the network.
    pub confirmations: Option<u64>,
    /// First block that matters; `None` for the creation of the oldest watched contract.
    pub start_block: Option<u64>,
    /// Contracts of the protocol on this network.
    pub contracts: Vec<KnownContract>,
    /// Deadline of one question to one node; [`CALL_TIMEOUT`] is usual.
    pub call_timeout: Duration,
    /// Tells how old a head is.
    pub clock: Arc<dyn Clock>,
}

/// The head that was seen last, and since when it is the head.
#[derive(Debug, Clone, Copy)]
struct SeenHead {
    number: u64,
    since: Instant,
}

/// An EVM chain.
pub struct EvmChain {
    network: Network,
    nodes: Vec<Arc<Node>>,
    confirmations: Option<u64>,
    start_block: u64,
    watched: Watched,
    rates: Option<EvmAddress>,
    signature_check: SignatureCheck,
    call_timeout: Duration,
    clock: Arc<dyn Clock>,
    /// Node that answered [`Witness::First`] last.
    first: AtomicUsize,
    seen: Mutex<Option<SeenHead>>,
    compared_at: Mutex<Option<Instant>>,
    finalized: Mutex<Option<BlockRef>>,
}

/// How much time a question has.
#[derive(Debug, Clone, Copy)]
enum Patience {
    /// The full deadline for every node.
    Thorough,
    /// Somebody waits: all nodes together have until then.
    Until(Instant),
}

impl Patience {
    /// For a lookup on behalf of a waiting caller, which begins now.
    fn lookup() -> Self {
        Self::Until(Instant::now() + LOOKUP_TIMEOUT)
    }
}

/// What one node says about finality.
enum Finality {
    Tag(BlockRef),
    NoTag,
    Behind,
}

fn locked<T: Copy>(mutex: &Mutex<T>) -> T {
    *mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn store<T>(mutex: &Mutex<T>, value: T) {
    *mutex.lock().unwrap_or_else(PoisonError::into_inner) = value;
}

impl EvmChain {
    /// Checks the options and sets up the nodes. Nothing is sent before the first question.
    pub fn new(options: EvmChainOptions) -> anyhow::Result<Self> {
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
        install_tls();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .context("setting up the client for nodes")?;
        let mut nodes = Vec::new();
        for (index, url) in options.rpc_urls.into_iter().enumerate() {
            if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
                bail!("node {} of {network} needs an http or https URL", index + 1);
            }
            nodes.push(Arc::new(Node::new(index, network, chain_id, url, client.clone())));
        }
        let watched = Watched::new(network, &options.contracts);
        let creation = options
            .contracts
            .iter()
            .filter(|contract| contract.kind.emits_payments());
        let start_block = options
            .start_block
            .or_else(|| creation.map(|contract| contract.creation_block).min())
            .unwrap_or(0);
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
            start_block,
            watched,
            rates: rates.first().map(|contract| contract.address.bytes()),
            signature_check: SignatureCheck::load()?,
            call_timeout: options.call_timeout,
            clock: options.clock,
            first: AtomicUsize::new(0),
            seen: Mutex::default(),
            compared_at: Mutex::default(),
            finalized: Mutex::default(),
        })
    }

    /// Nodes to ask, best first: those that are left alone are missing, those that are behind come last.
    fn order(&self, witness: Witness) -> Vec<Arc<Node>> {
        let mut nodes: Vec<_> = self.nodes.iter().filter(|node| node.is_available()).cloned().collect();
        nodes.sort_by_key(|node| node.is_behind.load(Ordering::Relaxed));
        if witness == Witness::Second {
            let first = self.first.load(Ordering::Relaxed);
            nodes.sort_by_key(|node| node.index == first);
        }
        nodes
    }

    fn deadline(&self, patience: Patience, nodes_left: usize) -> Instant {
        let now = Instant::now();
        let share = match patience {
            Patience::Thorough => self.call_timeout,
            Patience::Until(end) => {
                let share = end.saturating_duration_since(now) / u32::try_from(nodes_left.max(1)).unwrap_or(u32::MAX);
                share.min(self.call_timeout)
            }
        };
        now + share
    }

    /// Asks one node after the other until one has an answer other than `None`.
    ///
    /// `None` is believed only when at least one node said so and none said otherwise.
    async fn ask_for<T, F>(
        &self,
        witness: Witness,
        patience: Patience,
        question: impl Fn(Line) -> F,
    ) -> Result<Option<T>, ChainError>
    where
        F: Future<Output = Result<Option<T>, Failure>>,
    {
        let nodes = self.order(witness);
        let mut failures = Vec::new();
        let mut is_denied = false;
        for (position, node) in nodes.iter().enumerate() {
            let deadline = self.deadline(patience, nodes.len() - position);
            match node.ask(deadline, &question).await {
                Ok(Some(answer)) => {
                    if witness == Witness::First {
                        self.first.store(node.index, Ordering::Relaxed);
                    }
                    return Ok(Some(answer));
                }
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
    async fn ask<T, F>(
        &self,
        witness: Witness,
        patience: Patience,
        question: impl Fn(Line) -> F,
    ) -> Result<T, ChainError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let answer = self.ask_for(witness, patience, |line| {
            let answer = question(line);
            async move { answer.await.map(Some) }
        });
        answer.await?.ok_or_else(|| self.sum_up(&[]))
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

    fn final_height(&self) -> u64 {
        locked(&self.finalized).map_or(0, |block| block.number)
    }

    /// Blocks that the slowest node may be behind the fastest without being called slow.
    fn behind_blocks(&self) -> u64 {
        let blocks = BEHIND.as_millis() / u128::from(self.network.block_time_ms());
        u64::try_from(blocks).unwrap_or(u64::MAX).max(STILL_BLOCKS)
    }

    fn still_time(&self) -> Duration {
        Duration::from_millis(self.network.block_time_ms() * STILL_BLOCKS).max(STILL_MIN)
    }

    async fn latest(&self, line: &Line) -> Result<BlockRef, Failure> {
        let head = header(line, json!("latest")).await?;
        let head = head.ok_or_else(|| Failure::Untrue("a chain without a head".to_owned()))?;
        let head = block_ref(&head)?;
        let final_height = self.final_height();
        if head.number < final_height {
            return Err(Failure::Untrue(format!(
                "head {} is below block {final_height}, which was final",
                head.number
            )));
        }
        Ok(head)
    }

    /// Whether a head gives reason to ask the other nodes for theirs.
    fn is_suspicious(&self, head: &BlockRef) -> bool {
        let now = Instant::now();
        let still = self.still_time();
        let since = match locked(&self.seen) {
            Some(seen) if seen.number == head.number => seen.since,
            _ => {
                let seen = SeenHead {
                    number: head.number,
                    since: now,
                };
                store(&self.seen, Some(seen));
                now
            }
        };
        // A block of the future has no age.
        let age = (self.clock.now() - head.time).to_std().unwrap_or_default();
        let was_behind = self.nodes.iter().any(|node| node.is_behind.load(Ordering::Relaxed));
        let is_due = locked(&self.compared_at).is_none_or(|at| now.duration_since(at) >= still);
        is_due && (was_behind || age > still || now.duration_since(since) > still)
    }

    /// Compares the heads of all nodes: the highest wins, and nodes far below it are asked last from now on.
    ///
    /// A chain that stands still is no fault of its nodes; only a node that others have left behind is.
    async fn compare_heads(&self, head: BlockRef) -> BlockRef {
        store(&self.compared_at, Some(Instant::now()));
        let nodes: Vec<_> = self.nodes.iter().filter(|node| node.is_available()).collect();
        let heads = join_all(nodes.iter().map(|node| async move {
            let deadline = self.deadline(Patience::Thorough, 1);
            let head = node.ask(deadline, |line| async move { self.latest(&line).await }).await;
            head.ok().map(|head| (*node, head))
        }))
        .await;
        let heads: Vec<_> = heads.into_iter().flatten().collect();
        let best = heads.iter().map(|(_, head)| *head).max_by_key(|head| head.number);
        let best = best.filter(|best| best.number > head.number).unwrap_or(head);
        for (node, head) in heads {
            let is_behind = best.number - head.number.min(best.number) > self.behind_blocks();
            if node.is_behind.swap(is_behind, Ordering::Relaxed) != is_behind {
                tracing::warn!(network = %self.network, node = node.index + 1, is_behind, head = head.number, best = best.number, "a node changed its place in the order");
            }
        }
        best
    }

    async fn finality_of(&self, line: &Line, head: &BlockRef) -> Result<Finality, Failure> {
        let (latest, tag) = try_join(self.latest(line), async {
            match header(line, json!("finalized")).await {
                Err(Failure::Refused { code, message }) if !tells_of_tag(&message) => {
                    Err(Failure::Refused { code, message })
                }
                Err(Failure::Refused { .. }) => Ok(None),
                answer => answer,
            }
        })
        .await?;
        let Some(tag) = tag else { return Ok(Finality::NoTag) };
        let tag = block_ref(&tag)?;
        let height = tag.number;
        if height > 0 && height >= latest.number {
            return Err(Failure::Untrue(format!(
                "block {height} is called final although the head is {}",
                latest.number
            )));
        }
        if latest.number.saturating_add(self.behind_blocks()) < head.number {
            return Ok(Finality::Behind);
        }
        if height > head.number {
            // The chain went on since the head was read: what was its head is final by now.
            let at_head = block_at(head.number, header(line, json!(U64::from(head.number))).await?)?;
            return Ok(at_head.map_or(Finality::Behind, Finality::Tag));
        }
        Ok(Finality::Tag(tag))
    }

    /// The `finalized` block of two nodes, the lower one: a node that calls blocks final too early does no harm as
    /// long as the other is honest. `None` when no node serves the tag.
    async fn tagged(&self, head: &BlockRef) -> Result<Option<BlockRef>, ChainError> {
        let nodes = self.order(Witness::First);
        let mut failures = Vec::new();
        let mut tags: Vec<BlockRef> = Vec::new();
        let mut is_without_tag = false;
        for pair in nodes.chunks(2) {
            let answers = join_all(pair.iter().map(|node| {
                let deadline = self.deadline(Patience::Thorough, 1);
                node.ask(deadline, |line| async move { self.finality_of(&line, head).await })
            }))
            .await;
            for (node, answer) in pair.iter().zip(answers) {
                match answer {
                    Ok(Finality::Tag(tag)) => tags.push(tag),
                    Ok(Finality::NoTag) => is_without_tag = true,
                    Ok(Finality::Behind) => {
                        let reason = "the node is behind".to_owned();
                        failures.push((node.index, Failure::Unknown(reason)));
                    }
                    Err(failure) => failures.push((node.index, failure)),
                }
            }
            if !tags.is_empty() || is_without_tag {
                break;
            }
        }
        match tags.into_iter().min_by_key(|tag| tag.number) {
            Some(tag) => Ok(Some(tag)),
            None if is_without_tag => Ok(None),
            None => Err(self.sum_up(&failures)),
        }
    }

    async fn at_depth(&self, head: &BlockRef, depth: u64) -> Result<BlockRef, ChainError> {
        if depth == 0 {
            return Ok(*head);
        }
        let number = head.number.saturating_sub(depth);
        let block = self.block(number, Witness::First).await?;
        block.ok_or_else(|| ChainError::Unavailable {
            network: self.network,
            reason: format!("block {number} below head {} is missing", head.number),
        })
    }

    fn filter(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut filter = serde_json::Map::new();
        filter.insert("address".to_owned(), json!(self.watched.addresses));
        filter.insert("topics".to_owned(), json!([self.watched.topics]));
        filter
    }

    /// Refuses an answer that holds anything that was not asked for, and reads the rest.
    fn read_events(&self, logs: Vec<RawLog>) -> Result<Vec<PlacedLog>, Failure> {
        if let Some(log) = logs.iter().find(|log| !self.watched.holds(log)) {
            return Err(Failure::Untrue(format!(
                "an event of {}, which was not asked for",
                log.address
            )));
        }
        in_order(logs).map_err(Failure::Untrue)
    }

    async fn observations_by_hash(&self, line: Line, block: &BlockRef) -> Result<Vec<Observation>, Failure> {
        let mut filter = self.filter();
        filter.insert("blockHash".to_owned(), json!(block.hash));
        // The header decides first: nodes refuse to list the events of a block that is gone, each with its own text.
        let (header, logs) = join(
            line.call::<Option<Header>>("eth_getBlockByHash", (block.hash, false)),
            line.call::<Vec<RawLog>>("eth_getLogs", [filter]),
        )
        .await;
        let unknown = || Failure::Unknown(format!("block {} is not known under its hash", block.number));
        let header = header?.ok_or_else(unknown)?;
        if block_ref(&header)? != *block {
            return Err(Failure::Untrue(format!("block {} has another header", block.number)));
        }
        let mut logs = self.read_events(logs?)?;
        if self.watched.misses(&header.logs_bloom, &logs) {
            logs = self.all_events(&line, block, &header).await?;
        }
        belong_to(&logs, block)?;
        self.watched.observations(&logs).map_err(Failure::Untrue)
    }

    /// Reads every event of a block and proves with the filter in its header that none is missing.
    ///
    /// The filter of a full block speaks of nearly everything, so suspicion alone must not condemn a node: the events
    /// it admits to have to account for every bit. More than that is allowed, since some chains add events of their
    /// own after the header is sealed.
    async fn all_events(&self, line: &Line, block: &BlockRef, header: &Header) -> Result<Vec<PlacedLog>, Failure> {
        let logs: Vec<RawLog> = line.call("eth_getLogs", [json!({ "blockHash": block.hash })]).await?;
        let is_own = |log: &RawLog| log.block_hash == Some(block.hash);
        if !logs.iter().all(is_own) || !bloom_of(&logs).contains(&header.logs_bloom) {
            return Err(Failure::Untrue(format!("events of block {} are missing", block.number)));
        }
        // Nodes number the events that a chain adds on its own as they like, so only the watched ones must be in order.
        in_order(logs.into_iter().filter(|log| self.watched.holds(log)).collect()).map_err(Failure::Untrue)
    }

    async fn observations_between(&self, line: &Line, from: u64, to: u64) -> Result<Vec<Observation>, Failure> {
        let mut filter = self.filter();
        filter.insert("fromBlock".to_owned(), json!(U64::from(from)));
        filter.insert("toBlock".to_owned(), json!(U64::from(to)));
        // A node that lags answers with nothing for blocks that it does not know; the last block has to be there.
        let (last, logs) = join(
            header(line, json!(U64::from(to))),
            line.call::<Vec<RawLog>>("eth_getLogs", [filter]),
        )
        .await;
        let unknown = || Failure::Unknown(format!("block {to} is not known yet"));
        let last = block_at(to, last?)?.ok_or_else(unknown)?;
        let logs = self.read_events(logs?)?;
        for placed in &logs {
            if !(from..=to).contains(&placed.block_number) {
                return Err(Failure::Untrue(format!(
                    "an event of block {} for blocks {from} to {to}",
                    placed.block_number
                )));
            }
            if placed.block_number == to && placed.block_hash != last.hash {
                return Err(Failure::Untrue(format!("block {to} under two hashes")));
            }
        }
        self.watched.observations(&logs).map_err(Failure::Untrue)
    }

    /// Reads one window from a node, as wide as the node allows.
    async fn window_of(&self, node: &Arc<Node>, from: u64, to: u64) -> Result<(Vec<Observation>, u64), Failure> {
        let mut last = Failure::Resting;
        for _ in 0..NARROWINGS_MAX {
            let width = node.width().min(to - from + 1);
            let end = from + width - 1;
            let deadline = self.deadline(Patience::Thorough, 1);
            let answer = node
                .ask(deadline, |line| async move {
                    self.limited(&line, width, self.observations_between(&line, from, end).await)
                })
                .await;
            match answer {
                Ok(Ok(found)) => {
                    node.learn_answered(width);
                    return Ok((found, end));
                }
                Ok(Err(too_wide)) => last = too_wide,
                Err(failure) => return Err(failure),
            }
        }
        Err(last)
    }

    /// Takes a refusal of too wide a question out of the failures that speak against a node, and learns from it.
    ///
    /// Slowness teaches too, but stays a failure: the node may as well be gone.
    fn limited<T>(&self, line: &Line, width: u64, answer: Result<T, Failure>) -> Result<Result<T, Failure>, Failure> {
        let failure = match answer {
            Ok(answer) => return Ok(Ok(answer)),
            Err(failure) => failure,
        };
        let Some(why) = failure.narrower() else {
            return Err(failure);
        };
        line.node.learn_refused(width, why);
        if width == 1 || why == window::Narrower::Slow {
            return Err(failure);
        }
        Ok(Err(failure))
    }

    async fn proof_of(&self, line: Line, tx_hash: B256) -> Result<Option<TxProof>, Failure> {
        let (receipt, transaction) = try_join(
            line.call::<Option<Receipt>>("eth_getTransactionReceipt", [tx_hash]),
            line.call::<Option<Transaction>>("eth_getTransactionByHash", [tx_hash]),
        )
        .await?;
        let Some(receipt) = receipt else { return Ok(None) };
        let (Some(block_number), Some(block_hash)) = (receipt.block_number, receipt.block_hash) else {
            return Ok(None);
        };
        let untrue = |what: &str| Err(Failure::Untrue(format!("the receipt of {tx_hash} {what}")));
        let agrees = transaction.is_some_and(|transaction| {
            transaction.hash == tx_hash
                && transaction.block_hash == Some(block_hash)
                && transaction.from == receipt.from
                && transaction.to == receipt.to
        });
        if receipt.transaction_hash != tx_hash || !agrees {
            return untrue("does not agree with the transaction");
        }
        let succeeded = match receipt.status.to::<u64>() {
            0 => false,
            1 => true,
            _ => return untrue("has an unknown status"),
        };
        let is_complete = bloom_of(&receipt.logs).contains(&receipt.logs_bloom);
        let logs = in_order(receipt.logs).map_err(Failure::Untrue)?;
        let is_own = |placed: &PlacedLog| placed.tx_hash == tx_hash && placed.block_hash == block_hash;
        if !is_complete || !logs.iter().all(is_own) {
            return untrue("holds events of others or lacks its own");
        }
        // Some nodes hand out receipts of blocks that do not exist yet or not any more.
        let number = block_number.to();
        let canonical = block_at(number, header(&line, json!(block_number)).await?)?;
        if canonical.is_none_or(|block| block.hash != block_hash) {
            return Ok(None);
        }
        let on = |bytes| Address::on(self.network, bytes);
        Ok(Some(TxProof {
            tx_hash,
            block_number: number,
            block_hash,
            succeeded,
            from: on(receipt.from),
            to: receipt.to.map(on),
            observations: self.watched.observations(&logs).map_err(Failure::Untrue)?,
            transfers: self.watched.transfers(&logs),
        }))
    }
}

fn tells_of_tag(message: &str) -> bool {
    let message = message.to_lowercase();
    NO_TAG_TEXTS.iter().any(|text| message.contains(text))
}

async fn header(line: &Line, which: serde_json::Value) -> Result<Option<Header>, Failure> {
    line.call("eth_getBlockByNumber", (which, false)).await
}

fn block_ref(header: &Header) -> Result<BlockRef, Failure> {
    if header.hash.is_zero() || header.hash == header.parent_hash {
        return Err(Failure::Untrue("a block without a hash of its own".to_owned()));
    }
    let time_s: u64 = header.timestamp.to();
    let time = i64::try_from(time_s)
        .ok()
        .and_then(|time_s| DateTime::from_timestamp(time_s, 0))
        .filter(|time| time.year() <= YEAR_MAX)
        .ok_or_else(|| Failure::Untrue(format!("a block of second {time_s}, which no calendar has")))?;
    Ok(BlockRef {
        number: header.number.to(),
        hash: header.hash,
        parent_hash: header.parent_hash,
        time,
    })
}

/// The header of a height, which must say so itself.
fn block_at(number: u64, header: Option<Header>) -> Result<Option<BlockRef>, Failure> {
    let block = header.as_ref().map(block_ref).transpose()?;
    match block {
        Some(block) if block.number != number => {
            Err(Failure::Untrue(format!("block {} for block {number}", block.number)))
        }
        block => Ok(block),
    }
}

fn belong_to(logs: &[PlacedLog], block: &BlockRef) -> Result<(), Failure> {
    if logs
        .iter()
        .all(|placed| placed.block_hash == block.hash && placed.block_number == block.number)
    {
        Ok(())
    } else {
        Err(Failure::Untrue(format!(
            "events of another block for block {}",
            block.number
        )))
    }
}

#[async_trait]
impl Chain for EvmChain {
    fn network(&self) -> Network {
        self.network
    }

    fn start_block(&self) -> u64 {
        self.start_block
    }

    async fn head(&self) -> Result<BlockRef, ChainError> {
        let question = |line: Line| async move { self.latest(&line).await };
        let head = self.ask(Witness::First, Patience::Thorough, question).await?;
        if self.nodes.len() > 1 && self.is_suspicious(&head) {
            return Ok(self.compare_heads(head).await);
        }
        Ok(head)
    }

    async fn finalized(&self, head: &BlockRef) -> Result<BlockRef, ChainError> {
        let found = match self.confirmations {
            Some(blocks) => self.at_depth(head, blocks - 1).await?,
            None => match self.tagged(head).await? {
                Some(tag) => tag,
                None => self.at_depth(head, self.network.finality_depth()).await?,
            },
        };
        let known = locked(&self.finalized);
        let Some(known) = known.filter(|known| known.number >= found.number) else {
            store(&self.finalized, Some(found));
            return Ok(found);
        };
        if known.number > head.number {
            let reason = format!("head {} is below block {}, which was final", head.number, known.number);
            return Err(self.malformed(reason));
        }
        if known.number == found.number && known.hash != found.hash {
            return Err(ChainError::Disagreement {
                network: self.network,
                reason: format!("block {}, which was final, has another hash now", known.number),
            });
        }
        Ok(known)
    }

    async fn block(&self, number: u64, witness: Witness) -> Result<Option<BlockRef>, ChainError> {
        let question = |line: Line| async move { block_at(number, header(&line, json!(U64::from(number))).await?) };
        let block = self.ask_for(witness, Patience::Thorough, question).await?;
        if block.is_none() && locked(&self.finalized).is_some_and(|known| number <= known.number) {
            return Err(self.malformed(format!("block {number}, which was final, is gone")));
        }
        Ok(block)
    }

    async fn observations_at(&self, block: &BlockRef, witness: Witness) -> Result<Vec<Observation>, ChainError> {
        if self.watched.addresses.is_empty() {
            return Ok(Vec::new());
        }
        let question = |line| self.observations_by_hash(line, block);
        self.ask(witness, Patience::Thorough, question).await
    }

    async fn observations_in(
        &self,
        from: u64,
        to: u64,
        witness: Witness,
    ) -> Result<(Vec<Observation>, u64), ChainError> {
        if self.watched.addresses.is_empty() || from > to {
            return Ok((Vec::new(), to));
        }
        let mut failures = Vec::new();
        for node in self.order(witness) {
            match self.window_of(&node, from, to).await {
                Ok(found) => {
                    if witness == Witness::First {
                        self.first.store(node.index, Ordering::Relaxed);
                    }
                    return Ok(found);
                }
                Err(failure) => failures.push((node.index, failure)),
            }
        }
        Err(self.sum_up(&failures))
    }

    async fn proof(&self, tx_hash: B256, witness: Witness) -> Result<Option<TxProof>, ChainError> {
        let question = |line| self.proof_of(line, tx_hash);
        self.ask_for(witness, Patience::Thorough, question).await
    }
}
