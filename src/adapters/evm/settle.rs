//! Blocks with all their payment data, proven against their headers.

use super::{
    EvmChain, LookupTimeout, block_ref,
    decode::Watched,
    evidence::{self, Proof, ProvenHeader, SettledTx},
    node::{NodeFailure, NodeLookup},
    read_header,
    receipts::{RawReceipt, RawTransaction, StatedReceipt, UnprovenReceipt, read},
};
use crate::{
    domain::{
        network::Network,
        payment::{BlockRef, SettledBlock},
    },
    ports::chain::ChainError,
};
use alloy::primitives::{B256, U64};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use std::sync::Arc;

/// Number of receipts per batch request to a node that does not list the receipts of a block.
const RECEIPTS_PER_BATCH: usize = 100;

/// Transactions and receipts of a block from a node.
type BlockContent = (Vec<RawTransaction>, Vec<RawReceipt>);

/// The transactions of a block to return.
#[derive(Debug, Clone, Copy)]
pub(super) enum WantedTransactions {
    /// Those with events of payment contracts.
    Payments,
    /// The one with this hash.
    One(B256),
}

impl WantedTransactions {
    fn includes(self, watched: &Watched, receipt: &StatedReceipt) -> bool {
        match self {
            Self::Payments => watched.are_in(&receipt.logs),
            Self::One(tx_hash) => receipt.transaction_hash == tx_hash,
        }
    }
}

impl EvmChain {
    /// A final block: its header is agreed. Its content is proven by the roots in the header, or, on networks whose
    /// roots cannot be recomputed, by equal responses of distinct nodes.
    ///
    /// Errors with an agreed header, which affect only this block: [`ChainError::Withheld`] if no node returns the
    /// content; [`ChainError::Malformed`] if no returned content proves the block, or if no node returns it for the
    /// second time, because an immediate retry is then useless.
    pub(super) async fn settle(&self, number: u64) -> Result<SettledBlock, ChainError> {
        let header = self.agree(number, Vec::new()).await?;
        if let Some(settled) = self.kept.find(&header.hash) {
            return Ok(settled);
        }
        let network = self.network;
        match self.prove(&header, WantedTransactions::Payments).await {
            Ok(transactions) => {
                let settled = self.read_block(&header, &transactions)?;
                self.kept.keep(&settled);
                Ok(settled)
            }
            Err(ChainError::Unavailable { reason, .. }) => Err(if self.kept.has_failed_again(header.hash) {
                ChainError::Malformed { network, reason }
            } else {
                ChainError::Withheld { network, reason }
            }),
            Err(error) => Err(error),
        }
    }

    /// The wanted transactions of a block whose header is agreed.
    pub(super) async fn prove(
        &self,
        header: &ProvenHeader,
        wanted: WantedTransactions,
    ) -> Result<Vec<SettledTx>, ChainError> {
        if evidence::proof_of(self.network) == Proof::Roots
            && let Some(transactions) = self.by_roots(header, wanted).await?
        {
            return Ok(transactions);
        }
        self.by_agreement(header, wanted).await
    }

    /// A block near the head from one node: its hash proves its header, and its content is proven against the header.
    pub(super) async fn note(&self, block: &BlockRef) -> Result<SettledBlock, ChainError> {
        let question = |line: NodeLookup| async move {
            let raw = line.call("eth_getBlockByHash", (block.hash, true)).await?;
            let (header, transactions) = with_transactions(raw)?.unzip();
            let header = header.filter(|header| header.hash == block.hash);
            let header = header.ok_or_else(|| NodeFailure::Unknown(format!("block {} is gone", block.number)))?;
            let transactions = transactions.unwrap_or_default();
            let receipts = receipts(&line, &header, &transactions).await?;
            let proof = move |watched: &Watched, network| {
                let is_wanted = |receipt: &StatedReceipt| watched.are_in(&receipt.logs);
                let by_roots = match evidence::proof_of(network) {
                    Proof::Roots => evidence::settle_by_roots(&header, &transactions, &receipts, network, is_wanted),
                    Proof::Agreement => Err(UnprovenReceipt::Unknown(String::new())),
                };
                let proven = match by_roots {
                    // Payments that are not final need data from only a single node, even if the encoding is unknown.
                    Err(UnprovenReceipt::Unknown(_)) => {
                        evidence::settle_by_word(&header, &transactions, &receipts, network, is_wanted)
                    }
                    proven => proven,
                };
                proven.map(|transactions| (header, transactions))
            };
            self.compute(proof).await?.map_err(untrue)
        };
        let (header, transactions) = self.ask(LookupTimeout::Content, question).await?;
        self.read_block(&header, &transactions)
    }

    /// The transactions of a block, proven by the roots of its header. `None` if nodes return a transaction or receipt
    /// of unknown encoding, and no node returns a provable response.
    async fn by_roots(
        &self,
        header: &ProvenHeader,
        wanted: WantedTransactions,
    ) -> Result<Option<Vec<SettledTx>>, ChainError> {
        let question = |line: NodeLookup| async move {
            let (transactions, receipts) = content(&line, header).await?;
            self.learn_transactions(transactions.len());
            let header = header.clone();
            let proof = move |watched: &Watched, network| {
                let is_wanted = |receipt: &StatedReceipt| wanted.includes(watched, receipt);
                evidence::settle_by_roots(&header, &transactions, &receipts, network, is_wanted)
            };
            match self.compute(proof).await? {
                Ok(transactions) => Ok(Some(transactions)),
                Err(UnprovenReceipt::Unknown(_)) => Ok(None),
                Err(unproven) => Err(untrue(unproven)),
            }
        };
        self.ask_for(LookupTimeout::Content, question).await
    }

    async fn by_agreement(
        &self,
        header: &ProvenHeader,
        wanted: WantedTransactions,
    ) -> Result<Vec<SettledTx>, ChainError> {
        let question = |line: NodeLookup| async move {
            let (transactions, receipts) = content(&line, header).await?;
            let header = header.clone();
            let proof = move |watched: &Watched, network| {
                let is_wanted = |receipt: &StatedReceipt| wanted.includes(watched, receipt);
                evidence::settle_by_word(&header, &transactions, &receipts, network, is_wanted)
            };
            self.compute(proof).await?.map_err(untrue)
        };
        let what = format!("content of block {}", header.number);
        self.elect(&what, Vec::new(), LookupTimeout::Content, question).await
    }

    /// Computes a proof on a separate thread, because hashes and senders take time. Only one proof runs at a time, so
    /// that a backlog of blocks leaves a processor for other work.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        proof: impl FnOnce(&Watched, Network) -> T + Send + 'static,
    ) -> Result<T, NodeFailure> {
        let (watched, network) = (Arc::clone(&self.watched), self.network);
        let _turn = self.proving.lock().await;
        let computed = tokio::task::spawn_blocking(move || proof(&watched, network)).await;
        computed.map_err(|_| NodeFailure::Unreadable("the proof stopped".to_owned()))
    }

    pub(super) fn read_block(
        &self,
        header: &ProvenHeader,
        transactions: &[SettledTx],
    ) -> Result<SettledBlock, ChainError> {
        let block = block_ref(header).map_err(|failure| self.malformed(failure.to_string()))?;
        let read = transactions
            .iter()
            .map(|transaction| self.watched.read(transaction, &block));
        let transactions = read.collect();
        Ok(SettledBlock { block, transactions })
    }
}

pub(super) fn untrue(unproven: UnprovenReceipt) -> NodeFailure {
    NodeFailure::Untrue(unproven.to_string())
}

async fn content(line: &NodeLookup, header: &ProvenHeader) -> Result<BlockContent, NodeFailure> {
    let raw = line
        .call("eth_getBlockByNumber", (U64::from(header.number), true))
        .await?;
    let found = with_transactions(raw)?;
    let (found, transactions) =
        found.ok_or_else(|| NodeFailure::Unknown(format!("the node does not know block {}", header.number)))?;
    if found.hash != header.hash {
        return Err(NodeFailure::Unknown(format!(
            "the node has another hash for block {}",
            header.number
        )));
    }
    let receipts = receipts(line, header, &transactions).await?;
    Ok((transactions, receipts))
}

#[derive(Deserialize)]
struct StatedTransactions {
    transactions: Vec<RawTransaction>,
}

/// A block with its transactions; `None` if the node does not have it.
pub(super) fn with_transactions(
    raw: Option<Box<RawValue>>,
) -> Result<Option<(ProvenHeader, Vec<RawTransaction>)>, NodeFailure> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    let StatedTransactions { transactions } = read(&raw, "a block with its transactions").map_err(untrue)?;
    let header = read_header(Some(raw))?;
    Ok(header.map(|header| (header, transactions)))
}

/// The receipts of a block. One call reads them if the node supports it and the response is not too large; otherwise
/// the service makes one call for each transaction.
async fn receipts(
    line: &NodeLookup,
    header: &ProvenHeader,
    transactions: &[RawTransaction],
) -> Result<Vec<RawReceipt>, NodeFailure> {
    match line
        .call::<Option<Vec<RawReceipt>>>("eth_getBlockReceipts", [U64::from(header.number)])
        .await
    {
        Ok(Some(receipts)) => return Ok(receipts),
        Ok(None) => {
            return Err(NodeFailure::Unknown(format!(
                "the node does not know the receipts of block {}",
                header.number
            )));
        }
        Err(NodeFailure::Refused { .. } | NodeFailure::TooLarge) => {}
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
