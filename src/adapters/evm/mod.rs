//! An EVM network over JSON-RPC.
//!
//! Nodes are asked in order, each with a deadline, and no answer is believed before it was checked: chain ID, block
//! hash and number of every log, logs that a block's bloom filter promises, heads that stand still. What a single
//! answer cannot show, such as a log that was left out, is found by the second reading at finality.
//! Source: reliability rules B.1, B.2.

mod decode;
mod rpc;

use crate::{
    domain::{
        address::Address,
        calldata::Standing,
        currency::{ContractKind, KnownContract},
        network::Network,
        payment::{BlockRef, Observation, TxProof},
    },
    ports::{
        chain::{Chain, ChainError, Reader},
        clock::Clock,
    },
};
use alloy::{
    primitives::{Address as EvmAddress, B256, Bloom, BloomInput, Bytes, U64, U256},
    sol,
    sol_types::SolCall,
};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use decode::{RawLog, RawReceipt, TOPICS, Watched};
use rpc::{NodeError, Nodes, Patience};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

sol! {
    function balanceOf(address owner) returns (uint256);
    function allowance(address owner, address spender) returns (uint256);
    function getConversion(uint256 amountIn, address[] path) returns (uint256 result, uint256 oldestRateTimestamp);
}

/// Time that reading a range of logs may take at one node.
const RANGE_TIMEOUT: Duration = Duration::from_secs(20);

/// Blocks in the first range that is asked for, and in the largest.
const WINDOW_START: u64 = 2_000;
const WINDOW_MAX: u64 = 10_000;

/// Bloom filters of recent blocks that are kept.
const BLOOMS_KEPT: usize = 512;

/// Block times for which a head may stand still before other nodes are asked. Source: reliability rules B.2 (6).
const STALE_AFTER_BLOCKS: u64 = 5;

/// How long a node that stands still is left alone.
const STALE_PAUSE: Duration = Duration::from_secs(60);

/// What a chain is made of.
pub struct EvmChainOptions {
    /// Network.
    pub network: Network,
    /// Chain ID that every node has to serve.
    pub chain_id: u64,
    /// Addresses of the nodes, in order.
    pub rpc_urls: Vec<String>,
    /// Blocks after which a payment is final, its own included; `None` for the `finalized` tag.
    pub confirmations: Option<u64>,
    /// First block to read; `None` for the creation of the oldest contract.
    pub start_block: Option<u64>,
    /// Contracts of the network.
    pub contracts: Vec<KnownContract>,
    /// Time that one lookup may take at one node.
    pub call_timeout: Duration,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// An EVM network.
pub struct EvmChain {
    network: Network,
    nodes: Nodes,
    watched: Watched,
    contracts: Vec<KnownContract>,
    confirmations: Option<u64>,
    start_block: u64,
    lookup: Patience,
    clock: Arc<dyn Clock>,
    window: AtomicU64,
    finalized_max: AtomicU64,
    blooms: Mutex<VecDeque<(B256, Bloom)>>,
    last_head: Mutex<Option<(u64, DateTime<Utc>)>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBlock {
    number: U64,
    hash: B256,
    parent_hash: B256,
    timestamp: U64,
    #[serde(default)]
    logs_bloom: Bloom,
}

impl RawBlock {
    fn reference(&self) -> BlockRef {
        BlockRef {
            number: self.number.to(),
            hash: self.hash,
            parent_hash: self.parent_hash,
            time_s: self.timestamp.to(),
        }
    }
}

impl EvmChain {
    /// Builds the chain; no node is asked yet.
    pub fn new(options: EvmChainOptions) -> anyhow::Result<Self> {
        let watched = Watched::new(options.network, &options.contracts);
        let emitting = options
            .contracts
            .iter()
            .filter(|contract| contract.kind.emits_payments());
        let oldest = emitting.map(|contract| contract.creation_block).min().unwrap_or(0);
        Ok(Self {
            network: options.network,
            nodes: Nodes::new(options.network, options.chain_id, &options.rpc_urls)?,
            watched,
            contracts: options.contracts,
            confirmations: options.confirmations,
            start_block: options.start_block.unwrap_or(oldest),
            // With every node down a caller knows within three seconds.
            lookup: Patience {
                node: options.call_timeout,
                total: Duration::from_millis(2_500),
            },
            clock: options.clock,
            window: AtomicU64::new(WINDOW_START),
            finalized_max: AtomicU64::new(0),
            blooms: Mutex::new(VecDeque::new()),
            last_head: Mutex::new(None),
        })
    }

    fn malformed(&self, reason: impl Into<String>) -> ChainError {
        ChainError::Malformed {
            network: self.network,
            reason: reason.into(),
        }
    }

    /// A block by height or tag; `None` when the chain has none there.
    async fn block_at(&self, which: &str, reader: Reader) -> Result<Option<RawBlock>, ChainError> {
        let wanted = which
            .strip_prefix("0x")
            .and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let accept = |block: Option<RawBlock>| match (&block, wanted) {
            (Some(block), Some(wanted)) if block.number.to::<u64>() != wanted => Err(NodeError::Malformed(format!(
                "asked for block {wanted}, got block {}",
                block.number
            ))),
            _ => Ok(block),
        };
        let block = self
            .nodes
            .ask(
                "eth_getBlockByNumber",
                json!([which, false]),
                reader,
                self.lookup,
                accept,
            )
            .await?;
        if let Some(block) = &block {
            self.remember(block.hash, block.logs_bloom);
        }
        Ok(block)
    }

    fn remember(&self, hash: B256, bloom: Bloom) {
        if let Ok(mut blooms) = self.blooms.lock()
            && !blooms.iter().any(|(known, _)| *known == hash)
        {
            blooms.push_back((hash, bloom));
            if blooms.len() > BLOOMS_KEPT {
                blooms.pop_front();
            }
        }
    }

    async fn bloom(&self, hash: B256, reader: Reader) -> Result<Bloom, ChainError> {
        let known = self
            .blooms
            .lock()
            .ok()
            .and_then(|blooms| blooms.iter().find(|(known, _)| *known == hash).map(|(_, b)| *b));
        if let Some(bloom) = known {
            return Ok(bloom);
        }
        let accept = |block: Option<RawBlock>| {
            block
                .filter(|block| block.hash == hash)
                .ok_or_else(|| NodeError::Failed("the block is gone".to_owned()))
        };
        let block = self
            .nodes
            .ask("eth_getBlockByHash", json!([hash, false]), reader, self.lookup, accept)
            .await?;
        self.remember(hash, block.logs_bloom);
        Ok(block.logs_bloom)
    }

    /// Whether a block's filter promises an event of ours: contract and topic both.
    fn is_promised(&self, bloom: &Bloom) -> bool {
        let has_topic = TOPICS
            .iter()
            .any(|topic| bloom.contains_input(BloomInput::Raw(topic.as_slice())));
        has_topic
            && self
                .watched
                .addresses()
                .iter()
                .any(|address| bloom.contains_input(BloomInput::Raw(address.as_slice())))
    }

    fn filter(&self, range: Value) -> Value {
        let mut filter = range;
        filter["address"] = json!(self.watched.addresses());
        filter["topics"] = json!([TOPICS]);
        json!([filter])
    }

    /// What holds for every log of an answer.
    fn check(&self, logs: &[RawLog], from: u64, to: u64) -> Result<(), NodeError> {
        let mut hashes: HashMap<u64, B256> = HashMap::new();
        for log in logs {
            let number = log.block();
            if !(from..=to).contains(&number) {
                return Err(NodeError::Malformed(format!(
                    "a log of block {number} outside of {from} to {to}"
                )));
            }
            if log.removed {
                return Err(NodeError::Malformed(format!("a removed log of block {number}")));
            }
            if !self.watched.holds(log) {
                return Err(NodeError::Malformed(format!(
                    "a log of block {number} that was not asked for"
                )));
            }
            if *hashes.entry(number).or_insert(log.block_hash) != log.block_hash {
                return Err(NodeError::Malformed(format!(
                    "logs of block {number} with different block hashes"
                )));
            }
        }
        Ok(())
    }

    /// Another node's head, when the first node's has stood still for longer than blocks take.
    async fn unless_stale(&self, head: BlockRef) -> BlockRef {
        let now = self.clock.now();
        let allowed = i64::try_from(self.network.block_time_ms() * STALE_AFTER_BLOCKS).unwrap_or(i64::MAX);
        let is_suspect = {
            let Ok(mut last) = self.last_head.lock() else {
                return head;
            };
            match *last {
                Some((number, since)) if number >= head.number => (now - since).num_milliseconds() > allowed,
                _ => {
                    *last = Some((head.number, now));
                    false
                }
            }
        };
        if !is_suspect || self.nodes.count() < 2 {
            return head;
        }
        let mut best = head;
        let order = self.nodes.order(Reader::First);
        for index in order.iter().skip(1) {
            let params = json!(["latest", false]);
            let answer = self
                .nodes
                .ask_at::<RawBlock>(*index, "eth_getBlockByNumber", &params, self.lookup.node)
                .await;
            if let Ok(block) = answer
                && block.number.to::<u64>() > best.number
            {
                self.remember(block.hash, block.logs_bloom);
                best = block.reference();
            }
        }
        if best.number > head.number
            && let Some(first) = order.first()
        {
            tracing::warn!(network = %self.network, node = first + 1, head = head.number, ahead = best.number, "node stands still");
            self.nodes.rest(*first, STALE_PAUSE);
        }
        best
    }

    /// The smallest height that nodes tagged `finalized`; `None` where none serves the tag.
    async fn tagged(&self) -> Option<u64> {
        let mut smallest: Option<u64> = None;
        for index in self.nodes.order(Reader::First) {
            let params = json!(["finalized", false]);
            if let Ok(Some(block)) = self
                .nodes
                .ask_at::<Option<RawBlock>>(index, "eth_getBlockByNumber", &params, self.lookup.node)
                .await
            {
                let number = block.number.to();
                smallest = Some(smallest.map_or(number, |known| known.min(number)));
            }
        }
        smallest
    }

    async fn call<C: SolCall>(&self, to: Address, call: &C) -> Result<C::Return, ChainError> {
        let transaction = json!({ "to": to.bytes(), "data": Bytes::from(call.abi_encode()) });
        let accept = |result: Bytes| {
            C::abi_decode_returns(&result).map_err(|_| NodeError::Malformed("a call result does not decode".to_owned()))
        };
        self.nodes
            .ask(
                "eth_call",
                json!([transaction, "latest"]),
                Reader::First,
                self.lookup,
                accept,
            )
            .await
    }

    async fn quantity(&self, method: &str, params: Value) -> Result<U256, ChainError> {
        self.nodes
            .ask(method, params, Reader::First, self.lookup, Ok::<U256, NodeError>)
            .await
    }

    async fn token_units(&self, token: Option<Address>, payer: Address) -> Result<U256, ChainError> {
        match token {
            Some(token) => self.call(token, &balanceOfCall { owner: payer.bytes() }).await,
            None => self.quantity("eth_getBalance", json!([payer.bytes(), "latest"])).await,
        }
    }

    async fn allowed_units(
        &self,
        token: Option<Address>,
        payer: Address,
        spender: Address,
    ) -> Result<U256, ChainError> {
        match token {
            Some(token) => {
                self.call(
                    token,
                    &allowanceCall {
                        owner: payer.bytes(),
                        spender: spender.bytes(),
                    },
                )
                .await
            }
            None => Ok(U256::MAX),
        }
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
        let block = self
            .block_at("latest", Reader::First)
            .await?
            .ok_or_else(|| self.malformed("the chain has no head"))?;
        Ok(self.unless_stale(block.reference()).await)
    }

    async fn finalized(&self, head: &BlockRef) -> Result<BlockRef, ChainError> {
        let number = match self.confirmations {
            Some(confirmations) => head.number.saturating_sub(confirmations.max(1) - 1),
            None => match self.tagged().await {
                // A node that is ahead of the head that was read first is no liar; later blocks wait for the next look.
                Some(number) => number.min(head.number),
                None => head.number.saturating_sub(self.network.finality_depth()),
            },
        };
        // What was final once stays final: a node that lags behind cannot take it back.
        let number = number.max(self.finalized_max.load(Ordering::Relaxed)).min(head.number);
        self.finalized_max.fetch_max(number, Ordering::Relaxed);
        if number == head.number {
            return Ok(*head);
        }
        let block = self.block(number, Reader::First).await?;
        block.ok_or_else(|| self.malformed(format!("final block {number} is missing")))
    }

    async fn block(&self, number: u64, reader: Reader) -> Result<Option<BlockRef>, ChainError> {
        Ok(self
            .block_at(&format!("{number:#x}"), reader)
            .await?
            .map(|block| block.reference()))
    }

    async fn observations_at(&self, block: &BlockRef, reader: Reader) -> Result<Vec<Observation>, ChainError> {
        let is_promised = self.is_promised(&self.bloom(block.hash, reader).await?);
        let params = self.filter(json!({ "blockHash": block.hash }));
        let patience = Patience {
            node: RANGE_TIMEOUT,
            total: RANGE_TIMEOUT,
        };
        let accept = |logs: Vec<RawLog>, may_be_empty: bool| {
            self.check(&logs, block.number, block.number)?;
            if logs.iter().any(|log| log.block_hash != block.hash) {
                return Err(NodeError::Malformed(format!(
                    "a log of block {} with another block hash",
                    block.number
                )));
            }
            if logs.is_empty() && is_promised && !may_be_empty {
                return Err(NodeError::Malformed(format!(
                    "no logs of block {}, although its filter promises some",
                    block.number
                )));
            }
            self.watched.observations(&logs).map_err(NodeError::Malformed)
        };
        let asked = self
            .nodes
            .ask("eth_getLogs", params.clone(), reader, patience, |logs| {
                accept(logs, false)
            })
            .await;
        match asked {
            // Filters of full blocks promise too much now and then; when every node agrees, the second reading decides.
            Err(ChainError::Malformed { .. }) if is_promised => {
                self.nodes
                    .ask("eth_getLogs", params, reader, patience, |logs| accept(logs, true))
                    .await
            }
            other => other,
        }
    }

    async fn observations_in(&self, from: u64, to: u64, reader: Reader) -> Result<(Vec<Observation>, u64), ChainError> {
        let mut window = self.window.load(Ordering::Relaxed);
        loop {
            let end = to.min(from.saturating_add(window - 1));
            let params = self.filter(json!({ "fromBlock": format!("{from:#x}"), "toBlock": format!("{end:#x}") }));
            let mut is_too_large = false;
            let mut last = NodeError::Failed("no node is configured".to_owned());
            for index in self.nodes.order(reader) {
                let answer = self
                    .nodes
                    .ask_at::<Vec<RawLog>>(index, "eth_getLogs", &params, RANGE_TIMEOUT)
                    .await;
                let answer = answer.and_then(|logs| {
                    self.check(&logs, from, end)?;
                    self.watched.observations(&logs).map_err(NodeError::Malformed)
                });
                match answer {
                    Ok(found) => {
                        self.window
                            .store((window + window / 4 + 1).min(WINDOW_MAX), Ordering::Relaxed);
                        return Ok((found, end));
                    }
                    Err(error @ NodeError::TooLarge(_)) => {
                        is_too_large = true;
                        last = error;
                        break;
                    }
                    Err(error) => {
                        self.nodes.judge::<()>(index, &Err(error.clone()));
                        last = error;
                    }
                }
            }
            // A node that runs out of time may manage less.
            let may_manage_less =
                is_too_large || matches!(&last, NodeError::Failed(reason) if reason.starts_with("no answer"));
            if !may_manage_less || window == 1 {
                return Err(self.nodes.error(last));
            }
            window = (window.min(end - from + 1) / 2).max(1);
            self.window.store(window, Ordering::Relaxed);
        }
    }

    async fn proof(&self, tx_hash: B256, reader: Reader) -> Result<Option<TxProof>, ChainError> {
        let accept = |receipt: Option<RawReceipt>| match receipt {
            Some(receipt) if receipt.transaction_hash != tx_hash => {
                Err(NodeError::Malformed("the receipt of another transaction".to_owned()))
            }
            Some(receipt) => self.watched.proof(&receipt).map(Some).map_err(NodeError::Malformed),
            None => Ok(None),
        };
        let proof = self
            .nodes
            .ask(
                "eth_getTransactionReceipt",
                json!([tx_hash]),
                reader,
                self.lookup,
                accept,
            )
            .await?;
        let Some(proof) = proof else { return Ok(None) };
        // Some nodes serve receipts of blocks that are not part of the chain yet, or no longer.
        let block = self.block(proof.block_number, reader).await?;
        Ok(block.filter(|block| block.hash == proof.block_hash).map(|_| proof))
    }

    async fn standing(&self, payer: Address, token: Option<Address>, spender: Address) -> Result<Standing, ChainError> {
        let (balance, allowance, native_balance, gas_price) = tokio::try_join!(
            self.token_units(token, payer),
            self.allowed_units(token, payer, spender),
            self.token_units(None, payer),
            self.quantity("eth_gasPrice", json!([])),
        )?;
        Ok(Standing {
            balance,
            native_balance,
            allowance,
            gas_price,
        })
    }

    async fn convert(&self, path: &[EvmAddress], units: U256) -> Result<U256, ChainError> {
        let kind = ContractKind::ChainlinkConversionPath;
        let known = self.contracts.iter().filter(|contract| contract.kind == kind);
        let contract = known
            .clone()
            .find(|contract| contract.is_default)
            .or_else(|| known.clone().next());
        let contract = contract.ok_or_else(|| self.malformed("the network has no price feeds"))?;
        let converted = self
            .call(
                contract.address,
                &getConversionCall {
                    amountIn: units,
                    path: path.to_vec(),
                },
            )
            .await?;
        Ok(converted.result)
    }
}
