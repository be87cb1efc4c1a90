//! What differs between families of chains: how a node identifies its chain, and how it returns and proves blocks.

use super::{
    node::{ChainIdentity, NodeFailure, NodeLookup},
    proven::{Proof, ProvenHeader, SettledTx, UnprovenContent},
    wire::RawLog,
};
use crate::domain::payment::BlockRef;
use alloy::primitives::B256;
use async_trait::async_trait;

/// Head and final block of one node.
#[derive(Clone)]
pub(in crate::adapters) struct NodeTip {
    pub(in crate::adapters) head: ProvenHeader,
    /// The block that the node reports as final; `None` if the node does not report one.
    pub(in crate::adapters) tagged: Option<ProvenHeader>,
}

/// Header and content of a block, as one node returned them.
pub(in crate::adapters) struct ClaimedBlock {
    pub(in crate::adapters) header: ProvenHeader,
    pub(in crate::adapters) content: Box<dyn BlockContent>,
}

/// The protocol of the nodes of a family of chains.
#[async_trait]
pub(in crate::adapters) trait NodeProtocol: ChainIdentity {
    /// How the content of a block is proven.
    fn proof(&self) -> Proof;
    /// Whether headers have a bloom filter of the events of their block.
    fn has_log_blooms(&self) -> bool;
    /// The newest block and, if `wants_final` is set, the final block.
    async fn tip(&self, line: &NodeLookup, wants_final: bool) -> Result<NodeTip, NodeFailure>;
    /// The headers of heights, whose hashes are proven from their fields; `None` for missing ones.
    async fn headers(&self, line: &NodeLookup, numbers: &[u64]) -> Result<Vec<Option<ProvenHeader>>, NodeFailure>;
    /// The block with this height and hash. Errors: [`NodeFailure::Unknown`] if the node has another block there.
    async fn block_at(&self, line: &NodeLookup, number: u64, hash: B256) -> Result<ClaimedBlock, NodeFailure>;
    /// A block near the head. It may be gone.
    async fn recent_block(&self, line: &NodeLookup, block: &BlockRef) -> Result<ClaimedBlock, NodeFailure>;
    /// Reads several blocks with one query; `None` if nodes of this family cannot do this.
    fn batches(&self) -> Option<&dyn BlockBatches>;
}

/// Reads several blocks with one query.
#[async_trait]
pub(in crate::adapters) trait BlockBatches: Send + Sync {
    /// The blocks at these heights, in their order.
    async fn blocks(&self, line: &NodeLookup, numbers: &[u64]) -> Result<Vec<ClaimedBlock>, NodeFailure>;
}

/// Whether a proven transaction is wanted, by its hash and events.
pub(in crate::adapters) type IsWanted<'a> = &'a dyn Fn(&B256, &[RawLog]) -> bool;

/// The content of a block, as one node returned it.
pub(in crate::adapters) trait BlockContent: Send + Sync {
    /// Number of transactions.
    fn count_transactions(&self) -> usize;
    /// The wanted transactions, in block order, checked against the header of the block. With [`Proof::Roots`], the
    /// result is proven. With [`Proof::Agreement`], it is valid if as many distinct nodes as must agree return an equal
    /// one.
    fn prove(&self, proof: Proof, is_wanted: IsWanted<'_>) -> Result<Vec<SettledTx>, UnprovenContent>;
}
