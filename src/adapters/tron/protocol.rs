//! How Tron nodes identify their chain and return their blocks.

use super::{
    content::TronContent,
    wire::{StatedTronBlock, StatedTronInfo},
};
use crate::{
    adapters::nodes::{
        node::{ChainIdentity, NodeFailure, NodeLookup},
        protocol::{BlockBatches, ClaimedBlock, NodeProtocol, NodeTip},
        proven::{Proof, ProvenHeader},
    },
    domain::{payment::BlockRef, tron::TronHeader},
};
use alloy::primitives::{Address as EvmAddress, B256};
use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, future::try_join, stream};
use serde_json::json;

const KIB: usize = 1_024;
const MIB: usize = 1_024 * KIB;

/// Maximum size of a header.
const HEADER_BYTES_MAX: usize = 64 * KIB;

/// Maximum size of a block with its transactions. The chain limits the bytes of a block to 2 MB, and the API writes each
/// transaction twice.
const BLOCK_BYTES_MAX: usize = 32 * MIB;

/// Maximum size of the results of the transactions of a block.
const INFOS_BYTES_MAX: usize = 64 * MIB;

/// Maximum number of concurrent calls for headers to one node. Nodes return one header for each call.
const HEADERS_AT_ONCE: usize = 8;

/// The HTTP API of Tron, whose paths begin with `wallet` for all blocks and with `walletsolidity` for final blocks.
pub(super) struct TronProtocol {
    proxies: Vec<EvmAddress>,
}

/// The newest block, or the block with this height, without its transactions.
async fn stated_header(line: &NodeLookup, root: &str, number: Option<u64>) -> Result<StatedTronBlock, NodeFailure> {
    let path = format!("{root}/getblock");
    let body = match number {
        Some(number) => json!({ "id_or_num": number.to_string(), "detail": false }),
        None => json!({ "detail": false }),
    };
    line.call_api(&path, &body, HEADER_BYTES_MAX).await
}

fn proven((header, id): (TronHeader, B256)) -> ProvenHeader {
    ProvenHeader {
        number: header.number,
        hash: id,
        parent_hash: header.parent_id,
        // Blocks are produced at whole seconds.
        time_s: header.timestamp_ms / 1_000,
        logs_bloom: None,
    }
}

async fn header_at(line: &NodeLookup, number: u64) -> Result<Option<ProvenHeader>, NodeFailure> {
    let header = stated_header(line, "wallet", Some(number)).await?.header()?;
    Ok(header.map(proven))
}

async fn newest(line: &NodeLookup, root: &str) -> Result<ProvenHeader, NodeFailure> {
    let header = stated_header(line, root, None).await?.header()?;
    let header = header.ok_or_else(|| NodeFailure::Untrue("the node returned no newest block".to_owned()))?;
    Ok(proven(header))
}

impl TronProtocol {
    /// The protocol, with the payment contracts of the network.
    pub(super) fn new(proxies: Vec<EvmAddress>) -> Self {
        Self { proxies }
    }

    async fn block(&self, line: &NodeLookup, number: u64, hash: B256) -> Result<Option<ClaimedBlock>, NodeFailure> {
        let body = json!({ "num": number });
        let (block, infos) = try_join(
            line.call_api::<StatedTronBlock>("wallet/getblockbynum", &body, BLOCK_BYTES_MAX),
            line.call_api::<Vec<StatedTronInfo>>("wallet/gettransactioninfobyblocknum", &body, INFOS_BYTES_MAX),
        )
        .await?;
        let header = block.header()?;
        let header = header.ok_or_else(|| NodeFailure::Unknown(format!("the node does not know block {number}")))?;
        if header.1 != hash {
            return Ok(None);
        }
        let transactions_root = header.0.transactions_root;
        let header = proven(header);
        Ok(Some(ClaimedBlock {
            header: header.clone(),
            content: Box::new(TronContent {
                header,
                transactions_root,
                transactions: block.transactions,
                infos,
                proxies: self.proxies.clone(),
            }),
        }))
    }
}

#[async_trait]
impl ChainIdentity for TronProtocol {
    async fn chain_id(&self, line: &NodeLookup) -> Result<u64, NodeFailure> {
        let genesis = stated_header(line, "wallet", Some(0)).await?.stated_id();
        let genesis = genesis.ok_or_else(|| NodeFailure::Untrue("the node has no first block".to_owned()))?;
        // The last four bytes of the id of the first block are the chain id.
        let [.., b0, b1, b2, b3] = genesis.0;
        Ok(u32::from_be_bytes([b0, b1, b2, b3]).into())
    }
}

#[async_trait]
impl NodeProtocol for TronProtocol {
    fn proof(&self) -> Proof {
        // The header proves the transactions, but not their events.
        Proof::Agreement
    }

    fn has_log_blooms(&self) -> bool {
        false
    }

    async fn tip(&self, line: &NodeLookup, wants_final: bool) -> Result<NodeTip, NodeFailure> {
        if !wants_final {
            let head = newest(line, "wallet").await?;
            return Ok(NodeTip { head, tagged: None });
        }
        // Side by side, because both share one deadline.
        let (tagged, head) = try_join(newest(line, "walletsolidity"), newest(line, "wallet")).await?;
        Ok(NodeTip {
            // The final block may have been read later than the head.
            head: if tagged.number > head.number {
                tagged.clone()
            } else {
                head
            },
            tagged: Some(tagged),
        })
    }

    async fn headers(&self, line: &NodeLookup, numbers: &[u64]) -> Result<Vec<Option<ProvenHeader>>, NodeFailure> {
        let headers: Vec<_> = numbers.iter().map(|number| header_at(line, *number)).collect();
        stream::iter(headers).buffered(HEADERS_AT_ONCE).try_collect().await
    }

    async fn block_at(&self, line: &NodeLookup, number: u64, hash: B256) -> Result<ClaimedBlock, NodeFailure> {
        let block = self.block(line, number, hash).await?;
        block.ok_or_else(|| NodeFailure::Unknown(format!("the node has another id for block {number}")))
    }

    async fn recent_block(&self, line: &NodeLookup, block: &BlockRef) -> Result<ClaimedBlock, NodeFailure> {
        let found = self.block(line, block.number, block.hash).await?;
        found.ok_or_else(|| NodeFailure::Unknown(format!("block {} is gone", block.number)))
    }

    fn batches(&self) -> Option<&dyn BlockBatches> {
        None
    }
}
