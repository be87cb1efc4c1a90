//! How EVM nodes identify their chain and return their blocks.

use super::{
    evidence::{self, EvmHeader},
    receipts::{RawReceipt, RawTransaction, read},
};
use crate::{
    adapters::nodes::{
        node::{ChainIdentity, NodeFailure, NodeLookup},
        protocol::{BlockBatches, BlockContent, ClaimedBlock, IsWanted, NodeProtocol, NodeTip},
        proven::{Proof, ProvenHeader, SettledTx, UnprovenContent},
    },
    domain::{network::Network, payment::BlockRef},
};
use alloy::primitives::{B256, U64};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

/// Number of receipts per batch request to a node that does not list the receipts of a block.
const RECEIPTS_PER_BATCH: usize = 100;

/// Node messages for a missing `finalized` tag.
const NO_TAG_TEXTS: [&str; 5] = ["finalized", "tag", "unknown block", "invalid block", "hex string"];

/// JSON-RPC of an EVM network.
pub(super) struct EvmProtocol {
    network: Network,
}

impl EvmProtocol {
    /// The protocol of this network.
    pub(super) fn new(network: Network) -> Self {
        Self { network }
    }

    fn claimed(&self, header: EvmHeader, transactions: Vec<RawTransaction>, receipts: Vec<RawReceipt>) -> ClaimedBlock {
        ClaimedBlock {
            header: header.proven(),
            content: Box::new(EvmContent {
                network: self.network,
                header,
                transactions,
                receipts,
            }),
        }
    }
}

/// Transactions and receipts of a block from a node.
struct EvmContent {
    network: Network,
    header: EvmHeader,
    transactions: Vec<RawTransaction>,
    receipts: Vec<RawReceipt>,
}

impl BlockContent for EvmContent {
    fn count_transactions(&self) -> usize {
        self.transactions.len()
    }

    fn prove(&self, proof: Proof, is_wanted: IsWanted<'_>) -> Result<Vec<SettledTx>, UnprovenContent> {
        let settle = match proof {
            Proof::Roots => evidence::settle_by_roots,
            Proof::Agreement => evidence::settle_by_word,
        };
        settle(
            &self.header,
            &self.transactions,
            &self.receipts,
            self.network,
            is_wanted,
        )
    }
}

#[async_trait]
impl ChainIdentity for EvmProtocol {
    async fn chain_id(&self, line: &NodeLookup) -> Result<u64, NodeFailure> {
        Ok(line.call::<U64>("eth_chainId", ()).await?.to())
    }
}

#[async_trait]
impl NodeProtocol for EvmProtocol {
    fn proof(&self) -> Proof {
        evidence::proof_of(self.network)
    }

    fn has_log_blooms(&self) -> bool {
        true
    }

    async fn tip(&self, line: &NodeLookup, wants_final: bool) -> Result<NodeTip, NodeFailure> {
        let mut calls = vec![("eth_getBlockByNumber", json!(["latest", false]))];
        if wants_final {
            calls.push(("eth_getBlockByNumber", json!(["finalized", false])));
        }
        let mut answers = line.batch::<Option<Box<RawValue>>>(&calls).await?.into_iter();
        let mut next = || answers.next().unwrap_or(Ok(None));
        let head =
            read_header(next()?)?.ok_or_else(|| NodeFailure::Untrue("the node returned no newest block".to_owned()))?;
        let tagged = if wants_final { tagged(next())? } else { None };
        Ok(NodeTip {
            head: head.proven(),
            tagged: tagged.map(|header| header.proven()),
        })
    }

    async fn headers(&self, line: &NodeLookup, numbers: &[u64]) -> Result<Vec<Option<ProvenHeader>>, NodeFailure> {
        let calls: Vec<_> = numbers
            .iter()
            .map(|number| ("eth_getBlockByNumber", json!([U64::from(*number), false])))
            .collect();
        let answers = line.batch::<Option<Box<RawValue>>>(&calls).await?.into_iter();
        let read = answers.map(|answer| Ok(read_header(answer?)?.map(|header| header.proven())));
        read.collect()
    }

    async fn block_at(&self, line: &NodeLookup, number: u64, hash: B256) -> Result<ClaimedBlock, NodeFailure> {
        let raw = line.call("eth_getBlockByNumber", (U64::from(number), true)).await?;
        let found = with_transactions(raw)?;
        let (header, transactions) =
            found.ok_or_else(|| NodeFailure::Unknown(format!("the node does not know block {number}")))?;
        if header.hash != hash {
            return Err(NodeFailure::Unknown(format!(
                "the node has another hash for block {number}"
            )));
        }
        let receipts = receipts(line, &header, &transactions).await?;
        Ok(self.claimed(header, transactions, receipts))
    }

    async fn recent_block(&self, line: &NodeLookup, block: &BlockRef) -> Result<ClaimedBlock, NodeFailure> {
        let raw = line.call("eth_getBlockByHash", (block.hash, true)).await?;
        let found = with_transactions(raw)?.filter(|(header, _)| header.hash == block.hash);
        let (header, transactions) =
            found.ok_or_else(|| NodeFailure::Unknown(format!("block {} is gone", block.number)))?;
        let receipts = receipts(line, &header, &transactions).await?;
        Ok(self.claimed(header, transactions, receipts))
    }

    fn batches(&self) -> Option<&dyn BlockBatches> {
        Some(self)
    }
}

#[async_trait]
impl BlockBatches for EvmProtocol {
    async fn blocks(&self, line: &NodeLookup, numbers: &[u64]) -> Result<Vec<ClaimedBlock>, NodeFailure> {
        let calls: Vec<_> = numbers
            .iter()
            .flat_map(|number| {
                let number = U64::from(*number);
                [
                    ("eth_getBlockByNumber", json!([number, true])),
                    ("eth_getBlockReceipts", json!([number])),
                ]
            })
            .collect();
        let mut answers = line.batch::<Option<Box<RawValue>>>(&calls).await?.into_iter();
        let mut blocks = Vec::with_capacity(numbers.len());
        for number in numbers {
            let mut next = || answers.next().unwrap_or(Ok(None));
            let (block, receipts) = (with_transactions(next()?)?, next()?);
            let block = block.filter(|(header, _)| header.number == *number);
            let (Some((header, transactions)), Some(receipts)) = (block, receipts) else {
                return Err(NodeFailure::Unknown(format!(
                    "the node does not have all data of block {number}"
                )));
            };
            let receipts = read(&receipts, "a list of receipts").map_err(NodeFailure::from)?;
            blocks.push(self.claimed(header, transactions, receipts));
        }
        Ok(blocks)
    }
}

fn read_header(raw: Option<Box<RawValue>>) -> Result<Option<EvmHeader>, NodeFailure> {
    let header = raw.map(|raw| evidence::header(&raw)).transpose();
    header.map_err(NodeFailure::from)
}

/// The `finalized` block; `None` if the node does not serve the tag.
fn tagged(answer: Result<Option<Box<RawValue>>, NodeFailure>) -> Result<Option<EvmHeader>, NodeFailure> {
    match answer {
        Err(NodeFailure::Refused { message, .. }) if tells_of_tag(&message) => Ok(None),
        answer => read_header(answer?),
    }
}

fn tells_of_tag(message: &str) -> bool {
    let message = message.to_lowercase();
    NO_TAG_TEXTS.iter().any(|text| message.contains(text))
}

#[derive(Deserialize)]
struct StatedTransactions {
    transactions: Vec<RawTransaction>,
}

/// A block with its transactions; `None` if the node does not have it.
fn with_transactions(raw: Option<Box<RawValue>>) -> Result<Option<(EvmHeader, Vec<RawTransaction>)>, NodeFailure> {
    let Some(raw) = raw else {
        return Ok(None);
    };
    let StatedTransactions { transactions } = read(&raw, "a block with its transactions").map_err(NodeFailure::from)?;
    let header = read_header(Some(raw))?;
    Ok(header.map(|header| (header, transactions)))
}

/// The receipts of a block. One call reads them if the node supports it and the response is not too large; otherwise
/// the service makes one call for each transaction.
async fn receipts(
    line: &NodeLookup,
    header: &EvmHeader,
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
