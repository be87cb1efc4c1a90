//! Proofs of single transactions, and the search for transactions with events of a contract.
//!
//! Nodes only say in which block a transaction is. The block is proven like any other.

use crate::{
    adapters::nodes::{
        LookupTimeout, NodeChain, block_ref,
        node::{NodeFailure, NodeLookup},
        settle::WantedTransactions,
        window::NarrowingCause,
        wire::RawLog,
    },
    domain::{
        address::Address,
        proven_tx::{ProvenLog, ProvenTx},
        safe::hash_in,
    },
    ports::chain::{ChainError, Emitter, ReportedEmissions, TxProofs},
};
use alloy::primitives::{B256, U64};
use async_trait::async_trait;
use futures_util::{StreamExt, future::join, stream};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeSet;

/// Maximum number of concurrent searches on one node.
const SEARCHES_AT_ONCE: usize = 8;

/// The position that the receipt of a transaction states.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatedPosition {
    block_number: U64,
}

/// Maximum number of transactions of one contract that a node can name in one search. A node with false data can name
/// thousands, and each of them is proven.
const NAMED_MAX: usize = 3;

/// Divisor of the number of blocks of a search, when a node refuses the search because of too many blocks.
const NARROWING: u64 = 8;

/// Proofs of the transactions of an EVM network.
pub(super) struct EvmProofs {
    nodes: NodeChain,
}

#[async_trait]
impl TxProofs for EvmProofs {
    async fn proven(&self, tx_hash: B256, final_to: u64) -> Result<Option<ProvenTx>, ChainError> {
        let question = |line: NodeLookup| async move {
            line.call::<Option<StatedPosition>>("eth_getTransactionReceipt", [tx_hash])
                .await
        };
        let wanted = self.nodes.agreement_now();
        let (mut asked, mut failures) = (Vec::new(), Vec::new());
        let (mut tried, mut unproven) = (BTreeSet::new(), None);
        let mut answered = 0;
        // A node with false data can conceal the transaction, or name a block that does not contain it. So every named
        // block is tried, and the service queries the remaining nodes too.
        for more in [wanted, self.nodes.nodes.len()] {
            let answers = self
                .nodes
                .ask_distinct(more, LookupTimeout::Thorough, &asked, &question)
                .await;
            asked.extend(answers.given.iter().map(|(index, _)| *index));
            asked.extend(answers.failures.iter().map(|(index, _)| *index));
            answered += answers.given.len();
            failures.extend(answers.failures);
            for position in answers.given.into_iter().filter_map(|(_, position)| position) {
                let number: u64 = position.block_number.to();
                if number > final_to || !tried.insert(number) {
                    continue;
                }
                match self.prove_in(tx_hash, number).await {
                    Ok(Some(proven)) => return Ok(Some(proven)),
                    Ok(None) => {}
                    Err(error) => unproven = Some(error),
                }
            }
        }
        match unproven {
            Some(error) => Err(error),
            // A missing response proves nothing.
            None if answered < wanted => Err(self.nodes.sum_up(&failures)),
            None => Ok(None),
        }
    }

    async fn list_emissions(
        &self,
        emitters: &[Emitter],
        topics: &[B256],
        to: u64,
    ) -> Result<Vec<ReportedEmissions>, ChainError> {
        let question = |line: NodeLookup| async move { self.emissions(&line, emitters, topics, to).await };
        let wanted = self.nodes.agreement_now();
        let answers = self
            .nodes
            .ask_distinct(wanted, LookupTimeout::Thorough, &[], question)
            .await;
        if answers.given.len() < wanted {
            return Err(self.nodes.sum_up(&answers.failures));
        }
        let reported = (0..emitters.len()).map(|place| {
            let of_nodes = || answers.given.iter().filter_map(move |(_, given)| given.get(place));
            ReportedEmissions {
                tx_hashes: of_nodes().flat_map(|found| &found.tx_hashes).copied().collect(),
                // `None`, from a node that did not search, is less than every block.
                read_to: of_nodes().map(|found| found.read_to).min().flatten(),
            }
        });
        Ok(reported.collect())
    }
}

/// The transactions with requested events of one contract, according to one node.
#[derive(Default)]
struct NodeEmissions {
    tx_hashes: BTreeSet<B256>,
    /// Last searched block; `None` if the node does not return the events.
    read_to: Option<u64>,
}

impl NodeEmissions {
    /// Reads the events that a node returned. Errors: an event that was not requested.
    fn read(emitter: &Emitter, topics: &[B256], logs: &[RawLog], read_to: u64) -> Result<Self, NodeFailure> {
        let contract = emitter.contract.bytes();
        let is_requested =
            |log: &RawLog| log.address == contract && log.topics.first().is_some_and(|topic| topics.contains(topic));
        if !logs.iter().all(is_requested) {
            return Err(NodeFailure::Untrue(
                "the node returned an event that was not requested".to_owned(),
            ));
        }
        let is_marked = |log: &&RawLog| hash_in(&log.topics, &log.data) == Some(emitter.mark);
        let mut tx_hashes = BTreeSet::new();
        for tx_hash in logs.iter().filter(is_marked).filter_map(|log| log.transaction_hash) {
            if tx_hashes.len() < NAMED_MAX {
                tx_hashes.insert(tx_hash);
            }
        }
        Ok(Self {
            tx_hashes,
            read_to: Some(read_to),
        })
    }
}

/// Searches the events of one contract, over as many blocks as the node allows.
async fn search(line: &NodeLookup, emitter: &Emitter, topics: &[B256], to: u64) -> Result<NodeEmissions, NodeFailure> {
    let mut last = to.min(emitter.from.saturating_add(line.node.width() - 1));
    loop {
        let filter = json!([{
            "address": emitter.contract.bytes(),
            "topics": [topics],
            "fromBlock": U64::from(emitter.from),
            "toBlock": U64::from(last),
        }]);
        match line.call::<Vec<RawLog>>("eth_getLogs", filter).await {
            Ok(logs) => return NodeEmissions::read(emitter, topics, &logs, last),
            // The node does not learn this width: it depends on how many events the contract emits.
            Err(failure) if last > emitter.from && is_too_wide(&failure) => {
                last = emitter.from + (last - emitter.from) / NARROWING;
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn is_too_wide(failure: &NodeFailure) -> bool {
    let cause = failure.narrower();
    // After a timeout, no time is left for another call.
    cause.is_some_and(|cause| cause != NarrowingCause::Slow)
}

impl EvmProofs {
    /// Proofs over these connections.
    pub(super) fn new(nodes: NodeChain) -> Self {
        Self { nodes }
    }

    /// Searches the events of each contract on one node.
    async fn emissions(
        &self,
        line: &NodeLookup,
        emitters: &[Emitter],
        topics: &[B256],
        to: u64,
    ) -> Result<Vec<NodeEmissions>, NodeFailure> {
        // Strangers choose the contracts. Each contract has a call of its own, so that one with too many events delays no
        // other one.
        let searches: Vec<_> = emitters
            .iter()
            .map(|emitter| search(line, emitter, topics, to))
            .collect();
        let searches = stream::iter(searches).buffered(SEARCHES_AT_ONCE).collect::<Vec<_>>();
        // A lagging node returns nothing for unknown blocks, so the last block must exist.
        let (last, answers) = join(self.nodes.header_at(line, to), searches).await;
        if last?.is_none() {
            return Err(NodeFailure::Unknown(format!("block {to} is not available yet")));
        }
        let (mut found, mut failed) = (Vec::with_capacity(answers.len()), None);
        for answer in answers {
            match answer {
                Ok(emissions) => found.push(emissions),
                Err(failure) if failure.is_untrue() => return Err(failure),
                Err(failure) => {
                    failed = Some(failure);
                    found.push(NodeEmissions::default());
                }
            }
        }
        let has_searched = found.iter().any(|emissions| emissions.read_to.is_some());
        match failed.filter(|_| !has_searched) {
            Some(failure) => Err(failure),
            None => Ok(found),
        }
    }

    async fn prove_in(&self, tx_hash: B256, number: u64) -> Result<Option<ProvenTx>, ChainError> {
        let header = self.nodes.agree(number, Vec::new()).await?;
        let block = block_ref(&header).map_err(|failure| self.nodes.malformed(failure.to_string()))?;
        let found = self.nodes.prove(&header, WantedTransactions::One(tx_hash)).await?;
        let on = |bytes| Address::on(self.nodes.network, bytes);
        Ok(found.into_iter().next().map(|found| ProvenTx {
            tx_hash: found.tx_hash,
            block,
            succeeded: found.succeeded,
            sender: on(found.from),
            target: found.to.map(on),
            value: found.value,
            input: found.input.to_vec(),
            logs: found
                .logs
                .into_iter()
                .map(|log| ProvenLog {
                    emitter: on(log.address),
                    topics: log.topics,
                    data: log.data.to_vec(),
                })
                .collect(),
        }))
    }
}
