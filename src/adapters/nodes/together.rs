//! Reads many blocks at once. Each query to a node covers several blocks with a limited total number of transactions.
//!
//! This module only saves time. A block that cannot be settled this way is settled separately; that path also replaces
//! nodes and detects false data.

use super::{
    LookupTimeout, NodeChain,
    decode::Watched,
    locked,
    node::NodeFailure,
    protocol::ClaimedBlock,
    proven::{Proof, ProvenHeader},
    share::BlocksPerQuery,
    store,
    wire::RawLog,
};
use crate::{domain::payment::SettledBlock, ports::chain::ChainError};
use alloy::primitives::B256;
use futures_util::{StreamExt, future::join, stream};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// Maximum number of concurrent queries.
const IN_FLIGHT: usize = 16;

/// How long blocks are requested one by one after a node failed to return several.
const APART: Duration = Duration::from_secs(60);

impl NodeChain {
    /// Settles final blocks, each like [`NodeChain::settle`].
    pub(super) async fn settle_all(&self, numbers: &[u64]) -> Vec<(u64, Result<SettledBlock, ChainError>)> {
        let blocks = locked(&self.together).blocks();
        let groups: Vec<_> = numbers
            .chunks(blocks)
            .map(|numbers| self.settle_group(numbers))
            .collect();
        let answers = stream::iter(groups).buffered(IN_FLIGHT);
        answers.collect::<Vec<_>>().await.into_iter().flatten().collect()
    }

    async fn settle_group(&self, numbers: &[u64]) -> Vec<(u64, Result<SettledBlock, ChainError>)> {
        let mut settled = BTreeMap::new();
        if numbers.len() > 1 {
            settled = self.settle_together(numbers).await.unwrap_or_else(|failure| {
                tracing::debug!(
                    network = %self.network, %failure,
                    "a query for several blocks failed, so the blocks are requested one by one"
                );
                self.learn(|together| together.apart_until = Some(Instant::now() + APART));
                BTreeMap::new()
            });
        }
        let mut answers = Vec::with_capacity(numbers.len());
        for number in numbers {
            let answer = match settled.remove(number) {
                Some(block) => Ok(block),
                None => self.settle(*number).await,
            };
            answers.push((*number, answer));
        }
        answers
    }

    /// The blocks from one node that are proven and on whose headers enough nodes agree.
    async fn settle_together(&self, numbers: &[u64]) -> Result<BTreeMap<u64, SettledBlock>, NodeFailure> {
        let Some(batches) = self
            .protocol
            .batches()
            .filter(|_| self.protocol.proof() == Proof::Roots)
        else {
            return Ok(BTreeMap::new());
        };
        let node = self.order().into_iter().next().ok_or(NodeFailure::Resting)?;
        let deadline = self.deadline(LookupTimeout::Thorough, 1);
        let (stated, others) = join(
            node.ask(deadline, |line| async move { batches.blocks(&line, numbers).await }),
            self.ask_distinct(
                self.agreement_now() - 1,
                LookupTimeout::Thorough,
                &[node.index],
                |line| async move { self.headers(&line, numbers).await },
            ),
        )
        .await;
        let mut agreed = Vec::new();
        for (place, stated) in stated?.into_iter().enumerate() {
            let shown_by = |(index, shown): &(usize, Vec<Option<ProvenHeader>>)| {
                let header = shown.get(place)?.clone()?;
                Some((*index, header))
            };
            let mut votes = vec![(node.index, stated.header.clone())];
            votes.extend(others.given.iter().filter_map(shown_by));
            match self.agree(stated.header.number, votes).await {
                Ok(header) if header.hash == stated.header.hash => agreed.push(stated),
                _ => {}
            }
        }
        let transactions: usize = agreed.iter().map(|block| block.content.count_transactions()).sum();
        if !agreed.is_empty() {
            self.learn_transactions(transactions.div_ceil(agreed.len()));
        }
        let proof = move |watched: &Watched| {
            let proofs = agreed.into_iter().map(|block: ClaimedBlock| {
                let is_wanted = |_: &B256, logs: &[RawLog]| watched.are_in(logs);
                (block.header, block.content.prove(Proof::Roots, &is_wanted))
            });
            proofs.collect::<Vec<_>>()
        };
        let mut settled = BTreeMap::new();
        for (header, proven) in self.compute(proof).await? {
            if let Ok(transactions) = proven
                && let Ok(block) = self.read_block(&header, &transactions)
            {
                settled.insert(header.number, block);
            }
        }
        Ok(settled)
    }

    /// Learns the number of transactions in the blocks of the network.
    pub(super) fn learn_transactions(&self, per_block: usize) {
        self.learn(|together| together.transactions_per_block = Some(per_block));
    }

    fn learn(&self, change: impl FnOnce(&mut BlocksPerQuery)) {
        let mut together = locked(&self.together);
        change(&mut together);
        store(&self.together, together);
    }
}
