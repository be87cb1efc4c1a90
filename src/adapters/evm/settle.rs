//! Blocks with everything in them that concerns payments, proven against their headers.

use super::{
    EvmChain, Patience, block_ref,
    decode::Watched,
    evidence::{self, Proof, ProvenHeader, ProvenTx},
    node::{Failure, Line},
    read_header,
    receipts::{RawReceipt, RawTransaction, Unproven, read},
    wire::RawLog,
};
use crate::{
    domain::{
        network::Network,
        payment::{BlockRef, SettledBlock},
    },
    ports::chain::ChainError,
};
use alloy::primitives::U64;
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::sync::Arc;

/// Receipts that are asked for in one request where a node does not list those of a block.
const RECEIPTS_PER_BATCH: usize = 100;

/// Transactions and receipts of a block as a node lists them.
type Content = (Vec<RawTransaction>, Vec<RawReceipt>);

impl EvmChain {
    /// A final block: its header is agreed, its content proven by the roots in the header, or by equal answers of
    /// distinct nodes on networks whose roots cannot be recomputed.
    ///
    /// With an agreed header, a content that fails concerns this block alone: it is withheld, and at the second failure
    /// in a row nothing is to be hoped from asking again at once.
    pub(super) async fn settle(&self, number: u64) -> Result<SettledBlock, ChainError> {
        let header = self.agree(number, Vec::new()).await?;
        if let Some(settled) = self.kept.find(&header.hash) {
            return Ok(settled);
        }
        let network = self.network;
        match self.prove(&header).await {
            Ok(transactions) => {
                let settled = self.read_block(&header, &transactions)?;
                self.kept.keep(&settled);
                Ok(settled)
            }
            Err(ChainError::Unavailable { reason, .. }) => Err(match self.kept.has_failed_again(header.hash) {
                true => ChainError::Malformed { network, reason },
                false => ChainError::Withheld { network, reason },
            }),
            Err(error) => Err(error),
        }
    }

    async fn prove(&self, header: &ProvenHeader) -> Result<Vec<ProvenTx>, ChainError> {
        if evidence::proof_of(self.network) == Proof::Roots
            && let Some(transactions) = self.by_roots(header).await?
        {
            return Ok(transactions);
        }
        self.by_agreement(header).await
    }

    /// A block near the head by the word of one node: its header is known by its hash, its content proven against it.
    pub(super) async fn note(&self, block: &BlockRef) -> Result<SettledBlock, ChainError> {
        let question = |line: Line| async move {
            let raw = line.call("eth_getBlockByHash", (block.hash, true)).await?;
            let (header, transactions) = with_transactions(raw)?.unzip();
            let header = header.filter(|header| header.hash == block.hash);
            let header = header.ok_or_else(|| Failure::Unknown(format!("block {} is gone", block.number)))?;
            let transactions = transactions.unwrap_or_default();
            let receipts = receipts(&line, &header, &transactions).await?;
            let proof = move |watched: &Watched, network| {
                let is_wanted = |logs: &[RawLog]| watched.are_in(logs);
                let by_roots = match evidence::proof_of(network) {
                    Proof::Roots => evidence::settle_by_roots(&header, &transactions, &receipts, network, is_wanted),
                    Proof::Agreement => Err(Unproven::Unknown(String::new())),
                };
                let proven = match by_roots {
                    // What a single node says of a form that is not known here is enough for a note.
                    Err(Unproven::Unknown(_)) => {
                        evidence::settle_by_word(&header, &transactions, &receipts, network, is_wanted)
                    }
                    proven => proven,
                };
                proven.map(|transactions| (header, transactions))
            };
            self.compute(proof).await?.map_err(untrue)
        };
        let (header, transactions) = self.ask(Patience::Content, question).await?;
        self.read_block(&header, &transactions)
    }

    /// `None` when nodes say that the block holds a form whose bytes are not known here, and none proves it.
    async fn by_roots(&self, header: &ProvenHeader) -> Result<Option<Vec<ProvenTx>>, ChainError> {
        let question = |line: Line| async move {
            let (transactions, receipts) = content(&line, header).await?;
            self.learn_transactions(transactions.len());
            let header = header.clone();
            let proof = move |watched: &Watched, network| {
                let is_wanted = |logs: &[RawLog]| watched.are_in(logs);
                evidence::settle_by_roots(&header, &transactions, &receipts, network, is_wanted)
            };
            match self.compute(proof).await? {
                Ok(transactions) => Ok(Some(transactions)),
                Err(Unproven::Unknown(_)) => Ok(None),
                Err(unproven) => Err(untrue(unproven)),
            }
        };
        self.ask_for(Patience::Content, question).await
    }

    async fn by_agreement(&self, header: &ProvenHeader) -> Result<Vec<ProvenTx>, ChainError> {
        let question = |line: Line| async move {
            let (transactions, receipts) = content(&line, header).await?;
            let header = header.clone();
            let proof = move |watched: &Watched, network| {
                let is_wanted = |logs: &[RawLog]| watched.are_in(logs);
                evidence::settle_by_word(&header, &transactions, &receipts, network, is_wanted)
            };
            self.compute(proof).await?.map_err(untrue)
        };
        let what = format!("content of block {}", header.number);
        self.elect(&what, Vec::new(), Patience::Content, question).await
    }

    /// Computes a proof: away from the threads that serve everything else, since hashes and senders take their time, and
    /// one at a time, so that a backlog of blocks leaves the others a processor.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        proof: impl FnOnce(&Watched, Network) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (watched, network) = (Arc::clone(&self.watched), self.network);
        let _turn = self.proving.lock().await;
        let computed = tokio::task::spawn_blocking(move || proof(&watched, network)).await;
        computed.map_err(|_| Failure::Unreadable("the proof stopped".to_owned()))
    }

    pub(super) fn read_block(
        &self,
        header: &ProvenHeader,
        transactions: &[ProvenTx],
    ) -> Result<SettledBlock, ChainError> {
        let block = block_ref(header).map_err(|failure| self.malformed(failure.to_string()))?;
        let read = transactions
            .iter()
            .map(|transaction| self.watched.read(transaction, &block));
        let transactions = read.collect();
        Ok(SettledBlock { block, transactions })
    }
}

pub(super) fn untrue(unproven: Unproven) -> Failure {
    Failure::Untrue(unproven.to_string())
}

async fn content(line: &Line, header: &ProvenHeader) -> Result<Content, Failure> {
    let raw = line
        .call("eth_getBlockByNumber", (U64::from(header.number), true))
        .await?;
    let found = with_transactions(raw)?;
    let (found, transactions) =
        found.ok_or_else(|| Failure::Unknown(format!("block {} is not known", header.number)))?;
    if found.hash != header.hash {
        return Err(Failure::Unknown(format!("block {} is another one here", header.number)));
    }
    let receipts = receipts(line, header, &transactions).await?;
    Ok((transactions, receipts))
}

#[derive(Deserialize)]
struct StatedTransactions {
    transactions: Vec<RawTransaction>,
}

/// A block with its transactions; `None` when the node does not have it.
pub(super) fn with_transactions(
    raw: Option<Box<RawValue>>,
) -> Result<Option<(ProvenHeader, Vec<RawTransaction>)>, Failure> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    let StatedTransactions { transactions } = read(&raw, "a block with its transactions").map_err(untrue)?;
    let header = read_header(Some(raw))?;
    Ok(header.map(|header| (header, transactions)))
}

/// The receipts of a block, in one call where the node has it and its answer is not too large, otherwise one for each
/// transaction.
async fn receipts(
    line: &Line,
    header: &ProvenHeader,
    transactions: &[RawTransaction],
) -> Result<Vec<RawReceipt>, Failure> {
    match line
        .call::<Option<Vec<RawReceipt>>>("eth_getBlockReceipts", [U64::from(header.number)])
        .await
    {
        Ok(Some(receipts)) => return Ok(receipts),
        Ok(None) => {
            return Err(Failure::Unknown(format!(
                "receipts of block {} are not known",
                header.number
            )));
        }
        Err(Failure::Refused { .. } | Failure::TooLarge) => {}
        Err(failure) => return Err(failure),
    }
    let mut receipts = Vec::new();
    for transactions in transactions.chunks(RECEIPTS_PER_BATCH) {
        let calls: Vec<_> = transactions
            .iter()
            .map(|transaction| ("eth_getTransactionReceipt", json!([transaction.hash])))
            .collect();
        for receipt in line.batch(&calls).await? {
            receipts.push(receipt?);
        }
    }
    Ok(receipts)
}
