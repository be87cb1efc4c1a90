//! Proofs of single transactions, and the search for transactions with events of a contract.
//!
//! Nodes only say where a transaction is. The proof is the one of whole blocks ([`super::settle`]).

use super::{
    EvmChain, LookupTimeout, block_ref, header_at,
    node::{NodeFailure, NodeLookup},
    settle::WantedTransactions,
    wire::RawLog,
};
use crate::{
    domain::{
        address::Address,
        proven_tx::{ProvenLog, ProvenTx},
    },
    ports::chain::{ChainError, Emitter, ReportedEmissions, TxProofs},
};
use alloy::primitives::{B256, U64};
use async_trait::async_trait;
use futures_util::future::join;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The position that the receipt of a transaction states.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatedPosition {
    block_number: U64,
}

#[async_trait]
impl TxProofs for EvmChain {
    async fn proven(&self, tx_hash: B256, final_to: u64) -> Result<Option<ProvenTx>, ChainError> {
        let mut failure = None;
        // A node with false data can name a block that does not contain the transaction, so every named block is tried.
        for number in self.stated_blocks(tx_hash).await? {
            if number > final_to {
                continue;
            }
            match self.prove_in(tx_hash, number).await {
                Ok(Some(proven)) => return Ok(Some(proven)),
                Ok(None) => {}
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    async fn list_emissions(
        &self,
        emitters: &[Emitter],
        topics: &[B256],
        to: u64,
    ) -> Result<Vec<ReportedEmissions>, ChainError> {
        let width = self.nodes.iter().map(|node| node.width()).min().unwrap_or(1);
        let searches: Vec<EmissionSearch> = emitters
            .iter()
            .map(|emitter| EmissionSearch {
                emitter: *emitter,
                to: to.min(emitter.from.saturating_add(width - 1)),
            })
            .collect();
        let question = |line: NodeLookup| {
            let searches = &searches;
            async move { emissions(&line, searches, topics, to).await }
        };
        let wanted = self.agreement_now();
        let answers = self.ask_distinct(wanted, LookupTimeout::Thorough, &[], question).await;
        if answers.given.len() < wanted {
            return Err(self.sum_up(&answers.failures));
        }
        let reported = searches.iter().enumerate().map(|(place, search)| {
            let of_nodes = answers.given.iter().map(|(_, given)| given.get(place)?.as_ref());
            let of_nodes: Option<Vec<&BTreeSet<B256>>> = of_nodes.collect();
            let read_to = of_nodes.as_ref().map(|_| search.to);
            let found = of_nodes.into_iter().flatten().flatten().copied();
            ReportedEmissions {
                tx_hashes: found.collect(),
                read_to,
            }
        });
        Ok(reported.collect())
    }
}

/// The search for events of one contract.
struct EmissionSearch {
    emitter: Emitter,
    to: u64,
}

impl EmissionSearch {
    /// The parameters of the call for the events.
    fn filter(&self, topics: &[B256]) -> Value {
        json!([{
            "address": self.emitter.contract.bytes(),
            "topics": [topics],
            "fromBlock": U64::from(self.emitter.from),
            "toBlock": U64::from(self.to),
        }])
    }

    /// The transactions of the events that a node returned. Errors: an event that was not requested.
    fn read(&self, logs: &[RawLog], topics: &[B256]) -> Result<BTreeSet<B256>, NodeFailure> {
        let contract = self.emitter.contract.bytes();
        let is_requested =
            |log: &RawLog| log.address == contract && log.topics.first().is_some_and(|topic| topics.contains(topic));
        if !logs.iter().all(is_requested) {
            return Err(NodeFailure::Untrue(
                "the node returned an event that was not requested".to_owned(),
            ));
        }
        let mark = self.emitter.mark;
        let is_marked = |log: &&RawLog| log.topics.get(1) == Some(&mark) || log.data.starts_with(mark.as_slice());
        Ok(logs
            .iter()
            .filter(is_marked)
            .filter_map(|log| log.transaction_hash)
            .collect())
    }
}

/// The transactions with requested events of each contract, according to one node; `None` for a contract whose events
/// the node does not return.
async fn emissions(
    line: &NodeLookup,
    searches: &[EmissionSearch],
    topics: &[B256],
    to: u64,
) -> Result<Vec<Option<BTreeSet<B256>>>, NodeFailure> {
    let calls: Vec<_> = searches
        .iter()
        .map(|search| ("eth_getLogs", search.filter(topics)))
        .collect();
    // A lagging node returns nothing for unknown blocks, so the last block must exist.
    let (last, answers) = join(header_at(line, to), line.batch::<Vec<RawLog>>(&calls)).await;
    if last?.is_none() {
        return Err(NodeFailure::Unknown(format!("block {to} is not available yet")));
    }
    let read = searches.iter().zip(answers?).map(|(search, logs)| match logs {
        Ok(logs) => search.read(&logs, topics).map(Some),
        Err(_) => Ok(None),
    });
    read.collect()
}

impl EvmChain {
    /// The blocks in which a transaction is, according to as many nodes as must agree.
    async fn stated_blocks(&self, tx_hash: B256) -> Result<BTreeSet<u64>, ChainError> {
        let question = |line: NodeLookup| async move {
            line.call::<Option<StatedPosition>>("eth_getTransactionReceipt", [tx_hash])
                .await
        };
        let wanted = self.agreement_now();
        let answers = self.ask_distinct(wanted, LookupTimeout::Thorough, &[], question).await;
        let stated = answers.given.iter().filter_map(|(_, position)| position.as_ref());
        let stated: BTreeSet<u64> = stated.map(|position| position.block_number.to()).collect();
        // A missing response proves nothing.
        if stated.is_empty() && answers.given.len() < wanted {
            return Err(self.sum_up(&answers.failures));
        }
        Ok(stated)
    }

    async fn prove_in(&self, tx_hash: B256, number: u64) -> Result<Option<ProvenTx>, ChainError> {
        let header = self.agree(number, Vec::new()).await?;
        let block = block_ref(&header).map_err(|failure| self.malformed(failure.to_string()))?;
        let found = self.prove(&header, WantedTransactions::One(tx_hash)).await?;
        let on = |bytes| Address::on(self.network, bytes);
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
