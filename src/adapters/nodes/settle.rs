//! Blocks with all their payment data, proven against their headers.

use super::{
    LookupTimeout, NodeChain, block_ref,
    decode::Watched,
    node::{NodeFailure, NodeLookup},
    protocol::BlockContent,
    proven::{Proof, ProvenHeader, SettledTx, UnprovenContent},
    wire::RawLog,
};
use crate::{
    domain::payment::{BlockRef, SettledBlock},
    ports::chain::ChainError,
};
use alloy::primitives::B256;
use std::sync::Arc;

/// The transactions of a block to return.
#[derive(Debug, Clone, Copy)]
pub(in crate::adapters) enum WantedTransactions {
    /// Those with events of payment contracts.
    Payments,
    /// The one with this hash.
    One(B256),
}

impl WantedTransactions {
    fn includes(self, watched: &Watched, tx_hash: &B256, logs: &[RawLog]) -> bool {
        match self {
            Self::Payments => watched.are_in(logs),
            Self::One(wanted) => *tx_hash == wanted,
        }
    }
}

impl NodeChain {
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
    pub(in crate::adapters) async fn prove(
        &self,
        header: &ProvenHeader,
        wanted: WantedTransactions,
    ) -> Result<Vec<SettledTx>, ChainError> {
        if self.protocol.proof() == Proof::Roots
            && let Some(transactions) = self.by_roots(header, wanted).await?
        {
            return Ok(transactions);
        }
        self.by_agreement(header, wanted).await
    }

    /// A block near the head from one node: its hash proves its header, and its content is proven against the header.
    pub(super) async fn note(&self, block: &BlockRef) -> Result<SettledBlock, ChainError> {
        let question = |line: NodeLookup| async move {
            let claimed = self.protocol.recent_block(&line, block).await?;
            let by = self.protocol.proof();
            let proof = move |watched: &Watched| {
                let is_wanted = |_: &B256, logs: &[RawLog]| watched.are_in(logs);
                let proven = match claimed.content.prove(by, &is_wanted) {
                    // Payments that are not final need data from only a single node, even if the encoding is unknown.
                    Err(UnprovenContent::Unknown(_)) => claimed.content.prove(Proof::Agreement, &is_wanted),
                    proven => proven,
                };
                proven.map(|transactions| (claimed.header, transactions))
            };
            Ok(self.compute(proof).await??)
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
            let claimed = self.protocol.block_at(&line, header.number, header.hash).await?;
            self.learn_transactions(claimed.content.count_transactions());
            match self.compute_wanted(claimed.content, Proof::Roots, wanted).await? {
                Ok(transactions) => Ok(Some(transactions)),
                Err(UnprovenContent::Unknown(_)) => Ok(None),
                Err(unproven) => Err(unproven.into()),
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
            let claimed = self.protocol.block_at(&line, header.number, header.hash).await?;
            Ok(self.compute_wanted(claimed.content, Proof::Agreement, wanted).await??)
        };
        let what = format!("content of block {}", header.number);
        self.elect(&what, Vec::new(), LookupTimeout::Content, question).await
    }

    async fn compute_wanted(
        &self,
        content: Box<dyn BlockContent>,
        proof: Proof,
        wanted: WantedTransactions,
    ) -> Result<Result<Vec<SettledTx>, UnprovenContent>, NodeFailure> {
        let prove = move |watched: &Watched| {
            let is_wanted = |tx_hash: &B256, logs: &[RawLog]| wanted.includes(watched, tx_hash, logs);
            content.prove(proof, &is_wanted)
        };
        self.compute(prove).await
    }

    /// Computes a proof on a separate thread, because hashes and senders take time. Only one proof runs at a time, so
    /// that a backlog of blocks leaves a processor for other work.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        proof: impl FnOnce(&Watched) -> T + Send + 'static,
    ) -> Result<T, NodeFailure> {
        let watched = Arc::clone(&self.watched);
        let _turn = self.proving.lock().await;
        let computed = tokio::task::spawn_blocking(move || proof(&watched)).await;
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
